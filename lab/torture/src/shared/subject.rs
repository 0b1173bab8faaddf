//! Both under the crash explorer.

use std::sync::Arc;

use tembo_kv::{IndexKind, Store};
use tembo_pmem::Region;
use tembo_pool::{Geometry, Pool};
use tembo_sim::Random;

use super::kinds::kinds;
use crate::judge::{expect, text};
use crate::kv::{self, Kv};
use crate::pooled::{expect_accounted, formatted_of};
use crate::subject::{Script, Subject, elsewhere};
use crate::toys::{self, Content, List, Toys};

const KV: Kv = Kv(IndexKind::Nvtree);

/// The pool of a store and a heap.
pub(crate) struct Shared;

/// Something that is done to one of them.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Store(kv::Op),
    /// By another thread: what it has not flushed itself was made durable before.
    StoreElsewhere(kv::Op),
    Heap(toys::Op),
}

/// What both show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    store: kv::State,
    heap: Content,
}

/// Both, open.
pub(crate) struct Live {
    pool: Arc<Pool>,
    store: Store,
    list: Arc<List>,
}

impl Live {
    fn of(pool: Pool) -> Result<Live, String> {
        let pool = Arc::new(pool);
        let store = kv::start(pool.clone()).map_err(text)?;
        let list = toys::open(&pool)?;
        Ok(Live { pool, store, list })
    }
}

impl Subject for Shared {
    type Op = Op;
    type State = State;
    type Live = Live;

    fn size(&self) -> (u64, u64) {
        (kv::SIZE, kv::SIZE)
    }

    fn empty(&self) -> State {
        State::default()
    }

    fn make(&self, region: Region, made: &mut dyn FnMut()) -> Result<Live, String> {
        Pool::format(&region, Geometry::TINY).map_err(text)?;
        let pool = Pool::from_region_of(region, kinds()).map_err(text)?;
        Store::format(&pool, IndexKind::Nvtree).map_err(text)?;
        toys::add(&pool)?;
        made();
        Live::of(pool)
    }

    fn open(&self, region: Region) -> Result<Option<Live>, String> {
        let Some(pool) = formatted_of(region, kinds())? else { return Ok(None) };
        if pool.tenants().map_err(text)?.len() < 2 {
            return Ok(None);
        }
        Live::of(pool).map(Some)
    }

    fn show(&self, live: &mut Live) -> Result<State, String> {
        Ok(State { store: KV.show(&mut live.store)?, heap: live.list.content()? })
    }

    fn run(&self, live: &mut Live, state: &State, op: &Op, serial: u64) -> Result<State, String> {
        let mut next = state.clone();
        match op {
            Op::Store(op) => next.store = KV.run(&mut live.store, &state.store, op, serial)?,
            Op::StoreElsewhere(op) => {
                next.store = elsewhere(|| KV.run(&mut live.store, &state.store, op, serial))??;
            }
            Op::Heap(op) => next.heap = toys::run(&live.list, &state.heap, op, serial)?,
        }
        Ok(next)
    }

    fn settle(&self, live: &mut Live) -> Result<(), String> {
        KV.settle(&mut live.store)
    }

    fn check(&self, live: &mut Live, state: &State) -> Result<(), String> {
        KV.check(&mut live.store, &state.store)?;
        let check = live.pool.check().map_err(text)?;
        expect_accounted(&check.account, kv::SIZE)?;
        let lost = (check.account.leaked, check.account.dangling);
        expect(lost == (0, 0) && !check.account.recovering, "leaked or dangling objects")?;
        let objects = state.heap.objects();
        let found = check.tenants.iter().map(|(_, found)| found.objects).sum::<u64>();
        let heap = check.tenants.iter().find(|(name, _)| name == "toys");
        let heap = heap.ok_or("no toys")?.1.objects;
        expect(heap == objects, "the heap's objects are not counted right")?;
        let pending = check.tenants.iter().map(|(_, found)| found.pending).sum::<u64>();
        // Beside the tenants' there is only the log; what waits to be freed is in part reachable still.
        let all = found..=found + pending + 1;
        expect(all.contains(&check.account.objects), "objects that are no tenant's")
    }

    fn recovery(&self) -> Vec<Op> {
        vec![Op::Store(kv::Op::Step), Op::Heap(toys::Op::Sweep), Op::Store(kv::Op::Maintain)]
    }

    fn random_op(&self, random: &mut Random) -> Op {
        match random.below(2) {
            0 => Op::Store(KV.random_op(random)),
            _ => Op::Heap(Toys.random_op(random)),
        }
    }

    fn alphabet(&self) -> Vec<Op> {
        let store = [kv::Op::Put(0, 10), kv::Op::Single(0), kv::Op::Step, kv::Op::Maintain];
        let heap = [
            toys::Op::Push(true),
            toys::Op::Remove(1),
            toys::Op::Both(0, 1),
            toys::Op::Clear,
            toys::Op::Sweep,
        ];
        store.into_iter().map(Op::Store).chain(heap.into_iter().map(Op::Heap)).collect()
    }

    fn starts(&self) -> Vec<Vec<Op>> {
        let some = |number: usize| KV.starts().get(number).cloned().unwrap_or_default();
        let both = |number: usize| {
            let store = some(number).into_iter().map(Op::Store);
            let pushes = [toys::Op::Push(true), toys::Op::Push(false), toys::Op::Push(false)];
            store.chain(pushes.into_iter().map(Op::Heap)).collect()
        };
        vec![vec![], both(1), both(2)]
    }

    fn scripts(&self) -> Vec<Script<Op>> {
        let (store, heap) = (Op::Store, Op::Heap);
        let aborted = || store(kv::Op::Abort(vec![(1, Some(9)), (6, Some(9)), (2, None)]));
        let ops = vec![
            aborted(),
            heap(toys::Op::Clear),
            store(kv::Op::Step),
            heap(toys::Op::Sweep),
            heap(toys::Op::Push(true)),
            heap(toys::Op::Sweep),
            store(kv::Op::Maintain),
        ];
        let mut list = vec![
            Script::new("making", 0, vec![heap(toys::Op::Push(true))]),
            Script::new("sweeps", 2, ops.clone()),
        ];
        // What the heap has given up, and its last operation names, is the store's next.
        let lost = (0..4).map(|key| store(kv::Op::Put(key, 10)));
        let lost = [heap(toys::Op::Lose(1))].into_iter().chain(lost);
        list.push(Script::new("lost", 2, lost.collect()));
        // The same, by other threads than the one that has swept. It has settled the store before, which fences, too.
        let taken = (0..4).map(|key| Op::StoreElsewhere(kv::Op::Put(key, 10)));
        let lost = [heap(toys::Op::Sweep), heap(toys::Op::Lose(1))].into_iter().chain(taken);
        list.push(Script::new("lost-elsewhere", 2, lost.collect()));
        // The heap sweeps first what the store has left in flight, and the other way round.
        let in_flight = store(kv::Op::Tx(vec![(1, Some(9)), (6, Some(90)), (2, None)]));
        let leads = vec![(vec![in_flight], Some("kv.commit.word"))];
        let sweeps =
            vec![heap(toys::Op::Sweep), heap(toys::Op::Push(true)), store(kv::Op::Put(7, 90))];
        list.push(Script { leads, ..Script::new("in-flight", 1, sweeps) });
        let leads = vec![(vec![heap(toys::Op::Clear)], Some("pool.log.done.fence"))];
        list.push(Script { leads, ..Script::new("unfinished", 2, ops) });
        list
    }
}
