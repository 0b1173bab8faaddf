//! A disk in memory that loses power: what was not synced is kept, lost or torn by sectors.
#![allow(dead_code, unreachable_pub, missing_docs, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tembo_pmem::{Disk, DiskFile};

const SECTOR: usize = 512;

/// A small generator: the same seed, the same numbers.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }
}

#[derive(Clone, Default)]
struct Content {
    data: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<(usize, Vec<u8>)>,
    /// What a failed sync gave up: read until the end, perhaps on the disk, never written again.
    doomed: Vec<(usize, Vec<u8>)>,
    locked: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Error,
    Full,
}

/// What goes wrong, and when.
#[derive(Clone, Copy)]
pub struct Plan {
    /// From this call on.
    pub from: u64,
    /// For this many calls.
    pub count: u64,
    pub fault: Fault,
    /// Only steps of which this says so.
    pub only: fn(&'static str) -> bool,
}

#[derive(Clone, Default)]
struct Inner {
    files: Vec<Content>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    /// States of the directory since it was last synced.
    name_history: Vec<BTreeMap<PathBuf, usize>>,
    calls: u64,
    plan: Option<Plan>,
    /// This step is never done.
    dropped: Option<&'static str>,
    entropy: u64,
    steps: Vec<&'static str>,
}

#[derive(Clone, Default)]
pub struct MemDisk {
    inner: Arc<Mutex<Inner>>,
}

impl MemDisk {
    pub fn plan(&self, plan: Plan) {
        let mut inner = self.inner.lock().unwrap();
        inner.calls = 0;
        inner.plan = Some(plan);
    }

    /// All calls fail from the `n`-th on.
    pub fn fail_from(&self, n: u64) {
        self.plan(Plan { from: n, count: u64::MAX, fault: Fault::Error, only: |_| true });
    }

    pub fn heal(&self) {
        let mut inner = self.inner.lock().unwrap();
        (inner.plan, inner.calls) = (None, 0);
    }

    pub fn drop_step(&self, step: Option<&'static str>) {
        self.inner.lock().unwrap().dropped = step;
    }

    pub fn calls(&self) -> u64 {
        self.inner.lock().unwrap().calls
    }

    pub fn steps(&self) -> Vec<&'static str> {
        self.inner.lock().unwrap().steps.clone()
    }

    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let inner = self.inner.lock().unwrap();
        inner.names.get(path).map(|index| inner.files[*index].data.clone())
    }

    pub fn put(&self, path: &Path, data: &[u8]) {
        let mut inner = self.inner.lock().unwrap();
        let content = Content { data: data.to_vec(), durable: data.to_vec(), ..Content::default() };
        inner.files.push(content);
        let index = inner.files.len() - 1;
        inner.names.insert(path.to_owned(), index);
        inner.durable_names.insert(path.to_owned(), index);
    }

    pub fn remove_now(&self, path: &Path) {
        let mut inner = self.inner.lock().unwrap();
        inner.names.remove(path);
        inner.durable_names.remove(path);
    }

    /// The process is gone, the machine goes on: all that was written is there.
    pub fn after_kill(&self) -> MemDisk {
        let mut inner = self.inner.lock().unwrap().clone();
        inner.files.iter_mut().for_each(|file| file.locked = false);
        (inner.plan, inner.calls) = (None, 0);
        MemDisk { inner: Arc::new(Mutex::new(inner)) }
    }

    /// The power is gone: each sector that was not synced is old, or any of what was written since;
    /// the directory is any of its states since its sync.
    pub fn after_power_loss(&self, random: &mut Random) -> MemDisk {
        let mut inner = self.inner.lock().unwrap().clone();
        let keep_all = random.below(8) == 0;
        for file in &mut inner.files {
            file.locked = false;
            if keep_all {
                file.durable = file.data.clone();
                file.pending.clear();
                file.doomed.clear();
                continue;
            }
            let len = if random.below(2) == 0 { file.durable.len() } else { file.data.len() };
            let mut image = file.durable.clone();
            image.resize(len, 0);
            let mut writes = std::mem::take(&mut file.doomed);
            writes.append(&mut file.pending);
            for (offset, bytes) in writes {
                let mut at = 0;
                while at < bytes.len() {
                    let here = offset + at;
                    let piece = (SECTOR - here % SECTOR).min(bytes.len() - at);
                    if random.below(2) == 0 && here + piece <= image.len() {
                        image[here..here + piece].copy_from_slice(&bytes[at..at + piece]);
                    }
                    at += piece;
                }
            }
            file.data = image.clone();
            file.durable = image;
        }
        let history = std::mem::take(&mut inner.name_history);
        let pick =
            if keep_all { history.len() } else { random.below(history.len() as u64 + 1) as usize };
        if pick > 0 {
            inner.durable_names = history[pick - 1].clone();
        }
        inner.names = inner.durable_names.clone();
        (inner.plan, inner.calls) = (None, 0);
        inner.entropy += 1000;
        MemDisk { inner: Arc::new(Mutex::new(inner)) }
    }

    /// Counts a call; `false` when the step is dropped.
    fn step(&self, inner: &mut Inner, step: &'static str) -> io::Result<bool> {
        inner.steps.push(step);
        if let Some(plan) = inner.plan
            && (plan.only)(step)
        {
            inner.calls += 1;
            if inner.calls >= plan.from && inner.calls - plan.from < plan.count {
                return Err(match plan.fault {
                    Fault::Error => io::Error::other("simulated failure"),
                    Fault::Full => io::ErrorKind::StorageFull.into(),
                });
            }
        }
        Ok(inner.dropped != Some(step))
    }

    fn rename_names(
        &self,
        step: &'static str,
        change: impl FnOnce(&mut BTreeMap<PathBuf, usize>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut inner = self.inner.lock().unwrap();
        if self.step(&mut inner, step)? {
            let mut names = inner.names.clone();
            change(&mut names)?;
            inner.names = names.clone();
            inner.name_history.push(names);
        }
        Ok(())
    }
}

struct MemFile {
    disk: MemDisk,
    index: usize,
    holds: Mutex<bool>,
}

impl Drop for MemFile {
    fn drop(&mut self) {
        if *self.holds.lock().unwrap() {
            self.disk.inner.lock().unwrap().files[self.index].locked = false;
        }
    }
}

impl Disk for MemDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let inner = self.inner.lock().unwrap();
        let index = *inner.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(MemFile { disk: self.clone(), index, holds: Mutex::new(false) }))
    }

    fn create(&self, step: &'static str, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut index = 0;
        {
            let mut inner = self.inner.lock().unwrap();
            if let Some(old) = inner.names.get(path)
                && inner.files[*old].locked
            {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            inner.files.push(Content { locked: true, ..Content::default() });
            index += inner.files.len() - 1;
        }
        self.rename_names(step, |names| {
            names.insert(path.to_owned(), index);
            Ok(())
        })?;
        Ok(Arc::new(MemFile { disk: self.clone(), index, holds: Mutex::new(true) }))
    }

    fn link(&self, step: &'static str, from: &Path, to: &Path) -> io::Result<()> {
        self.rename_names(step, |names| {
            if names.contains_key(to) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            let index = *names.get(from).ok_or(io::ErrorKind::NotFound)?;
            names.insert(to.to_owned(), index);
            Ok(())
        })
    }

    fn rename(&self, step: &'static str, from: &Path, to: &Path) -> io::Result<()> {
        self.rename_names(step, |names| {
            let index = names.remove(from).ok_or(io::ErrorKind::NotFound)?;
            names.insert(to.to_owned(), index);
            Ok(())
        })
    }

    fn remove(&self, step: &'static str, path: &Path) -> io::Result<()> {
        self.rename_names(step, |names| {
            names.remove(path);
            Ok(())
        })
    }

    fn sync_dir(&self, step: &'static str, _path: &Path) -> io::Result<()> {
        let mut inner = self.inner.lock().unwrap();
        if self.step(&mut inner, step)? {
            inner.durable_names = inner.names.clone();
            inner.name_history.clear();
        }
        Ok(())
    }

    fn entropy(&self) -> u64 {
        let mut inner = self.inner.lock().unwrap();
        inner.entropy += 1;
        Random(inner.entropy).number()
    }

    fn boot(&self) -> u64 {
        1
    }
}

impl DiskFile for MemFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.inner.lock().unwrap().files[self.index].data.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let inner = self.disk.inner.lock().unwrap();
        let start = offset as usize;
        let data = &inner.files[self.index].data;
        let from = data.get(start..start + buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(from);
        Ok(())
    }

    fn write_at(&self, step: &'static str, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut inner = self.disk.inner.lock().unwrap();
        let result = self.disk.step(&mut inner, step);
        // A write that fails has done some of its work.
        let done = match &result {
            Ok(true) => bytes.len(),
            Ok(false) => 0,
            Err(_) => bytes.len() / 2,
        };
        let (file, start) = (&mut inner.files[self.index], offset as usize);
        if done > 0 {
            file.data.resize(file.data.len().max(start + done), 0);
            file.data[start..start + done].copy_from_slice(&bytes[..done]);
            file.pending.push((start, bytes[..done].to_vec()));
        }
        result.map(drop)
    }

    fn sync(&self, step: &'static str) -> io::Result<()> {
        let mut inner = self.disk.inner.lock().unwrap();
        match self.disk.step(&mut inner, step) {
            Ok(true) => {
                let file = &mut inner.files[self.index];
                file.durable.resize(file.data.len(), 0);
                file.doomed.clear();
                for (offset, bytes) in std::mem::take(&mut file.pending) {
                    file.durable[offset..offset + bytes.len()].copy_from_slice(&bytes);
                }
                Ok(())
            }
            Err(error) => {
                // As systems do: what was not written is called clean, and is read, until the end.
                let file = &mut inner.files[self.index];
                let pending = std::mem::take(&mut file.pending);
                file.doomed.extend(pending);
                Err(error)
            }
            Ok(false) => Ok(()),
        }
    }

    fn allocate(&self, step: &'static str, offset: u64, len: u64) -> io::Result<()> {
        let mut inner = self.disk.inner.lock().unwrap();
        if self.disk.step(&mut inner, step)? {
            let file = &mut inner.files[self.index];
            file.data.resize(file.data.len().max((offset + len) as usize), 0);
        }
        Ok(())
    }

    fn truncate(&self, step: &'static str, len: u64) -> io::Result<()> {
        let mut inner = self.disk.inner.lock().unwrap();
        if self.disk.step(&mut inner, step)? {
            let file = &mut inner.files[self.index];
            file.data.truncate(len as usize);
            file.pending.retain(|(offset, bytes)| offset + bytes.len() <= len as usize);
        }
        Ok(())
    }

    fn lock(&self) -> io::Result<bool> {
        let mut inner = self.disk.inner.lock().unwrap();
        let free = !std::mem::replace(&mut inner.files[self.index].locked, true);
        *self.holds.lock().unwrap() |= free;
        Ok(free)
    }

    fn holder(&self) -> Option<u32> {
        None
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
