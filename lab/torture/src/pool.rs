//! The pool under torture: superblock, roots, tenants, features, allocator, growth, sweep.

mod toy;

use std::collections::BTreeMap;
use std::sync::Arc;

use tembo_pmem::{LINE, Region};
use tembo_pool::{
    Error, FeatureSet, Geometry, NewTenant, Object, Pool, TenantEntry, TenantFeatures,
};
use tembo_sim::Random;

use crate::judge::{expect, text};
use crate::pooled::{expect_accounted, formatted_of};
use crate::subject::{Script, Subject, elsewhere};

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
    /// The same in space that another thread has filled so and given up: what is there is not written again.
    PutGivenUp(usize, u64),
    /// Empties a root slot.
    Drop(usize),
    /// Fills an object and then does not want it.
    Refuse(u64),
    /// Makes sure of room.
    Reserve(u64),
    /// Finds out what is free.
    Sweep,
    /// Finds out what is free, closes the pool, gives its free end back, and opens it again.
    Shrink,
    /// Adds the tenant of that number, with a root of so many bytes.
    Tenant(usize, u64),
    /// Sets the feature bits of a tenant that may be ignored.
    TenantFeature(usize, u16),
    /// Sets the feature bits that may be ignored.
    Feature(u32),
    /// Makes the pool one of format version 1, if it has no tenants and a first root.
    Old,
}

/// What the root slots name: bytes and number of each object; behind [`TENANTS`], what the tenants do, and their
/// features; then those of the pool.
pub(crate) type Roots = BTreeMap<usize, (u64, u64)>;

/// Names of tenants. The first is the one that a pool of version 1 has, if its first root is used.
const NAMES: [&str; 3] = ["main", "one", "a name of thirty-two bytes, für"];

const TENANTS: usize = 100;
const TENANT_FEATURES: usize = 200;
const FEATURES: usize = 300;

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
    whole(pool, object).map(|header| Some((object, header)))
}

/// Bytes, number and generation of an object.
fn whole(pool: &Pool, object: Object) -> Result<[u64; 3], String> {
    pool.valid(object).map_err(text)?;
    let bytes = |len| pool.region().media_bytes(object.offset(), len).map_err(text);
    let mut header = [0; 3];
    for (word, bytes) in header.iter_mut().zip(bytes(HEADER)?.to_vec().as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    let [len, serial, generation] = header;
    expect((HEADER..=object.size()).contains(&len), "an object is not as long as it says")?;
    expect(bytes(len)?.eq_bytes(&content(len, serial, generation)), "an object is not whole")?;
    Ok(header)
}

fn unlink(pool: &Pool, slot: usize) -> Result<(), String> {
    let (region, word) = (pool.region(), pool.root(slot).map_err(text)?);
    let _section = pool.reserve(0, 1).map_err(text)?;
    region.store(word, 0);
    region.flush("torture.unlink.flush", region.offset_of(word), 8);
    region.fence("torture.unlink.fence");
    Ok(())
}

fn sweep(pool: &Arc<Pool>) -> Result<(), String> {
    let _tenants = pool.open_tenants().map_err(text)?;
    let mut sweep = pool.begin_sweep().map_err(text)?;
    for slot in 0..SLOTS {
        if let Some((object, _)) = found(pool, slot)? {
            expect(sweep.mark(object).map_err(text)?, "two slots name one object")?;
        }
    }
    sweep.mark_others(&|| true).map_err(text)?;
    expect(sweep.settle_others().map_err(text)?, "a toy has not settled")?;
    let report = sweep.finish(Vec::new()).map_err(text)?;
    expect(report.refused == 0, "a sweep refused something")
}

/// Writes an object.
fn write(region: &Region, object: Object, bytes: &[u8]) -> Result<(), Error> {
    Ok(region.write("torture.object.write", object.offset(), &[bytes])?)
}

/// Writes those lines of an object that are not there.
fn write_missing(region: &Region, object: Object, bytes: &[u8]) -> Result<(), Error> {
    for (number, line) in (0..).zip(bytes.chunks(LINE as usize)) {
        let at = object.offset() + LINE * number;
        if !region.media_bytes(at, line.len() as u64)?.eq_bytes(line) {
            region.write("torture.line.write", at, &[line])?;
        }
    }
    Ok(())
}

/// Fills an object and gives it up.
fn give_up(pool: &Pool, len: u64, serial: u64) -> Result<(), String> {
    let reserved = pool.reserve(len, len / LINE + 4);
    if matches!(reserved, Err(Error::PoolFull { .. })) {
        return Ok(());
    }
    let _section = reserved.map_err(text)?;
    let object = match pool.alloc(len) {
        Err(Error::PoolFull { .. }) => return Ok(()),
        made => made.map_err(text)?,
    };
    write(pool.region(), object, &content(len, serial, pool.generation())).map_err(text)?;
    pool.give_up([object]);
    Ok(())
}

fn put(
    pool: &Pool,
    slot: usize,
    (len, serial): (u64, u64),
    write: impl FnOnce(&Region, Object, &[u8]) -> Result<(), Error>,
) -> Result<bool, String> {
    let reserved = pool.reserve(len, len / 64 + 4);
    if matches!(reserved, Err(Error::PoolFull { .. })) {
        return Ok(false);
    }
    let _section = reserved.map_err(text)?;
    let old = found(pool, slot)?;
    let bytes = content(len, serial, pool.generation());
    let word = pool.root(slot).map_err(text)?;
    let made = pool.alloc_into::<Error>(word, len, |region, object| write(region, object, &bytes));
    if matches!(made, Err(Error::PoolFull { .. })) {
        return Ok(false);
    }
    made.map_err(text)?;
    if let Some((object, _)) = old {
        pool.free(object);
    }
    Ok(true)
}

/// Adds a tenant.
fn add(pool: &Pool, number: usize, len: u64, serial: u64) -> Result<bool, String> {
    let reserved = pool.reserve(len, len / 64 + 4);
    if matches!(reserved, Err(Error::PoolFull { .. })) {
        return Ok(false);
    }
    let _section = reserved.map_err(text)?;
    let bytes = content(len, serial, pool.generation());
    let (name, features) = (NAMES[number], TenantFeatures::default());
    let new = NewTenant { kind: toy::KIND, name, version: 1, features };
    let made = pool.add_tenant::<Error>(&new, len, |region, object| {
        region.write("torture.tenant.write", object.offset(), &[&bytes])?;
        Ok(())
    });
    match made {
        Err(Error::PoolFull { .. }) => Ok(false),
        made => made.map(|_| true).map_err(text),
    }
}

fn number(entry: &TenantEntry) -> Result<usize, String> {
    NAMES.iter().position(|name| *name == entry.name).ok_or("a tenant of another name".to_owned())
}

/// Stores the label of version 1, in which the words that version 2 has added are not read.
fn make_old(pool: &Pool) -> Result<(), String> {
    let region = pool.region();
    let words = region.words(4096, 8).map_err(text)?;
    let mut label: Vec<u8> = words.iter().flat_map(|word| word.load().to_le_bytes()).collect();
    label[8..16].copy_from_slice(&1_u64.to_le_bytes());
    let checksum = crc32c::crc32c(&label);
    let _section = region.reserve(1).map_err(text)?;
    region.store(&words[1], u64::from(checksum) << 32 | 1);
    region.flush("torture.old.flush", 4096, 64);
    region.fence("torture.old.fence");
    Ok(())
}

/// Does what concerns tenants and features.
fn change_format(pool: &Pool, next: &mut Roots, op: &Op, serial: u64) -> Result<(), String> {
    match *op {
        // The first is only made by an older program.
        Op::Tenant(at, len) if at > 0 && !next.contains_key(&(TENANTS + at)) => {
            let is_added = add(pool, at, len, serial)?;
            if is_added {
                next.insert(TENANTS + at, (len, serial));
            }
        }
        Op::TenantFeature(at, bits) if next.contains_key(&(TENANTS + at)) => {
            let features = TenantFeatures { may: bits, ..TenantFeatures::default() };
            let entry = pool.tenant(NAMES[at]).map_err(text)?;
            pool.set_tenant_features(entry.id, features).map_err(text)?;
            next.insert(TENANT_FEATURES + at, (bits.into(), 0));
        }
        Op::Feature(bits) => {
            pool.set_features(FeatureSet::May, bits).map_err(text)?;
            next.insert(FEATURES, (bits.into(), 0));
        }
        Op::Old if !next.keys().any(|key| (TENANTS..FEATURES).contains(key)) => {
            let Some(&first) = next.get(&0) else { return Ok(()) };
            make_old(pool)?;
            next.remove(&FEATURES);
            next.insert(TENANTS, first);
        }
        _ => {}
    }
    Ok(())
}

/// Whether the first root is a tenant's.
fn is_first_kept(state: &Roots) -> bool {
    state.contains_key(&TENANTS)
}

impl Subject for Pools {
    type Op = Op;
    type State = Roots;
    type Live = Arc<Pool>;

    fn size(&self) -> (u64, u64) {
        (SIZE, SIZE_MAX)
    }

    fn empty(&self) -> Roots {
        Roots::new()
    }

    fn make(&self, region: Region, made: &mut dyn FnMut()) -> Result<Arc<Pool>, String> {
        Pool::format(&region, Geometry::TINY).map_err(text)?;
        made();
        Pool::from_region_of(region, toy::kinds()).map(Arc::new).map_err(text)
    }

    fn open(&self, region: Region) -> Result<Option<Arc<Pool>>, String> {
        let Some(pool) = formatted_of(region, toy::kinds())? else { return Ok(None) };
        for slot in 0..SLOTS {
            if let Some((_, [_, _, generation])) = found(&pool, slot)? {
                expect(generation < pool.generation(), "a generation is there twice")?;
            }
        }
        Ok(Some(Arc::new(pool)))
    }

    fn show(&self, pool: &mut Arc<Pool>) -> Result<Roots, String> {
        let mut roots = Roots::new();
        for slot in 0..SLOTS {
            if let Some((_, [len, serial, _])) = found(pool, slot)? {
                roots.insert(slot, (len, serial));
            }
        }
        for entry in pool.tenants().map_err(text)? {
            let ([len, serial, _], at) = (whole(pool, entry.root)?, number(&entry)?);
            roots.insert(TENANTS + at, (len, serial));
            if entry.features.may != 0 {
                roots.insert(TENANT_FEATURES + at, (entry.features.may.into(), 0));
            }
        }
        let found = Pool::check_superblock(pool.region()).map_err(text)?;
        if found.features.may != 0 {
            roots.insert(FEATURES, (found.features.may, 0));
        }
        Ok(roots)
    }

    fn run(
        &self,
        pool: &mut Arc<Pool>,
        state: &Roots,
        op: &Op,
        serial: u64,
    ) -> Result<Roots, String> {
        let mut next = state.clone();
        match *op {
            Op::Put(0, _) | Op::PutElsewhere(0, _) | Op::Drop(0) if is_first_kept(state) => {}
            Op::Put(slot, len) => {
                if put(pool, slot, (len, serial), write)? {
                    next.insert(slot, (len, serial));
                }
            }
            Op::PutElsewhere(slot, len) => {
                let pool = &*pool;
                if elsewhere(|| put(pool, slot, (len, serial), write))?? {
                    next.insert(slot, (len, serial));
                }
            }
            Op::PutGivenUp(slot, len) => {
                let pool = &*pool;
                elsewhere(|| give_up(pool, len, serial))??;
                if put(pool, slot, (len, serial), write_missing)? {
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
            // Opened again.
            Op::Shrink => {}
            Op::Tenant(..) | Op::TenantFeature(..) | Op::Feature(_) | Op::Old => {
                change_format(pool, &mut next, op, serial)?;
            }
        }
        Ok(next)
    }

    fn close(&self, mut pool: Arc<Pool>, op: &Op) -> Result<Option<Arc<Pool>>, String> {
        if !matches!(op, Op::Shrink) {
            return Ok(Some(pool));
        }
        self.settle(&mut pool)?;
        let pool = Arc::into_inner(pool).ok_or("the pool is in use")?;
        pool.shrink_when_closed();
        pool.close().map_err(text)?;
        Ok(None)
    }

    fn settle(&self, pool: &mut Arc<Pool>) -> Result<(), String> {
        if pool.usage().recovering { sweep(pool) } else { Ok(()) }
    }

    fn check(&self, pool: &mut Arc<Pool>, state: &Roots) -> Result<(), String> {
        let mut census = pool.census();
        for slot in 0..SLOTS {
            if let Some((object, _)) = found(pool, slot)? {
                expect(census.mark(object).map_err(text)?, "two slots name one object")?;
            }
        }
        for entry in pool.tenants().map_err(text)? {
            census.mark(entry.root).map_err(text)?;
        }
        let account = census.account();
        expect_accounted(&account, pool.region().size())?;
        let lost = (account.leaked, account.dangling);
        expect(lost == (0, 0) && !account.recovering, "leaked or dangling objects")?;
        // Of version 1 the first root is the tenant's.
        let is_shared = state.contains_key(&TENANTS) && state.contains_key(&0);
        let objects = state.keys().filter(|key| **key < TENANT_FEATURES).count();
        let objects = objects - usize::from(is_shared);
        expect(account.objects == objects as u64, "objects are not counted right")
    }

    fn recovery(&self) -> Vec<Op> {
        vec![Op::Sweep]
    }

    fn random_op(&self, random: &mut Random) -> Op {
        let len = [24, 64, 100, 600, 1500, 3000, 9000][random.below(7)];
        match random.below(16) {
            0..=4 => Op::Put(random.below(SLOTS), len),
            5 => Op::PutElsewhere(random.below(SLOTS), len),
            6..=7 => Op::Drop(random.below(SLOTS)),
            8 => Op::Refuse(len),
            9 => Op::Reserve(len * 4),
            10..=11 => Op::Sweep,
            12 => Op::Tenant(random.below(NAMES.len()), len),
            13 => Op::TenantFeature(random.below(NAMES.len()), random.below(9) as u16 + 1),
            14 => Op::Feature(random.below(9) as u32 + 1),
            _ => Op::Old,
        }
    }

    fn alphabet(&self) -> Vec<Op> {
        let puts = [(0, 24), (0, 3000), (1, 64), (1, 200), (2, 1500), (3, 9000), (3, 40_000)];
        let mut ops: Vec<Op> = puts.into_iter().map(|(slot, len)| Op::Put(slot, len)).collect();
        ops.push(Op::PutElsewhere(1, 64));
        ops.extend([Op::Drop(0), Op::Drop(1), Op::Refuse(100), Op::Reserve(60_000), Op::Sweep]);
        ops.extend([Op::Tenant(1, 64), Op::TenantFeature(1, 2), Op::Feature(1), Op::Old]);
        ops
    }

    fn starts(&self) -> Vec<Vec<Op>> {
        let put = Op::Put;
        vec![
            vec![],
            vec![put(0, 64)],
            vec![put(0, 64), put(1, 64), put(2, 3000), Op::Drop(1)],
            vec![put(0, 20_000), put(1, 9000), put(2, 6000), Op::Drop(1)],
            vec![put(0, 64), Op::Feature(5), Op::Old],
        ]
    }

    fn scripts(&self) -> Vec<Script<Op>> {
        let put = Op::Put;
        let mut list = vec![Script::new("making", 0, vec![put(0, 64), put(1, 9000)])];
        // What one thread raised and fenced holds for all, whichever fences next.
        let ops = vec![Op::Refuse(3000), Op::PutElsewhere(1, 3000), Op::PutElsewhere(2, 600)];
        list.push(Script::new("elsewhere", 1, ops));
        // What another thread wrote and gave up, in space that held something.
        let ops = vec![put(1, 600), Op::Drop(1), Op::PutGivenUp(2, 600)];
        list.push(Script::new("given-up-elsewhere", 1, ops));
        // What opening has fenced too, where nothing is raised in between.
        let ops = vec![Op::Sweep, Op::PutElsewhere(1, 64)];
        list.push(Script::new("swept-elsewhere", 2, ops));
        // Of version 1: behind the label stands what is not of version 2.
        let raised = [Op::Tenant(1, 100), Op::TenantFeature(0, 3), Op::Feature(1)];
        for (number, op) in raised.into_iter().enumerate() {
            let leads = vec![(vec![op.clone()], Some("pool.upgrade.version"))];
            let ops = vec![op, Op::Tenant(2, 64), Op::Sweep];
            let name = format!("interrupted-upgrade-{number}");
            list.push(Script { leads, ..Script::new(name, 4, ops) });
        }
        // In the place of a tenant that was never published.
        let leads = vec![(vec![Op::Tenant(2, 1500)], Some("pool.tenant.publish"))];
        let ops = vec![Op::Tenant(1, 600), Op::Sweep, Op::Tenant(2, 64), put(1, 1500)];
        list.push(Script { leads, ..Script::new("unpublished-tenant", 1, ops) });
        list.extend(shrinking());
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

/// A pool that has grown gives its end back, grows again over what it held, and shrinks once more.
fn shrinking() -> Vec<Script<Op>> {
    let put = Op::Put;
    let again = || vec![put(3, 60_000), Op::Drop(3), Op::Shrink];
    let grown = || vec![put(3, 60_000), Op::Drop(3)];
    let then = || vec![put(1, 9000), put(3, 50_000), Op::Sweep, put(2, 200)];
    let mut list = vec![
        Script::new("shrink", 2, [again(), then()].concat()),
        Script::new("shrink-twice", 3, [again(), again(), then()].concat()),
        // Nothing is free at the end.
        Script::new("shrink-full", 3, [vec![put(3, 60_000), Op::Shrink], then()].concat()),
    ];
    // Opened after each state that an interrupted shrinking leaves.
    for step in ["pool.shrink.frontier", "pool.shrink.size", "pool.shrink.fence"] {
        let leads = vec![([grown(), vec![Op::Shrink]].concat(), Some(step))];
        let ops = [then(), vec![Op::Drop(3), Op::Shrink], then()].concat();
        list.push(Script { leads, ..Script::new(format!("interrupted-{step}"), 2, ops) });
    }
    list
}
