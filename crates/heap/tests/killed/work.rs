//! What the process does until it is killed.

use std::sync::atomic::{AtomicBool, Ordering};

use tembo_heap::{Access, Counted, Error, Heap, HeapFile, Ptr, Transaction};

use crate::chance::Random;
use crate::content::{ACCOUNTS, Account, Deed, Item, LANES, Lane, REPLACED, Top, deed, item, root};

/// Transactions of each thread between two rounds of checkpoints.
const TRANSACTIONS: u64 = 200;
/// Checkpoints of each layer in a round.
const CHECKPOINTS: u64 = 4;
/// Items in the list of all threads, about.
const COMMON_MAX: u64 = 30;

type Report<'r> = &'r (dyn Fn(&str, u64) -> bool + Sync);

/// A process that is killed before its sweep has ended leaves little room to the next, until its sweep.
fn is_full(error: &Error) -> bool {
    matches!(error, Error::Pool(tembo_pool::Error::PoolFull { .. }))
}

pub(crate) fn serve(file: &HeapFile, threads: usize, report: Report<'_>) -> Result<(), Error> {
    file.enter(|heap| root(heap).map(drop))?;
    let is_over = AtomicBool::new(false);
    while !is_over.load(Ordering::Relaxed) {
        file.enter(|heap| {
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..threads.clamp(1, LANES))
                    .map(|lane| scope.spawn(move || transactions(heap, lane, report)))
                    .collect();
                let swept = heap.sweep();
                let ended = threads.into_iter().map(|thread| thread.join().unwrap_or(Ok(false)));
                let all: Result<Vec<bool>, Error> = ended.collect();
                is_over.store(all?.contains(&false), Ordering::Relaxed);
                swept.map(drop)
            })
        })?;
        let goes_on = file.enter(|heap| safe(heap, report))? && base(file, report)?;
        is_over.fetch_or(!goes_on, Ordering::Relaxed);
    }
    Ok(())
}

/// A round of a thread; whether it is to go on.
fn transactions(heap: Heap<'_>, lane: usize, report: Report<'_>) -> Result<bool, Error> {
    let (top, name) = (root(heap)?, format!("lane {lane}"));
    let mine = heap.atomic(|tx| Ok::<_, Error>(tx.read(&top)?.lanes[lane].clone()))?;
    let mut number = heap.atomic(|tx| tx.get(&mine, Lane::NUMBER))?;
    for _ in 0..TRANSACTIONS {
        match transaction(heap, &top, &mine, lane, number + 1) {
            Ok(()) => number += 1,
            Err(error) if is_full(&error) => {
                heap.settle()?;
                std::thread::yield_now();
            }
            Err(error) => return Err(error),
        }
        if !report(&name, number) {
            return Ok(false);
        }
        if number.is_multiple_of(16) {
            heap.collect_cycles(4)?;
            heap.compact(8)?;
        }
    }
    Ok(true)
}

fn transaction<'h>(
    heap: Heap<'h>,
    top: &Ptr<'h, Top<'h>>,
    mine: &Ptr<'h, Lane<'h>>,
    lane: usize,
    number: u64,
) -> Result<(), Error> {
    let len = heap.atomic(|tx| {
        let (mut len, mut at) = (0, tx.get(mine, Lane::FIRST)?);
        while let Some(item) = at {
            (len, at) = (len + 1, tx.get(&item, Item::NEXT)?);
        }
        Ok::<usize, Error>(len)
    })?;
    let deed = deed(lane, number, len);
    // Only the program refers to it until it is linked.
    let made = match deed {
        Deed::Orphan => Some(heap.atomic(|tx| tx.alloc(item(number)))?),
        _ => None,
    };
    heap.atomic(|tx| {
        let first = tx.get(mine, Lane::FIRST)?;
        match deed {
            Deed::Push => {
                let made = tx.alloc(item(number))?;
                push(tx, mine, made)?;
            }
            Deed::Orphan => {
                if let Some(made) = made.clone() {
                    push(tx, mine, made)?;
                }
                ring(tx, first)?;
            }
            Deed::Pop => pop(tx, mine)?,
            Deed::Change => {
                if let Some(first) = first {
                    tx.set(&first, Item::WORD, (number, !number))?;
                }
            }
            Deed::Clear => tx.set(mine, Lane::FIRST, None)?,
        }
        tx.set(mine, Lane::NUMBER, number)?;
        if number.is_multiple_of(4) {
            share(tx, top, number << 4 | lane as u64)?;
        }
        transfer(tx, top, number ^ (lane as u64) << 48)
    })
}

fn push<'h>(
    tx: &mut Transaction<'h>,
    mine: &Ptr<'h, Lane<'h>>,
    made: Ptr<'h, Item<'h>>,
) -> Result<(), Error> {
    let next = tx.get(mine, Lane::FIRST)?;
    prepend(tx, &made, next)?;
    tx.set(mine, Lane::FIRST, Some(made))
}

/// Links an item before another.
fn prepend<'h, L: Counted>(
    tx: &mut Access<'h, L>,
    made: &Ptr<'h, Item<'h>>,
    next: Option<Ptr<'h, Item<'h>>>,
) -> Result<(), Error> {
    if let Some(next) = &next {
        let back = tx.downgrade(made)?;
        tx.set(next, Item::BACK, Some(back))?;
    }
    tx.set(made, Item::NEXT, next)
}

fn pop<'h>(tx: &mut Transaction<'h>, mine: &Ptr<'h, Lane<'h>>) -> Result<(), Error> {
    let Some(first) = tx.get(mine, Lane::FIRST)? else { return Ok(()) };
    let next = tx.get(&first, Item::NEXT)?;
    if let Some(next) = &next {
        tx.set(next, Item::BACK, None)?;
    }
    tx.set(mine, Lane::FIRST, next)
}

/// Two items that refer to each other, and one of them to `first`; nothing refers to them.
fn ring<'h>(tx: &mut Transaction<'h>, first: Option<Ptr<'h, Item<'h>>>) -> Result<(), Error> {
    let (one, two, three) = (tx.alloc(item(1))?, tx.alloc(item(2))?, tx.alloc(item(3))?);
    tx.set(&one, Item::NEXT, Some(two.clone()))?;
    tx.set(&two, Item::NEXT, Some(one))?;
    tx.set(&three, Item::NEXT, first)
}

/// An item more in the list of all, which is emptied when it is long.
fn share<'h>(tx: &mut Transaction<'h>, top: &Ptr<'h, Top<'h>>, word: u64) -> Result<(), Error> {
    let len = tx.get(top, Top::COMMON_LEN)?;
    if len >= COMMON_MAX {
        tx.set(top, Top::COMMON, None)?;
        return tx.set(top, Top::COMMON_LEN, 0);
    }
    let made = tx.alloc(item(word))?;
    let next = tx.get(top, Top::COMMON)?;
    prepend(tx, &made, next)?;
    tx.set(top, Top::COMMON, Some(made))?;
    tx.set(top, Top::COMMON_LEN, len + 1)
}

/// Money moves from one account to another.
fn transfer<'h>(tx: &mut Transaction<'h>, top: &Ptr<'h, Top<'h>>, seed: u64) -> Result<(), Error> {
    let mut random = Random::new(seed);
    let (from, step) = (random.below(ACCOUNTS), 1 + random.below(ACCOUNTS - 1));
    let accounts = tx.get(top, Top::ACCOUNTS)?;
    let (from, to) = (&accounts[from], &accounts[(from + step) % ACCOUNTS]);
    let amount = random.below(50) as i64;
    let balance = tx.get(from, Account::BALANCE)?;
    tx.set(from, Account::BALANCE, balance - amount)?;
    let balance = tx.get(to, Account::BALANCE)?;
    tx.set(to, Account::BALANCE, balance + amount)
}

/// Checkpoints in the layer SAFE; whether to go on.
fn safe(heap: Heap<'_>, report: Report<'_>) -> Result<bool, Error> {
    heap.safe(|heap| {
        let top: Ptr<'_, Top<'_>> = heap.root()?.ok_or(Error::NoRoot)?;
        for _ in 0..CHECKPOINTS {
            let number = heap.get(&top, Top::SAFE)?;
            let made = (0..REPLACED).try_fold(None, |next, _| {
                let made = heap.alloc(item(number + 1))?;
                prepend(heap, &made, next)?;
                Ok::<_, Error>(Some(made))
            });
            let made = made.and_then(|made| {
                heap.set(&top, Top::BY_SAFE, made)?;
                heap.set(&top, Top::SAFE, number + 1)?;
                heap.checkpoint()
            });
            if !is_made(heap, made)? || !report("safe", number + 1) {
                return report_last(heap, &top, "safe", report);
            }
        }
        // Never seen by another process.
        heap.set(&top, Top::SAFE, u64::MAX)?;
        Ok(true)
    })
}

/// Whether it was made; if not there was no room, and nothing has happened.
fn is_made<L: tembo_heap::Checkpointed>(
    heap: &mut Access<'_, L>,
    made: Result<(), Error>,
) -> Result<bool, Error> {
    match made {
        Ok(()) => Ok(true),
        Err(error) if is_full(&error) => {
            heap.revert();
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Reports what is there, after there was no room for more.
fn report_last<'h, L: tembo_heap::Layer>(
    heap: &mut Access<'h, L>,
    top: &Ptr<'h, Top<'h>>,
    name: &str,
    report: Report<'_>,
) -> Result<bool, Error> {
    let field = if name == "safe" { Top::SAFE } else { Top::BASE };
    let number = heap.get(top, field)?;
    Ok(report(name, number))
}

/// The same in the layer BASE.
fn base(file: &HeapFile, report: Report<'_>) -> Result<bool, Error> {
    file.base(|heap| {
        let top: Ptr<'_, Top<'_>> = heap.root()?.ok_or(Error::NoRoot)?;
        for _ in 0..CHECKPOINTS {
            let number = heap.get(&top, Top::BASE)?;
            let mut make = || {
                let slice = heap.alloc_slice(REPLACED)?;
                for index in 0..REPLACED {
                    let word = heap.alloc(Account { balance: number as i64 + 1 })?;
                    heap.set_cell(&slice, index, word)?;
                }
                if let Some(before) = heap.get(&top, Top::BY_BASE)? {
                    for index in 0..REPLACED {
                        let word = heap.cell(&before, index)?;
                        heap.free(word)?;
                    }
                    heap.set(&top, Top::BY_BASE, None)?;
                    heap.free(before)?;
                }
                heap.set(&top, Top::BY_BASE, Some(slice))?;
                heap.set(&top, Top::BASE, number + 1)?;
                heap.checkpoint()
            };
            let made = make();
            if !is_made(heap, made)? || !report("base", number + 1) {
                return report_last(heap, &top, "base", report);
            }
        }
        heap.set(&top, Top::BASE, u64::MAX)?;
        Ok(true)
    })
}
