//! A heap of the pool: accounts between which money moves, and a list that grows and shrinks.

use tembo_heap::{Error, Heap, Persist, Ptr, Transaction, Weak};
use tembo_sim::Random;

use crate::judge::{expect, text};

const ACCOUNTS: usize = 8;
const BALANCE: i64 = 1000;
/// A list that is longer is emptied.
const LEN_MAX: usize = 60;
/// Words of an item, all the same.
const WORDS: usize = 6;

#[derive(Persist)]
struct Top<'h> {
    number: u64,
    accounts: [Ptr<'h, Account>; ACCOUNTS],
    first: Option<Ptr<'h, Item<'h>>>,
    len: u64,
}

#[derive(Persist)]
struct Account {
    balance: i64,
}

#[derive(Persist)]
struct Item<'h> {
    words: [u64; WORDS],
    next: Option<Ptr<'h, Item<'h>>>,
    back: Option<Weak<'h, Item<'h>>>,
}

/// What becomes of the list.
#[derive(Clone, Copy)]
enum Fate {
    Push,
    Pop,
    Clear,
}

/// What a transaction does.
struct Deed {
    from: usize,
    to: usize,
    amount: i64,
    fate: Fate,
}

impl Deed {
    /// The transaction of that number in the heap `which`, with a list of `len` items.
    fn of(which: usize, number: u64, len: usize) -> Deed {
        let mut random = Random::new(number << 1 | which as u64);
        let from = random.below(ACCOUNTS);
        let to = (from + 1 + random.below(ACCOUNTS - 1)) % ACCOUNTS;
        let amount = random.below(50) as i64;
        let fate = match random.below(5) {
            _ if len > LEN_MAX => Fate::Clear,
            _ if len == 0 => Fate::Push,
            0..=2 => Fate::Push,
            _ => Fate::Pop,
        };
        Deed { from, to, amount, fate }
    }
}

/// All that a heap shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    /// Of the last transaction.
    pub(super) number: u64,
    balances: [i64; ACCOUNTS],
    /// The last is the first of the list.
    list: Vec<u64>,
}

impl Default for Content {
    fn default() -> Content {
        Content { number: 0, balances: [BALANCE; ACCOUNTS], list: Vec::new() }
    }
}

impl Content {
    /// What it is after all transactions up to `number`.
    pub(super) fn follow(&mut self, which: usize, number: u64) {
        while self.number < number {
            self.number += 1;
            let deed = Deed::of(which, self.number, self.list.len());
            self.balances[deed.from] -= deed.amount;
            self.balances[deed.to] += deed.amount;
            match deed.fate {
                Fate::Push => self.list.push(self.number),
                Fate::Pop => drop(self.list.pop()),
                Fate::Clear => self.list.clear(),
            }
        }
    }

    /// How many objects there are.
    pub(super) fn objects(&self) -> u64 {
        (1 + ACCOUNTS + self.list.len()) as u64
    }
}

fn top<'h>(tx: &mut Transaction<'h>) -> Result<Ptr<'h, Top<'h>>, Error> {
    if let Some(top) = tx.root()? {
        return Ok(top);
    }
    let accounts: Result<Vec<_>, Error> =
        (0..ACCOUNTS).map(|_| tx.alloc(Account { balance: BALANCE })).collect();
    let accounts = accounts?.try_into().map_err(|_| Error::NoRoot)?;
    let top = tx.alloc(Top { number: 0, accounts, first: None, len: 0 })?;
    tx.set_root(&top)?;
    Ok(top)
}

/// The number of the last transaction.
pub(super) fn number(heap: Heap<'_>) -> Result<u64, Error> {
    heap.atomic(|tx| {
        let top = top(tx)?;
        tx.get(&top, Top::NUMBER)
    })
}

/// Makes the transaction of that number in the heap `which`. Both accounts are made anew, so that each transaction allocates and frees.
pub(super) fn change(heap: Heap<'_>, which: usize, number: u64) -> Result<(), Error> {
    heap.atomic(|tx| {
        let top = top(tx)?;
        let Top { mut accounts, first, len, .. } = tx.read(&top)?;
        let deed = Deed::of(which, number, len as usize);
        for (index, by) in [(deed.from, -deed.amount), (deed.to, deed.amount)] {
            let balance = tx.get(&accounts[index], Account::BALANCE)?;
            accounts[index] = tx.alloc(Account { balance: balance + by })?;
        }
        tx.set(&top, Top::ACCOUNTS, accounts)?;
        let (first, len) = match deed.fate {
            Fate::Push => (Some(pushed(tx, number, first)?), len + 1),
            Fate::Pop => (popped(tx, first)?, len - 1),
            Fate::Clear => (None, 0),
        };
        tx.set(&top, Top::FIRST, first)?;
        tx.set(&top, Top::LEN, len)?;
        tx.set(&top, Top::NUMBER, number)
    })
}

fn pushed<'h>(
    tx: &mut Transaction<'h>,
    number: u64,
    next: Option<Ptr<'h, Item<'h>>>,
) -> Result<Ptr<'h, Item<'h>>, Error> {
    let made = tx.alloc(Item { words: [number; WORDS], next: next.clone(), back: None })?;
    if let Some(next) = &next {
        let back = tx.downgrade(&made)?;
        tx.set(next, Item::BACK, Some(back))?;
    }
    Ok(made)
}

fn popped<'h>(
    tx: &mut Transaction<'h>,
    first: Option<Ptr<'h, Item<'h>>>,
) -> Result<Option<Ptr<'h, Item<'h>>>, Error> {
    let first = first.ok_or(Error::NoRoot)?;
    let next = tx.get(&first, Item::NEXT)?;
    if let Some(next) = &next {
        tx.set(next, Item::BACK, None)?;
    }
    Ok(next)
}

/// What a heap shows; that its list is linked both ways and as long as it says, no item is torn, and no money is lost.
pub(super) fn show(heap: Heap<'_>) -> Result<Content, String> {
    let mut wrong = Ok(());
    let content = heap.exclusive(|tx| {
        let Some(top) = tx.root::<Top<'_>>()? else { return Ok(Content::default()) };
        let Top { number, accounts, first, len } = tx.read(&top)?;
        let mut content = Content { number, ..Content::default() };
        for (balance, account) in content.balances.iter_mut().zip(&accounts) {
            *balance = tx.get(account, Account::BALANCE)?;
        }
        let (mut at, mut before) = (first, None);
        while let Some(this) = at.filter(|_| content.list.len() <= len as usize) {
            let Item { words, next, back } = tx.read(&this)?;
            let back = back.map(|back| tx.upgrade(&back)).transpose()?.flatten();
            if words != [words[0]; WORDS] || back != before {
                wrong = Err(format!("an item is torn, or not linked back: {words:?}"));
            }
            content.list.push(words[0]);
            (before, at) = (Some(this), next);
        }
        content.list.reverse();
        if content.list.len() as u64 != len {
            wrong = Err(format!("a list of {len} has another length"));
        }
        Ok(content)
    });
    let content = content.map_err(|error: Error| text(error))?;
    wrong?;
    let total: i64 = content.balances.iter().sum();
    expect(total == ACCOUNTS as i64 * BALANCE, &format!("a total of {total}"))?;
    Ok(content)
}
