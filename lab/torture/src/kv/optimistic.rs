//! Optimistic transactions, as operations.

use tembo_kv::{Durability, Error, Isolation, Keyspace, Store, Transaction};

use super::op::{Op, Write, key, value};
use super::prepared::{Ids, is_refusal, refuses};
use crate::judge::{expect, text};

/// Whether no transaction before it that wins writes what it writes, and no prepared one holds that.
pub(crate) fn wins(all: &[Vec<Write>], index: usize, ids: &Ids) -> bool {
    let writes_like = |other: usize| {
        all[other].iter().any(|(key, _)| all[index].iter().any(|(mine, _)| mine == key))
    };
    !refuses(ids, &all[index])
        && (0..index).all(|other| !wins(all, other, ids) || !writes_like(other))
}

pub(super) fn set(
    tx: &mut Transaction,
    space: Keyspace,
    writes: &[Write],
    serial: u64,
) -> Result<(), String> {
    for (index, &(n, len)) in writes.iter().enumerate() {
        let value = len.map(|len| value(serial + index as u64, len));
        match &value {
            Some(value) => tx.put(space, &key(n), value).map_err(text)?,
            None => tx.remove(space, &key(n)).map_err(text)?,
        }
        expect(tx.get(space, &key(n)).map_err(text)? == value, "a transaction sees its writes")?;
    }
    Ok(())
}

/// By another thread: what it has not flushed itself was made durable before.
pub(super) fn commit_elsewhere(tx: Transaction) -> Result<(), String> {
    std::thread::scope(|scope| {
        let commit = scope.spawn(|| tx.commit(Durability::Strict).map(drop).map_err(text));
        commit.join().map_err(|_| "a panic")?
    })
}

pub(super) fn run(store: &Store, ids: &Ids, op: &Op, serial: u64) -> Result<(), String> {
    let keyspaces = store.keyspaces();
    let space = keyspaces.iter().find(|(name, _)| name == "x").ok_or("no keyspace")?.1;
    let begin = |isolation| store.transaction(isolation).map_err(text);
    match op {
        Op::Together(all) => {
            let mut open = Vec::new();
            for (index, writes) in all.iter().enumerate() {
                let mut tx = begin([Isolation::Snapshot, Isolation::Serialisable][index % 2])?;
                set(&mut tx, space, writes, serial + 2 * index as u64)?;
                open.push(tx);
            }
            let done = Transaction::commit_all(open, Durability::Strict);
            for (index, done) in done.into_iter().enumerate() {
                match done {
                    Ok(_) => expect(wins(all, index, ids), "the later one is refused")?,
                    Err(Error::Conflict { .. }) => {
                        expect(!wins(all, index, ids), "the first one wins")?
                    }
                    Err(error) => return Err(text(error)),
                }
            }
            Ok(())
        }
        Op::Large(writes) if refuses(ids, writes) => {
            let mut tx = store.transaction(Isolation::Serialisable).map_err(text)?;
            let put = |&(n, _): &Write| tx.put(space, &key(n), &[1; 50]);
            let done = writes.iter().try_for_each(put).and_then(|()| tx.commit(Durability::Strict));
            expect(is_refusal(&done), "what is held is not written")
        }
        Op::LargeDropped(writes) if refuses(ids, writes) => Ok(()),
        Op::TakenBack(all) if all.iter().any(|writes| refuses(ids, writes)) => Ok(()),
        Op::Large(writes) => {
            let mut tx = begin(Isolation::Serialisable)?;
            set(&mut tx, space, writes, serial)?;
            commit_elsewhere(tx)
        }
        Op::LargeDropped(writes) => set(&mut begin(Isolation::Snapshot)?, space, writes, serial),
        Op::TakenBack([first, back, last]) => {
            let mut tx = begin(Isolation::Snapshot)?;
            set(&mut tx, space, first, serial)?;
            let saved = tx.savepoint();
            set(&mut tx, space, back, serial + 100)?;
            tx.rollback_to(&saved).map_err(text)?;
            set(&mut tx, space, last, serial)?;
            commit_elsewhere(tx)
        }
        _ => Ok(()),
    }
}
