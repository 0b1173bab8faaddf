//! Two stores in one pool under the crash explorer: each changes, sweeps are driven by either, and a crash leaves both
//! whole.

use std::sync::Arc;

use tembo_kv::{IndexKind, Options, Pool as Stores, Store};
use tembo_pmem::Region;
use tembo_pool::{Geometry, Pool};
use tembo_sim::Random;

use crate::judge::{expect, text};
use crate::kv::{self, Kv, Op as KvOp, State as KvState};
use crate::pooled::{expect_accounted, formatted_of};
use crate::subject::{Script, Subject};

const KINDS: [IndexKind; 2] = [IndexKind::Nvtree, IndexKind::Cdds];
const NAMES: [&str; 2] = ["first", "second"];

/// The pool of two stores, over an index of each kind.
pub(crate) struct TwoStores;

/// Something that is done to one of them.
#[derive(Clone, Debug)]
pub(crate) struct Op(usize, KvOp);

/// What both show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State([KvState; 2]);

/// Both, open.
pub(crate) struct Live {
    pool: Stores,
    stores: [Store; 2],
}

fn options(which: usize) -> Options {
    kv::options().index(KINDS[which])
}

fn stores(pool: impl Into<Arc<Pool>>) -> Stores {
    Stores::of(pool, &options(0))
}

impl Subject for TwoStores {
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
        let pool = stores(Pool::from_region_of(region, tembo_kv::kinds()).map_err(text)?);
        let store = |which: usize| pool.create_store(NAMES[which], &options(which)).map_err(text);
        let stores = [store(0)?, store(1)?];
        made();
        Ok(Live { pool, stores })
    }

    fn open(&self, region: Region) -> Result<Option<Live>, String> {
        let Some(pool) = formatted_of(region, tembo_kv::kinds())? else { return Ok(None) };
        if pool.tenants().map_err(text)?.len() < 2 {
            return Ok(None);
        }
        let pool = stores(pool);
        let store = |which: usize| pool.store(NAMES[which]).map_err(text);
        let stores = [store(0)?, store(1)?];
        Ok(Some(Live { pool, stores }))
    }

    fn show(&self, live: &mut Live) -> Result<State, String> {
        let [first, second] = &mut live.stores;
        Ok(State([kv(0).show(first)?, kv(1).show(second)?]))
    }

    fn run(&self, live: &mut Live, state: &State, op: &Op, serial: u64) -> Result<State, String> {
        let Op(which, op) = op;
        let mut next = state.clone();
        next.0[*which] = kv(*which).run(&mut live.stores[*which], &state.0[*which], op, serial)?;
        Ok(next)
    }

    fn settle(&self, live: &mut Live) -> Result<(), String> {
        live.stores.iter().try_for_each(kv::maintain)
    }

    fn check(&self, live: &mut Live, state: &State) -> Result<(), String> {
        for which in 0..2 {
            kv(which).check(&mut live.stores[which], &state.0[which])?;
        }
        let check = live.pool.check().map_err(text)?;
        expect_accounted(&check.account, kv::SIZE)?;
        let lost = (check.account.leaked, check.account.dangling);
        expect(lost == (0, 0) && !check.account.recovering, "leaked or dangling objects")
    }

    fn recovery(&self) -> Vec<Op> {
        vec![Op(1, KvOp::Step), Op(0, KvOp::Step), Op(1, KvOp::Maintain), Op(0, KvOp::Maintain)]
    }

    fn random_op(&self, random: &mut Random) -> Op {
        let which = random.below(2);
        Op(which, kv(which).random_op(random))
    }

    fn alphabet(&self) -> Vec<Op> {
        let both = |op: KvOp| [Op(0, op.clone()), Op(1, op)];
        let ops = [
            KvOp::Put(0, 10),
            KvOp::Tx(vec![(1, Some(9)), (2, Some(80)), (0, None)]),
            KvOp::Abort(vec![(1, Some(9)), (8, Some(3))]),
            KvOp::Clear(vec![(2, Some(4))]),
            KvOp::Step,
            KvOp::Maintain,
        ];
        ops.into_iter().flat_map(both).collect()
    }

    fn starts(&self) -> Vec<Vec<Op>> {
        let some = |which: usize, number: usize| {
            let ops = kv(which).starts().get(number).cloned().unwrap_or_default();
            ops.into_iter().map(move |op| Op(which, op))
        };
        let both = |first, second| some(0, first).chain(some(1, second)).collect();
        vec![vec![], both(1, 1), both(2, 3)]
    }

    fn scripts(&self) -> Vec<Script<Op>> {
        let tx = |which| Op(which, KvOp::Tx(vec![(1, Some(9)), (6, Some(90)), (2, None)]));
        let (step, maintain) = (|which| Op(which, KvOp::Step), |which| Op(which, KvOp::Maintain));
        let mut list = vec![Script::new("making", 0, vec![Op(1, KvOp::Keyspace("x"))])];
        for start in 1..3 {
            for one in 0..2 {
                let other = 1 - one;
                // One sweeps first what the other has left in flight.
                let leads = vec![(vec![tx(one)], Some("kv.commit.word"))];
                let ops = vec![step(other), tx(other), step(one), tx(one), maintain(other)];
                let name = format!("in-flight-{start}-{one}");
                list.push(Script { leads, ..Script::new(name, start, ops) });
                // Both have left something.
                let abort = |which| Op(which, KvOp::Abort(vec![(1, Some(9)), (6, Some(9))]));
                let clear = |which| Op(which, KvOp::Clear(vec![(2, Some(4))]));
                let ops = vec![
                    abort(one),
                    clear(other),
                    step(one),
                    abort(other),
                    step(other),
                    clear(one),
                    maintain(one),
                    maintain(other),
                ];
                list.push(Script::new(format!("sweeps-{start}-{one}"), start, ops));
            }
        }
        list
    }
}

fn kv(which: usize) -> Kv {
    Kv(KINDS[which])
}
