//! A disk in memory that loses power, fails, fills up and forgets.
//!
//! It holds what is read, and for each sector, length and name what the medium may hold instead:
//! anything that it has been since it was last known durable. A power loss leaves one of these for
//! each, independently of all others; which one is decided at its first read ([`Chooser`]). A snapshot
//! shares all sectors that do not change, so that one may be taken before every step.

mod chooser;
mod fault;
mod file;
mod inner;
mod kept;
mod sector;
mod snapshot;
mod state;

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, MutexGuard};

use tembo_pmem::{Disk, DiskFile};

use crate::Random;
pub use chooser::{Chooser, Decision, Rest, Site};
pub use fault::{Failure, Fault, Slip};
use file::SimFile;
use inner::{Done, Inner, Late, Shared};
pub use snapshot::{Point, Snapshot};
use state::{File, State};

/// A disk in memory. Clones are the same disk.
#[derive(Clone)]
pub struct SimDisk {
    shared: Arc<Shared>,
}

/// The disks that a snapshot may become.
impl Snapshot {
    /// The process was killed, the machine goes on: all that was written is read.
    pub fn after_kill(&self) -> SimDisk {
        let state = self.state().clone();
        SimDisk::with(Inner::new(state, Chooser::new(Rest::New), self.is_mapped()))
    }

    /// The power was lost, and is back: `chooser` decides what is left.
    pub fn after_power_loss(&self, chooser: Chooser) -> SimDisk {
        let mut state = self.state().clone();
        state.lose_power();
        SimDisk::with(Inner::new(state, chooser, self.is_mapped()))
    }
}

impl Default for SimDisk {
    fn default() -> SimDisk {
        SimDisk::with(Inner::new(State::default(), Chooser::new(Rest::New), false))
    }
}

impl SimDisk {
    /// An empty disk whose files can be mapped: from memory, whose changes are taken over before
    /// each step.
    pub fn mapped() -> SimDisk {
        SimDisk::with(Inner::new(State::default(), Chooser::new(Rest::New), true))
    }

    fn with(inner: Inner) -> SimDisk {
        SimDisk { shared: Arc::new(Shared::new(inner)) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.shared.lock()
    }

    /// The disk as it is.
    pub fn snapshot(&self) -> Snapshot {
        let mut inner = self.lock();
        // Memory that cannot be read was never mapped.
        let _ = inner.absorb();
        Snapshot::of(&inner.state, inner.memories.is_some())
    }

    /// Plans what fails from here on.
    pub fn fail(&self, fault: Fault) {
        let mut inner = self.lock();
        (inner.fault, inner.calls, inner.hit) = (Some(fault), 0, None);
    }

    /// The place, among the points noted, of the one before the first call that failed.
    pub fn hits(&self) -> Option<usize> {
        self.lock().hit
    }

    /// Nothing fails any more.
    pub fn heal(&self) {
        self.lock().fault = None;
    }

    /// From here on a step is done wrong.
    pub fn slip(&self, slip: Option<Slip>) {
        self.lock().slip = slip;
    }

    /// The disk has `sectors` left.
    pub fn leave_room(&self, sectors: Option<usize>) {
        self.lock().state.room = sectors;
    }

    /// From here on what is written once more needs room for a moment, as on a file system that copies.
    pub fn copy_on_write(&self, copies: bool) {
        self.lock().state.copies = copies;
    }

    /// From here on a point is noted before each step.
    pub fn record(&self) {
        self.lock().records = true;
    }

    /// The points noted, the disk as it is last, under the name `end`; none are noted any more.
    pub fn points(&self) -> Vec<Point> {
        let snapshot = self.snapshot();
        let mut inner = self.lock();
        inner.records = false;
        let mut points = std::mem::take(&mut inner.points);
        points.push(Point { step: "end", snapshot, mark: inner.mark });
        points
    }

    /// Stands in the points noted from here on.
    pub fn mark(&self, mark: u64) {
        self.lock().mark = mark;
    }

    /// Names of the steps that were tried.
    pub fn steps(&self) -> BTreeSet<&'static str> {
        self.lock().steps.clone()
    }

    /// A hash of all that was read, in order.
    pub fn read_hash(&self) -> u64 {
        self.lock().read_hash
    }

    /// What was decided about the power loss.
    pub fn decisions(&self) -> Vec<Decision> {
        self.lock().chooser.made().to_vec()
    }

    /// The bytes of a file.
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let inner = &mut *self.lock();
        let file = inner.state.find(path, &mut inner.chooser)?;
        let mut bytes = vec![0; inner.state.len(file, &mut inner.chooser) as usize];
        inner.state.read(file, &mut bytes, 0, &mut inner.chooser);
        Some(bytes)
    }

    /// Puts a file there, durably, in the place of whatever has the name.
    pub fn put(&self, path: &Path, bytes: &[u8]) {
        let mut inner = self.lock();
        inner.state.files.push(Arc::new(File::durable(bytes)));
        let file = inner.state.files.len() - 1;
        inner.state.name(path, Some(file));
        inner.state.sync_names();
    }

    /// Takes a name away, durably.
    pub fn take(&self, path: &Path) {
        let mut inner = self.lock();
        inner.state.name(path, None);
        inner.state.sync_names();
    }

    /// Sectors of these bytes of a file that were never written.
    pub fn unwritten(&self, path: &Path, bytes: Range<usize>) -> usize {
        let inner = &mut *self.lock();
        let Some(file) = inner.state.find(path, &mut inner.chooser) else {
            return 0;
        };
        inner.state.files[file].unwritten_count(bytes)
    }

    /// Sectors of a file that have room on the disk.
    pub fn room_taken(&self, path: &Path) -> usize {
        let inner = &mut *self.lock();
        let file = inner.state.find(path, &mut inner.chooser);
        file.map_or(0, |file| inner.state.files[file].room_taken())
    }

    /// Changes names in a step.
    fn step(
        &self,
        step: &'static str,
        change: impl FnOnce(&mut Inner) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut inner = self.lock();
        let result = match inner.begin(step, Some(Late::Names))? {
            Done::Yes => change(&mut inner),
            Done::No => Ok(()),
            Done::Failed(error) => Err(error),
        };
        inner.end(step)?;
        result
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let inner = &mut *self.lock();
        let file = inner.find(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(SimFile::new(&self.shared, inner, file, false)?))
    }

    fn create(&self, step: &'static str, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        // Without the step there is a file that has no name.
        let new = {
            let files = &mut self.lock().state.files;
            files.push(Arc::new(File::empty()));
            files.len() - 1
        };
        self.step(step, |inner| {
            let old = inner.find(path);
            if old.is_some_and(|old| inner.locks.contains(&old)) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            inner.state.name(path, Some(new));
            Ok(())
        })?;
        let inner = &mut *self.lock();
        inner.locks.insert(new);
        Ok(Arc::new(SimFile::new(&self.shared, inner, new, true)?))
    }

    fn link(&self, step: &'static str, from: &Path, to: &Path) -> io::Result<()> {
        self.step(step, |inner| {
            if inner.find(to).is_some() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            let file = inner.find(from).ok_or(io::ErrorKind::NotFound)?;
            inner.state.name(to, Some(file));
            Ok(())
        })
    }

    fn rename(&self, step: &'static str, from: &Path, to: &Path) -> io::Result<()> {
        self.step(step, |inner| {
            let file = inner.find(from).ok_or(io::ErrorKind::NotFound)?;
            inner.state.name(from, None);
            inner.state.name(to, Some(file));
            Ok(())
        })
    }

    fn remove(&self, step: &'static str, path: &Path) -> io::Result<()> {
        self.step(step, |inner| {
            inner.find(path).ok_or(io::ErrorKind::NotFound)?;
            inner.state.name(path, None);
            Ok(())
        })
    }

    fn sync_dir(&self, step: &'static str, _path: &Path) -> io::Result<()> {
        let mut inner = self.lock();
        let result = match inner.begin(step, Some(Late::Names))? {
            Done::Yes => {
                inner.state.sync_names();
                Ok(())
            }
            Done::No => Ok(()),
            // Names go through a journal: it has them still, or never writes anything again.
            Done::Failed(error) => Err(error),
        };
        inner.end(step)?;
        result
    }

    fn entropy(&self) -> u64 {
        let mut inner = self.lock();
        inner.state.entropy += 1;
        // A machine that boots does not find the numbers of its last life.
        Random::new(inner.state.entropy + (inner.state.boots << 32)).number()
    }

    fn boot(&self) -> u64 {
        1 + self.lock().state.boots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_sector_has_the_bytes_of_two_and_what_is_durable_is_whole() {
        let (disk, path) = (SimDisk::default(), Path::new("/disk/file"));
        let file = disk.create("test.create", path).unwrap();
        file.write_at("test.write", &[1; 1024], 0).unwrap();
        file.sync("test.sync").unwrap();
        disk.sync_dir("test.names", path).unwrap();
        file.write_at("test.write", &[2; 512], 512).unwrap();
        file.write_at("test.write", &[3; 700], 512).unwrap();
        let torn = disk.snapshot().after_power_loss(Chooser::new(Rest::Torn)).content(path);
        let expected = [&[1; 512][..], &[3; 256], &[1; 256], &[3; 188]].concat();
        assert_eq!(torn.unwrap(), expected);
    }
}
