//! The checkers, proven: each bug that is planted in a store is caught, and without bugs nothing is; and histories
//! of the store itself, in both isolations.
//!
//! `TEMBO_HISTORY_SEED` is where chance begins; a failure prints it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::sync::atomic::{AtomicU64, Ordering};

use tembo_fs::{Format, Fs, Time};
use tembo_kv::{IndexKind, Options, PoolOptions, Store};
use tembo_torture::history::{
    Action, Broken, Call, Checked, End, Fault, Files, History, Isolation, Operation, Outcome, Plan,
    Stored, Toy, Transaction, check_crash, check_cycles, check_registers, check_snapshots, judge,
};

/// Histories that a planted bug gets to show itself.
const TRIES: u64 = 200;

fn seed() -> u64 {
    std::env::var("TEMBO_HISTORY_SEED").map_or(1, |seed| seed.parse().unwrap())
}

fn plan(isolation: Isolation, seed: u64) -> Plan {
    Plan { isolation, operations: 5_000, threads: 8, keys: 64, seed }
}

fn run(fault: Option<Fault>, plan: &Plan) -> Result<Checked, Broken> {
    let history = plan.run(&Toy::new(fault), &|_| {}).unwrap();
    judge(&history, plan.isolation).inspect_err(|broken| {
        let text = broken.report(&history);
        assert!(text.lines().count() > 1, "{text}");
        if fault.is_none() {
            println!("seed {}: {text}", plan.seed);
        }
    })
}

#[test]
fn a_right_store_is_found_right() {
    for isolation in Isolation::ALL {
        let plan = Plan { operations: 50_000, ..plan(isolation, seed()) };
        let checked = run(None, &plan).unwrap();
        assert!(checked.operations >= 50_000, "{checked:?}");
        assert!(checked.overlapping > 100 && checked.conflicts > 100, "{checked:?}");
    }
}

#[test]
fn snapshot_isolation_is_not_taken_for_serialisable() {
    let found = (seed()..).take(TRIES as usize).find_map(|seed| {
        let history = plan(Isolation::Snapshot, seed).run(&Toy::new(None), &|_| {}).unwrap();
        judge(&history, Isolation::Snapshot).unwrap();
        check_cycles(&history, Isolation::Serialisable).err()
    });
    let Some(Broken::Cycle { edges, .. }) = found else { panic!("{found:?}") };
    assert!(edges.len() >= 2);
}

/// Whether the bug shows in one of some histories.
fn is_caught(fault: Fault, isolation: Isolation) -> bool {
    let caught = |seed: &u64| run(Some(fault), &plan(isolation, *seed)).is_err();
    let caught = (seed()..).take(TRIES as usize).find(caught);
    println!("{fault:?} {isolation}: seed {caught:?}");
    caught.is_some()
}

#[test]
fn planted_bugs_are_caught() {
    for fault in [
        Fault::ValidationSkipped,
        Fault::SnapshotTooNew,
        Fault::SnapshotTooOld,
        Fault::HalfVisible,
        Fault::OwnWritesMissing,
    ] {
        for isolation in Isolation::ALL {
            assert!(is_caught(fault, isolation), "{fault:?} {isolation}");
        }
    }
}

#[test]
fn phantoms_are_caught_by_their_cycle_alone() {
    let caught = (seed()..).take(TRIES as usize).find_map(|seed| {
        let toy = Toy::new(Some(Fault::PhantomCheckSkipped));
        let history = plan(Isolation::Serialisable, seed).run(&toy, &|_| {}).unwrap();
        judge(&history, Isolation::Snapshot).unwrap();
        judge(&history, Isolation::Serialisable).err()
    });
    assert!(matches!(caught, Some(Broken::Cycle { .. })), "{caught:?}");
}

/// Runs until a crash somewhere, of a faulty store where it loses what was seen, and judges what is left.
fn crash(fault: Option<Fault>, seed: u64) -> Result<(), Broken> {
    let (toy, left) = (Toy::new(fault), std::sync::OnceLock::new());
    let plan = Plan { operations: 10_000, keys: 16, ..plan(Isolation::Snapshot, seed) };
    let at = 50 + seed * 37 % 1500;
    let done = AtomicU64::new(0);
    let history = plan
        .run(&toy, &|operations| {
            let is_due = operations >= at && (fault.is_none() || toy.can_lose());
            if is_due && done.fetch_add(1, Ordering::SeqCst) == 0 {
                left.set(toy.crash()).unwrap();
            }
        })
        .unwrap();
    let Some(left) = left.get() else {
        assert!(fault.is_some(), "it has never crashed");
        return Ok(());
    };
    check_crash(&history, left).inspect_err(|broken| assert!(!broken.report(&history).is_empty()))
}

#[test]
fn what_a_crash_may_leave_is_found_right() {
    for seed in seed()..seed() + TRIES {
        crash(None, seed).unwrap();
    }
}

#[test]
fn what_is_visible_before_it_is_durable_is_caught() {
    let found = (seed()..seed() + TRIES).find_map(|seed| {
        let broken = crash(Some(Fault::VisibleBeforeDurable), seed).err()?;
        println!("seed {seed}");
        Some(broken)
    });
    assert!(matches!(found, Some(Broken::LostAfterRead { .. })), "{found:?}");
}

#[test]
fn single_operations_are_judged_by_linearisability() {
    let plan = Plan { operations: 50_000, ..plan(Isolation::Snapshot, seed()) };
    let calls = plan.run_calls(&Toy::new(None), &|_| {}).unwrap();
    check_registers(&calls).unwrap();
    let caught = (seed()..seed() + TRIES).any(|seed| {
        let plan = Plan { operations: 2_000, seed, ..plan };
        let calls = plan.run_calls(&Toy::new(Some(Fault::AcknowledgedEarly)), &|_| {}).unwrap();
        check_registers(&calls).is_err()
    });
    assert!(caught);
}

/// The same, lost in a crash.
fn lost(thread: u16, operation: Operation, called: u64, crashed: u64) -> Call {
    Call { end: End::Lost(crashed), ..call(thread, operation, called, 0) }
}

/// A call on key 0.
fn call(thread: u16, operation: Operation, called: u64, returned: u64) -> Call {
    Call { key: 0, thread, operation, called, end: End::Returned(returned) }
}

#[test]
fn an_order_is_found_where_there_is_one() {
    let put = |value, existed| Operation::Put { value, existed: Some(existed) };
    let get = |found| Operation::Get { found };
    // The get that began first sees the put that ended last.
    let fine = [call(0, get(2), 1, 8), call(1, put(1, false), 2, 6), call(2, put(2, true), 3, 7)];
    check_registers(&fine).unwrap();
    // Two readers see two puts in opposite orders.
    let fork = [
        call(0, put(1, false), 1, 20),
        call(1, put(2, true), 2, 21),
        call(2, get(1), 3, 4),
        call(2, get(2), 5, 6),
        call(3, get(1), 9, 10),
    ];
    assert!(matches!(check_registers(&fork), Err(Broken::NotLinearisable { .. })));
    // A put that was lost may have happened late, but not go again.
    let late = [lost(0, put(1, false), 1, 6), call(1, get(0), 2, 3), call(1, get(1), 4, 5)];
    check_registers(&late).unwrap();
    let gone = [lost(0, put(1, false), 1, 6), call(1, get(1), 2, 3), call(1, get(0), 4, 5)];
    assert!(check_registers(&gone).is_err());
    // After the crash it is there or not, from then on.
    for [first, second] in [[0, 0], [0, 1], [1, 0], [1, 1]] {
        let after =
            [lost(0, put(1, false), 1, 3), call(1, get(first), 4, 5), call(1, get(second), 6, 7)];
        assert_eq!(check_registers(&after).is_ok(), first == second, "{first} {second}");
    }
    // What was acknowledged survives what was lost beside it.
    let beside =
        [call(0, put(1, false), 1, 3), lost(1, put(2, false), 2, 4), call(0, get(0), 5, 6)];
    assert!(check_registers(&beside).is_err());
    let count = |result| Operation::Increment { result };
    let twice = [call(0, count(1), 1, 4), call(1, count(1), 2, 3)];
    assert!(check_registers(&twice).is_err());
}

/// A history of transactions, each with its snapshot, its version, and what it did; they all overlap.
fn history(transactions: &[(u64, u64, &[Action])]) -> History {
    let count = transactions.len() as u64;
    let one = |(at, &(snapshot, version, actions)): (usize, &(u64, u64, &[Action]))| History {
        transactions: vec![Transaction {
            thread: at as u16,
            began: (at as u64, count + at as u64),
            ended: (2 * count + at as u64, 3 * count + at as u64),
            snapshot,
            outcome: Outcome::Committed { version },
            actions: 0..actions.len(),
        }],
        actions: actions.to_vec(),
    };
    History::of(transactions.iter().enumerate().map(one))
}

#[test]
fn each_forbidden_history_is_reported_for_what_it_is() {
    let put = |key, value| Action::Put { key, value };
    let get = |key, value| Action::Get { key, value };
    let skew = history(&[(0, 1, &[put(0, 1), put(1, 2)]), (0, 0, &[get(0, 1), get(1, 0)])]);
    assert!(matches!(check_snapshots(&skew), Err(Broken::Read { key: 0, found: 1, .. })));
    let lost = history(&[(0, 1, &[get(0, 0), put(0, 1)]), (0, 2, &[get(0, 0), put(0, 2)])]);
    assert!(matches!(check_snapshots(&lost), Err(Broken::LostUpdate { key: 0, .. })));
    let Err(Broken::Cycle { edges, .. }) = check_cycles(&lost, Isolation::Snapshot) else {
        panic!("a lost update is a cycle with one rw edge")
    };
    assert_eq!(edges.len(), 2);
    // Versions that are lies do not hide the fork: each reader sees the one write and not the other.
    let fork = history(&[
        (0, 1, &[put(0, 1)]),
        (0, 2, &[put(1, 2)]),
        (1, 1, &[get(0, 1), get(1, 0)]),
        (0, 0, &[get(0, 0), get(1, 2)]),
    ]);
    assert!(check_cycles(&fork, Isolation::Snapshot).is_err());
    let dirty = history(&[(0, 0, &[get(0, 7)])]);
    assert!(matches!(
        check_cycles(&dirty, Isolation::Snapshot),
        Err(Broken::DirtyRead { found: 7, .. })
    ));
    // Two found what the other had not written yet; but one of the keys was gone again by then.
    let passing = history(&[
        (0, 3, &[get(1, 0), put(0, 1)]),
        (0, 1, &[get(0, 0), put(1, 2)]),
        (1, 2, &[get(1, 2), Action::Remove { key: 1 }]),
    ]);
    check_cycles(&passing, Isolation::Serialisable).unwrap();
    let write_skew = history(&[(0, 1, &[get(0, 0), put(1, 1)]), (0, 2, &[get(1, 0), put(0, 2)])]);
    judge(&write_skew, Isolation::Snapshot).unwrap();
    assert!(judge(&write_skew, Isolation::Serialisable).is_err());
}

#[test]
fn what_a_crash_may_not_leave_is_reported_for_what_it_is() {
    let put = |key, value| Action::Put { key, value };
    let get = |key, value| Action::Get { key, value };
    let mut crashed = history(&[
        (0, 1, &[put(0, 1), put(1, 2)]),
        (1, 0, &[put(0, 3), put(2, 4)]),
        (1, 1, &[get(1, 2)]),
    ]);
    crashed.transactions[1].outcome = Outcome::Unknown;
    check_crash(&crashed, &[(0, 1), (1, 2)]).unwrap();
    check_crash(&crashed, &[(0, 3), (1, 2), (2, 4)]).unwrap();
    let verdict = |left: &[(u32, u64)]| check_crash(&crashed, left).unwrap_err();
    assert_eq!(verdict(&[(0, 1)]), Broken::Lost { writer: 0, key: 1, found: 0 });
    assert_eq!(verdict(&[(0, 3), (1, 2)]), Broken::Torn { writer: 1, key: 2, found: 0 });
    assert_eq!(verdict(&[(0, 1), (1, 2), (2, 4)]), Broken::Torn { writer: 1, key: 0, found: 1 });
    assert_eq!(verdict(&[(0, 1), (1, 2), (9, 9)]), Broken::Foreign { key: 9, found: 9 });
    let mut read = crashed.clone();
    read.actions[4] = get(2, 4);
    assert_eq!(
        check_crash(&read, &[(0, 1), (1, 2)]).unwrap_err(),
        Broken::LostAfterRead { reader: 2, writer: 1, key: 0, found: 1 }
    );
}

fn store(index: IndexKind) -> Store {
    let pool = PoolOptions { size: 4 << 20, ..Options::new().pool_options() };
    Store::volatile(&Options::new().pool(pool).index(index)).unwrap()
}

#[test]
fn single_operations_of_the_store_are_linearisable() {
    for index in IndexKind::ALL {
        let plan = Plan { operations: 50_000, ..plan(Isolation::Snapshot, seed()) };
        let store = store(index);
        let calls = plan.run_calls(&Stored::new(&store, "history").unwrap(), &|_| {}).unwrap();
        let judged = check_registers(&calls);
        judged.unwrap_or_else(|broken| panic!("{index:?}: {}", broken.report(&History::default())));
    }
}

#[test]
fn histories_of_the_store_keep_its_promises() {
    for (index, isolation) in [
        (IndexKind::Nvtree, Isolation::Snapshot),
        (IndexKind::Nvtree, Isolation::Serialisable),
        (IndexKind::Cdds, Isolation::Snapshot),
        (IndexKind::Cdds, Isolation::Serialisable),
        (IndexKind::Hash, Isolation::Snapshot),
        (IndexKind::Hash, Isolation::Serialisable),
    ] {
        let plan = Plan { operations: 50_000, keys: 256, ..plan(isolation, seed()) };
        let store = store(index);
        let history = plan.run(&Stored::new(&store, "history").unwrap(), &|_| {}).unwrap();
        let checked = judge(&history, isolation);
        let report = |broken: Broken| panic!("{index:?}, {isolation}: {}", broken.report(&history));
        let checked = checked.unwrap_or_else(report);
        assert!(checked.operations >= 50_000, "{checked:?}");
        assert!(checked.conflicts > 100 && checked.overlapping > 100, "{checked:?}");
    }
}

#[test]
fn histories_of_transactions_over_files_keep_their_promises() {
    let keys = 64;
    let plan = Plan { operations: 20_000, keys, ..plan(Isolation::Snapshot, seed()) };
    let format = Format { piece_size: 512, ..Format::default() };
    let fs = Fs::format(&store(IndexKind::Nvtree), &format, Time::default()).unwrap();
    let mut history = plan.run(&Files::new(fs.clone(), keys).unwrap(), &|_| {}).unwrap();
    // A file that is made empty when it is empty has changed, and a key that is removed when it is absent has not: a
    // conflict over it has no reason in the history.
    for transaction in &mut history.transactions {
        if matches!(transaction.outcome, Outcome::Conflict { .. }) {
            transaction.outcome = Outcome::Dropped;
        }
    }
    let checked = judge(&history, Isolation::Snapshot);
    let checked = checked.unwrap_or_else(|broken| panic!("{}", broken.report(&history)));
    assert!(checked.operations >= 20_000, "{checked:?}");
    assert_eq!(fs.snapshot().unwrap().check().unwrap().findings, []);
}
