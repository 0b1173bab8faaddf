//! What the threads stand on: a tree with the least that it needs of a store, or a store.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tembo_index::{Clock, IndexKind, Op as Change, Retired, VERSION_MAX};
use tembo_kv::{Durability, Error, Isolation, Keyspace, Store};
use tembo_pmem::Region;
use tembo_pmem::thread::lock;

use super::order::Answer;
use super::plan::{Call, Cast, Sight};
use crate::judge::{expect, text};
use crate::kv::{Kv, maintain};
use crate::subject::Subject;
use crate::tree::{Harness, Map, Write, key, value};

const KV: Kv = Kv(IndexKind::Nvtree);
const KEYSPACE: &str = "x";

/// Versions that the threads may draw.
const VERSIONS: u64 = 64;

pub(super) enum Fixture {
    Tree(Box<Tree>),
    Store(Store, Keyspace),
}

/// Bytes in a region.
pub(super) fn size(cast: Cast) -> u64 {
    match cast {
        Cast::Store => KV.size().0,
        _ => 128 << 10,
    }
}

/// Makes what there is before the threads begin.
pub(super) fn make(cast: Cast, region: Region, keys: &[Write], serial: u64) -> Result<Map, String> {
    if cast != Cast::Store {
        let mut harness = Harness::make(IndexKind::Nvtree, region, &mut || {})?;
        return harness.put_all(keys, serial);
    }
    let store = KV.make(region, &mut || {})?;
    let keyspace = store.keyspace(KEYSPACE).map_err(text)?;
    let fixture = Fixture::Store(store, keyspace);
    for (at, &(n, len)) in keys.iter().enumerate() {
        fixture.perform(&Call::Put(n, len.unwrap_or_default()), serial + at as u64)?;
    }
    fixture.end()
}

/// What an image shows, if it is sound and recovers to the same.
pub(super) fn recovered(cast: Cast, region: Region) -> Result<Map, String> {
    match cast {
        Cast::Store => {
            let store = KV.open(region)?.ok_or("nothing is where a store was")?;
            settled(store)
        }
        _ => Harness::recovered(region),
    }
}

fn settled(mut store: Store) -> Result<Map, String> {
    let mut state = KV.show(&mut store)?;
    maintain(&store)?;
    expect(KV.show(&mut store)? == state, "recovery has changed what is there")?;
    KV.check(&mut store, &state)?;
    Ok(state.spaces.remove(KEYSPACE).unwrap_or_default())
}

impl Fixture {
    pub(super) fn open(cast: Cast, region: Region) -> Result<Fixture, String> {
        if cast == Cast::Store {
            let store = KV.open(region)?.ok_or("nothing is where a store was")?;
            maintain(&store)?;
            let keyspace = store.keyspace(KEYSPACE).map_err(text)?;
            return Ok(Fixture::Store(store, keyspace));
        }
        let mut harness = Harness::open(region)?.ok_or("nothing is where a tree was")?;
        if cast != Cast::Opening {
            harness.recover()?;
        }
        let clock = harness.allow(VERSIONS)?;
        let visible = AtomicU64::new(harness.version());
        let (writing, retired) = (Mutex::default(), Mutex::default());
        let tree = Tree { cast, harness, clock, visible, writing, retired };
        Ok(Fixture::Tree(Box::new(tree)))
    }

    pub(super) fn perform(&self, call: &Call, serial: u64) -> Result<Answer, String> {
        match self {
            Fixture::Tree(tree) => tree.perform(call, serial),
            Fixture::Store(store, keyspace) => perform(store, *keyspace, call, serial),
        }
    }

    /// All threads have ended: what there is, if it is sound.
    pub(super) fn end(self) -> Result<Map, String> {
        match self {
            Fixture::Tree(tree) => tree.end(),
            Fixture::Store(store, _) => settled(store),
        }
    }
}

/// Of a group, the keys and values.
fn pairs(writes: &[(u8, usize)], serial: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    let pair = |(at, &(n, len))| (key(n), value(serial + at as u64, len));
    writes.iter().enumerate().map(pair).collect()
}

fn perform(store: &Store, keyspace: Keyspace, call: &Call, serial: u64) -> Result<Answer, String> {
    let buffered = Durability::Buffered;
    match call {
        Call::Get(n) => store.get(keyspace, &key(*n)).map(Answer::Value),
        Call::View(n, m) => store.snapshot().and_then(|snapshot| {
            let mut values = [None, None, None];
            for (value, n) in values.iter_mut().zip([n, m, n]) {
                *value = snapshot.get(keyspace, &key(*n))?.map(|value| value.to_vec());
                // Others may go on.
                tembo_pmem::thread::wait(0);
            }
            Ok(Answer::Values(values))
        }),
        Call::Put(n, len) => {
            store.put(keyspace, &key(*n), &value(serial, *len), buffered).map(Answer::Existed)
        }
        Call::Remove(n) => store.remove(keyspace, &key(*n), buffered).map(Answer::Existed),
        Call::Group(writes) => store.exclusive().and_then(|mut tx| {
            for (key, value) in pairs(writes, serial) {
                tx.put(keyspace, &key, &value)?;
            }
            tx.commit(buffered).map(|_| Answer::Done)
        }),
        Call::Abort(writes) => store.exclusive().and_then(|mut tx| {
            for (key, value) in pairs(writes, serial) {
                tx.put(keyspace, &key, &value)?;
            }
            drop(tx);
            Ok(Answer::Done)
        }),
        Call::Transact(n, writes) => match transact(store, keyspace, *n, &pairs(writes, serial)) {
            Err(Error::Conflict { .. }) => Ok(Answer::Refused),
            done => done.map(Answer::Value),
        },
        Call::Step => store.maintain(1).map(|_| Answer::Done),
    }
    .map_err(text)
}

/// What it has read.
fn transact(
    store: &Store,
    keyspace: Keyspace,
    n: u8,
    writes: &[(Vec<u8>, Vec<u8>)],
) -> Result<Option<Vec<u8>>, Error> {
    let mut tx = store.transaction(Isolation::Serialisable)?;
    let read = tx.get(keyspace, &key(n))?;
    // Others may go on.
    tembo_pmem::thread::wait(0);
    for (key, value) in writes {
        tx.put(keyspace, key, value)?;
    }
    tx.commit(Durability::Buffered)?;
    Ok(read)
}

/// A tree, and what a store has beside its own.
pub(super) struct Tree {
    cast: Cast,
    harness: Harness,
    clock: Clock,
    /// The version that readers see, where one writes at a time.
    visible: AtomicU64,
    writing: Mutex<()>,
    retired: Mutex<Vec<Retired>>,
}

impl Tree {
    fn perform(&self, call: &Call, serial: u64) -> Result<Answer, String> {
        if let Call::Get(n) = call {
            let version = match self.cast {
                Cast::Groups(Sight::Visible) => self.visible.load(Ordering::Acquire),
                _ => VERSION_MAX,
            };
            return Ok(Answer::Value(self.harness.get_beside(&key(*n), version)?));
        }
        let has_visible = matches!(self.cast, Cast::Groups(_));
        let _turn = has_visible.then(|| lock(&self.writing));
        let mut retired = Vec::new();
        let answer = self.change(call, serial, has_visible, &mut retired)?;
        lock(&self.retired).extend(retired);
        if has_visible {
            self.visible.store(self.clock.last(), Ordering::Release);
        }
        Ok(answer)
    }

    fn change(
        &self,
        call: &Call,
        serial: u64,
        keeps_past: bool,
        retired: &mut Vec<Retired>,
    ) -> Result<Answer, String> {
        let retained = self.harness.retained_beside(&self.clock, keeps_past);
        let mut single = |change| {
            let existed = self.harness.change_beside(change, &self.clock, &retained, retired);
            existed.map(Answer::Existed)
        };
        match call {
            Call::Put(n, len) => {
                let (key, value) = (key(*n), value(serial, *len));
                single(Change::Put { key: &key, value: &[&value] })
            }
            Call::Remove(n) => single(Change::Remove { key: &key(*n) }),
            Call::Group(writes) => {
                let pairs = pairs(writes, serial);
                self.harness.group_beside(&pairs, &self.clock, &retained, retired)?;
                Ok(Answer::Done)
            }
            Call::Get(_) | Call::View(..) | Call::Abort(_) | Call::Transact(..) | Call::Step => {
                Err("a tree has no such call".to_owned())
            }
        }
    }

    fn end(mut self) -> Result<Map, String> {
        let retired = std::mem::take(&mut *lock(&self.retired));
        self.harness.joined(self.clock.last(), retired);
        let state = self.harness.show()?;
        self.harness.check(&state)?;
        Ok(state.map)
    }
}
