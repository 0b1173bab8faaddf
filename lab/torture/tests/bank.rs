//! The audit of the bank, proven: a bank whose books are right passes, and each way to falsify them is found.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicU64, Ordering};

use tembo_kv::{Durability, Options, PoolOptions, Store};
use tembo_torture::bank::{Audit, Bank};

const ACCOUNTS: u32 = 8;
const TELLERS: u16 = 4;

/// A bank after some transfers, and the last transfer that each teller has reported.
fn served() -> (Store, Vec<Option<u64>>) {
    let pool = PoolOptions { size: 4 << 20, ..Options::new().pool_options() };
    let store = Store::volatile(&Options::new().pool(pool)).unwrap();
    let last: Vec<AtomicU64> = (0..TELLERS).map(|_| AtomicU64::new(0)).collect();
    let acknowledge = |teller: u16, number| {
        last[usize::from(teller)].store(number, Ordering::SeqCst);
        number < 100
    };
    Bank::open(&store, ACCOUNTS).unwrap().serve(TELLERS, 1, &acknowledge).unwrap();
    (store, last.into_iter().map(|number| Some(number.into_inner())).collect())
}

/// What the audit says after `falsify`.
fn audited(falsify: impl FnOnce(&Store, &mut Vec<Option<u64>>)) -> Result<u64, String> {
    let (store, mut reported) = served();
    falsify(&store, &mut reported);
    let bank = Bank::open(&store, ACCOUNTS).unwrap();
    let mut audit = Audit::new(ACCOUNTS, TELLERS);
    audit.follow(&bank, &reported)?;
    audit.follow_again(&bank)?;
    Ok(audit.transfers())
}

#[test]
fn right_books_pass() {
    assert_eq!(audited(|_, _| {}), Ok(101 * u64::from(TELLERS)));
    // One transfer of each teller may have been made without being reported.
    assert!(audited(|_, reported| reported[1] = Some(99)).is_ok());
}

#[test]
fn falsified_books_are_found() {
    let lost = audited(|_, reported| reported[1] = Some(101)).unwrap_err();
    assert!(lost.contains("teller 1 has acknowledged 102"), "{lost}");
    let invented = audited(|_, reported| reported[1] = Some(98)).unwrap_err();
    assert!(invented.contains("101 are there"), "{invented}");
    let keyspace = |store: &Store, name: &str| store.keyspace(name).unwrap();
    let missing = audited(|store, _| {
        let ledger = keyspace(store, "ledger");
        assert!(store.remove(ledger, b"002 000000000050", Durability::Strict).unwrap());
    });
    assert!(missing.unwrap_err().contains("`002 000000000050` is not"));
    let half = audited(|store, _| {
        let (accounts, key) = (keyspace(store, "accounts"), b"000003");
        let balance = String::from_utf8(store.get(accounts, key).unwrap().unwrap()).unwrap();
        let richer = (balance.parse::<i64>().unwrap() + 1).to_string();
        store.put(accounts, key, richer.as_bytes(), Durability::Strict).unwrap();
    });
    assert!(half.unwrap_err().contains("the total was"));
    let moved = audited(|store, _| {
        let ledger = keyspace(store, "ledger");
        store.put(ledger, b"001 000000000007", b"1 2 1", Durability::Strict).unwrap();
    });
    assert!(moved.unwrap_err().contains("by the ledger"));
}
