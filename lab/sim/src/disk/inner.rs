//! A disk at work: its state, what goes wrong, and what is noted of each step.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::chooser::Chooser;
use super::fault::{Fault, Slip};
use super::sector::{SECTOR, mix};
use super::snapshot::{Point, Snapshot};
use super::state::State;

/// Whether a step is done.
pub(super) enum Done {
    Yes,
    /// It is left out, or put off.
    No,
    /// It fails, half done.
    Failed(io::Error),
}

/// What a sync that was put off syncs.
#[derive(Clone, Copy)]
pub(super) enum Late {
    File(usize),
    Names,
}

/// A disk at work, for all its handles.
pub(super) struct Shared {
    inner: Mutex<Inner>,
}

impl Shared {
    pub(super) fn new(inner: Inner) -> Shared {
        Shared { inner: Mutex::new(inner) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Inner {
    pub(super) state: State,
    pub(super) chooser: Chooser,
    /// Files that are locked.
    pub(super) locks: BTreeSet<usize>,
    /// Memory that files are mapped from, where they can be.
    pub(super) memories: Option<BTreeMap<usize, File>>,
    pub(super) fault: Option<Fault>,
    /// Calls since the fault was planned, of those that count.
    pub(super) calls: u64,
    /// Which point was noted before the first call that failed.
    pub(super) hit: Option<usize>,
    pub(super) slip: Option<Slip>,
    late: Option<Late>,
    pub(super) records: bool,
    pub(super) points: Vec<Point>,
    pub(super) mark: u64,
    pub(super) steps: BTreeSet<&'static str>,
    pub(super) read_hash: u64,
}

impl Inner {
    pub(super) fn new(state: State, chooser: Chooser, mapped: bool) -> Inner {
        Inner {
            state,
            chooser,
            locks: BTreeSet::new(),
            memories: mapped.then(BTreeMap::new),
            fault: None,
            calls: 0,
            hit: None,
            slip: None,
            late: None,
            records: false,
            points: Vec::new(),
            mark: 0,
            steps: BTreeSet::new(),
            read_hash: 0,
        }
    }

    /// A step begins: notes the disk as it is before, and says whether the step is done.
    pub(super) fn begin(&mut self, step: &'static str, target: Option<Late>) -> io::Result<Done> {
        self.absorb()?;
        self.steps.insert(step);
        if self.records {
            let snapshot = Snapshot::of(&self.state, self.memories.is_some());
            self.points.push(Point { step, snapshot, mark: self.mark });
        }
        if let Some(fault) = &self.fault
            && fault.counts(step)
        {
            self.calls += 1;
            if fault.hits(self.calls) {
                self.hit.get_or_insert(self.points.len().saturating_sub(1));
                return Ok(Done::Failed(fault.error()));
            }
        }
        match &self.slip {
            Some(Slip::Dropped { step: dropped }) if dropped == step => Ok(Done::No),
            Some(Slip::Late { step: late, .. }) if late == step => {
                self.late = target;
                Ok(Done::No)
            }
            _ => Ok(Done::Yes),
        }
    }

    /// A step has ended: what waited for it is done.
    pub(super) fn end(&mut self, step: &'static str) -> io::Result<()> {
        let waited = matches!(&self.slip, Some(Slip::Late { until, .. }) if until == step);
        match self.late.take_if(|_| waited) {
            Some(Late::File(file)) => {
                self.absorb()?;
                Arc::make_mut(&mut self.state.files[file]).sync();
            }
            Some(Late::Names) => self.state.sync_names(),
            None => {}
        }
        Ok(())
    }

    /// The file of that name, as the process reads it.
    pub(super) fn find(&mut self, path: &Path) -> Option<usize> {
        let found = self.state.find(path, &mut self.chooser);
        self.has_read(found.map_or(u64::MAX, |file| file as u64));
        found
    }

    /// Something was read whose hash is `hash`.
    pub(super) fn has_read(&mut self, hash: u64) {
        self.read_hash = mix(self.read_hash, hash);
    }

    /// The memory that a file is mapped from, if files can be mapped: filled when first asked for.
    pub(super) fn memory(&mut self, file: usize) -> io::Result<Option<File>> {
        let Some(memories) = &mut self.memories else {
            return Ok(None);
        };
        if let Some(memory) = memories.get(&file) {
            return memory.try_clone().map(Some);
        }
        let memory = File::from(rustix::fs::memfd_create("sim", rustix::fs::MemfdFlags::CLOEXEC)?);
        let len = self.state.len(file, &mut self.chooser);
        let mut bytes = vec![0; len as usize];
        self.state.read(file, &mut bytes, 0, &mut self.chooser);
        memory.set_len(len)?;
        memory.write_all_at(&bytes, 0)?;
        let copy = memory.try_clone()?;
        memories.insert(file, memory);
        Ok(Some(copy))
    }

    /// Takes over what was stored through mappings.
    pub(super) fn absorb(&mut self) -> io::Result<()> {
        for (file, memory) in self.memories.iter().flatten() {
            let len = self.state.len(*file, &mut self.chooser) as usize;
            let (mut theirs, mut ours) = (vec![0; len], vec![0; len]);
            memory.read_exact_at(&mut theirs, 0)?;
            self.state.read(*file, &mut ours, 0, &mut self.chooser);
            let changed = theirs.chunks(SECTOR).zip(ours.chunks(SECTOR)).enumerate();
            for (at, (new, _)) in changed.filter(|(_, (new, old))| new != old) {
                self.state.write(*file, new, at * SECTOR, &mut self.chooser);
            }
        }
        Ok(())
    }

    /// Lets mappings see what was written.
    pub(super) fn mirror(&self, file: usize, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.memories.as_ref().and_then(|memories| memories.get(&file)) {
            Some(memory) => memory.write_all_at(bytes, offset),
            None => Ok(()),
        }
    }

    /// Lets mappings see a length.
    pub(super) fn mirror_len(&mut self, file: usize) -> io::Result<()> {
        let len = self.state.len(file, &mut self.chooser);
        match self.memories.as_ref().and_then(|memories| memories.get(&file)) {
            Some(memory) => memory.set_len(len),
            None => Ok(()),
        }
    }
}
