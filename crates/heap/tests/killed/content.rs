//! What the heap holds, and what it must hold.

use tembo_heap::{Error, Heap, Persist, Ptr, Slice, Transaction, Weak};

use crate::chance::Random;
use crate::part::{Reported, expect, text};

/// Threads that a heap has a place for.
pub(crate) const LANES: usize = 8;
pub(crate) const ACCOUNTS: usize = 12;
const BALANCE: i64 = 1000;
/// A list of a lane that is longer is emptied.
const LENGTH_MAX: usize = 40;
/// Objects that a checkpoint replaces.
pub(crate) const REPLACED: u64 = 5;

#[derive(Persist)]
pub(crate) struct Top<'h> {
    pub(crate) accounts: [Ptr<'h, Account>; ACCOUNTS],
    pub(crate) lanes: [Ptr<'h, Lane<'h>>; LANES],
    /// Items of all threads.
    pub(crate) common: Option<Ptr<'h, Item<'h>>>,
    pub(crate) common_len: u64,
    /// Checkpoints of the layers, and what the last of each has made.
    pub(crate) safe: u64,
    pub(crate) by_safe: Option<Ptr<'h, Item<'h>>>,
    pub(crate) base: u64,
    pub(crate) by_base: Option<Ptr<'h, Slice<Ptr<'h, Account>>>>,
}

#[derive(Persist)]
pub(crate) struct Account {
    pub(crate) balance: i64,
}

#[derive(Persist)]
pub(crate) struct Lane<'h> {
    pub(crate) number: u64,
    pub(crate) first: Option<Ptr<'h, Item<'h>>>,
}

#[derive(Persist)]
pub(crate) struct Item<'h> {
    pub(crate) word: (u64, u64),
    pub(crate) next: Option<Ptr<'h, Item<'h>>>,
    pub(crate) back: Option<Weak<'h, Item<'h>>>,
}

pub(crate) fn item<'h>(word: u64) -> Item<'h> {
    Item { word: (word, !word), next: None, back: None }
}

/// What a thread does with its list in a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Deed {
    Push,
    Pop,
    /// The first gets another word.
    Change,
    Clear,
    /// An item that is made by a transaction of its own, and a ring of others.
    Orphan,
}

/// What the transaction of that number of a thread is.
pub(crate) fn deed(lane: usize, number: u64, len: usize) -> Deed {
    let mut random = Random::new(number << 4 | lane as u64);
    match random.below(10) {
        _ if len > LENGTH_MAX => Deed::Clear,
        _ if len == 0 => Deed::Push,
        0..=4 => Deed::Push,
        5..=6 => Deed::Pop,
        7 => Deed::Change,
        _ => Deed::Orphan,
    }
}

/// The list of a thread after so many transactions.
pub(crate) fn list_of(lane: usize, number: u64) -> Vec<u64> {
    // The last is the first of the list.
    let mut list: Vec<u64> = Vec::new();
    for number in 1..=number {
        match deed(lane, number, list.len()) {
            Deed::Push | Deed::Orphan => list.push(number),
            Deed::Pop => drop(list.pop()),
            Deed::Change => *list.last_mut().unwrap_or(&mut 0) = number,
            Deed::Clear => list.clear(),
        }
    }
    list.reverse();
    list
}

/// All that a heap shows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Content {
    total: i64,
    lanes: Vec<(u64, Vec<u64>)>,
    common: Vec<u64>,
    common_len: u64,
    safe: (u64, Vec<u64>),
    base: (u64, Vec<i64>),
}

/// What a heap shows; `None`: it has no root. That it is linked both ways, and no word is torn.
pub(crate) fn show(heap: Heap<'_>) -> Result<Option<Content>, String> {
    let mut wrong = Ok(());
    let content = heap.exclusive(|tx| {
        let Some(top) = tx.root::<Top<'_>>()? else { return Ok(None) };
        let top = tx.read(&top)?;
        let common = words_of(tx, top.common, &mut wrong)?;
        let safe = words_of(tx, top.by_safe, &mut wrong)?;
        let mut lanes = Vec::new();
        for lane in &top.lanes {
            let Lane { number, first } = tx.read(lane)?;
            lanes.push((number, words_of(tx, first, &mut wrong)?));
        }
        let mut total = 0;
        for account in &top.accounts {
            total += tx.get(account, Account::BALANCE)?;
        }
        let mut base = Vec::new();
        if let Some(slice) = &top.by_base {
            for index in 0..tx.slice_len(slice)? {
                let word = tx.cell(slice, index)?;
                base.push(tx.get(&word, Account::BALANCE)?);
            }
        }
        let (safe, base) = ((top.safe, safe), (top.base, base));
        Ok(Some(Content { total, lanes, common, common_len: top.common_len, safe, base }))
    });
    wrong?;
    content.map_err(|error: Error| text(error))
}

/// The words of a list.
fn words_of<'h>(
    tx: &mut Transaction<'h>,
    first: Option<Ptr<'h, Item<'h>>>,
    wrong: &mut Result<(), String>,
) -> Result<Vec<u64>, Error> {
    let (mut words, mut at, mut before) = (Vec::new(), first, None);
    while let Some(this) = at {
        let Item { word, next, back } = tx.read(&this)?;
        let back = back.map(|back| tx.upgrade(&back)).transpose()?.flatten();
        if word.1 != !word.0 || back != before || words.len() > 1 << 20 {
            *wrong = Err(format!("an item is torn, or not linked back: {word:?}"));
            break;
        }
        words.push(word.0);
        (before, at) = (Some(this), next);
    }
    Ok(words)
}

impl Content {
    /// It is what was reported, or one more of each part.
    pub(crate) fn compare(&self, reported: &Reported) -> Result<(), String> {
        let one_of = |name: &str, number: u64| {
            let wanted = reported.get(name).copied().unwrap_or(0);
            let is_one = wanted == number || wanted + 1 == number;
            expect(is_one, &format!("{name} is {number}, reported was {wanted}"))
        };
        expect(self.total == ACCOUNTS as i64 * BALANCE, &format!("a total of {}", self.total))?;
        for (lane, (number, list)) in self.lanes.iter().enumerate() {
            one_of(&format!("lane {lane}"), *number)?;
            let wanted = list_of(lane, *number);
            expect(*list == wanted, &format!("lane {lane} at {number}: {list:?}, not {wanted:?}"))?;
        }
        let mut words = self.common.clone();
        words.sort_unstable();
        words.dedup();
        expect(words.len() == self.common.len(), "an item is in the common list twice")?;
        expect(self.common_len == words.len() as u64, "the common list is not as long as it says")?;
        for word in words {
            let (lane, number) = ((word & 0xf) as usize, word >> 4);
            let last = self.lanes.get(lane).map_or(0, |lane| lane.0);
            expect((1..=last).contains(&number), "an item of a transaction that is not there")?;
        }
        let (safe, base) = (self.safe.0, self.base.0);
        one_of("safe", safe)?;
        one_of("base", base)?;
        let count = |number: u64| if number == 0 { 0 } else { REPLACED as usize };
        expect(self.safe.1 == vec![safe; count(safe)], "what SAFE has made")?;
        expect(self.base.1 == vec![base as i64; count(base)], "what BASE has made")
    }

    /// The next process begins with what is there, reported or not.
    pub(crate) fn note(&self, reported: &mut Reported) {
        for (lane, (number, _)) in self.lanes.iter().enumerate() {
            reported.insert(format!("lane {lane}"), *number);
        }
        reported.insert("safe".to_owned(), self.safe.0);
        reported.insert("base".to_owned(), self.base.0);
    }

    /// How many objects there are.
    pub(crate) fn objects(&self) -> u64 {
        let lists: usize = self.lanes.iter().map(|lane| lane.1.len()).sum();
        let lists = lists + self.common.len() + self.safe.1.len() + self.base.1.len();
        let slice = u64::from(!self.base.1.is_empty());
        1 + (ACCOUNTS + LANES) as u64 + slice + lists as u64
    }

    /// Transactions and checkpoints so far.
    pub(crate) fn total(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.0).sum::<u64>() + self.safe.0 + self.base.0
    }
}

/// The root, made if there is none.
pub(crate) fn root<'h>(heap: Heap<'h>) -> Result<Ptr<'h, Top<'h>>, Error> {
    heap.root_or(|tx| {
        let accounts: Result<Vec<_>, Error> =
            (0..ACCOUNTS).map(|_| tx.alloc(Account { balance: BALANCE })).collect();
        let lanes: Result<Vec<_>, Error> =
            (0..LANES).map(|_| tx.alloc(Lane { number: 0, first: None })).collect();
        let (common, by_safe, by_base) = (None, None, None);
        Ok(Top {
            accounts: accounts?.try_into().map_err(|_| Error::NoRoot)?,
            lanes: lanes?.try_into().map_err(|_| Error::NoRoot)?,
            common,
            common_len: 0,
            safe: 0,
            by_safe,
            base: 0,
            by_base,
        })
    })
}
