//! The pool under torture: superblock, roots, allocator, growth, sweep.

use std::collections::BTreeMap;

use tembo_pmem::Region;
use tembo_pool::{Error, Geometry, Object, Pool};
use tembo_sim::Random;

use crate::judge::{expect, text};
use crate::pooled::{expect_accounted, formatted};
use crate::subject::{Script, Subject};

const SIZE: u64 = 64 << 10;
const SIZE_MAX: u64 = 128 << 10;

/// Root slots that are used.
const SLOTS: usize = 4;

/// The pool, in chunks of 4 KiB, which can double its size.
pub(crate) struct Pools;

/// Something that is done to a pool.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Publishes an object of so many bytes in a root slot, and frees the one that was there.
    Put(usize, u64),
    /// The same, by another thread.
    PutElsewhere(usize, u64),
    /// Empties a root slot.
    Drop(usize),
    /// Fills an object and then does not want it.
    Refuse(u64),
    /// Makes sure of room.
    Reserve(u64),
    /// Finds out what is free.
    Sweep,
}

/// What the root slots name: bytes and number of each object.
pub(crate) type Roots = BTreeMap<usize, (u64, u64)>;

/// An object begins with its bytes, its number, and the generation in which it was made.
const HEADER: u64 = 24;

fn content(len: u64, serial: u64, generation: u64) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        [len, serial, generation].iter().flat_map(|n| n.to_le_bytes()).collect();
    bytes.extend((HEADER..len).map(|at| (at * 7 + serial * 31) as u8));
    bytes
}

/// The object in a slot, if there is one: its bytes, number and generation.
fn found(pool: &Pool, slot: usize) -> Result<Option<(Object, [u64; 3])>, String> {
    let object = Object::from_bits(pool.root(slot).map_err(text)?.load());
    if object.is_none() {
        return Ok(None);
    }
    pool.valid(object).map_err(text)?;
    let bytes = |len| pool.region().media_bytes(object.offset(), len).map_err(text);
    let mut header = [0; 3];
    for (word, bytes) in header.iter_mut().zip(bytes(HEADER)?.to_vec().as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    let [len, serial, generation] = header;
    expect((HEADER..=object.size()).contains(&len), "an object is not as long as it says")?;
    expect(bytes(len)?.eq_bytes(&content(len, serial, generation)), "an object is not whole")?;
    Ok(Some((object, header)))
}

fn unlink(pool: &Pool, slot: usize) -> Result<(), String> {
    let (region, word) = (pool.region(), pool.root(slot).map_err(text)?);
    let _section = pool.reserve(0, 1).map_err(text)?;
    region.store(word, 0);
    region.flush("torture.unlink.flush", region.offset_of(word), 8);
    region.fence("torture.unlink.fence");
    Ok(())
}

fn sweep(pool: &Pool) -> Result<(), String> {
    let mut sweep = pool.begin_sweep().map_err(text)?;
    for slot in 0..SLOTS {
        if let Some((object, _)) = found(pool, slot)? {
            expect(sweep.mark(object).map_err(text)?, "two slots name one object")?;
        }
    }
    let report = sweep.finish(Vec::new()).map_err(text)?;
    expect(report.refused == 0, "a sweep refused something")
}

fn put(pool: &Pool, slot: usize, len: u64, serial: u64) -> Result<bool, String> {
    let reserved = pool.reserve(len, len / 64 + 4);
    if matches!(reserved, Err(Error::PoolFull { .. })) {
        return Ok(false);
    }
    let _section = reserved.map_err(text)?;
    let old = found(pool, slot)?;
    let bytes = content(len, serial, pool.generation());
    let word = pool.root(slot).map_err(text)?;
    let made = pool.alloc_into::<Error>(word, len, |region, object| {
        region.write("torture.object.write", object.offset(), &[&bytes])?;
        Ok(())
    });
    if matches!(made, Err(Error::PoolFull { .. })) {
        return Ok(false);
    }
    made.map_err(text)?;
    if let Some((object, _)) = old {
        pool.free(object);
    }
    Ok(true)
}

impl Subject for Pools {
    type Op = Op;
    type State = Roots;
    type Live = Pool;

    fn size(&self) -> (u64, u64) {
        (SIZE, SIZE_MAX)
    }

    fn empty(&self) -> Roots {
        Roots::new()
    }

    fn make(&self, region: Region, made: &mut dyn FnMut()) -> Result<Pool, String> {
        Pool::format(&region, Geometry::TINY).map_err(text)?;
        made();
        Pool::from_region(region).map_err(text)
    }

    fn open(&self, region: Region) -> Result<Option<Pool>, String> {
        let Some(pool) = formatted(region)? else { return Ok(None) };
        for slot in 0..SLOTS {
            if let Some((_, [_, _, generation])) = found(&pool, slot)? {
                expect(generation < pool.generation(), "a generation is there twice")?;
            }
        }
        Ok(Some(pool))
    }

    fn show(&self, pool: &mut Pool) -> Result<Roots, String> {
        let mut roots = Roots::new();
        for slot in 0..SLOTS {
            if let Some((_, [len, serial, _])) = found(pool, slot)? {
                roots.insert(slot, (len, serial));
            }
        }
        Ok(roots)
    }

    fn run(&self, pool: &mut Pool, state: &Roots, op: &Op, serial: u64) -> Result<Roots, String> {
        let mut next = state.clone();
        match *op {
            Op::Put(slot, len) => {
                if put(pool, slot, len, serial)? {
                    next.insert(slot, (len, serial));
                }
            }
            Op::PutElsewhere(slot, len) => {
                let pool = &*pool;
                let put = std::thread::scope(|scope| {
                    scope.spawn(move || put(pool, slot, len, serial)).join().map_err(|_| "a panic")
                });
                if put?? {
                    next.insert(slot, (len, serial));
                }
            }
            Op::Drop(slot) => {
                if let Some((object, _)) = found(pool, slot)? {
                    unlink(pool, slot)?;
                    pool.free(object);
                }
                next.remove(&slot);
            }
            Op::Refuse(len) => {
                let word = pool.root(0).map_err(text)?;
                let refusal = |_: &Region, _| Err(Error::NoSuchRoot { slot: 99 });
                let refused = pool.alloc_into(word, len, refusal);
                expect(refused.is_err(), "what init refuses is refused")?;
            }
            Op::Reserve(bytes) => match pool.reserve(bytes, 1) {
                Ok(_) | Err(Error::PoolFull { .. }) => {}
                Err(error) => return Err(text(error)),
            },
            Op::Sweep => sweep(pool)?,
        }
        Ok(next)
    }

    fn settle(&self, pool: &mut Pool) -> Result<(), String> {
        if pool.usage().recovering { sweep(pool) } else { Ok(()) }
    }

    fn check(&self, pool: &mut Pool, state: &Roots) -> Result<(), String> {
        let mut census = pool.census();
        for slot in 0..SLOTS {
            if let Some((object, _)) = found(pool, slot)? {
                expect(census.mark(object).map_err(text)?, "two slots name one object")?;
            }
        }
        let account = census.account();
        expect_accounted(&account, pool.region().size())?;
        let lost = (account.leaked, account.dangling);
        expect(lost == (0, 0) && !account.recovering, "leaked or dangling objects")?;
        expect(account.objects == state.len() as u64, "objects are not counted right")
    }

    fn recovery(&self) -> Vec<Op> {
        vec![Op::Sweep]
    }

    fn random_op(&self, random: &mut Random) -> Op {
        let len = [24, 64, 100, 600, 1500, 3000, 9000][random.below(7)];
        match random.below(12) {
            0..=4 => Op::Put(random.below(SLOTS), len),
            5 => Op::PutElsewhere(random.below(SLOTS), len),
            6..=7 => Op::Drop(random.below(SLOTS)),
            8 => Op::Refuse(len),
            9 => Op::Reserve(len * 4),
            _ => Op::Sweep,
        }
    }

    fn alphabet(&self) -> Vec<Op> {
        let puts = [(0, 24), (0, 3000), (1, 64), (1, 200), (2, 1500), (3, 9000), (3, 40_000)];
        let mut ops: Vec<Op> = puts.into_iter().map(|(slot, len)| Op::Put(slot, len)).collect();
        ops.push(Op::PutElsewhere(1, 64));
        ops.extend([Op::Drop(0), Op::Drop(1), Op::Refuse(100), Op::Reserve(60_000), Op::Sweep]);
        ops
    }

    fn starts(&self) -> Vec<Vec<Op>> {
        let put = Op::Put;
        vec![
            vec![],
            vec![put(0, 64)],
            vec![put(0, 64), put(1, 64), put(2, 3000), Op::Drop(1)],
            vec![put(0, 20_000), put(1, 9000), put(2, 6000), Op::Drop(1)],
        ]
    }

    fn scripts(&self) -> Vec<Script<Op>> {
        let put = Op::Put;
        let mut list = vec![Script::new("making", 0, vec![put(0, 64), put(1, 9000)])];
        // What one thread raised and fenced holds for all, whichever fences next.
        let ops = vec![Op::Refuse(3000), Op::PutElsewhere(1, 3000), Op::PutElsewhere(2, 600)];
        list.push(Script::new("elsewhere", 1, ops));
        for start in 1..4 {
            // Opened after a growth of which only the region knows.
            let leads = vec![(vec![put(3, 60_000)], Some("pool.size.raise"))];
            let ops = vec![put(3, 30_000), put(2, 20_000), Op::Sweep, put(1, 9000)];
            let name = format!("interrupted-growth-{start}");
            list.push(Script { leads, ..Script::new(name, start, ops) });
            // Opened after an object that was never published.
            let leads = vec![(vec![put(1, 1500)], Some("pool.alloc_into.publish"))];
            let ops = vec![put(3, 600), Op::Sweep, put(1, 1500), put(2, 600)];
            let name = format!("unpublished-{start}");
            list.push(Script { leads, ..Script::new(name, start, ops) });
        }
        list
    }
}
