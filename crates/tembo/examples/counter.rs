//! Counts how often it has been run. Kill it whenever you like.

use tembo::{Durability, Options, Store};

#[allow(clippy::print_stdout)]
fn main() -> Result<(), tembo::Error> {
    let path = std::env::temp_dir().join("tembo-counter.pool");
    let options = Options::default();
    let store =
        if path.exists() { Store::open(&path, &options)? } else { Store::create(&path, &options)? };
    let counters = store.keyspace("counters")?;
    let runs = store.get(counters, b"runs")?.and_then(|bytes| bytes.try_into().ok());
    let runs = runs.map_or(0, u64::from_le_bytes) + 1;
    store.put(counters, b"runs", &runs.to_le_bytes(), Durability::Strict)?;
    println!("run {runs}, version {}", store.visible());
    store.close()
}
