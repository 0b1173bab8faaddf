//! Several threads over runs: what is written to a whole run, and to a block within it, has different keys in the store, which
//! sees no conflict between them.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tembo_array::{Array, Device, DeviceOptions, DeviceSnapshot, Error, Isolation, Transaction};
use tembo_kv::{Durability, Options, Store};

#[path = "../../kv/tests/driver/random.rs"]
mod random;

use random::Random;

const BLOCK: usize = 512;
const RUN: u64 = 8;
const BLOCKS: u64 = 4 * RUN;
/// What each block holds at first: a balance.
const BALANCE: u64 = 1000;

fn balance(block: &[u8]) -> u64 {
    u64::from_le_bytes(block[..8].try_into().unwrap())
}

fn with_balance(balance: u64) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    block[..8].copy_from_slice(&balance.to_le_bytes());
    block
}

fn sum(snapshot: &DeviceSnapshot) -> u64 {
    let mut bytes = vec![0; BLOCKS as usize * BLOCK];
    assert_eq!(snapshot.read_at(0, &mut bytes).unwrap(), bytes.len());
    bytes.chunks(BLOCK).map(balance).sum()
}

fn read(tx: &mut Transaction, device: &Device, block: u64) -> u64 {
    let mut bytes = vec![0; BLOCK];
    tx.read(device, block * BLOCK as u64, &mut bytes).unwrap();
    balance(&bytes)
}

/// Moves a part of a balance from one block to another. Both are written: so whatever changes one of them conflicts.
fn transfer(tx: &mut Transaction, device: &Device, random: &mut Random) {
    let (from, step) = (random.below(BLOCKS), 1 + random.below(BLOCKS - 1));
    let to = (from + step) % BLOCKS;
    let amount = random.below(100).min(read(tx, device, from));
    for (block, balance) in
        [(from, read(tx, device, from) - amount), (to, read(tx, device, to) + amount)]
    {
        tx.write(device, block * BLOCK as u64, &with_balance(balance)).unwrap();
    }
}

/// Gives all blocks of a run the balance of their neighbour, by one write of the run.
fn rotate(tx: &mut Transaction, device: &Device, random: &mut Random) {
    let first = random.below(BLOCKS / RUN) * RUN;
    let balances: Vec<u64> = (first..first + RUN).map(|block| read(tx, device, block)).collect();
    let neighbours = balances.iter().cycle().skip(1).take(RUN as usize);
    let run: Vec<u8> = neighbours.flat_map(|balance| with_balance(*balance)).collect();
    tx.write(device, first * BLOCK as u64, &run).unwrap();
}

fn bank() -> (Array, Device) {
    let store = Store::volatile(&Options::new().size(8 << 20)).unwrap();
    let array = Array::open(&store).unwrap();
    let (block_size, len) = (BLOCK, BLOCKS * BLOCK as u64);
    let options = DeviceOptions { block_size, len, grows: false, run_blocks: RUN as usize };
    let device = array.create("bank", options).unwrap();
    (array, device)
}

#[test]
fn no_balance_is_lost_between_writes_of_runs_and_of_blocks_in_them() {
    let (array, device) = bank();
    let mut tx = array.transaction(Isolation::None).unwrap();
    for block in 0..BLOCKS {
        tx.write(&device, block * BLOCK as u64, &with_balance(BALANCE)).unwrap();
    }
    tx.commit(Durability::Buffered).unwrap();
    let (ends, conflicts) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                assert_eq!(sum(&device.snapshot().unwrap()), BLOCKS * BALANCE);
            }
        });
        let (array, device, conflicts) = (&array, &device, &conflicts);
        let work = |seed: u64| {
            move || {
                let mut random = Random(seed);
                let mut committed = 0;
                while committed < 300 {
                    let mut tx = array.transaction(Isolation::FirstCommitter).unwrap();
                    match random.below(2) {
                        0 => transfer(&mut tx, device, &mut random),
                        _ => rotate(&mut tx, device, &mut random),
                    }
                    // Others get their chance to come between.
                    std::thread::yield_now();
                    match tx.commit(Durability::Buffered) {
                        Ok(_) => committed += 1,
                        Err(Error::Conflict { .. }) => {
                            conflicts.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        };
        let workers: Vec<_> = (1..5).map(|seed| scope.spawn(work(seed))).collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        ends.store(true, Ordering::Relaxed);
    });
    assert_eq!(sum(&device.snapshot().unwrap()), BLOCKS * BALANCE);
    assert!(conflicts.into_inner() > 0, "nothing came between");
    assert_eq!(array.check().unwrap().stray, 0);
}

/// A block of which a part is written lies over its run, with the other bytes that it has then; a block that becomes zero breaks the
/// run. Neither brings back what the run was before.
#[test]
fn what_was_just_written_to_a_run_stays_beside_writes_to_one_of_its_blocks() {
    /// Where the others write.
    const PART: std::ops::Range<usize> = 256..264;
    let (array, device) = bank();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (array, device, ends) = (&array, &device, &ends);
        for seed in 1..3 {
            scope.spawn(move || {
                let mut random = Random(seed);
                while !ends.load(Ordering::Relaxed) {
                    let isolation = match random.below(2) {
                        0 => Isolation::None,
                        _ => Isolation::FirstCommitter,
                    };
                    let mut tx = array.transaction(isolation).unwrap();
                    let first = random.below(BLOCKS / RUN) * RUN;
                    let second = (first + 1) * BLOCK as u64;
                    match random.below(4) {
                        0 => tx.discard(device, first * BLOCK as u64, BLOCK as u64),
                        _ => tx.write(device, second + PART.start as u64, &[seed as u8; 8]),
                    }
                    .unwrap();
                    match tx.commit(Durability::Buffered) {
                        Ok(_) | Err(Error::Conflict { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        // Each run has one thread that writes it; the others discard its first block, or write a part of its second.
        let writers: Vec<_> = (0..BLOCKS / RUN)
            .map(|run| {
                scope.spawn(move || {
                    let offset = run * RUN * BLOCK as u64;
                    let mut bytes = vec![0; RUN as usize * BLOCK];
                    for number in 1..400 {
                        let written = with_balance(number).repeat(RUN as usize);
                        array.write(device, offset, &written, Durability::Buffered).unwrap();
                        std::thread::yield_now();
                        device.read_at(offset, &mut bytes).unwrap();
                        bytes[BLOCK..][PART].copy_from_slice(&written[BLOCK..][PART]);
                        assert!(bytes[BLOCK..] == written[BLOCK..], "write {number} of run {run}");
                    }
                })
            })
            .collect();
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        ends.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|writer| writer.unwrap());
    });
    assert_eq!(array.check().unwrap().stray, 0);
}
