//! Devices of blocks under the crash explorer: multi-part writes to several of them, clones, removals.

use std::collections::BTreeMap;
use std::sync::Arc;

use tembo_array::{Array, Device, DeviceOptions, Error, Isolation, Transaction};
use tembo_kv::{Durability, IndexKind, Store};
use tembo_pmem::Region;
use tembo_pool::{Geometry, Pool};
use tembo_sim::Random;

use crate::judge::{expect, text};
use crate::kv::{self, SIZE, maintain};
use crate::pooled::{expect_accounted, stored};
use crate::subject::{Script, Subject};

const BLOCK: usize = 512;

/// Devices that there may be.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Blocks that are written to.
const BLOCKS: u64 = 5;

/// Blocks in a run, of the devices that have runs: those that are made by the first and the third name, and clones of them.
const RUN: usize = 2;

/// Devices of a store over an index of that kind.
pub(crate) struct Devices(pub(crate) IndexKind);

/// A change of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edit {
    /// Writes so many bytes at an offset.
    Write(u64, usize),
    Discard(u64, u64),
    Len(u64),
    /// The number of the edit as its tag.
    Tag,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Create(usize),
    Remove(usize),
    /// The second begins as the first is.
    Clone(usize, usize),
    /// Makes one write, which commits by itself.
    Atomic(usize, u64, usize),
    /// Makes one transaction over several devices.
    Tx(Isolation, Vec<(usize, Edit)>),
    /// The same, and dropped.
    Abort(Vec<(usize, Edit)>),
    /// The first and the last of these: between them it goes back to a savepoint.
    TakenBack([Vec<(usize, Edit)>; 3]),
    /// Makes a transaction for each of these devices, and commits them together.
    Together(Vec<(usize, Edit)>),
    Step,
    Maintain,
}

/// The content of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Contents {
    bytes: Vec<u8>,
    tag: u64,
}

/// The contents of all devices.
pub(crate) type State = BTreeMap<&'static str, Contents>;

/// A store, and its devices.
pub(crate) struct Live {
    store: Store,
    array: Array,
}

fn start(pool: impl Into<Arc<Pool>>) -> Result<Live, String> {
    let store = kv::start(pool).map_err(text)?;
    let array = Array::open(&store).map_err(text)?;
    Ok(Live { store, array })
}

fn bytes(serial: u64, len: usize) -> Vec<u8> {
    (0..len).map(|i| (serial as usize * 37 + i / 8 + 1) as u8).collect()
}

impl Edit {
    fn model(self, Contents { bytes: device, tag }: &mut Contents, serial: u64) {
        match self {
            Edit::Write(offset, len) => {
                let (from, to) = (offset as usize, offset as usize + len);
                device.resize(device.len().max(to), 0);
                device[from..to].copy_from_slice(&bytes(serial, len));
            }
            Edit::Discard(offset, len) => {
                let to = device.len().min((offset + len) as usize);
                let from = to.min(offset as usize);
                device[from..to].fill(0);
            }
            Edit::Len(len) => device.resize(len as usize, 0),
            Edit::Tag => *tag = serial,
        }
    }

    fn run(self, tx: &mut Transaction, device: &Device, serial: u64) -> Result<(), Error> {
        match self {
            Edit::Write(offset, len) => tx.write(device, offset, &bytes(serial, len)),
            Edit::Discard(offset, len) => tx.discard(device, offset, len),
            Edit::Len(len) => tx.set_len(device, len),
            Edit::Tag => tx.set_tag(device, serial),
        }
    }
}

/// Makes edits of devices that there are, in the model and in a transaction.
struct Editing<'e> {
    array: &'e Array,
    tx: Transaction,
    state: State,
    serial: u64,
}

impl Editing<'_> {
    fn make(&mut self, edits: &[(usize, Edit)]) -> Result<(), String> {
        for &(name, edit) in edits {
            self.serial += 1;
            let Some(model) = self.state.get_mut(NAMES[name]) else { continue };
            let device = self.array.device(NAMES[name]).map_err(text)?;
            edit.run(&mut self.tx, &device, self.serial).map_err(text)?;
            edit.model(model, self.serial);
            let mut seen = vec![0xaa; self.tx.len(&device).map_err(text)? as usize];
            self.tx.read(&device, 0, &mut seen).map_err(text)?;
            let tag = self.tx.tag(&device).map_err(text)?;
            expect(seen == model.bytes && tag == model.tag, "a transaction sees its writes")?;
        }
        Ok(())
    }
}

impl Live {
    fn editing(
        &self,
        isolation: Isolation,
        state: &State,
        serial: u64,
    ) -> Result<Editing<'_>, String> {
        let tx = self.array.transaction(isolation).map_err(text)?;
        Ok(Editing { array: &self.array, tx, state: state.clone(), serial })
    }

    fn taken_back(
        &self,
        state: &State,
        [before, between, after]: &[Vec<(usize, Edit)>; 3],
        serial: u64,
    ) -> Result<State, String> {
        let mut editing = self.editing(Isolation::FirstCommitter, state, serial)?;
        editing.make(before)?;
        let (point, kept) = (editing.tx.savepoint(), editing.state.clone());
        editing.make(between)?;
        editing.tx.rollback_to(point).map_err(text)?;
        editing.state = kept;
        editing.make(after)?;
        editing.tx.commit(Durability::Strict).map_err(text)?;
        Ok(editing.state)
    }

    fn change(&self, state: &State, op: &Op, serial: u64) -> Result<State, String> {
        let strict = Durability::Strict;
        let first = Isolation::FirstCommitter;
        let mut next = state.clone();
        match op {
            Op::Create(name) => {
                let run_blocks = if name.is_multiple_of(2) { RUN } else { 1 };
                let options =
                    DeviceOptions { block_size: BLOCK, run_blocks, ..DeviceOptions::default() };
                let made = self.array.create(NAMES[*name], options);
                match state.contains_key(NAMES[*name]) {
                    true => expect(matches!(made, Err(Error::DeviceExists { .. })), "exists")?,
                    false => drop(made.map_err(text)?),
                }
                next.entry(NAMES[*name]).or_default();
            }
            Op::Remove(name) => {
                if next.remove(NAMES[*name]).is_some() {
                    let device = self.array.device(NAMES[*name]).map_err(text)?;
                    self.array.remove(&device).map_err(text)?;
                }
            }
            Op::Clone(of, name) => {
                let new = !state.contains_key(NAMES[*name]);
                if let Some(bytes) = state.get(NAMES[*of]).filter(|_| new) {
                    let device = self.array.device(NAMES[*of]).map_err(text)?;
                    let snapshot = device.snapshot().map_err(text)?;
                    self.array.clone_device(&snapshot, NAMES[*name]).map_err(text)?;
                    next.insert(NAMES[*name], bytes.clone());
                }
            }
            Op::Atomic(name, offset, len) => {
                if let Some(model) = next.get_mut(NAMES[*name]) {
                    let device = self.array.device(NAMES[*name]).map_err(text)?;
                    let data = bytes(serial, *len);
                    self.array.write(&device, *offset, &data, strict).map_err(text)?;
                    Edit::Write(*offset, *len).model(model, serial);
                }
            }
            Op::Tx(isolation, edits) => {
                let mut editing = self.editing(*isolation, state, serial)?;
                editing.make(edits)?;
                editing.tx.commit(strict).map_err(text)?;
                next = editing.state;
            }
            Op::Abort(edits) => self.editing(first, state, serial)?.make(edits)?,
            Op::TakenBack(edits) => next = self.taken_back(state, edits, serial)?,
            Op::Together(edits) => {
                let mut all = BTreeMap::new();
                for &(name, edit) in edits {
                    let mut editing = self.editing(first, &next, serial)?;
                    if all.contains_key(&name) {
                        continue;
                    }
                    editing.make(&[(name, edit)])?;
                    next = editing.state;
                    all.insert(name, editing.tx);
                }
                Transaction::commit_all(all.into_values().collect(), strict).map_err(text)?;
            }
            Op::Step => drop(self.store.maintain(1).map_err(text)?),
            Op::Maintain => maintain(&self.store)?,
        }
        Ok(next)
    }
}

impl Subject for Devices {
    type Op = Op;
    type State = State;
    type Live = Live;

    fn size(&self) -> (u64, u64) {
        (SIZE, SIZE)
    }

    fn empty(&self) -> State {
        State::new()
    }

    fn make(&self, region: Region, made: &mut dyn FnMut()) -> Result<Live, String> {
        Pool::format(&region, Geometry::TINY).map_err(text)?;
        let pool = Pool::from_region_of(region, tembo_kv::kinds()).map_err(text)?;
        Store::format(&pool, self.0).map_err(text)?;
        made();
        start(pool)
    }

    fn open(&self, region: Region) -> Result<Option<Live>, String> {
        stored(region)?.map(start).transpose()
    }

    fn show(&self, live: &mut Live) -> Result<State, String> {
        let mut state = State::new();
        for name in live.array.devices().map_err(text)? {
            let known = NAMES.iter().find(|known| **known == name).ok_or("an unknown device")?;
            let snapshot = live.array.device(&name).and_then(|device| device.snapshot());
            let snapshot = snapshot.map_err(text)?;
            let mut bytes = vec![0xaa; snapshot.len() as usize];
            snapshot.read_at(0, &mut bytes).map_err(text)?;
            state.insert(known, Contents { bytes, tag: snapshot.tag() });
        }
        Ok(state)
    }

    fn run(&self, live: &mut Live, state: &State, op: &Op, serial: u64) -> Result<State, String> {
        live.change(state, op, serial)
    }

    fn settle(&self, live: &mut Live) -> Result<(), String> {
        maintain(&live.store)
    }

    fn check(&self, live: &mut Live, state: &State) -> Result<(), String> {
        let found = live.array.check().map_err(text)?;
        expect(found.stray == 0, "blocks of no device")?;
        expect(found.devices == state.len() as u64, "a check counts devices")?;
        let check = live.store.check().map_err(text)?;
        expect_accounted(&check.account, live.store.report().pool_bytes)?;
        expect(check.leaked == 0, "leaked objects")
    }

    fn recovery(&self) -> Vec<Op> {
        vec![Op::Step, Op::Maintain]
    }

    fn random_op(&self, random: &mut Random) -> Op {
        match random.below(16) {
            0..=1 => Op::Create(random.below(4)),
            2 => Op::Remove(random.below(4)),
            3 => Op::Clone(random.below(4), random.below(4)),
            4..=6 => {
                let block = random.below(BLOCKS as usize) as u64;
                let (offset, len) =
                    [(0, BLOCK), (0, RUN * BLOCK), (0, 2 * RUN * BLOCK), (400, 300)]
                        [random.below(4)];
                Op::Atomic(random.below(4), block * BLOCK as u64 + offset, len)
            }
            7..=8 => Op::Tx(Isolation::None, edits(random)),
            9..=10 => Op::Tx(Isolation::FirstCommitter, edits(random)),
            11 => Op::Abort(edits(random)),
            12 => Op::TakenBack([edits(random), edits(random), edits(random)]),
            13 => Op::Together(edits(random)),
            14 => Op::Maintain,
            _ => Op::Step,
        }
    }

    fn alphabet(&self) -> Vec<Op> {
        let both = vec![(0, Edit::Write(100, 700)), (1, Edit::Write(0, 512))];
        vec![
            Op::Create(2),
            Op::Remove(0),
            Op::Clone(0, 3),
            Op::Atomic(0, 512, 512),
            Op::Atomic(1, 300, 400),
            Op::Atomic(0, 0, RUN * BLOCK),
            Op::Tx(Isolation::None, both.clone()),
            Op::Tx(
                Isolation::FirstCommitter,
                vec![(0, Edit::Len(600)), (0, Edit::Tag), (1, Edit::Write(0, 30))],
            ),
            Op::Tx(Isolation::None, vec![(0, Edit::Discard(0, 1024)), (3, Edit::Discard(0, 512))]),
            Op::Abort(both.clone()),
            Op::Together(both),
            Op::Step,
            Op::Maintain,
        ]
    }

    fn starts(&self) -> Vec<Vec<Op>> {
        let filled = vec![(0, Edit::Write(0, 1536)), (1, Edit::Write(600, 700))];
        // The first has a run, and a block that is not of it.
        let run = Op::Atomic(0, 0, RUN * BLOCK);
        let two = vec![Op::Create(0), Op::Create(1), Op::Tx(Isolation::None, filled), run];
        let cloned = [&two[..], &[Op::Clone(0, 3), Op::Atomic(3, 512, 512)]].concat();
        vec![vec![], two, cloned]
    }

    fn scripts(&self) -> Vec<Script<Op>> {
        let written = [0, 1].map(|name| (name, Edit::Write(0, 1200)));
        let all = [&written[..], &[(3, Edit::Len(100)), (3, Edit::Tag)]].concat();
        let tx = |isolation| Op::Tx(isolation, all.clone());
        let clones = vec![
            Op::Clone(0, 2),
            Op::Remove(0),
            Op::Maintain,
            Op::Clone(2, 0),
            Op::Remove(2),
            Op::Maintain,
            Op::Atomic(0, 0, 512),
            Op::Remove(0),
            Op::Maintain,
        ];
        let mut list = vec![
            Script::new("making", 0, vec![Op::Create(0), Op::Atomic(0, 0, 512)]),
            Script::new("clones", 1, clones),
        ];
        for (number, isolation) in
            [Isolation::None, Isolation::FirstCommitter].into_iter().enumerate()
        {
            // A commit is interrupted, and the next life goes on.
            let leads = vec![(vec![tx(isolation)], Some("kv.commit.word"))];
            let ops = vec![tx(isolation), Op::Step, Op::Together(all.clone()), Op::Maintain];
            list.push(Script { leads, ..Script::new(format!("in-flight-{number}"), 2, ops) });
        }
        list
    }
}

fn edits(random: &mut Random) -> Vec<(usize, Edit)> {
    let edit = |random: &mut Random| {
        let offset = random.below(BLOCKS as usize * BLOCK) as u64;
        match random.below(7) {
            6 => Edit::Tag,
            0 => Edit::Discard(offset, random.below(3 * BLOCK) as u64),
            1 => Edit::Len(offset),
            _ => Edit::Write(offset, [1, 100, BLOCK, 3 * BLOCK / 2][random.below(4)]),
        }
    };
    (0..1 + random.below(3)).map(|_| (random.below(4), edit(random))).collect()
}
