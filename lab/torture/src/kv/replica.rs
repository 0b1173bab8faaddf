//! A replica under torture: another store's changes at its versions, refused own writes, crashes, rollback, promotion.

use tembo_kv::{Error, IndexKind, Replica, Store};
use tembo_pmem::Region;
use tembo_sim::Random;

use super::model::VERSION_KEY;
use super::op::{At, Write};
use super::{Kv, Op as KvOp, State as KvState};
use crate::judge::{expect, text};
use crate::subject::{Script, Subject};

const KV: Kv = Kv(IndexKind::Nvtree);

/// A store that follows another one.
pub(crate) struct Replicated;

/// Something that is done to it.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// The other store's next version that changes something: so many change nothing before it.
    Apply(u64, bool, Vec<Write>),
    /// An operation that a store does, replica or not.
    Kv(KvOp),
    /// An own write.
    Own(u8),
    /// Promotes the store: it takes writes of its own.
    Promote,
}

/// What it shows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    store: KvState,
    is_promoted: bool,
}

/// It, open.
pub(crate) struct Live {
    store: Store,
    /// Until it is promoted.
    replica: Option<Replica>,
}

impl Live {
    /// A store with keyspaces that takes own writes has been promoted.
    fn of(store: Store) -> Result<Live, String> {
        let is_promoted = !store.keyspaces().is_empty() && takes_writes(&store)?;
        let replica = if is_promoted { None } else { Some(store.replica().map_err(text)?) };
        Ok(Live { store, replica })
    }
}

fn takes_writes(store: &Store) -> Result<bool, String> {
    match store.exclusive() {
        Ok(_) => Ok(true),
        Err(Error::IsReplica) => Ok(false),
        Err(error) => Err(text(error)),
    }
}

/// The last version that was applied, as the data says.
fn noted(state: &KvState) -> u64 {
    let value = state.spaces.get("x").and_then(|map| map.get(VERSION_KEY));
    let bytes = value.and_then(|value| value.first_chunk::<8>());
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The next version of the other store, which was rolled back when this one was.
fn next_version(state: &KvState, skipped: u64) -> u64 {
    let last = state.past.rolled_back.map_or(0, |(_, to)| to + 1);
    // Its keyspaces were made at the second.
    noted(state).max(last).max(1) + 1 + skipped
}

impl Subject for Replicated {
    type Op = Op;
    type State = State;
    type Live = Live;

    fn size(&self) -> (u64, u64) {
        KV.size()
    }

    fn empty(&self) -> State {
        State { store: KV.empty(), is_promoted: false }
    }

    fn make(&self, region: Region, made: &mut dyn FnMut()) -> Result<Live, String> {
        Live::of(KV.make(region, made)?)
    }

    fn open(&self, region: Region) -> Result<Option<Live>, String> {
        KV.open(region)?.map(Live::of).transpose()
    }

    fn show(&self, live: &mut Live) -> Result<State, String> {
        let is_promoted = live.replica.is_none();
        expect(takes_writes(&live.store)? == is_promoted, "a replica refuses own writes")?;
        let store = KV.show(&mut live.store)?;
        if let Some(replica) = &live.replica
            && !store.spaces.is_empty()
        {
            expect(noted(&store) <= replica.applied(), "what was applied is known")?;
        }
        Ok(State { store, is_promoted })
    }

    fn run(&self, live: &mut Live, state: &State, op: &Op, serial: u64) -> Result<State, String> {
        let mut next = state.clone();
        let before = live.store.visible();
        let mut run = |op: &KvOp| KV.run(&mut live.store, &state.store, op, serial);
        match op {
            Op::Apply(skipped, clears, writes) => {
                let at = match &live.replica {
                    // Below the next version there may be a collection of the replica's own; and an empty store becomes one
                    // of what another was at a version not below its own.
                    Some(replica) => {
                        let next = next_version(&state.store, *skipped);
                        At::Version(next.max(replica.applied() + 1))
                    }
                    None => At::Above(*skipped),
                };
                next.store = run(&KvOp::Apply(at, *clears, writes.clone()))?;
            }
            // It could take back the promotion.
            Op::Kv(KvOp::Rollback(_)) if state.is_promoted => {}
            Op::Kv(op) => {
                next.store = run(op)?;
                let (is_back, now) = (matches!(op, KvOp::Rollback(_)), live.store.visible());
                expect(
                    is_back || now == before || state.is_promoted,
                    "a replica draws no version",
                )?;
            }
            Op::Own(n) if state.is_promoted => next.store = run(&KvOp::Put(*n, 9))?,
            Op::Own(_) => expect(!takes_writes(&live.store)?, "a replica takes no own writes")?,
            // One that has applied nothing is empty.
            Op::Promote if state.store.spaces.is_empty() => {}
            Op::Promote => {
                if let Some(replica) = live.replica.take() {
                    replica.promote().map_err(text)?;
                }
                next.is_promoted = true;
            }
        }
        Ok(next)
    }

    fn settle(&self, live: &mut Live) -> Result<(), String> {
        KV.settle(&mut live.store)
    }

    fn check(&self, live: &mut Live, state: &State) -> Result<(), String> {
        KV.check(&mut live.store, &state.store)
    }

    fn recovery(&self) -> Vec<Op> {
        let apply = Op::Apply(0, false, vec![(1, Some(9)), (4, None)]);
        vec![Op::Kv(KvOp::Step), apply, Op::Kv(KvOp::Maintain)]
    }

    fn random_op(&self, random: &mut Random) -> Op {
        let writes = |random: &mut Random| {
            let write = |random: &mut Random| {
                let len = [3, 20, 60, 150][random.below(4)];
                (random.below(12) as u8, (random.below(3) > 0).then_some(len))
            };
            (0..1 + random.below(5)).map(|_| write(random)).collect()
        };
        match random.below(24) {
            0..=11 => Op::Apply(random.below(3) as u64, random.below(8) == 0, writes(random)),
            12..=14 => Op::Kv(KvOp::Step),
            15 => Op::Kv(KvOp::Maintain),
            16 => Op::Kv(KvOp::Save(["s", "t"][random.below(2)])),
            17 => Op::Kv(KvOp::Rollback(["s", "t"][random.below(2)])),
            18 => Op::Kv(KvOp::Drop(["s", "t"][random.below(2)])),
            19 => Op::Kv([KvOp::Forget, KvOp::Keep, KvOp::Retain][random.below(3)].clone()),
            20 if random.below(4) == 0 => Op::Promote,
            _ => Op::Own(random.below(12) as u8),
        }
    }

    fn alphabet(&self) -> Vec<Op> {
        let kv = [
            KvOp::Save("s"),
            KvOp::Rollback("s"),
            KvOp::Keep,
            KvOp::Step,
            KvOp::StepElsewhere,
            KvOp::Maintain,
        ];
        let own = [
            Op::Apply(0, false, vec![(1, Some(9)), (2, None), (3, Some(70))]),
            Op::Apply(2, true, vec![(1, Some(30))]),
            Op::Own(3),
            Op::Promote,
        ];
        own.into_iter().chain(kv.into_iter().map(Op::Kv)).collect()
    }

    fn starts(&self) -> Vec<Vec<Op>> {
        let apply = |skipped, keys: std::ops::Range<u8>| {
            Op::Apply(skipped, false, keys.map(|key| (key, Some(20))).collect())
        };
        let save = |name| Op::Kv(KvOp::Save(name));
        let removed = || Op::Apply(0, false, (1..9).map(|key| (key, None)).collect());
        vec![
            vec![],
            vec![apply(0, 0..3)],
            vec![apply(1, 0..6), save("s"), apply(0, 4..9), Op::Kv(KvOp::Maintain)],
            vec![apply(0, 0..10), removed(), save("s"), apply(3, 0..2)],
        ]
    }

    fn scripts(&self) -> Vec<Script<Op>> {
        let apply = |skipped, clears| {
            Op::Apply(skipped, clears, vec![(1, Some(9)), (6, Some(90)), (2, None), (9, Some(4))])
        };
        let kv = Op::Kv;
        let mut list = vec![Script::new("making", 0, vec![apply(0, false), apply(0, false)])];
        for start in 1..4 {
            let collected =
                vec![apply(3, false), kv(KvOp::Maintain), apply(3, true), apply(0, false)];
            list.push(Script::new(format!("collected-{start}"), start, collected));
            let back =
                vec![kv(KvOp::Save("t")), apply(0, false), kv(KvOp::Rollback("t")), apply(0, true)];
            list.push(Script::new(format!("back-{start}"), start, back));
            let promoted = vec![Op::Promote, Op::Own(1), apply(1, false), kv(KvOp::Maintain)];
            list.push(Script::new(format!("promoted-{start}"), start, promoted));
            // Another thread scrubs what the open has found in flight, and forgets it.
            let mut elsewhere = vec![kv(KvOp::StepElsewhere); 4];
            elsewhere.extend([apply(0, false), apply(0, true)]);
            list.push(Script::new(format!("elsewhere-{start}"), start, elsewhere));
            // The version that was in flight is given again, before, in and behind the scrub.
            for (which, lead) in
                [apply(0, false), apply(2, true), Op::Promote].into_iter().enumerate()
            {
                for steps in 0..3 {
                    let mut ops = vec![kv(KvOp::Step); steps];
                    ops.extend([apply(0, false), kv(KvOp::Step), apply(0, true), Op::Own(1)]);
                    let leads = vec![(vec![lead.clone()], Some("kv.commit.word"))];
                    let name = format!("again-{start}-{which}-{steps}");
                    list.push(Script { leads, ..Script::new(name, start, ops) });
                }
            }
        }
        list
    }
}
