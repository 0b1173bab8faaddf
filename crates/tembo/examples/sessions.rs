//! Keeps a hundred sessions in a table, each with a transaction and a snapshot, and works on them from several threads.

use std::collections::HashMap;
use std::sync::Mutex;

use tembo::{Durability, Error, Isolation, Options, Snapshot, Store, Transaction};

struct Session {
    transaction: Transaction,
    before: Snapshot,
}

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Error> {
    let store = Store::volatile(&Options::new())?;
    let notes = store.keyspace("notes")?;
    let table: Mutex<HashMap<u64, Session>> = Mutex::default();
    let lock = || table.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for number in 0..100 {
        let transaction = store.transaction(Isolation::Snapshot)?;
        lock().insert(number, Session { transaction, before: store.snapshot()? });
    }
    // The variable may go: the sessions keep the store open.
    drop(store);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || -> Result<(), Error> {
                for number in (0..100).filter(|number| number % 4 == thread) {
                    let Some(mut session) = lock().remove(&number) else { continue };
                    session.transaction.put(notes, &number.to_be_bytes(), b"written")?;
                    lock().insert(number, session);
                }
                Ok(())
            });
        }
    });
    let sessions = std::mem::take(&mut *lock());
    for (number, session) in sessions {
        assert!(session.before.get(notes, &number.to_be_bytes())?.is_none());
        let version = session.transaction.commit(Durability::Strict)?;
        println!("session {number} is version {version}");
    }
    Ok(())
}
