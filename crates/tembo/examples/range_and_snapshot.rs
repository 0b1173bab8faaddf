//! Reads a range of keys, both ways, in a snapshot that does not change while others write.

use std::ops::Bound;

use tembo::{Direction, Durability, Error, Keyspace, Options, Snapshot, Store};

fn list(
    snapshot: &Snapshot,
    animals: Keyspace,
    direction: Direction,
) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    // From "b" on, up to but without "m".
    let (from, to) = (Bound::Included(&b"b"[..]), Bound::Excluded(&b"m"[..]));
    snapshot.range_with::<[u8]>(animals, (from, to), direction, &mut |key, _value| {
        names.push(String::from_utf8_lossy(key).into_owned());
        names.len() < 3
    })?;
    Ok(names)
}

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Error> {
    let store = Store::volatile(&Options::default())?;
    let animals = store.keyspace("animals")?;
    for name in ["ape", "bear", "cat", "dog", "elephant", "lion", "mouse"] {
        store.put(animals, name.as_bytes(), b"here", Durability::Buffered)?;
    }
    let before = store.snapshot()?;
    std::thread::scope(|scope| {
        scope.spawn(|| store.remove(animals, b"cat", Durability::Buffered));
    });
    let after = store.snapshot()?;

    assert_eq!(list(&before, animals, Direction::Forward)?, ["bear", "cat", "dog"]);
    assert_eq!(list(&after, animals, Direction::Forward)?, ["bear", "dog", "elephant"]);
    assert_eq!(list(&after, animals, Direction::Backward)?, ["lion", "elephant", "dog"]);
    println!("version {} had a cat, version {} has none", before.version(), after.version());
    Ok(())
}
