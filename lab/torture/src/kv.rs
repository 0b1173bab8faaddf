//! The store under torture: transactions, keyspaces, snapshots, rollback, recovery.

mod apply;
mod model;
mod op;
mod optimistic;
mod past;
mod prepared;
mod ranges;
mod replica;
mod runner;
mod scripts;

use std::sync::Arc;

use tembo_kv::{Error, IndexKind, Options, Store};
use tembo_pmem::{Region, RegionOptions};
use tembo_pool::{Geometry, Pool, PoolOptions};
use tembo_sim::Random;

use crate::judge::{expect, text};
use crate::pooled::{expect_accounted, stored};
use crate::stacked::InStore;
use crate::subject::{Script, Subject};
pub(crate) use model::State;
pub(crate) use op::Op;
pub(crate) use replica::Replicated;
pub(crate) use runner::{Runner, maintain};

pub(crate) const SIZE: u64 = 256 << 10;

/// Two short writes: what has more is made in place before it is committed.
const TRANSACTION_MEMORY: usize = 400;

/// The store, in nodes of four entries or leaves of six.
pub(crate) struct Kv(pub(crate) IndexKind);

pub(crate) fn options() -> Options {
    let region = RegionOptions { size_max: SIZE, ..RegionOptions::default() };
    let pool_options = PoolOptions { region, ..PoolOptions::default() };
    Options::new().pool(pool_options).background(false).transaction_memory(TRANSACTION_MEMORY)
}

pub(crate) fn start(pool: impl Into<Arc<Pool>>) -> Result<Store, Error> {
    Store::start(pool, &options())
}

impl Subject for Kv {
    type Op = Op;
    type State = State;
    type Live = Store;

    fn size(&self) -> (u64, u64) {
        (SIZE, SIZE)
    }

    fn empty(&self) -> State {
        State::default()
    }

    fn make(&self, region: Region, made: &mut dyn FnMut()) -> Result<Store, String> {
        Pool::format(&region, Geometry::TINY).map_err(text)?;
        let pool = Pool::from_region_of(region, tembo_kv::kinds()).map_err(text)?;
        Store::format(&pool, self.0).map_err(text)?;
        made();
        start(pool).map_err(text)
    }

    fn open(&self, region: Region) -> Result<Option<Store>, String> {
        stored(region)?.map(start).transpose().map_err(text)
    }

    fn show(&self, live: &mut Store) -> Result<State, String> {
        State::of(live)
    }

    fn run(&self, live: &mut Store, state: &State, op: &Op, serial: u64) -> Result<State, String> {
        let mut runner = Runner { store: live, state: state.clone(), serial };
        runner.run(op)?;
        Ok(runner.state)
    }

    fn close(&self, live: Store, op: &Op) -> Result<Option<Store>, String> {
        if !matches!(op, Op::Cut) {
            return Ok(Some(live));
        }
        runner::compact(&live, !live.prepared().is_empty())?;
        live.close().map_err(text)?;
        Ok(None)
    }

    fn settle(&self, live: &mut Store) -> Result<(), String> {
        maintain(live)
    }

    fn check(&self, live: &mut Store, state: &State) -> Result<(), String> {
        let check = live.check().map_err(text)?;
        expect_accounted(&check.account, live.report().pool_bytes)?;
        if check.leaked > 0 {
            return Err(format!("leaked: {check:?}"));
        }
        expect(check.keyspaces.len() == state.spaces.len(), "check sees other keyspaces")?;
        let len = |name: &str| state.spaces.get(name).map(|space| space.len() as u64);
        let keyspaces = live.keyspaces();
        match live.exclusive() {
            Ok(tx) => {
                for (name, space) in keyspaces {
                    let (count, len) = (tx.count(space), len(&name));
                    if count != len {
                        return Err(format!("a count is {count:?}, and should be {len:?}"));
                    }
                }
            }
            Err(Error::IsReplica) => {}
            Err(error) => return Err(text(error)),
        }
        for (name, report) in &check.keyspaces {
            expect(Some(report.entry_count) == len(name), "check counts wrong")?;
        }
        Ok(())
    }

    fn recovery(&self) -> Vec<Op> {
        vec![Op::Step, Op::Maintain]
    }

    fn random_op(&self, random: &mut Random) -> Op {
        op::random_op(random)
    }

    fn alphabet(&self) -> Vec<Op> {
        scripts::alphabet()
    }

    fn starts(&self) -> Vec<Vec<Op>> {
        scripts::starts()
    }

    fn scripts(&self) -> Vec<Script<Op>> {
        scripts::all()
    }
}

impl InStore for Kv {
    fn make_in(&self, store: Store) -> Result<Store, String> {
        Ok(store)
    }

    fn open_in(&self, store: Store) -> Result<Option<Store>, String> {
        Ok(Some(store))
    }

    fn store_of(&self, live: &Store) -> Store {
        live.clone()
    }

    fn first(&self) -> Option<Op> {
        Some(Op::Keyspace("x"))
    }

    fn check_in(&self, _: &mut Store) -> Result<(), String> {
        Ok(())
    }
}
