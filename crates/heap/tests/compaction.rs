//! Compaction: what it makes room of, what it leaves where it is, and that nothing else changes.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tembo_heap::{
    Compaction, Error, Heap, HeapFile, PHashMap, PMap, PString, PVec, Persist, PoolOptions, Ptr,
    Slice, Transaction, Weak,
};
use tembo_pmem::SyncPolicy;

/// Chunks that are used when what is left fills four fifths of them, and one of each size.
const SIZES: u64 = 12;

#[derive(Persist)]
struct Top<'h> {
    items: PMap<'h, Ptr<'h, Item<'h>>>,
    names: PHashMap<'h, PString<'h>>,
    all: PVec<'h, Weak<'h, Item<'h>>>,
    last: Option<Ptr<'h, Item<'h>>>,
}

#[derive(Persist)]
struct Item<'h> {
    number: u64,
    /// Itself.
    own: Option<Weak<'h, Item<'h>>>,
    /// The one before it.
    before: Option<Ptr<'h, Item<'h>>>,
    more: Kind<'h>,
}

#[derive(Persist)]
enum Kind<'h> {
    Small,
    Pair([Option<Ptr<'h, Item<'h>>>; 2]),
    Large(Ptr<'h, Slice<u64>>),
}

fn options(size: u64) -> PoolOptions {
    let mut options = PoolOptions { size, ..PoolOptions::default() };
    options.region.size_max = 256 << 20;
    options.region.sync = SyncPolicy::Os;
    options
}

fn file() -> HeapFile {
    HeapFile::volatile(&options(8 << 20)).unwrap()
}

fn key(number: u64) -> String {
    format!("{number:06}")
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % end
    }
}

/// Makes items of several sizes, which refer to each other.
fn fill(heap: Heap<'_>, count: u64) {
    let top = || Top { items: PMap::new(), names: PHashMap::new(), all: PVec::new(), last: None };
    let top = heap.root_or::<_, Error>(|_| Ok(top())).unwrap();
    for number in 0..count {
        heap.atomic(|tx| {
            let before = tx.get(&top, Top::LAST)?;
            let more = match number % 3 {
                0 => Kind::Small,
                1 => Kind::Pair([before.clone(), before.clone()]),
                _ => {
                    let large = tx.alloc_slice(20 + number % 90)?;
                    tx.set_cell(&large, 7, number)?;
                    Kind::Large(large)
                }
            };
            let before = if number.is_multiple_of(10) { None } else { before };
            let item = tx.alloc(Item { number, own: None, before, more })?;
            let weak = tx.downgrade(&item)?;
            tx.set(&item, Item::OWN, Some(weak.clone()))?;
            top.field(Top::ITEMS).insert(tx, key(number), item.clone())?;
            let name = PString::new(tx, format!("the name of {number}"))?;
            top.field(Top::NAMES).insert(tx, key(number), name)?;
            top.field(Top::ALL).push(tx, weak)?;
            tx.set(&top, Top::LAST, Some(item))
        })
        .unwrap();
    }
}

/// Removes items; those that are left refer to them no more.
fn thin_out(heap: Heap<'_>, count: u64, stays: impl Fn(u64) -> bool) {
    let top = heap.root::<Top<'_>>().unwrap().unwrap();
    for number in (0..count).filter(|number| !stays(*number)) {
        heap.atomic(|tx| {
            top.field(Top::NAMES).remove(tx, key(number))?;
            let item = top.field(Top::ITEMS).remove(tx, key(number))?.unwrap();
            tx.set(&item, Item::BEFORE, None)?;
            tx.set(&item, Item::MORE, Kind::Small)?;
            tx.set(&top, Top::LAST, None)
        })
        .unwrap();
    }
    for number in (0..count).filter(|number| stays(*number)) {
        heap.atomic(|tx| {
            let item = top.field(Top::ITEMS).get(tx, key(number))?.unwrap();
            let before = tx.get(&item, Item::BEFORE)?;
            let before = match before {
                Some(before) => Some(tx.get(&before, Item::NUMBER)?).filter(|one| stays(*one)),
                None => None,
            };
            if before.is_none() {
                tx.set(&item, Item::BEFORE, None)?;
            }
            if let Kind::Pair(_) = tx.get(&item, Item::MORE)? {
                tx.set(&item, Item::MORE, Kind::Pair([Some(item.clone()), None]))?;
            }
            Ok::<_, Error>(())
        })
        .unwrap();
    }
    heap.settle().unwrap();
    while !heap.collect_cycles(1 << 20).unwrap() {}
    heap.settle().unwrap();
}

/// All that can be seen, without where it lies.
fn show(heap: Heap<'_>, count: u64) -> Vec<String> {
    let top = heap.root::<Top<'_>>().unwrap().unwrap();
    let mut shown = Vec::new();
    for number in 0..count {
        let line = heap.atomic(|tx| {
            let weak = top.field(Top::ALL).get(tx, number)?;
            let weak = tx.upgrade(&weak)?;
            let name = top.field(Top::NAMES).get(tx, key(number))?;
            let name = name.map(|name| name.to_text(tx)).transpose()?;
            let Some(item) = top.field(Top::ITEMS).get(tx, key(number))? else {
                return Ok(format!("{number} {} {name:?}", weak.is_some()));
            };
            let Item { number, own, before, more } = tx.read(&item)?;
            let own = own.map(|own| tx.upgrade(&own)).transpose()?.flatten();
            let is_own = own.is_some_and(|own| own.is(&item)) && weak.is_some_and(|w| w.is(&item));
            let before = before.map(|before| tx.get(&before, Item::NUMBER)).transpose()?;
            let more = match more {
                Kind::Small => "small".to_owned(),
                Kind::Pair([one, two]) => {
                    format!("{:?} {}", one.map(|one| one.is(&item)), two.is_some())
                }
                Kind::Large(large) => format!("{} {}", tx.slice_len(&large)?, tx.cell(&large, 7)?),
            };
            Ok::<_, Error>(format!("{number} {is_own} {before:?} {more} {name:?}"))
        });
        shown.push(line.unwrap());
    }
    shown
}

fn compact(heap: Heap<'_>, budget: usize) -> Compaction {
    loop {
        let done = heap.compact(budget).unwrap();
        if done.is_done {
            return done;
        }
    }
}

/// Bytes of chunks with objects that share them, and of as many as the objects would fill, one of each size not full.
fn used(file: &HeapFile) -> (u64, u64) {
    let found = file.pool().fragmentation().unwrap();
    let chunk = 64 << 10;
    let filled =
        |class: &tembo_pool::ClassUsage| class.objects.div_ceil(chunk / class.object_size) * chunk;
    let used = found.classes.iter().map(|class| class.chunk_bytes).sum();
    (used, found.classes.iter().map(filled).sum())
}

fn check(file: &HeapFile) {
    let check = file.check().unwrap();
    assert_eq!((check.account.leaked, check.account.dangling), (0, 0));
    let counts = &check.tenants[0].1.counts;
    assert_eq!(counts[2].1, 0, "counts are larger than the pointers: {counts:?}");
}

#[test]
fn what_is_left_of_random_objects_fills_four_fifths_of_the_chunks() {
    let (file, count) = (file(), 20_000);
    file.enter(|heap| {
        fill(heap, count);
        let mut random = Random(7);
        let stays: Vec<bool> = (0..count).map(|_| random.below(10) == 0).collect();
        thin_out(heap, count, |number| stays[number as usize]);
        check(&file);
        let (shown, (before, _)) = (show(heap, count), used(&file));
        let done = compact(heap, 50);
        let (after, least) = used(&file);
        assert!(after <= least * 5 / 4 + SIZES * (64 << 10), "{after} for {least}");
        assert!(before > 2 * after && done.stayed == 0, "{before} {after} {done:?}");
        assert_eq!(show(heap, count), shown);
        check(&file);
        // The end of the pool is free, and stays so; nothing is left to be done.
        let end = file.pool().usage();
        assert_eq!(compact(heap, 50).moved, 0);
        assert_eq!(file.pool().usage(), end);
        fill(heap, 300);
        // An item may refer to itself, and was replaced.
        while !heap.collect_cycles(1 << 20).unwrap() {}
        check(&file);
    });
}

#[test]
fn what_the_program_holds_stays_where_it_is_until_it_lets_go() {
    let (file, count) = (file(), 6000);
    file.enter(|heap| {
        fill(heap, count);
        thin_out(heap, count, |number| number % 10 == 3);
        let shown = show(heap, count);
        let top = heap.root::<Top<'_>>().unwrap().unwrap();
        let held: Vec<_> = (0..count / 100)
            .map(|at| {
                let number = at * 100 + 3;
                let got = heap.atomic(|tx| {
                    let item = top.field(Top::ITEMS).get(tx, key(number))?.unwrap();
                    let weak = tx.get(&item, Item::OWN)?.unwrap();
                    Ok::<_, Error>((number, item, weak))
                });
                got.unwrap()
            })
            .collect();
        let places: Vec<u64> = held.iter().map(|(_, item, _)| item.offset()).collect();
        let done = compact(heap, 7);
        assert!(done.moved > 500 && done.stayed >= held.len() as u64, "{done:?}");
        for ((number, item, weak), place) in held.iter().zip(places) {
            assert_eq!(item.offset(), place);
            heap.atomic(|tx| {
                assert_eq!(tx.get(item, Item::NUMBER)?, *number);
                let found = top.field(Top::ITEMS).get(tx, key(*number))?.unwrap();
                assert!(found.is(item) && tx.upgrade(weak)?.unwrap().is(item));
                // Changes by it are changes of what the map has.
                tx.set(item, Item::NUMBER, *number)
            })
            .unwrap();
        }
        assert_eq!(show(heap, count), shown);
        let (with, _) = used(&file);
        drop((held, top));
        let done = compact(heap, 7);
        let (after, least) = used(&file);
        assert!(after < with && after <= least * 5 / 4 + SIZES * (64 << 10), "{after} {least}");
        assert_eq!(done.stayed, 0);
        assert_eq!(show(heap, count), shown);
        check(&file);
    });
}

#[test]
fn an_orphan_and_what_only_a_lost_cycle_refers_to_stay() {
    let (file, count) = (file(), 3000);
    file.enter(|heap| {
        fill(heap, count);
        thin_out(heap, count, |number| number % 10 == 3);
        // Only the program has it; and two that only have each other, and a third.
        let orphan = heap
            .atomic(|tx| tx.alloc(Item { number: 1, own: None, before: None, more: Kind::Small }));
        let orphan = orphan.unwrap();
        let top = heap.root::<Top<'_>>().unwrap().unwrap();
        heap.atomic(|tx| {
            let third = top.field(Top::ITEMS).get(tx, key(13))?;
            let more = || Kind::Small;
            let one =
                tx.alloc(Item { number: 2, own: None, before: third.clone(), more: more() })?;
            let pair = Kind::Pair([Some(one.clone()), third]);
            let two = tx.alloc(Item { number: 3, own: None, before: None, more: pair })?;
            tx.set(&one, Item::MORE, Kind::Pair([Some(two), None]))
        })
        .unwrap();
        let shown = show(heap, count);
        let done = compact(heap, 100);
        assert!(done.moved > 200 && done.stayed > 0, "{done:?}");
        assert_eq!(show(heap, count), shown);
        while !heap.collect_cycles(100).unwrap() {}
        heap.settle().unwrap();
        assert_eq!(heap.atomic(|tx| tx.get(&orphan, Item::NUMBER)).unwrap(), 1);
        drop(orphan);
        heap.settle().unwrap();
        check(&file);
        assert_eq!(show(heap, count), shown);
    });
}

const THREADS: u64 = 3;
const ACCOUNTS: u64 = 3000;
const ROUNDS: u64 = 1500;
/// One account in so many is left when the threads begin.
const LEFT: u64 = 8;

#[derive(Persist)]
struct Bank<'h> {
    accounts: PHashMap<'h, Ptr<'h, Account<'h>>>,
}

#[derive(Persist)]
struct Account<'h> {
    balance: i64,
    log: PVec<'h, u64>,
}

/// Moves money between two accounts, and now and then puts another account in the place of one.
fn transfer<'h>(
    tx: &mut Transaction<'h>,
    bank: &Ptr<'h, Bank<'h>>,
    [one, two]: [&str; 2],
    round: u64,
) -> Result<(), Error> {
    let accounts = bank.field(Bank::ACCOUNTS);
    for (name, amount) in [(one, -1), (two, 1)] {
        let account = accounts.get(tx, name)?.unwrap();
        let balance = tx.get(&account, Account::BALANCE)?;
        tx.set(&account, Account::BALANCE, balance + amount)?;
        if balance % 4 == 0 {
            account.field(Account::LOG).push(tx, round)?;
        }
    }
    if round.is_multiple_of(5) {
        let before = accounts.get(tx, one)?.unwrap();
        let balance = tx.get(&before, Account::BALANCE)?;
        let after = tx.alloc(Account { balance, log: PVec::new() })?;
        accounts.insert(tx, one, after)?;
    }
    Ok(())
}

/// Compacts again and again, each time after some more transactions, until it is over; how many objects were moved.
fn compact_beside(heap: Heap<'_>, made: &AtomicU64, is_over: &AtomicBool) -> u64 {
    let mut moved = 0;
    while !is_over.load(Ordering::SeqCst) {
        let before = made.load(Ordering::SeqCst);
        moved += compact(heap, 5).moved;
        while made.load(Ordering::SeqCst) < before + 50 && !is_over.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    }
    moved
}

#[test]
fn transactions_go_on_beside_it() {
    let file = file();
    file.enter(|heap| {
        let bank = || Bank { accounts: PHashMap::new() };
        let bank = heap.root_or::<_, Error>(|_| Ok(bank())).unwrap();
        for number in 0..ACCOUNTS {
            heap.atomic(|tx| {
                let account = tx.alloc(Account { balance: 100, log: PVec::new() })?;
                bank.field(Bank::ACCOUNTS).insert(tx, key(number), account)
            })
            .unwrap();
        }
        for number in (0..ACCOUNTS).filter(|number| number % LEFT > 0) {
            heap.atomic(|tx| bank.field(Bank::ACCOUNTS).remove(tx, key(number))).unwrap();
        }
        let (is_over, made) = (AtomicBool::new(false), AtomicU64::new(0));
        let run = |thread: u64| {
            let mut random = Random(thread);
            for round in 0..ROUNDS {
                let mut number = || key(random.below(ACCOUNTS / LEFT) * LEFT);
                let (one, two) = (number(), number());
                heap.atomic(|tx| transfer(tx, &bank, [&one, &two], round)).unwrap();
                made.fetch_add(1, Ordering::SeqCst);
            }
        };
        let run = &run;
        let moved = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..THREADS).map(|thread| scope.spawn(move || run(thread))).collect();
            let compacted = scope.spawn(|| compact_beside(heap, &made, &is_over));
            let ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
            is_over.store(true, Ordering::SeqCst);
            ended.into_iter().for_each(|ended| ended.unwrap());
            compacted.join().unwrap()
        });
        assert!(moved > 200, "{moved}");
        let sum = heap.atomic(|tx| {
            let mut sum = 0;
            for number in (0..ACCOUNTS).filter(|number| number.is_multiple_of(LEFT)) {
                let account = bank.field(Bank::ACCOUNTS).get(tx, key(number))?.unwrap();
                sum += tx.get(&account, Account::BALANCE)?;
            }
            Ok::<_, Error>(sum)
        });
        assert_eq!(sum.unwrap(), 100 * (ACCOUNTS / LEFT) as i64);
        heap.settle().unwrap();
        check(&file);
    });
}

#[test]
fn it_is_no_part_of_a_transaction_and_needs_a_heap_that_can_be_changed() {
    let file = file();
    file.enter(|heap| {
        fill(heap, 10);
        heap.atomic(|_| {
            assert!(matches!(heap.compact(1), Err(Error::Nested)));
            Ok::<_, Error>(())
        })
        .unwrap();
        heap.safe(|_| {
            assert!(matches!(heap.compact(1), Err(Error::Nested)));
            Ok::<_, Error>(())
        })
        .unwrap();
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.heap");
    HeapFile::create(&path, &options(4 << 20)).unwrap().close().unwrap();
    let mut options = options(4 << 20);
    options.region.read_only = true;
    let file = HeapFile::open(&path, &options).unwrap();
    assert!(matches!(file.enter(|heap| heap.compact(1)), Err(Error::ReadOnly)));
}

#[test]
fn layers_by_hand_go_on_with_what_was_moved() {
    let (file, count) = (file(), 3000);
    file.enter(|heap| {
        fill(heap, count);
        thin_out(heap, count, |number| number % 10 == 3);
    });
    let free = |number: u64| {
        file.base(|heap| {
            let top = heap.root::<Top<'_>>()?.unwrap();
            let item = heap.alloc(Item { number, own: None, before: None, more: Kind::Small })?;
            let before = top.field(Top::ITEMS).insert(heap, key(number), item)?;
            // It has pointers to itself.
            let before = before.unwrap();
            heap.set(&before, Item::MORE, Kind::Small)?;
            heap.set(&before, Item::OWN, None)?;
            heap.set(&top, Top::LAST, None)?;
            let _ = heap.free(before);
            match heap.checkpoint() {
                Err(Error::Referred { .. }) => {
                    heap.revert();
                    Ok(())
                }
                other => other,
            }
        })
        .unwrap();
    };
    let mut number = 3;
    loop {
        // Objects are freed by hand between two steps, of which one had looked into them.
        free(number % count);
        number += 10;
        if file.enter(|heap| heap.compact(40)).unwrap().is_done {
            break;
        }
    }
    file.enter(|heap| {
        heap.settle().unwrap();
        assert_eq!(show(heap, count).len() as u64, count);
    });
    let check = file.check().unwrap();
    assert_eq!(check.account.dangling, 0);
}

#[test]
fn the_file_becomes_as_small_as_what_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.heap");
    let count = 8000;
    let file = HeapFile::create(&path, &options(1 << 20)).unwrap();
    let shown = file.enter(|heap| {
        fill(heap, count);
        thin_out(heap, count, |number| number % 10 == 3);
        show(heap, count)
    });
    file.close().unwrap();
    let before = std::fs::metadata(&path).unwrap().len();
    let file = HeapFile::open(&path, &options(1 << 20)).unwrap();
    let mut steps = 0;
    let done = file.compact(&mut |_| steps += 1).unwrap();
    assert!(done.moved > 1000 && steps > 20, "{done:?} {steps}");
    file.close().unwrap();
    let after = std::fs::metadata(&path).unwrap().len();
    assert!(3 * after < before, "{before} bytes, then {after}");
    let file = HeapFile::open(&path, &options(1 << 20)).unwrap();
    assert_eq!(file.enter(|heap| show(heap, count)), shown);
    check(&file);
}
