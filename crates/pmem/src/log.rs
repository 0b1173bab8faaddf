//! The redo log below the waist: what makes an ordinary file persistent memory.
//!
//! A fence appends the lines that its thread has flushed as one *group* to a tail in memory; a sync
//! writes the tail into a ring in `POOL.log` and waits for the disk; a checkpoint brings the groups
//! from the ring into the pool file and then frees their room. The program itself works on a
//! private mapping of the pool file, which is never written back: all that reaches the pool file
//! comes out of the log, or goes beside it: records that fill whole pages are written once, see [`beside`].
//!
//! ```text
//!   the program          loads and stores
//!                               │
//!   private mapping    ┌────────▼────────┐  a page gets its lines when it is first touched
//!   (memory)           │ pages           │◄────────────────── pending ◄── replay, at opening
//!                      └──┬──────────▲───┘                                   ▲
//!              flush: its lines      │ untouched pages, and pages            │
//!              are noted  │          │ that were given back                  │
//!              fence: a group        │                                       │
//!                         ▼          │                                       │
//!   tail (memory)      ┌─────┐       │                                       │
//!                      └──┬──┘       │                                       │
//!        sync: a write and an fdatasync                                      │
//!                         ▼          │                                       │
//!   ring (POOL.log)    ┌───────────────────────────────────────────┐         │
//!                      │ free │ start … durable … written … │ free │─────────┘
//!                      └──────────┬────────────────────────────────┘
//!               checkpoint: the last value of each line
//!                                 ▼
//!   pool file          ┌───────────────────────────────────────────┐
//!                      └───────────────────────────────────────────┘
//!                      durable with these lines ──► start moves, their room is free
//! ```
//!
//! Three orders carry it all:
//! - no line of a group reaches the pool file before the log is durable through that group, and what goes beside the
//!   log reaches only space that is free in every state that the log can show;
//! - no group loses its room before the pool file is durable with all its lines;
//! - the pool's header names a generation of the log only when that log is durable under its name.

mod append;
mod ballast;
mod beside;
mod bypass;
mod checkpoint;
mod extend;
mod generation;
mod group;
mod hole;
mod hot_pages;
mod last;
mod pages;
mod pending;
mod private;
mod replay;
mod reserve;
mod ring;
mod second_sync;
mod sync;
mod threads;
mod voids;
mod whole;

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::disk::{Behind, WatchedFile};
use crate::file_check::check_file;
use crate::format::{LOG_HEADER_SIZE, LogHeader};
use crate::frees::FreeMarks;
use crate::header::Slots;
use crate::mapping::{Mapping, PAGE};
use crate::notes::{Holder, Note};
use crate::process::Process;
use crate::{Error, Observer, SyncPolicy};

use beside::Beside;
pub(crate) use bypass::RUNS_MIN;
pub(crate) use generation::{Old, Source, adopt, confirm, load, vouch};
use group::Place;
use hot_pages::HotPages;
use pages::PageTable;
pub(crate) use pending::Pending;
use ring::{Ring, capacity};
use second_sync::SecondSync;
pub(crate) use threads::Threads;
use voids::Voids;
pub(crate) use whole::WholeRun;

/// Totals since opening.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) checkpoints: AtomicU64,
    pub(crate) log_syncs: AtomicU64,
    pub(crate) log_bytes: AtomicU64,
    pub(crate) pool_bytes: AtomicU64,
}

/// What appending, writing and reserving share. `start ≤ durable ≤ written ≤ end`, and what is
/// held and used together fits into the ring.
#[derive(Default)]
struct State {
    /// Groups appended and not yet written: from `written` to `end`.
    tail: Vec<u8>,
    /// The other buffer of the two.
    spare: Vec<u8>,
    end: Place,
    written: Place,
    durable: Place,
    /// Where the oldest group begins that no checkpoint has trimmed, and its sequence.
    start: u64,
    start_sequence: u64,
    /// Bytes of the ring kept for threads that have reserved them.
    held: u64,
    /// Sections open.
    sections: u64,
    /// Threads that wait for a change.
    waiting: u32,
    under_way: UnderWay,
    /// Why nothing more can be promised.
    poison: Option<String>,
    /// A write of the log found the disk full: nothing is lost, and no section begins until there is room again.
    log_full: bool,
    /// How often the ballast was given up.
    given_up: u64,
    /// Why the last checkpoint failed, and how many have.
    failure: Option<Failure>,
    failures: u64,
    want_checkpoint: bool,
    /// The ring has not gone round, and may be extended before it does.
    can_extend: bool,
    want_extension: bool,
    /// Bytes that the ring must have for an operation that waits.
    wanted_capacity: u64,
    want_zeroes: bool,
    /// Bytes of private pages that there may be, and where the log ended when that was found.
    private_limit: u64,
    measured: u64,
    want_measure: bool,
    checkpoints_ended: u64,
    /// The checkpointer waits, and does not look whether anything is appended.
    is_idle: bool,
    stop: bool,
    /// Where, in a ring that has not gone round, blocks begin that were never written.
    blank: Option<u64>,
    pages: PageTable,
    hot: HotPages,
    beside: Beside,
    /// Ranges of the pool file that are being overwritten beside the log.
    overwritten: Vec<(u64, u64)>,
    /// Extents wait for a sync, and no thread asks for one.
    want_sync: bool,
}

/// What threads do with the log's file just now.
#[derive(Debug, Default)]
struct UnderWay {
    writing: bool,
    syncing: bool,
    /// Where the zeroes begin that are being written.
    zeroes: Option<u64>,
}

/// Why a checkpoint failed. It will be tried again.
#[derive(Clone, Debug)]
struct Failure {
    full: bool,
    text: String,
}

/// What a checkpoint, and what writes beside the log, do one at a time.
struct Checkpoint {
    header: Slots<LogHeader>,
    voids: Voids,
    /// Where the oldest group begins that is not in the pool file.
    from: Place,
}

/// One generation of the log, open.
pub(crate) struct RedoLog {
    ring: Ring,
    salt: u64,
    path: PathBuf,
    pool: Arc<WatchedFile>,
    pool_path: PathBuf,
    mapping: Arc<Mapping>,
    policy: SyncPolicy,
    background: bool,
    private_max: u64,
    /// Bytes that the process may have as its own.
    memory: Option<u64>,
    /// Bytes that the ring may be extended to.
    log_size: u64,
    observer: Option<Arc<dyn Observer>>,
    /// What of the log that was replayed is not yet in the mapping.
    pending: Option<Arc<Pending>>,
    /// Where the groups of this opening begin.
    opened: Place,
    state: Mutex<State>,
    /// What waiting threads wait on.
    changed: Condvar,
    /// There is work for the threads.
    wake: Condvar,
    checkpoint: Mutex<Checkpoint>,
    poisoned: AtomicBool,
    frees: Arc<FreeMarks>,
    second_sync: SecondSync,
    /// What was written to the pool file beside the log, and not asked for.
    behind: Mutex<Behind>,
    has_no_holes: AtomicBool,
    /// Held while the length of the log's file changes.
    length: Mutex<()>,
    /// The process that appends, and has the threads.
    process: Process,
    pub(crate) totals: Totals,
}

/// What opening hands to the log.
pub(crate) struct Parts {
    pub(crate) pool: Arc<WatchedFile>,
    pub(crate) pool_path: PathBuf,
    pub(crate) mapping: Arc<Mapping>,
    pub(crate) policy: SyncPolicy,
    pub(crate) background: bool,
    pub(crate) private_max: u64,
    pub(crate) memory: Option<u64>,
    pub(crate) log_size: u64,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) pending: Option<Arc<Pending>>,
}

impl Parts {
    /// What is known of free space by a log whose groups from one place on are to be applied, and up to another are settled.
    fn free_marks(&self, (from, settled): (Place, Place), beside: &Beside) -> FreeMarks {
        let frees = FreeMarks::new(settled.sequence, self.mapping.reserved());
        frees.vouched(beside.vouched() + 1);
        frees.applied(from.sequence);
        frees
    }

    /// The pages of which the log holds lines, which ends at `end`.
    fn private_pages(&self, end: Place) -> PageTable {
        let mut table = PageTable::default();
        let pages = self.pending.iter().flat_map(|pending| pending.pages());
        pages.for_each(|page| table.touch(page * PAGE, end.sequence - 1));
        table
    }
}

impl RedoLog {
    /// The log that `adopted` describes, over a mapping that holds what was replayed, or will.
    pub(crate) fn new(adopted: generation::Adopted, parts: Parts) -> RedoLog {
        let generation::Adopted { path, header, ring, settled, opening, end, blank, voids, beside } =
            adopted;
        let (first, from) = (*header.get(), Place::start(header.get()));
        let capacity_now = ring.capacity();
        let log_size = capacity(parts.log_size).max(capacity_now);
        let can_extend = end.position <= capacity_now && capacity_now < log_size;
        let (frees, pages) = (parts.free_marks((from, settled), &beside), parts.private_pages(end));
        RedoLog {
            salt: first.salt.get(),
            ring,
            path,
            pool: parts.pool,
            pool_path: parts.pool_path,
            mapping: parts.mapping,
            policy: parts.policy,
            background: parts.background,
            private_max: parts.private_max,
            memory: parts.memory,
            log_size,
            observer: parts.observer,
            pending: parts.pending,
            opened: end,
            state: Mutex::new(State {
                tail: opening,
                end,
                written: settled,
                durable: settled,
                start: from.position,
                start_sequence: from.sequence,
                can_extend,
                private_limit: parts.private_max,
                measured: end.position,
                blank,
                pages,
                beside,
                ..State::default()
            }),
            changed: Condvar::new(),
            wake: Condvar::new(),
            checkpoint: Mutex::new(Checkpoint { header, voids, from }),
            poisoned: AtomicBool::new(false),
            frees: Arc::new(frees),
            second_sync: SecondSync::default(),
            behind: Mutex::default(),
            has_no_holes: AtomicBool::new(false),
            length: Mutex::default(),
            process: Process::current(),
            totals: Totals::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What threads load from and store to.
    #[inline]
    pub(crate) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Waits until a thread [notifies](RedoLog::notify).
    fn wait<'s>(&'s self, mut state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        state.waiting += 1;
        let mut state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        state
    }

    /// Something was written, synced, trimmed, or failed. Where no thread waits, a call of the system
    /// would cost more than all the rest of a small section.
    fn notify(&self, state: &State) {
        if state.waiting > 0 {
            self.changed.notify_all();
        }
    }

    /// Nothing is promised any more, for good.
    fn poison(&self, state: &mut State, cause: String) {
        state.poison.get_or_insert(cause);
        self.poisoned.store(true, Ordering::Release);
        self.notify(state);
    }

    fn check(&self, state: &State) -> Result<(), Error> {
        match &state.poison {
            None => Ok(()),
            Some(cause) => {
                Err(Error::Poisoned { path: self.pool_path.clone(), cause: cause.clone() })
            }
        }
    }

    /// Whether this process is a child of the one that opened the log: then locks may be held by threads that it does
    /// not have.
    pub(crate) fn is_forked(&self) -> bool {
        !self.process.is_current()
    }

    pub(crate) fn check_process(&self) -> Result<(), Error> {
        match self.is_forked() {
            false => Ok(()),
            true => Err(Error::Forked { path: self.pool_path.clone() }),
        }
    }

    /// When space was freed.
    pub(crate) fn frees(&self) -> &Arc<FreeMarks> {
        &self.frees
    }

    /// Whether the log's file has a name, and all of the ring.
    pub(crate) fn check_file(&self) -> Result<(), Error> {
        // Before the file is measured, which is extended first.
        let size = LOG_HEADER_SIZE + self.ring.capacity();
        check_file(self.ring.file.as_ref(), &self.path, size)
    }

    /// Bytes of the ring in use, and of the ring.
    pub(crate) fn usage(&self) -> (u64, u64) {
        let state = self.lock();
        (state.end.position - state.start, self.ring.capacity())
    }

    /// Bytes of pages that differ from the pool file, or did before a checkpoint, and how many there may be.
    pub(crate) fn private_bytes(&self) -> (u64, u64) {
        let state = self.lock();
        (state.pages.count() * PAGE, state.private_limit)
    }
}

impl Holder for RedoLog {
    /// What the thread has flushed and not fenced is handed over: other threads find it in memory, and leave it out.
    fn end(&self, note: &mut Note) {
        if self.is_forked() {
            return;
        }
        self.frees.given_up(note.give_up());
        note.depth = 0;
        let held = note.held;
        self.append(&RefCell::new(&mut *note));
        if held > 0 {
            let mut state = self.lock();
            state.held = state.held.saturating_sub(std::mem::take(&mut note.held));
            self.notify(&state);
        }
    }
}
