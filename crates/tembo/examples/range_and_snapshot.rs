//! Reads a range of keys, from both ends, in a snapshot that does not change while others write.

use tembo::{Durability, Entries, Error, Options, Store};

fn names(
    entries: impl Iterator<Item = <Entries<'static> as Iterator>::Item>,
) -> Result<Vec<String>, Error> {
    entries.map(|entry| Ok(String::from_utf8_lossy(&entry?.0).into_owned())).collect()
}

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Error> {
    let store = Store::volatile(&Options::new())?;
    let animals = store.keyspace("animals")?;
    for name in ["ape", "bear", "cat", "dog", "elephant", "lion", "mouse"] {
        store.put(animals, name.as_bytes(), b"here", Durability::Buffered)?;
    }
    let before = store.snapshot()?;
    let other = store.clone();
    let writer = std::thread::spawn(move || other.remove(animals, b"cat", Durability::Buffered));
    let removed = writer.join().unwrap_or(Ok(false))?;
    let after = store.snapshot()?;

    assert!(removed);
    assert_eq!(names(before.range(animals, "b".."m")?.take(3))?, ["bear", "cat", "dog"]);
    assert_eq!(names(after.range(animals, "b".."m")?.take(3))?, ["bear", "dog", "elephant"]);
    assert_eq!(names(after.range(animals, "b".."m")?.rev().take(2))?, ["lion", "elephant"]);
    println!("version {} had a cat, version {} has none", before.version(), after.version());
    Ok(())
}
