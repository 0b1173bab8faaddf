//! The least store: one tree, one commit word. What was in flight is scrubbed before anything else
//! is written, so no interval needs to be noted, but that of a rollback.

mod concurrent;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use tembo_index::{
    Clock, DeadInterval, DeadIntervals, Direction, Error, Forest, Index, IndexKind, Op as Change,
    Records, Retained, Retired, Stamp, TreeMarker, Value, VersionedIndex, View, Writer,
};
use tembo_pmem::{Region, Word};
use tembo_pool::{Census, Error as PoolError, Geometry, Object, Pool, Sweep};

use super::model::{Map, NAMES, Op, State, Write, key, value};
use crate::judge::{expect, text};
use crate::pooled::{expect_accounted, rooted};

/// Root slots: the tree, its commit word, its limit of versions, the version to which it is rolled
/// back and the last before that, then the named versions.
const TREE: usize = 0;
const COMMITTED: usize = 1;
const LIMIT: usize = 2;
const BACK_TO: usize = 3;
const BACK_FROM: usize = 4;
const NAMED: usize = 5;

/// Versions by which the limit is raised.
const STEP: u64 = 4;

const LANE: u8 = 0;

/// A tree that is open.
pub(crate) struct Harness {
    pool: Arc<Pool>,
    forest: Arc<Forest>,
    tree: Index,
    version: u64,
    named: BTreeMap<usize, u64>,
    dead: Arc<DeadIntervals>,
    retired: Vec<Retired>,
    /// Something may be garbage that is in no list.
    owed: bool,
}

/// What marking finds.
struct Marks<'m> {
    mark: &'m mut dyn FnMut(Object) -> Result<bool, PoolError>,
    unclean: Vec<Object>,
}

impl TreeMarker for Marks<'_> {
    fn reachable(&mut self, object: Object) -> Result<bool, Error> {
        Ok((self.mark)(object)?)
    }

    fn unclean(&mut self, node: Object) {
        self.unclean.push(node);
    }

    fn live_entry(&mut self) {}
}

fn persist(pool: &Pool, word: &Word, value: u64) {
    let region = pool.region();
    region.commit("torture.harness.word", word, value);
    region.flush("torture.harness.word.flush", region.offset_of(word), 8);
    region.fence("torture.harness.word.fence");
}

/// Whether a rollback that is not forgotten has taken the version back.
fn is_taken_back(pool: &Pool, version: u64) -> Result<bool, String> {
    let root = |slot| Ok::<u64, String>(pool.root(slot).map_err(text)?.load());
    Ok((root(BACK_TO)? + 1..=root(BACK_FROM)?).contains(&version))
}

impl Harness {
    pub(crate) fn make(
        kind: IndexKind,
        region: Region,
        made: &mut dyn FnMut(),
    ) -> Result<Harness, String> {
        Pool::format(&region, Geometry::TINY).map_err(text)?;
        let pool = Pool::from_region(region).map_err(text)?;
        let cell = Index::format(&pool, kind, Records::default(), Stamp::grouped(1, LANE))
            .map_err(text)?;
        pool.region().fence("torture.harness.made");
        for slot in [COMMITTED, LIMIT] {
            pool.region().store(pool.root(slot).map_err(text)?, 1);
        }
        persist(&pool, pool.root(TREE).map_err(text)?, cell.to_bits());
        made();
        Harness::start(pool)
    }

    pub(crate) fn open(region: Region) -> Result<Option<Harness>, String> {
        rooted(region)?.map(Harness::start).transpose()
    }

    fn start(pool: Pool) -> Result<Harness, String> {
        let pool = Arc::new(pool);
        let root = |slot| Ok::<u64, String>(pool.root(slot).map_err(text)?.load());
        let (from, to) = (root(COMMITTED)?, root(LIMIT)?);
        expect(from <= to, "a version above the limit is committed")?;
        let flight = (from < to).then_some(DeadInterval { from, to, lane: Some(LANE) });
        let (back_to, back_from) = (root(BACK_TO)?, root(BACK_FROM)?);
        let back = DeadInterval { from: back_to, to: back_from, lane: None };
        let back = (back_from > 0).then_some(back);
        let mut named = BTreeMap::new();
        for name in 0..NAMES {
            let version = root(NAMED + name)?;
            expect(version <= to, "a version above the limit is named")?;
            if version > 0 && !is_taken_back(&pool, version)? {
                named.insert(name, version);
            }
        }
        let dead = Arc::new(DeadIntervals::new(flight.into_iter().chain(back).collect()));
        let forest = Arc::new(Forest::new(pool.clone(), pool.region().size()).map_err(text)?);
        forest.set_dead(dead.clone());
        forest.set_retained(Arc::new(Retained::new(to, named.values().copied().collect())));
        let cell = Object::from_bits(root(TREE)?);
        let tree = Index::open(forest.clone(), cell, 1).map_err(text)?;
        let (version, retired) = (to, Vec::new());
        Ok(Harness { pool, forest, tree, version, named, dead, retired, owed: true })
    }

    fn retained(&self) -> Arc<Retained> {
        Arc::new(Retained::new(self.version, self.named.values().copied().collect()))
    }

    /// A writer of the version: takes turns with `self`, so parts of it are handed over.
    fn with_writer<T>(
        &mut self,
        stamp: Stamp,
        write: impl FnOnce(&Index, &mut Writer<'_>) -> Result<T, String>,
    ) -> Result<T, String> {
        let (retained, dead, mut retired) = (self.retained(), self.dead.clone(), Vec::new());
        let mut writer = Writer { stamp, dead: &dead, retained: &retained, retired: &mut retired };
        let written = write(&self.tree, &mut writer)?;
        self.retired.extend(retired);
        Ok(written)
    }

    fn next_version(&mut self) -> Result<u64, String> {
        let next = self.version + 1;
        let limit = self.pool.root(LIMIT).map_err(text)?;
        if next > limit.load() {
            persist(&self.pool, limit, next + STEP);
        }
        Ok(next)
    }

    fn reclaim(&mut self) {
        let retained = self.retained();
        self.forest.set_retained(retained.clone());
        let pool = &self.pool;
        self.retired.retain(|retired| {
            let needed = retained.needs(retired.start, retired.end);
            if !needed {
                pool.free(retired.object);
            }
            needed
        });
    }

    /// Mark, sweep, scrub: then nothing is dead.
    pub(crate) fn recover(&mut self) -> Result<(), String> {
        self.reclaim();
        let (retained, dead) = (self.retained(), self.dead.clone());
        let stamp = Stamp::grouped(self.version, LANE);
        self.with_writer(stamp, |tree, writer| tree.scrub_root(writer).map_err(text))?;
        self.pool.region().fence_flushed("torture.harness.roots");
        let mut sweep: Sweep = self.pool.begin_sweep().map_err(text)?;
        let mut mark = |object| sweep.mark(object);
        let mut marks = Marks { mark: &mut mark, unclean: Vec::new() };
        self.tree.mark(&retained, &dead, &mut marks).map_err(text)?;
        let unclean = marks.unclean;
        let pending: Vec<Object> = self.retired.iter().map(|retired| retired.object).collect();
        let report = sweep.finish(pending).map_err(text)?;
        expect(report.refused == 0, "a sweep refused something")?;
        self.with_writer(stamp, |tree, writer| {
            unclean.into_iter().try_for_each(|node| tree.scrub(node, writer)).map_err(text)
        })?;
        self.pool.region().fence_flushed("torture.harness.scrubbed");
        self.forget_rollback()?;
        self.dead = Arc::default();
        self.forest.forget_dead(self.dead.clone());
        self.owed = false;
        Ok(())
    }

    /// When nothing carries what was taken back, names neither.
    fn forget_rollback(&mut self) -> Result<(), String> {
        let root = |slot| self.pool.root(slot).map_err(text);
        for slot in NAMED..NAMED + NAMES {
            if is_taken_back(&self.pool, root(slot)?.load())? {
                persist(&self.pool, root(slot)?, 0);
            }
        }
        if root(BACK_FROM)?.load() > 0 {
            persist(&self.pool, root(BACK_FROM)?, 0);
        }
        Ok(())
    }

    fn roll_back(&mut self, name: usize) -> Result<(), String> {
        if !self.dead.intervals().is_empty() {
            self.recover()?;
        }
        let Some(&to) = self.named.get(&name) else { return Ok(()) };
        let from = self.version;
        let next = self.next_version()?;
        persist(&self.pool, self.pool.root(BACK_TO).map_err(text)?, to);
        persist(&self.pool, self.pool.root(BACK_FROM).map_err(text)?, from);
        self.named.retain(|_, version| *version <= to);
        self.retired.retain(|retired| retired.end <= to);
        let dead = DeadInterval { from: to, to: from, lane: None };
        self.dead = Arc::new(DeadIntervals::new(vec![dead]));
        self.forest.set_dead(self.dead.clone());
        (self.version, self.owed) = (next, true);
        Ok(())
    }

    /// Versions go by of which this tree knows nothing.
    fn pass(&mut self, versions: u64) -> Result<(), String> {
        let version = self.version + versions;
        persist(&self.pool, self.pool.root(LIMIT).map_err(text)?, version);
        self.version = version;
        self.reclaim();
        Ok(())
    }

    fn write(&mut self, writes: &[Write], serial: u64, commit: bool) -> Result<Map, String> {
        if !self.dead.intervals().is_empty() {
            self.recover()?;
        }
        let version = self.next_version()?;
        let mut map = self.map(self.version)?;
        self.with_writer(Stamp::grouped(version, LANE), |tree, writer| {
            for (index, &(n, len)) in writes.iter().enumerate() {
                let key = key(n);
                let (existed, was) = match len {
                    Some(len) => {
                        let value = value(serial + index as u64, len);
                        let change = Change::Put { key: &key, value: &[&value] };
                        let existed = tree.apply(change, writer).map_err(text)?;
                        (existed, map.insert(key, value).is_some())
                    }
                    None => {
                        let existed = tree.apply(Change::Remove { key: &key }, writer);
                        (existed.map_err(text)?, map.remove(&key).is_some())
                    }
                };
                expect(existed == was, "a write says whether the key was there")?;
            }
            Ok(())
        })?;
        if !commit {
            // What was unlinked is linked again; what was made is garbage for a sweep.
            self.retired.retain(|retired| retired.end < version);
            let from = self.pool.root(COMMITTED).map_err(text)?.load();
            let dead = DeadInterval { from, to: version, lane: Some(LANE) };
            self.dead = Arc::new(DeadIntervals::new(vec![dead]));
            self.forest.set_dead(self.dead.clone());
            (self.version, self.owed) = (version, true);
            return Ok(map);
        }
        let region = self.pool.region();
        region.fence_flushed("torture.harness.entries");
        let word = self.pool.root(COMMITTED).map_err(text)?;
        region.commit("torture.harness.commit", word, version);
        region.flush("torture.harness.commit.flush", region.offset_of(word), 8);
        region.fence("torture.harness.publish");
        self.version = version;
        self.reclaim();
        Ok(map)
    }

    fn single(&mut self, (n, len): Write, serial: u64, was: &Map) -> Result<(), String> {
        if !self.dead.intervals().is_empty() {
            self.recover()?;
        }
        let clock = Clock::new(self.next_version()? - 1);
        let stamp = Stamp::single(clock.last(), LANE);
        let key = key(n);
        let value = len.map(|len| value(serial, len)).unwrap_or_default();
        let existed = self.with_writer(stamp, |tree, writer| {
            let change = match len {
                Some(_) => Change::Put { key: &key, value: &[&value] },
                None => Change::Remove { key: &key },
            };
            tree.apply_single(change, &clock.ticket(), writer).map_err(text)
        })?;
        self.version = clock.last();
        self.reclaim();
        match existed {
            Some(existed) => {
                expect(existed == was.contains_key(&key), "a write says whether the key was there")
            }
            None => self.write(&[(n, len)], serial, true).map(drop),
        }
    }

    fn collect(&mut self) -> Result<(), String> {
        let stamp = Stamp::grouped(self.version, LANE);
        self.with_writer(stamp, |tree, writer| {
            let mut from = None;
            while let Some(next) = tree.collect(from.as_deref(), writer).map_err(text)? {
                from = Some(next);
            }
            Ok(())
        })?;
        if self.tree.kind() == IndexKind::Cdds {
            self.pool.region().fence_flushed("torture.harness.collected");
        }
        Ok(())
    }

    fn is_prepared(&self) -> Result<bool, String> {
        Ok(self.tree.hinted_leaves().map_err(text)?.is_some())
    }

    fn prepare(&mut self) -> Result<(), String> {
        if self.is_prepared()? {
            return Ok(());
        }
        self.tree.write_hint(self.version, &mut self.retired).map_err(text)?;
        expect(self.is_prepared()? == (self.tree.kind() != IndexKind::Cdds), "a hint is there")
    }

    pub(crate) fn run(&mut self, state: &State, op: &Op, serial: u64) -> Result<State, String> {
        let mut next = state.after(op, serial, self.version);
        match op {
            Op::Write(writes) => {
                let written = self.write(writes, serial, true)?;
                expect(written == next.map, "the writer sees what the model has")?;
            }
            Op::Abort(writes) => drop(self.write(writes, serial, false)?),
            Op::Single(write) => self.single(*write, serial, &state.map)?,
            Op::Save(name) => {
                persist(&self.pool, self.pool.root(NAMED + name).map_err(text)?, self.version);
                let before = self.named.insert(*name, self.version);
                self.owed |= before.is_some();
                self.reclaim();
            }
            Op::Forget(name) => {
                persist(&self.pool, self.pool.root(NAMED + name).map_err(text)?, 0);
                self.owed |= self.named.remove(name).is_some();
                self.reclaim();
            }
            Op::Rollback(name) => self.roll_back(*name)?,
            Op::Pass(versions) => self.pass(*versions)?,
            Op::Prepare => self.prepare()?,
            Op::Recover => self.recover()?,
            Op::Collect => self.collect()?,
        }
        let is_prepared = self.is_prepared()?;
        let may_change = matches!(op, Op::Prepare | Op::Collect);
        expect(may_change || is_prepared == state.prepared, "a hint that stays")?;
        next.prepared = is_prepared;
        Ok(next)
    }

    fn map(&self, version: u64) -> Result<Map, String> {
        let view = View { version, dead: &self.dead };
        let mut list = Vec::new();
        let mut visit = |key: &[u8], value: Value<'_>| {
            list.push((key.to_vec(), value.to_vec()));
            list.len() < 1000
        };
        let all = (Bound::Unbounded, Bound::Unbounded);
        self.tree.range(all.0, all.1, Direction::Forward, view, &mut visit).map_err(text)?;
        if self.tree.kind().is_ordered() && !list.is_sorted_by(|a, b| a.0 < b.0) {
            let keys = list.iter().map(|(key, _)| key.escape_ascii().to_string());
            return Err(format!("version {version} not in order: {:?}", keys.collect::<Vec<_>>()));
        }
        for (key, value) in &list {
            let found = self.tree.get(key, view).map_err(text)?;
            if found.is_none_or(|found| found != *value) {
                return Err(format!(
                    "version {version}, key {key:?}: get {found:?}, range {value:?}"
                ));
            }
        }
        let mut down = Vec::new();
        let mut visit = |key: &[u8], _: Value<'_>| {
            down.push(key.to_vec());
            down.len() < 1000
        };
        self.tree.range(all.0, all.1, Direction::Backward, view, &mut visit).map_err(text)?;
        expect(list.iter().map(|(key, _)| key).eq(down.iter().rev()), "a range both ways")?;
        Ok(list.into_iter().collect())
    }

    pub(crate) fn show(&self) -> Result<State, String> {
        let (map, prepared) = (self.map(self.version)?, self.is_prepared()?);
        let mut state = State { map, prepared, ..State::default() };
        for (&name, &version) in &self.named {
            state.saved.insert(name, (version, self.map(version)?));
        }
        Ok(state)
    }

    pub(crate) fn check(&mut self, state: &State) -> Result<(), String> {
        if self.owed || !self.dead.intervals().is_empty() {
            self.recover()?;
        }
        let (retained, dead) = (self.retained(), self.dead.clone());
        let mut census: Census = self.pool.census();
        let mut mark = |object| census.mark(object);
        let mut marks = Marks { mark: &mut mark, unclean: Vec::new() };
        self.tree.mark(&retained, &dead, &mut marks).map_err(text)?;
        expect(marks.unclean.is_empty(), "dead stamps after a scrub")?;
        for retired in &self.retired {
            census.mark(retired.object).map_err(text)?;
        }
        let account = census.account();
        expect_accounted(&account, self.pool.region().size())?;
        expect(account.leaked == 0 && account.dangling == 0, "leaked or dangling objects")?;
        let report = self.tree.check(&retained, &dead).map_err(text)?;
        expect(report.entry_count == state.map.len() as u64, "check counts wrong")
    }
}
