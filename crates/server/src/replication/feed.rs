//! What a replica is given: by a thread for each, which pulls changes by version and writes them to the socket.
//!
//! The thread holds one frame at a time, and what the store sorts in one pass. A replica that is slow, or does not read,
//! so makes nothing wait and fills no buffer: what it has not taken yet stays where it is, in the store, which retains
//! it as long as the connection lives.

use std::collections::VecDeque;
use std::ops::Bound;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rustix::net::{Shutdown, shutdown};
use tembo_kv::{Changes, Direction, Event, Snapshot, Store, Value};

use crate::replication::format::{Action, Entry, FrameHeader, FrameKind, HEADER_SIZE, KEYSPACE};
use crate::replication::history::Beginning;
use crate::replication::outlet::{End, Outlet, PATIENCE};

/// Bytes of entries after which a frame ends with the commit, and after which it ends within one.
const FRAME_SIZE: (usize, usize) = (64 << 10, 256 << 10);
/// Bytes after which it ends with a version that may be within a commit. A replica applies so much before it is whole, and can
/// go on from there.
const INCOMPLETE_SIZE: usize = 8 << 20;
/// A replica hears of its primary at least so often.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Versions at which a store does not hold all that its own primary had, as periods in ascending order: a replica that is slow
/// may have earlier ones before it.
#[derive(Default)]
pub(crate) struct Gap(Mutex<VecDeque<Period>>);

/// From a version on, to the one before the second; that is `u64::MAX` where it has not ended.
type Period = (u64, u64);

/// Of more periods the two oldest become one, with what lies between them.
const PERIODS_MAX: usize = 64;

impl Gap {
    /// From this version on, unless it is open.
    pub(crate) fn open(&self, version: u64) {
        let mut periods = self.periods();
        if periods.back().is_some_and(|(_, to)| *to == u64::MAX) {
            return;
        }
        periods.push_back((version, u64::MAX));
        if periods.len() > PERIODS_MAX
            && let Some((from, _)) = periods.pop_front()
            && let Some(second) = periods.front_mut()
        {
            second.0 = from;
        }
    }

    /// Up to this version, which is whole; if it is open.
    pub(crate) fn close(&self, version: u64) {
        if let Some((_, to)) = self.periods().back_mut() {
            *to = version.min(*to);
        }
    }

    fn periods(&self) -> MutexGuard<'_, VecDeque<Period>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn contains(&self, version: u64) -> bool {
        self.periods().iter().any(|&(from, to)| (from..to).contains(&version))
    }
}

/// The thread that feeds a replica, as the event loop sees it.
pub(crate) struct Feed {
    state: Arc<State>,
    socket: OwnedFd,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    stop: Arc<AtomicBool>,
    /// All of the snapshot was sent, if there is one.
    is_online: AtomicBool,
}

impl Feed {
    /// Begins to feed. The socket does not block.
    pub(crate) fn start(
        store: &Store,
        socket: &OwnedFd,
        (id, beginning): (String, Beginning),
        gap: &Arc<Gap>,
    ) -> std::io::Result<Feed> {
        let state = Arc::new(State::default());
        let mut feeder = Feeder {
            store: store.clone(),
            outlet: Outlet::new(socket, &state.stop)?,
            state: state.clone(),
            gap: gap.clone(),
            frame: Vec::new(),
            parts: 0,
            sent_at: Instant::now(),
        };
        feeder.begin_frame();
        let run = move || {
            // The replica connects again, and then gets the reason why it cannot go on.
            let _ = feeder.run(&id, beginning);
            feeder.outlet.close();
        };
        let thread = Builder::new().name("replica".to_owned()).spawn(run)?;
        Ok(Feed { state, socket: socket.try_clone()?, thread })
    }

    /// Whether the replica has been given all of the snapshot.
    pub(crate) fn is_online(&self) -> bool {
        self.state.is_online.load(Ordering::Relaxed)
    }

    /// Ends the connection; the thread ends soon.
    pub(crate) fn stop(self) -> JoinHandle<()> {
        self.state.stop.store(true, Ordering::Relaxed);
        let _ = shutdown(&self.socket, Shutdown::Both);
        self.thread
    }
}

struct Feeder {
    store: Store,
    outlet: Outlet,
    state: Arc<State>,
    gap: Arc<Gap>,
    /// A frame, of which the header is empty yet.
    frame: Vec<u8>,
    /// Bytes of entries in the frames before it that belong to the same whole.
    parts: usize,
    sent_at: Instant,
}

impl Feeder {
    fn run(&mut self, id: &str, beginning: Beginning) -> Result<(), End> {
        let Beginning { mut changes, version, snapshot } = beginning;
        // Nothing above the durable version leaves the process.
        self.store.sync()?;
        let how = if snapshot.is_some() { "FULL" } else { "CONTINUE" };
        self.outlet.send(format!("+{how} {id} {version}\r\n").as_bytes())?;
        if let Some(snapshot) = snapshot {
            self.send_all(&snapshot)?;
        }
        self.state.is_online.store(true, Ordering::Relaxed);
        let mut last = version;
        let mut given = version;
        loop {
            match changes.next()? {
                Some(change) => {
                    if change.version > last && self.end_between(&changes, last)? {
                        given = last;
                    }
                    last = change.version;
                    if &*change.keyspace == KEYSPACE {
                        continue;
                    }
                    let (action, key, value) = match &change.event {
                        Event::Created => (Action::Create, &[][..], &[][..]),
                        Event::Cleared => (Action::Clear, &[][..], &[][..]),
                        Event::Put { key, value } => (Action::Put, &key[..], &value[..]),
                        Event::Removed { key } => (Action::Remove, &key[..], &[][..]),
                    };
                    let keyspace = &*change.keyspace;
                    self.add(Entry { action, keyspace, key, value }, change.version)?;
                }
                None => {
                    let position = changes.position();
                    let is_due = self.sent_at.elapsed() >= HEARTBEAT;
                    if position > given || self.size() > 0 || is_due {
                        self.end_whole(position)?;
                        (given, last) = (position, position.max(last));
                    }
                    self.outlet.check()?;
                    changes.wait(PATIENCE);
                }
            }
        }
    }

    /// All keyspaces but the store's own record.
    fn send_all(&mut self, snapshot: &Snapshot) -> Result<(), End> {
        let version = snapshot.version();
        for (name, space) in snapshot.keyspaces()? {
            if name == KEYSPACE {
                continue;
            }
            let made = Entry { action: Action::Create, keyspace: &name, key: &[], value: &[] };
            made.push(&mut self.frame);
            let (mut behind, mut bytes) = (Bound::Unbounded, Vec::new());
            loop {
                let mut last = None;
                let (frame, action) = (&mut self.frame, Action::Put);
                let from = behind.as_ref().map(|key: &Vec<u8>| &key[..]);
                let range = (from, Bound::Unbounded);
                // The store is not held while the socket is waited for.
                let mut visit = |key: &[u8], value: Value<'_>| {
                    bytes.clear();
                    value.append_to(&mut bytes);
                    Entry { action, keyspace: &name, key, value: &bytes }.push(frame);
                    let is_full = frame.len() >= FRAME_SIZE.1;
                    last = is_full.then(|| key.to_vec());
                    !is_full
                };
                snapshot.range_with::<[u8]>(space, range, Direction::Forward, &mut visit)?;
                let Some(key) = last else { break };
                behind = Bound::Excluded(key);
                self.end_frame(FrameKind::Part, version)?;
            }
        }
        self.end_whole(version)
    }

    /// Behind all changes of a version, before those of the next one: sends what waits, if it is enough. True if it is sent.
    fn end_between(&mut self, changes: &Changes, version: u64) -> Result<bool, End> {
        let size = self.parts + self.size();
        // A commit may have several versions: a replica that had only some of them would show, and keep, a half of it.
        let kind = match size >= FRAME_SIZE.0 && changes.is_whole_at(version) {
            true => FrameKind::Whole,
            false if size >= INCOMPLETE_SIZE => FrameKind::Incomplete,
            false => return Ok(false),
        };
        match kind {
            FrameKind::Whole => self.end_whole(version)?,
            kind => self.end_frame(kind, version)?,
        }
        Ok(true)
    }

    fn begin_frame(&mut self) {
        self.frame.clear();
        self.frame.shrink_to(2 * FRAME_SIZE.1);
        self.frame.resize(HEADER_SIZE, 0);
    }

    /// Bytes of entries that wait.
    fn size(&self) -> usize {
        self.frame.len() - HEADER_SIZE
    }

    fn add(&mut self, entry: Entry<'_>, version: u64) -> Result<(), End> {
        if self.size() > 0 && self.size() + entry.size() > FRAME_SIZE.1 {
            self.end_frame(FrameKind::Part, version)?;
        }
        entry.push(&mut self.frame);
        Ok(())
    }

    /// Sends what waits, with which everything up to the version was given.
    fn end_whole(&mut self, version: u64) -> Result<(), End> {
        let is_whole = !self.gap.contains(version);
        self.end_frame(if is_whole { FrameKind::Whole } else { FrameKind::Incomplete }, version)
    }

    fn end_frame(&mut self, kind: FrameKind, version: u64) -> Result<(), End> {
        self.parts = if kind == FrameKind::Part { self.parts + self.size() } else { 0 };
        let header = FrameHeader { kind, size: self.size() as u32, version };
        let mut frame = std::mem::take(&mut self.frame);
        frame[..HEADER_SIZE].copy_from_slice(&header.encode());
        let sent = self.outlet.send(&frame);
        self.frame = frame;
        self.begin_frame();
        self.sent_at = Instant::now();
        sent
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use tembo_kv::{Durability, Keyspace, Options, Retention};

    use super::*;
    use crate::replication::histories::Histories;
    use crate::replication::history::begin;
    use crate::replication::mark::Mark;

    const ID: &str = "0123";

    fn put(store: &Store, space: Keyspace, keys: &[&[u8]]) {
        let mut tx = store.exclusive().unwrap();
        for key in keys {
            tx.savepoint();
            tx.put(space, key, &[7; 80 << 10]).unwrap();
        }
        tx.commit(Durability::Strict).unwrap();
    }

    /// What a replica is given that holds a version: the frames up to the visible version.
    fn frames(store: &Store, version: u64) -> Vec<FrameHeader> {
        let (socket, mut other) = UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        let held = [Mark { id: ID.to_owned(), version }];
        let histories = Histories::open(store, ID).unwrap();
        let beginning = begin(store, &histories, &held).unwrap();
        assert!(beginning.snapshot.is_none());
        let gap = Arc::<Gap>::default();
        let feed = Feed::start(store, &socket.into(), (ID.to_owned(), beginning), &gap).unwrap();
        while {
            let mut byte = [0];
            other.read_exact(&mut byte).unwrap();
            byte[0] != b'\n'
        } {}
        let mut frames: Vec<FrameHeader> = Vec::new();
        let is_end =
            |last: &FrameHeader| last.kind != FrameKind::Part && last.version >= store.visible();
        while !frames.last().is_some_and(is_end) {
            let mut header = [0; HEADER_SIZE];
            other.read_exact(&mut header).unwrap();
            let header = FrameHeader::decode(header).unwrap();
            other.read_exact(&mut vec![0; header.size as usize]).unwrap();
            frames.push(header);
        }
        feed.stop().join().unwrap();
        frames
    }

    fn whole(frames: &[FrameHeader]) -> Vec<u64> {
        let whole = frames.iter().filter(|frame| frame.kind == FrameKind::Whole);
        whole.map(|frame| frame.version).collect()
    }

    #[test]
    fn a_replica_is_given_a_commit_of_several_versions_as_one() {
        let store = Store::volatile(&Options::new().background(false)).unwrap();
        let space = store.keyspace("x").unwrap();
        let begin = store.visible();
        store.retain(Retention::Since(begin)).unwrap();
        let commit = |keys: &[&[u8]]| {
            put(&store, space, keys);
            store.visible()
        };
        let visible = [commit(&[b"a", b"b"]), commit(&[b"c"]), commit(&[b"d", b"e", b"f", b"g"])];
        assert_eq!(whole(&frames(&store, begin)), visible);
    }

    #[test]
    fn versions_of_earlier_periods_are_no_states_to_keep() {
        let gap = Gap::default();
        gap.close(3);
        for from in [10, 20] {
            gap.open(from);
            gap.open(from + 2);
            assert!(gap.contains(from + 100));
            gap.close(from + 4);
            gap.close(from + 8);
        }
        let within = (0..100).filter(|&version| gap.contains(version));
        assert!(within.eq((10..14).chain(20..24)));
        for from in (30..).step_by(3).take(10 * PERIODS_MAX) {
            gap.open(from);
            gap.close(from + 1);
        }
        assert!(gap.contains(11) && gap.contains(21) && gap.contains(30) && !gap.contains(9));
        assert!(gap.periods().len() <= PERIODS_MAX);
    }

    /// Of what an earlier process has committed it is not known which versions belong together.
    #[test]
    fn what_was_committed_before_the_store_was_opened_is_whole_at_its_end() {
        let name = format!("tembo-feed-{}.pool", std::process::id());
        let path = std::env::temp_dir().join(name);
        let options = Options::new().background(false);
        let store = Store::create(&path, &options).unwrap();
        let space = store.keyspace("x").unwrap();
        let begin = store.visible();
        store.retain(Retention::Since(begin)).unwrap();
        (0..150u8).for_each(|key| put(&store, space, &[&[key], &[key, 1]]));
        let last = store.visible();
        store.close().unwrap();
        let store = Store::open(&path, &options).unwrap();
        let given = frames(&store, begin);
        let incomplete = given.iter().filter(|frame| frame.kind == FrameKind::Incomplete).count();
        assert!(incomplete > 0 && whole(&given).iter().all(|&version| version >= last));
        put(&store, store.keyspace("x").unwrap(), &[b"later"]);
        assert!(whole(&frames(&store, begin)).contains(&store.visible()));
        store.close().unwrap();
        std::fs::remove_file(&path).unwrap();
    }
}
