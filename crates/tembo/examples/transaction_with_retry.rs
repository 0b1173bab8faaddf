//! Many threads add to one counter: the second to commit gets a conflict, and tries again.

use tembo::{Durability, Error, Isolation, Options, Store};

/// Adds one to a counter that has to be below `limit`; what it had before.
fn add(store: &Store, name: &[u8], limit: u64) -> Result<Option<u64>, Error> {
    let counters = store.keyspace("counters")?;
    // Runs and commits; on a conflict waits a little, and runs again.
    store.with_retry(Isolation::Serialisable, Durability::Strict, |tx| {
        let bytes = tx.get(counters, name)?.and_then(|bytes| bytes.try_into().ok());
        let before = bytes.map_or(0, u64::from_le_bytes);
        if before == limit {
            return Ok(None);
        }
        tx.put(counters, name, &(before + 1).to_le_bytes())?;
        Ok(Some(before))
    })
}

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Error> {
    let store = Store::volatile(&Options::new())?;
    let counters = store.keyspace("counters")?;
    let all: Result<Vec<u64>, Error> = std::thread::scope(|scope| {
        let work = || {
            let mut mine = 0;
            while add(&store, b"tickets", 1000)?.is_some() {
                mine += 1;
            }
            Ok(mine)
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let all = all?;
    assert_eq!(all.iter().sum::<u64>(), 1000, "no ticket was sold twice");
    println!("tickets by thread: {all:?}");

    // Without the retry the conflict is an error with fields.
    let mut first = store.transaction(Isolation::Snapshot)?;
    let mut second = store.transaction(Isolation::Snapshot)?;
    first.put(counters, b"tickets", b"mine")?;
    second.put(counters, b"tickets", b"no, mine")?;
    first.commit(Durability::Strict)?;
    match second.commit(Durability::Strict) {
        Err(Error::Conflict { key, version, .. }) => {
            println!("{} was changed by version {version}", String::from_utf8_lossy(&key));
        }
        other => println!("{other:?}"),
    }
    Ok(())
}
