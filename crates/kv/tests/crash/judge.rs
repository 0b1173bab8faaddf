//! What must be true of every image.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Once};

use tembo_kv::{Options, Store};
use tembo_pmem::{Observer, Region, RegionOptions};
use tembo_pool::{Pool, PoolOptions};

use crate::model::{Runner, State, expect, maintain, random_op, text};
use crate::random::Random;
use crate::recorder::Memory;

/// How much is asked of a recovered store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Operations that it must go on with.
    pub(crate) steps: usize,
    /// Opens it a second time, before and after those.
    pub(crate) again: bool,
}

pub(crate) fn pool(image: &[u8], observer: Option<Arc<dyn Observer>>) -> Result<Pool, String> {
    let region = RegionOptions { observer, size_max: image.len() as u64, ..Default::default() };
    Pool::from_region(Region::from_image(image, &region).map_err(text)?).map_err(text)
}

pub(crate) fn options(image: &[u8]) -> Options {
    let region = RegionOptions { size_max: image.len() as u64, ..RegionOptions::default() };
    Options { pool: PoolOptions { region, ..PoolOptions::default() }, background: false }
}

pub(crate) fn open(image: &[u8]) -> Result<(Store, Memory), String> {
    let pool = pool(image, None)?;
    let memory = Memory::of(pool.region());
    Ok((Store::start(pool, &options(image)).map_err(text)?, memory))
}

thread_local! {
    static JUDGING: Cell<bool> = const { Cell::new(false) };
}

/// Panics of the store are violations like others: told by the judge, not by the hook.
fn hush() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !JUDGING.get() {
                hook(info);
            }
        }));
    });
}

/// Opens the image: one of the `acceptable` states must be there, whole, and the store goes on.
/// Which one it was.
pub(crate) fn judge(image: &[u8], acceptable: &[State], effort: Effort) -> Result<State, String> {
    hush();
    JUDGING.set(true);
    let judged = catch_unwind(AssertUnwindSafe(|| judge_in(image, acceptable, effort)));
    JUDGING.set(false);
    judged.unwrap_or_else(|cause| {
        let text = cause.downcast_ref::<String>().map(String::as_str);
        let text = text.or(cause.downcast_ref::<&str>().copied());
        Err(format!("panic: {}", text.unwrap_or("?")))
    })
}

fn judge_in(image: &[u8], acceptable: &[State], effort: Effort) -> Result<State, String> {
    let absent = acceptable.iter().find(|state| state.absent);
    let (store, memory) = match (open(image), absent) {
        (Err(what), Some(absent)) if what.contains("a store's root") => return Ok(absent.clone()),
        (opened, _) => opened?,
    };
    let found = State::of(&store)?;
    if !acceptable.contains(&found) {
        let brief: Vec<String> = acceptable.iter().map(State::brief).collect();
        return Err(format!("found {}\nbut expected one of {brief:#?}", found.brief()));
    }
    if effort.again {
        let (again, _) = open(&memory.all())?;
        expect(State::of(&again)? == found, "opened again, it shows something else")?;
    }
    maintain(&store)?;
    expect(State::of(&store)? == found, "recovery has changed what is there")?;
    check(&store, &found, image.len() as u64)?;
    let mut runner = Runner { store: &store, state: found.clone(), serial: 1000 };
    let mut random =
        Random(image.iter().step_by(97).fold(7, |a, &b| a * 31 % 1_000_003 + u64::from(b)));
    let mut done = Vec::new();
    for step in 0..effort.steps {
        let op = random_op(&mut random);
        done.push(op.clone());
        let went = runner.run(&op).and_then(|()| {
            let state = State::of(&store)?;
            expect(state == runner.state, "the store and the model differ")
        });
        went.map_err(|what| format!("going on, step {step}, {op:?}: {what}"))?;
    }
    if effort.steps > 0 {
        maintain(&store)?;
        check(&store, &runner.state, image.len() as u64)
            .map_err(|e| format!("at the end of {done:?}: {e}"))?;
    }
    if effort.again {
        let (again, _) = open(&memory.all())?;
        expect(State::of(&again)? == runner.state, "opened at the end, it shows something else")?;
        maintain(&again)?;
        check(&again, &runner.state, image.len() as u64)?;
    }
    Ok(found)
}

/// The store is sound, and every byte accounted for.
fn check(store: &Store, state: &State, size: u64) -> Result<(), String> {
    let check = store.check().map_err(text)?;
    let account = check.account;
    if check.leaked > 0 {
        return Err(format!("leaked: {check:?}"));
    }
    let sum = account.metadata_bytes
        + account.object_bytes
        + account.free_bytes
        + account.above_frontier_bytes;
    expect(account.total == size && sum == size, "bytes that are not accounted for")?;
    expect(check.keyspaces.len() == state.spaces.len(), "check sees other keyspaces")?;
    let keyspaces = store.keyspaces();
    let tx = store.transaction().map_err(text)?;
    for (name, space) in keyspaces {
        let len = state.spaces[&name].len() as u64;
        expect(tx.count(space) == Some(len), "a count is wrong")?;
    }
    for (name, report) in &check.keyspaces {
        expect(report.entry_count == state.spaces[name].len() as u64, "check counts wrong")?;
    }
    Ok(())
}
