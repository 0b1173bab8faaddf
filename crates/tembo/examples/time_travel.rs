//! Reads the past, follows what happened since, and takes it back.

use tembo::{Durability, Error, Event, Options, Retention, Store};

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Error> {
    let store = Store::volatile(&Options::new())?;
    let prices = store.keyspace("prices")?;
    // The last thousand versions stay readable.
    store.retain(Retention::Versions(1000))?;
    let mut versions = Vec::new();
    for price in [b"10", b"12", b"99"] {
        store.put(prices, b"bread", price, Durability::Strict)?;
        versions.push(store.visible());
    }
    let noon = versions[1];
    let then = store.snapshot_at(noon)?;
    let price = then.get(prices, b"bread")?.map(|price| price.to_vec());
    println!("bread was {:?}", price.as_deref().map(String::from_utf8_lossy));
    drop(then);

    // A follower gets every change, in order.
    let mut changes = store.changes(noon)?;
    while let Some(change) = changes.next()? {
        if let Event::Put { key, value } = &change.event {
            let (key, value) = (String::from_utf8_lossy(key), String::from_utf8_lossy(value));
            println!("version {}: {}/{key} = {value}", change.version, change.keyspace);
        }
    }

    // 99 was a mistake: everything after that version is taken back, at once.
    store.rollback(noon)?;
    assert_eq!(store.get(prices, b"bread")?.as_deref(), Some(&b"12"[..]));
    match changes.next() {
        Err(Error::RolledBack { to, .. }) => println!("rolled back to version {to}"),
        other => println!("{other:?}"),
    }
    Ok(())
}
