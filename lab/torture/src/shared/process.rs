//! The same in a process that is killed: one thread changes the store, another the heap, and each reports what it has done.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tembo_kv::{DomainRequest, Durability, IndexKind, Options, Store};
use tembo_pool::{Pool, PoolOptions};
use tembo_sim::Random;

use super::kinds::kinds;
use crate::judge::{expect, text};
use crate::toys;

/// Keys that the store has at most.
const KEYS: usize = 64;

/// What was reported: a thread (`heap` or a key) and the last number of it.
pub type Reported = BTreeMap<String, u64>;

fn options() -> Options {
    Options::new().domain(DomainRequest::Flush).size(1 << 20)
}

fn pool_options() -> PoolOptions {
    let mut options = PoolOptions { size: 1 << 20, kinds: kinds(), ..PoolOptions::default() };
    options.region.domain = DomainRequest::Flush;
    options.region.size_max = 64 << 20;
    options
}

fn open(path: &Path) -> Result<(Arc<Pool>, Store, Arc<toys::List>), String> {
    if !path.exists() {
        let format = |pool: &Arc<Pool>| {
            Store::format(pool, IndexKind::Nvtree).map_err(text)?;
            toys::add(pool)
        };
        Pool::create_with::<Failed>(path, &pool_options(), |pool| format(pool).map_err(Failed))
            .map_err(|failed| failed.0)?;
    }
    let pool = Arc::new(Pool::open(path, &pool_options()).map_err(text)?);
    let store = Store::start(pool.clone(), &options()).map_err(text)?;
    let list = toys::open(&pool)?;
    Ok((pool, store, list))
}

struct Failed(String);

impl From<tembo_pool::Error> for Failed {
    fn from(error: tembo_pool::Error) -> Failed {
        Failed(text(error))
    }
}

/// Changes the pool at `path`, which is made if there is none, until the process is killed. Each change is reported by `report` when
/// it is durable; then numbers go on from `from`.
///
/// # Errors
/// What went wrong.
pub fn serve(path: &Path, from: u64, report: &(dyn Fn(&str, u64) + Sync)) -> Result<(), String> {
    let (_pool, store, list) = open(path)?;
    std::thread::scope(|scope| {
        let store = scope.spawn(move || change_store(&store, from, report));
        let heap = change_heap(&list, from, report);
        let store = store.join().map_err(|_| "a panic".to_owned())?;
        store.and(heap)
    })
}

fn change_store(store: &Store, from: u64, report: &dyn Fn(&str, u64)) -> Result<(), String> {
    let mut random = Random::new(from);
    let space = store.keyspace("x").map_err(text)?;
    for number in from.. {
        let key = format!("key {}", random.below(KEYS));
        let mut value = number.to_le_bytes().to_vec();
        value.resize(8 + random.below(500), number as u8);
        match store.put(space, key.as_bytes(), &value, Durability::Strict) {
            Ok(_) => report(&key, number),
            // A process that is killed before its sweep has ended leaves little room to the next, until its sweep.
            Err(tembo_kv::Error::Full(_)) => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => return Err(text(error)),
        }
    }
    Ok(())
}

fn change_heap(
    list: &Arc<toys::List>,
    from: u64,
    report: &dyn Fn(&str, u64),
) -> Result<(), String> {
    let mut random = Random::new(from + 1);
    let mut state = list.content()?;
    for number in from.. {
        let op = toys::random_op(&mut random);
        state = toys::run(list, &state, &op, number)?;
        if number % 8 == 0 {
            state = toys::run(list, &state, &toys::Op::Label, number)?;
            report("heap", number);
        }
    }
    Ok(())
}

/// Opens what is left and compares it with what was reported; the greatest number that was used.
///
/// # Errors
/// What is wrong.
pub fn audit(path: &Path, reported: &Reported) -> Result<u64, String> {
    if !path.exists() {
        expect(reported.is_empty(), "the pool is gone")?;
        return Ok(0);
    }
    let (pool, store, list) = open(path)?;
    let content = list.content()?;
    let mut last = content.nodes.iter().map(|(name, _)| *name).max().unwrap_or(0);
    last = last.max(content.label).max(content.values.iter().copied().max().unwrap_or(0));
    let space = store.keyspace("x").map_err(text)?;
    for key in (0..KEYS).map(|key| format!("key {key}")) {
        let value = store.get(space, key.as_bytes()).map_err(text)?;
        let number = match value.as_deref().and_then(|value| value.split_first_chunk::<8>()) {
            Some((number, rest)) => {
                let number = u64::from_le_bytes(*number);
                expect(rest.iter().all(|&byte| byte == number as u8), "a value is torn")?;
                number
            }
            None => 0,
        };
        let wanted = reported.get(&key).copied().unwrap_or(0);
        expect(number >= wanted, &format!("{key} is {number}, reported was {wanted}"))?;
        last = last.max(number);
    }
    let wanted = reported.get("heap").copied().unwrap_or(0);
    expect(content.label >= wanted, &format!("label {}, reported {wanted}", content.label))?;
    // Each has a background: what it is at ends soon.
    let check = loop {
        match pool.check() {
            Err(tembo_pool::Error::TenantBusy { .. }) => std::thread::yield_now(),
            check => break check.map_err(text)?,
        }
    };
    // The sweep has found room, whatever the process left.
    store.put(space, b"audited", &[7; 500], Durability::Strict).map_err(text)?;
    let account = check.account;
    expect(account.accounted_bytes() == account.total, "bytes that are not accounted for")?;
    let lost = (account.leaked, account.dangling);
    expect(lost == (0, 0), &format!("leaked or dangling objects: {account:?}"))?;
    Ok(last)
}
