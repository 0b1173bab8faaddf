//! Opens a store, or makes one, and puts something into it that outlives the process.

use tembo::{Durability, Error, Options, Store};

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Error> {
    let path = std::env::temp_dir().join("tembo-visits.pool");
    let store = Store::open_or_create(&path, &Options::new())?;
    let visits = store.keyspace("visits")?;

    // Durable when it returns.
    let count = store.get(visits, b"count")?.and_then(|bytes| bytes.try_into().ok());
    let count = count.map_or(0, u64::from_le_bytes) + 1;
    store.put(visits, b"count", &count.to_le_bytes(), Durability::Strict)?;
    println!("visit {count}; version {} of the store", store.durable());

    // Visible at once, durable together with the next sync.
    for visit in 0..100u64 {
        let key = [&b"page-"[..], &visit.to_be_bytes()].concat();
        store.put(visits, &key, b"seen", Durability::Buffered)?;
    }
    store.sync()?;

    // Every error has fields.
    let too_long = vec![0; tembo::KEY_SIZE_MAX + 1];
    match store.put(visits, &too_long, b"", Durability::Strict) {
        Err(Error::KeyTooLong { size }) => println!("a key of {size} bytes is refused"),
        other => println!("{other:?}"),
    }
    Ok(store.close()?)
}
