//! Devices do what a plain vector of bytes does: random scripts, one transaction at a time and several beside each other.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::collections::BTreeMap;

use tembo_array::{Array, Device, DeviceOptions, DeviceSnapshot, Error, Isolation, Transaction};
use tembo_kv::{Durability, IndexKind, Options, Progress, Store};

const BLOCK: usize = 512;

/// Blocks in a run, of devices that have runs.
const RUN: usize = 4;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    fn below(&mut self, bound: usize) -> usize {
        self.next() as usize % bound
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        // Whole blocks are as frequent as odd lengths.
        let len = match self.below(4) {
            0 => BLOCK * (1 + self.below(3)),
            1 => RUN * BLOCK * (1 + self.below(2)),
            _ => 1 + self.below(most),
        };
        (0..len).map(|_| self.next() as u8).collect()
    }

    fn offset(&mut self) -> u64 {
        let offset = self.below(12 * BLOCK) as u64;
        let unit = [1, BLOCK, RUN * BLOCK][self.below(3)] as u64;
        offset / unit * unit
    }
}

fn store(kind: IndexKind) -> Store {
    let options = Options::new().index(kind).size(16 << 20).background(false);
    // A transaction of a few blocks outgrows its memory.
    Store::volatile(&options.transaction_memory(3000)).unwrap()
}

#[derive(Clone, Debug)]
enum Op {
    Write(u64, Vec<u8>),
    Discard(u64, u64),
    Len(u64),
}

fn random_op(random: &mut Random) -> Op {
    match random.below(8) {
        0 => Op::Discard(random.offset(), random.below(4 * BLOCK) as u64),
        1 => Op::Len(random.offset()),
        _ => Op::Write(random.offset(), random.bytes(2000)),
    }
}

fn model(op: &Op, bytes: &mut Vec<u8>) {
    match op {
        Op::Write(offset, data) => {
            let (from, to) = (*offset as usize, *offset as usize + data.len());
            bytes.resize(bytes.len().max(to), 0);
            bytes[from..to].copy_from_slice(data);
        }
        Op::Discard(offset, len) => {
            let end = bytes.len().min((offset + len) as usize);
            if (*offset as usize) < end {
                bytes[*offset as usize..end].fill(0);
            }
        }
        Op::Len(len) => bytes.resize(*len as usize, 0),
    }
}

fn apply(op: &Op, tx: &mut Transaction, device: &Device) {
    match op {
        Op::Write(offset, data) => tx.write(device, *offset, data).unwrap(),
        Op::Discard(offset, len) => tx.discard(device, *offset, *len).unwrap(),
        Op::Len(len) => tx.set_len(device, *len).unwrap(),
    }
}

fn all_of(snapshot: &DeviceSnapshot) -> Vec<u8> {
    let mut bytes = vec![0xaa; snapshot.len() as usize + 100];
    let len = snapshot.read_at(0, &mut bytes).unwrap();
    assert_eq!(len as u64, snapshot.len());
    bytes.truncate(len);
    bytes
}

fn seen_by(tx: &mut Transaction, device: &Device) -> Vec<u8> {
    let mut bytes = vec![0xaa; tx.len(device).unwrap() as usize];
    assert_eq!(tx.read(device, 0, &mut bytes).unwrap(), bytes.len());
    bytes
}

/// What an incremental backup would copy makes the earlier bytes the later ones.
fn changes_suffice(before: &(DeviceSnapshot, Vec<u8>), now: &(DeviceSnapshot, Vec<u8>)) {
    let mut copy = before.1.clone();
    copy.resize(now.1.len(), 0);
    for range in now.0.changed_since(&before.0).unwrap() {
        let range = range.start as usize..range.end as usize;
        copy[range.clone()].copy_from_slice(&now.1[range]);
    }
    assert_eq!(copy, now.1);
}

type Known = BTreeMap<String, Vec<u8>>;
type Held = Vec<(String, DeviceSnapshot, Vec<u8>)>;

fn one_transaction(random: &mut Random, array: &Array, known: &mut Known) {
    let isolation = [Isolation::None, Isolation::FirstCommitter][random.below(2)];
    let mut tx = array.transaction(isolation).unwrap();
    let (mut now, mut saved) = (known.clone(), Vec::new());
    for _ in 0..1 + random.below(8) {
        let names: Vec<String> = now.keys().cloned().collect();
        let name = &names[random.below(names.len())];
        let device = array.device(name).unwrap();
        match random.below(8) {
            0 => saved.push((tx.savepoint(), now.clone())),
            1 if !saved.is_empty() => {
                saved.truncate(1 + random.below(saved.len()));
                let (point, then) = saved.last().unwrap();
                tx.rollback_to(*point).unwrap();
                now = then.clone();
            }
            _ => {
                let op = random_op(random);
                apply(&op, &mut tx, &device);
                model(&op, now.get_mut(name).unwrap());
            }
        }
        assert_eq!(seen_by(&mut tx, &device), now[name]);
    }
    if random.below(4) > 0 {
        tx.commit(Durability::Buffered).unwrap();
        *known = now;
    } else {
        tx.abort();
    }
}

fn step(random: &mut Random, array: &Array, known: &mut Known, held: &mut Held) {
    let names: Vec<String> = known.keys().cloned().collect();
    let name = &names[random.below(names.len())];
    let device = array.device(name).unwrap();
    match random.below(16) {
        0 => held.push((name.clone(), device.snapshot().unwrap(), known[name].clone())),
        1 if !held.is_empty() => drop(held.swap_remove(random.below(held.len()))),
        2 if known.len() < 6 => {
            let (new, of) = (format!("clone-{}", random.next()), random.below(held.len() + 1));
            let here = (name.clone(), device.snapshot().unwrap(), known[name].clone());
            let (_, snapshot, bytes) = held.get(of).unwrap_or(&here);
            match array.clone_device(snapshot, &new) {
                Ok(_) => drop(known.insert(new, bytes.clone())),
                // So many versions are kept.
                Err(Error::Store(tembo_kv::Error::SnapshotName { .. })) => {}
                Err(error) => panic!("{error}"),
            }
        }
        3 if known.len() > 1 => {
            array.remove(&device).unwrap();
            assert!(matches!(device.len(), Err(Error::NoSuchDevice { .. })));
            known.remove(name);
        }
        4..=6 => {
            let (offset, data) = (random.offset(), random.bytes(1500));
            array.write(&device, offset, &data, Durability::Buffered).unwrap();
            model(&Op::Write(offset, data), known.get_mut(name).unwrap());
        }
        7 => while array.store().maintain(100).unwrap() != Progress::Idle {},
        _ => one_transaction(random, array, known),
    }
}

fn devices_are_vectors_of_bytes(kind: IndexKind, seed: u64) {
    println!("seed {seed}");

    let random = &mut Random(seed);
    let store = store(kind);
    let array = Array::open(&store).unwrap();
    let options = DeviceOptions { block_size: BLOCK, ..DeviceOptions::default() };
    array.create("a", options).unwrap();
    array.create("b", DeviceOptions { run_blocks: RUN, ..options }).unwrap();
    let mut known = Known::from([("a".into(), Vec::new()), ("b".into(), Vec::new())]);
    let mut held = Held::new();
    for _ in 0..300 {
        step(random, &array, &mut known, &mut held);
        assert_eq!(array.devices().unwrap(), known.keys().cloned().collect::<Vec<_>>());
        for (name, bytes) in &known {
            let now = array.device(name).unwrap().snapshot().unwrap();
            assert!(all_of(&now) == *bytes, "{name} is not what it should be");
            let now = (now, bytes.clone());
            for (_, before, then) in held.iter().filter(|held| held.0 == *name) {
                changes_suffice(&(before.clone(), then.clone()), &now);
            }
        }
        for (name, snapshot, bytes) in &held {
            assert!(all_of(snapshot) == *bytes, "a snapshot of {name} has changed");
        }
        assert_eq!(array.check().unwrap().stray, 0);
    }
    // A clone's origins are named as long as there are clones.
    held.clear();
    for name in known.keys() {
        array.remove(&array.device(name).unwrap()).unwrap();
    }
    assert_eq!(store.snapshots(), []);
    assert_eq!(array.check().unwrap(), tembo_array::DeviceCheck::default());
    store.check().unwrap();
}

#[test]
fn devices_over_the_nv_tree_are_vectors_of_bytes() {
    (1..9).for_each(|n| devices_are_vectors_of_bytes(IndexKind::Nvtree, n * 0x9e37_79b9));
}

#[test]
fn devices_over_the_cdds_tree_are_vectors_of_bytes() {
    (1..5).for_each(|n| devices_are_vectors_of_bytes(IndexKind::Cdds, n * 0x9e37_79b9));
}

struct Pending {
    tx: Transaction,
    isolation: Isolation,
    writes: Vec<(u64, Vec<u8>)>,
    began: usize,
}

impl Pending {
    fn blocks(&self) -> Vec<u64> {
        let size = BLOCK as u64;
        let blocks = |(offset, data): &(u64, Vec<u8>)| {
            offset / size..(offset + data.len() as u64).div_ceil(size)
        };
        self.writes.iter().flat_map(blocks).collect()
    }
}

/// A write by itself, perhaps of whole runs; the blocks that it is of.
fn write_alone(
    random: &mut Random,
    array: &Array,
    device: &Device,
    bytes: &mut Vec<u8>,
) -> Vec<u64> {
    let offset = random.below(bytes.len() / BLOCK / RUN) * RUN * BLOCK;
    let mut data = random.bytes(BLOCK);
    data.truncate(bytes.len() - offset);
    let offset = offset as u64;
    array.write(device, offset, &data, Durability::Buffered).unwrap();
    let size = BLOCK as u64;
    let blocks = offset / size..(offset + data.len() as u64).div_ceil(size);
    model(&Op::Write(offset, data), bytes);
    blocks.collect()
}

fn transactions_beside_each_other(kind: IndexKind, seed: u64, run_blocks: usize) {
    println!("seed {seed}");
    let random = &mut Random(seed);
    let array = Array::open(&store(kind)).unwrap();
    let len = 16 * BLOCK;
    let options = DeviceOptions { block_size: BLOCK, len: len as u64, grows: false, run_blocks };
    let device = array.create("d", options).unwrap();
    let mut bytes = vec![0; len];
    // What was committed, and the blocks of it.
    let mut history: Vec<(Vec<u8>, Vec<u64>)> = vec![(bytes.clone(), Vec::new())];
    let mut pending: Vec<Pending> = Vec::new();
    let (mut won, mut lost) = (0, 0);
    for _ in 0..600 {
        match random.below(6) {
            0 if pending.len() < 5 => {
                let isolation = [Isolation::None, Isolation::FirstCommitter][random.below(2)];
                let tx = array.transaction(isolation).unwrap();
                let began = history.len();
                pending.push(Pending { tx, isolation, writes: Vec::new(), began });
            }
            1 if !pending.is_empty() => {
                let one = pending.swap_remove(random.below(pending.len()));
                let blocks = one.blocks();
                let meanwhile = history[one.began..].iter().flat_map(|(_, blocks)| blocks);
                let is_first = !meanwhile.into_iter().any(|block| blocks.contains(block));
                let is_isolated = one.isolation == Isolation::FirstCommitter;
                match one.tx.commit(Durability::Buffered) {
                    Err(Error::Conflict { .. }) => {
                        assert!(is_isolated && !is_first, "a conflict without a reason");
                        lost += 1;
                        continue;
                    }
                    committed => drop(committed.unwrap()),
                }
                assert!(is_first || !is_isolated, "the second committer has won");
                won += 1;
                for (offset, data) in one.writes {
                    model(&Op::Write(offset, data), &mut bytes);
                }
                history.push((bytes.clone(), blocks));
            }
            2 => {
                let blocks = write_alone(random, &array, &device, &mut bytes);
                history.push((bytes.clone(), blocks));
            }
            _ if !pending.is_empty() => {
                let at = random.below(pending.len());
                let one = &mut pending[at];
                let offset = random.below(len - BLOCK) as u64;
                let mut data = random.bytes(BLOCK);
                data.truncate(len - offset as usize);
                one.tx.write(&device, offset, &data).unwrap();
                one.writes.push((offset, data));
                let mut expected = match one.isolation {
                    Isolation::None => bytes.clone(),
                    Isolation::FirstCommitter => history[one.began - 1].0.clone(),
                };
                for (offset, data) in &one.writes {
                    model(&Op::Write(*offset, data.clone()), &mut expected);
                }
                assert!(seen_by(&mut one.tx, &device) == expected, "a pending transaction sees");
            }
            _ => {}
        }
        assert!(all_of(&device.snapshot().unwrap()) == bytes, "what is visible");
    }
    assert!(won > 20 && lost > 0, "{won} won, {lost} lost");
}

#[test]
fn the_first_committer_of_a_block_wins_and_without_isolation_the_last_of_a_byte() {
    for n in 1..6 {
        for run_blocks in [1, RUN] {
            transactions_beside_each_other(IndexKind::Nvtree, n * 0x9e37_79b9, run_blocks);
            transactions_beside_each_other(IndexKind::Cdds, n * 0x9e37_79b9, run_blocks);
        }
    }
}
