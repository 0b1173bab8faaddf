//! What passes the waist, written down with its content.
//!
//! The observer is told where a store goes, not what it stores. So the recorder reads the region's
//! memory, through `/proc/self/mem`, and compares it with its own copy. A word store is announced
//! after it is done, a write before: its content is read at the next step, and counts as stored
//! before the flush that came with its announcement.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, OnceLock};

use tembo_pmem::{LINE, Observer, Region, Stored};

/// A step that passed the waist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Eight bytes at `offset`; named if it is a commit store.
    Store {
        offset: u64,
        value: u64,
        name: Option<&'static str>,
    },
    /// The lines from `first` up to and including `last`.
    Flush {
        name: &'static str,
        first: u64,
        last: u64,
    },
    Fence {
        name: &'static str,
    },
}

impl Event {
    pub(crate) fn name(&self) -> Option<&'static str> {
        match *self {
            Event::Store { name, .. } => name,
            Event::Flush { name, .. } | Event::Fence { name } => Some(name),
        }
    }
}

/// The bytes of a region, read from outside.
pub(crate) struct Memory {
    file: File,
    address: u64,
    len: u64,
}

impl Memory {
    pub(crate) fn of(region: &Region) -> Memory {
        let len = region.size();
        let address = region.bytes(0, len).unwrap().as_ptr().addr() as u64;
        Memory { file: File::open("/proc/self/mem").unwrap(), address, len }
    }

    /// Everything, as it stands in the caches.
    pub(crate) fn all(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len as usize];
        self.file.read_exact_at(&mut bytes, self.address).unwrap();
        bytes
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) {
        self.file.read_exact_at(bytes, self.address + offset).unwrap();
    }
}

#[derive(Default)]
struct Log {
    events: Vec<Event>,
    copy: Vec<u8>,
    /// A flush whose content may still be on its way.
    pending: Option<(&'static str, u64, u64)>,
    commit: Option<&'static str>,
}

impl Log {
    /// Notes the words of the range that differ from the copy, except those in `skip`.
    fn compare(&mut self, memory: &Memory, offset: u64, len: u64, skip: (u64, u64)) {
        let first = offset / 8 * 8;
        let end = (offset + len).next_multiple_of(8);
        let mut bytes = vec![0; (end - first) as usize];
        memory.read(first, &mut bytes);
        for (word, chunk) in (first..end).step_by(8).zip(bytes.chunks_exact(8)) {
            let old = &mut self.copy[word as usize..word as usize + 8];
            if old == chunk || (word < skip.1 && skip.0 < word + 8) {
                continue;
            }
            old.copy_from_slice(chunk);
            let value = u64::from_le_bytes(chunk.try_into().unwrap());
            self.events.push(Event::Store { offset: word, value, name: self.commit });
        }
    }

    fn settle(&mut self, memory: &Memory, skip: (u64, u64)) {
        let Some((name, offset, len)) = self.pending.take() else { return };
        self.compare(memory, offset, len, skip);
        let (first, last) = (offset / LINE, (offset + len.max(1) - 1) / LINE);
        self.events.push(Event::Flush { name, first, last });
    }
}

/// Writes down what passes the waist of one region, by one thread.
#[derive(Default)]
pub(crate) struct Recorder {
    memory: OnceLock<Memory>,
    log: Mutex<Log>,
}

impl Recorder {
    pub(crate) fn new() -> Arc<Recorder> {
        Arc::default()
    }

    /// Begins: what the region holds is the start.
    pub(crate) fn watch(&self, region: &Region) {
        let memory = Memory::of(region);
        self.log.lock().unwrap().copy = memory.all();
        assert!(self.memory.set(memory).is_ok());
    }

    /// Steps so far.
    pub(crate) fn len(&self) -> usize {
        let mut log = self.log.lock().unwrap();
        if let Some(memory) = self.memory.get() {
            log.settle(memory, (0, 0));
        }
        log.events.len()
    }

    pub(crate) fn take(&self) -> Vec<Event> {
        self.len();
        std::mem::take(&mut self.log.lock().unwrap().events)
    }

    /// The bytes as the process sees them.
    pub(crate) fn memory(&self) -> Vec<u8> {
        self.memory.get().unwrap().all()
    }

    fn note(&self, skip: (u64, u64), note: impl FnOnce(&mut Log, &Memory)) {
        if let Some(memory) = self.memory.get() {
            let mut log = self.log.lock().unwrap();
            log.settle(memory, skip);
            note(&mut log, memory);
        }
    }
}

impl Observer for Recorder {
    fn load(&self, _: u64, _: u64) {}

    fn store(&self, stored: Stored<'_>, perform: &mut dyn FnMut()) {
        if let Some(name) = stored.name {
            self.note((0, 0), |log, _| log.commit = Some(name));
        }
        perform();
        let (offset, len) = (stored.offset, stored.len());
        let word = if len == 8 { (offset, offset + 8) } else { (0, 0) };
        self.note(word, |log, memory| {
            log.compare(memory, offset, len, (0, 0));
            log.commit = None;
        });
    }

    fn flush(&self, name: &'static str, offset: u64, len: u64) {
        self.note((0, 0), |log, _| {
            log.pending = Some((name, offset, len));
        });
    }

    fn fence(&self, name: &'static str) {
        self.note((0, 0), |log, _| log.events.push(Event::Fence { name }));
    }

    fn sync(&self) {}

    fn grow(&self, _: u64) {}
}
