//! The operations of the thesis's table 3.3, their states, and what they refuse.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use tembo_mars::{
    Error, Geometry, Machine, Notice, Owner, RecoveryRule, Request, State, TRANSACTIONS, Write,
};
use tembo_pmem::{Counters, Region, RegionOptions};

const GEOMETRY: Geometry = Geometry { controllers: 8, stripe: 8192, stripes: 16, entries: 80 };

/// Where logs begin.
const LOG: u64 = 8 * 8192 * 8;

fn machine() -> Machine {
    let options = RegionOptions { size_max: 64 << 20, ..RegionOptions::default() };
    let region = Arc::new(Region::volatile(GEOMETRY.region_size(), &options).unwrap());
    Machine::open(&region, GEOMETRY, RecoveryRule::Participants).unwrap().0
}

fn owner(tid: u8) -> Owner {
    Owner { channel: 1, tid }
}

fn write(target: u64, log: u64, data: &[u8]) -> Write {
    Write { target, log: GEOMETRY.colocated(target, LOG + log), data: data.to_vec() }
}

fn read(machine: &Machine, at: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    machine.read(at, &mut bytes).unwrap();
    bytes
}

fn notices(machine: &mut Machine) -> Vec<Notice> {
    machine.settle().unwrap();
    std::iter::from_fn(|| machine.notice()).collect()
}

#[test]
fn a_transaction_is_seen_at_its_targets_only_when_it_has_committed() {
    let mut machine = machine();
    let one = write(8190, 0, b"over a stripe");
    machine.request(Request::LogWrite(owner(0), one.clone())).unwrap();
    machine.request(Request::LogWrite(owner(0), write(300_000, 0, b"far"))).unwrap();
    assert_eq!(notices(&mut machine), [Notice::Logged(owner(0)); 2]);
    assert_eq!(machine.state(owner(0)), State::Pending);
    assert_eq!(read(&machine, 8190, 13), [0; 13]);
    // A transaction reads its own writes in the log.
    assert_eq!(read(&machine, one.log, 13), b"over a stripe");
    machine.request(Request::Commit(owner(0))).unwrap();
    let committed = Notice::Committed { owner: owner(0), sequence: 1 };
    assert_eq!(notices(&mut machine), [committed, Notice::WrittenBack(owner(0))]);
    assert_eq!(machine.state(owner(0)), State::Free);
    assert_eq!(read(&machine, 8190, 13), b"over a stripe");
    assert_eq!(read(&machine, 300_000, 3), b"far");
}

#[test]
fn a_log_may_be_edited_until_the_commit() {
    let mut machine = machine();
    let logged = write(100, 0, b"before");
    machine.request(Request::LogWrite(owner(0), logged.clone())).unwrap();
    machine.request(Request::Write { target: logged.log, data: b"edited".to_vec() }).unwrap();
    machine.request(Request::Commit(owner(0))).unwrap();
    machine.settle().unwrap();
    assert_eq!(read(&machine, 100, 6), b"edited");
}

#[test]
fn a_savepoint_is_a_place_in_the_order_of_the_writes_and_not_of_the_offsets() {
    let mut machine = machine();
    // Issued in the order of the names, logged in another one, on three controllers.
    let (first, second, third) =
        (write(0, 300_000, b"first"), write(8192, 0, b"second"), write(16384, 100_000, b"third"));
    for write in [first, second.clone(), third] {
        machine.request(Request::LogWrite(owner(0), write)).unwrap();
    }
    machine.request(Request::AbortTo(owner(0), second.log)).unwrap();
    assert_eq!(notices(&mut machine).last(), Some(&Notice::Aborted(owner(0))));
    machine.request(Request::LogWrite(owner(0), write(20, 0, b"fourth"))).unwrap();
    machine.request(Request::Commit(owner(0))).unwrap();
    machine.settle().unwrap();
    assert_eq!(read(&machine, 0, 5), b"first");
    assert_eq!(read(&machine, 20, 6), b"fourth");
    assert_eq!((read(&machine, 8192, 6), read(&machine, 16384, 5)), (vec![0; 6], vec![0; 5]));
    let unknown = machine.request(Request::AbortTo(owner(0), LOG));
    assert!(matches!(unknown, Err(Error::BadState { state: State::Free, .. })));
}

#[test]
fn a_request_that_cannot_be_done_changes_nothing() {
    let mut machine = machine();
    let size = GEOMETRY.size();
    let mut refused = |request| machine.request(request).unwrap_err();
    let free = refused(Request::Commit(owner(0)));
    assert!(matches!(free, Error::BadState { state: State::Free, .. }));
    let far = refused(Request::LogWrite(owner(0), Write { target: size, log: 0, data: vec![1] }));
    assert!(matches!(far, Error::OutOfRange { len: 1, .. }));
    let apart = Write { target: 0, log: 8192, data: vec![1] };
    assert!(matches!(refused(Request::LogWrite(owner(0), apart)), Error::NotColocated { .. }));
    let none = refused(Request::LogWrite(owner(64), write(0, 0, b"x")));
    assert!(matches!(none, Error::NoSuchTransaction { tid: 64, count: 64 }));
    // Rows of stripes until the metadata of every controller is full.
    let row = vec![1; GEOMETRY.row() as usize];
    for _ in 0..GEOMETRY.entries {
        machine.request(Request::LogWrite(owner(1), write(0, 0, &row))).unwrap();
    }
    let full = machine.request(Request::LogWrite(owner(1), write(0, 0, b"x")));
    assert!(matches!(full, Err(Error::NoEntry { controller: 0, wanted: 1 })));
    machine.request(Request::Abort(owner(1))).unwrap();
    let busy = machine.request(Request::LogWrite(owner(1), write(0, 0, b"x")));
    assert!(matches!(busy, Err(Error::BadState { state: State::Aborting, .. })));
    machine.settle().unwrap();
    assert_eq!(machine.state(owner(1)), State::Free);
    machine.request(Request::LogWrite(owner(1), write(0, 0, b"x"))).unwrap();
    machine.settle().unwrap();
    assert_eq!(read(&machine, 0, 1), [0]);
}

#[test]
fn the_records_of_a_table_are_taken_by_all_applications() {
    let mut machine = machine();
    for number in 0..TRANSACTIONS as u32 {
        let owner = Owner { channel: number, tid: 7 };
        machine.request(Request::LogWrite(owner, write(0, 0, b"x"))).unwrap();
    }
    let one_more = Owner { channel: 99, tid: 0 };
    let refused = machine.request(Request::LogWrite(one_more, write(0, 0, b"x")));
    assert!(matches!(refused, Err(Error::NoTransaction { pending: TRANSACTIONS })));
}

/// A transaction of one controller costs as many fences as its records have states: log, PENDING, COMMITTED, copies,
/// FREE. Its data are stored twice, and cross the link once.
#[test]
fn an_atomic_write_stores_its_data_twice() {
    let mut machine = machine();
    let before = Counters::thread();
    machine.request(Request::AtomicWrite(owner(0), write(0, 0, &[7; 512]))).unwrap();
    machine.settle().unwrap();
    let cost = Counters::thread() - before;
    assert_eq!(cost.fences, 5);
    // The data twice; three words of an entry, the status twice, and a record.
    assert_eq!(cost.bytes, 2 * 512 + 3 * 8 + 2 * 8 + 4 * 8);
    assert_eq!(cost.lines, 2 * 8 + 1 + 3);
}
