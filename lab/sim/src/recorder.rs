//! Writes down what passes the waist of one region, in the order in which it is done.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use tembo_pmem::{Observer, Stored};

use crate::event::{Event, LINE, Piece, Step, pieces};

/// The observer of a run that is to be explored.
#[derive(Default)]
pub struct Recorder {
    log: Mutex<Log>,
    without: Option<String>,
    thread: Option<fn() -> u64>,
}

#[derive(Default)]
struct Log {
    events: Vec<Event>,
    threads: Vec<Id>,
}

/// The thread of an event.
#[derive(PartialEq, Eq)]
enum Id {
    Thread(ThreadId),
    Given(u64),
}

impl Log {
    fn note(&mut self, id: Id, step: Step) {
        let thread = match self.threads.iter().position(|other| *other == id) {
            Some(thread) => thread,
            None => {
                self.threads.push(id);
                self.threads.len() - 1
            }
        };
        self.events.push(Event { thread: thread as u16, step });
    }
}

impl Recorder {
    /// A recorder that has seen nothing.
    pub fn new() -> Arc<Recorder> {
        Arc::default()
    }

    /// A recorder that leaves the commit stores of that name undone.
    pub fn without(name: &str) -> Arc<Recorder> {
        Arc::new(Recorder { without: Some(name.to_owned()), ..Recorder::default() })
    }

    /// A recorder that calls `thread` for the number of the running thread, where several threads are one thread of the
    /// system.
    pub fn asking(thread: fn() -> u64) -> Arc<Recorder> {
        Arc::new(Recorder { thread: Some(thread), ..Recorder::default() })
    }

    fn note(&self, step: Step) {
        self.log().note(self.id(), step);
    }

    fn id(&self) -> Id {
        match self.thread {
            Some(thread) => Id::Given(thread()),
            None => Id::Thread(std::thread::current().id()),
        }
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Steps so far.
    pub fn len(&self) -> usize {
        self.log().events.len()
    }

    /// Whether nothing was done.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Says that another operation begins.
    pub fn begin_operation(&self) {
        self.note(Step::Operation);
    }

    /// The bytes as they stand now, if they were `image` at the beginning.
    pub fn newest(&self, image: &[u8]) -> Vec<u8> {
        newest(image, &self.log().events)
    }

    /// The steps; the recorder has seen nothing from here on.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.log().events)
    }
}

/// The bytes that `image` has after `events`, as the process sees them.
pub fn newest(image: &[u8], events: &[Event]) -> Vec<u8> {
    let mut bytes = image.to_vec();
    for event in events {
        match event.step {
            Step::Store(piece) => store(&mut bytes, &piece),
            Step::Resize { size } => bytes.resize(size as usize, 0),
            _ => {}
        }
    }
    bytes
}

pub(crate) fn store(bytes: &mut [u8], piece: &Piece) {
    let (at, len) = (piece.offset as usize, usize::from(piece.len));
    bytes[at..at + len].copy_from_slice(&piece.bytes[..len]);
}

impl Observer for Recorder {
    fn load(&self, _: u64, _: u64) {}

    fn store(&self, stored: Stored<'_>, perform: &mut dyn FnMut()) {
        if stored.name.is_some() && stored.name == self.without.as_deref() {
            return;
        }
        let mut log = self.log();
        perform();
        let note = |piece| log.note(self.id(), Step::Store(piece));
        pieces(stored.name, stored.offset, stored.parts, note);
    }

    fn flush(&self, name: &'static str, offset: u64, len: u64) {
        if len > 0 {
            let line = |offset: u64| (offset / LINE as u64) as u32;
            let (first, last) = (line(offset), line(offset + len - 1));
            self.note(Step::Flush { name, first, last });
        }
    }

    fn fence(&self, name: &'static str) {
        self.note(Step::Fence { name });
    }

    fn sync(&self) {
        self.note(Step::Sync);
    }

    fn resize(&self, size: u64) {
        self.note(Step::Resize { size });
    }
}
