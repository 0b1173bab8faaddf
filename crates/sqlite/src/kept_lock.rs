//! The lock that a client of an owner keeps from one transaction to the next, so that a transaction which reads what the client knows asks
//! the owner for nothing.
//!
//! Both sides share a word of memory, which says how the client has the lock SHARED:
//!
//! ```text
//!                        client: a transaction ends
//!              ┌────────┐ ────────────────────────► ┌────────┐
//!   owner: ──► │ IN_USE │                           │  KEPT  │
//!   a lock     └───┬────┘ ◄──────────────────────── └───┬────┘
//!                  │      client: the next one begins   │
//!     owner: a commit begins              owner: a commit begins, or nothing was asked for some time
//!                  ▼                                    ▼
//!             ┌──────────┐      owner: unlock      ┌──────────┐
//!             │ OUTDATED │ ──────────────────────► │ GIVEN_UP │
//!             └──────────┘                         └──────────┘
//! ```
//! Each arrow is one exchange of the word, so that a lock is never in use and given up. In `GIVEN_UP` the client asks for its next lock, in
//! `OUTDATED` it gives the one that it has up by a request.
//!
//! - A transaction shows each commit that was visible to any connection when it began: the owner changes all words before a commit is
//!   visible, and a lock that is given while one is under way is outdated from the begin.
//! - An owner that was killed changes no words. So a client that takes a kept lock looks whether its connection stands, and keeps none for
//!   longer than [`KEPT_MAX`].
//! - A client that writes anything else into the word harms itself: the owner reads from it only whether a snapshot may go.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

const GIVEN_UP: u32 = 0;
const IN_USE: u32 = 1;
const OUTDATED: u32 = 2;
const KEPT: u32 = 3;

/// Bytes of the memory that is shared.
const SIZE: usize = 4096;

/// How long a lock is kept that is not used: the owner takes it back then, with its snapshot.
pub(crate) const IDLE_MAX: Duration = Duration::from_millis(50);

/// How long a client keeps a lock that the owner does not take back.
pub(crate) const KEPT_MAX: Duration = Duration::from_millis(200);

/// What it is called where the system lists memory.
const NAME: &CStr = c"tembo-lock";

/// What neither side can do to the memory of the other one: make it shorter.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// The word, in memory that an owner and one client share.
pub(crate) struct KeptLock {
    memory: NonNull<AtomicU32>,
}

// SAFETY: what it points to is an atomic, in a mapping that is there until it is dropped.
unsafe impl Send for KeptLock {}
// SAFETY: the same.
unsafe impl Sync for KeptLock {}

impl KeptLock {
    /// That of an owner, and what it hands to its client.
    pub(crate) fn new() -> io::Result<(KeptLock, OwnedFd)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create(NAME, flags)?;
        ftruncate(&file, SIZE as u64)?;
        fcntl_add_seals(&file, SEALS)?;
        Ok((KeptLock { memory: map(&file)? }, file))
    }

    /// That of a client, from what the owner has handed to it.
    ///
    /// # Errors
    /// It is no memory of that size.
    pub(crate) fn of(file: &OwnedFd) -> io::Result<KeptLock> {
        if !fcntl_get_seals(file)?.contains(SEALS) || fstat(file)?.st_size != SIZE as i64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(KeptLock { memory: map(file)? })
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: the mapping is there while `self` is, is aligned to a page, and of a file that cannot get shorter.
        unsafe { self.memory.as_ref() }
    }

    fn change(&self, from: u32, to: u32) -> bool {
        self.word().compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// The client: its transaction has ended. False: the lock is to be given up.
    pub(crate) fn keep(&self) -> bool {
        self.change(IN_USE, KEPT)
    }

    /// The client: a transaction begins with the lock that it has kept. False: it has none.
    pub(crate) fn take(&self) -> bool {
        self.change(KEPT, IN_USE)
    }

    /// The owner: whether a transaction of the client has the lock.
    pub(crate) fn is_in_use(&self) -> bool {
        matches!(self.word().load(Ordering::SeqCst), IN_USE | OUTDATED)
    }

    /// The owner: it gives the lock, with a snapshot that it takes behind this.
    pub(crate) fn give(&self) {
        self.word().store(IN_USE, Ordering::SeqCst);
    }

    /// The owner: the client has given the lock up.
    pub(crate) fn end(&self) {
        self.word().store(GIVEN_UP, Ordering::SeqCst);
    }

    /// The owner: a commit begins.
    pub(crate) fn outdate(&self) {
        let newer = |word| match word {
            KEPT => Some(GIVEN_UP),
            IN_USE => Some(OUTDATED),
            _ => None,
        };
        // An error: it is so already.
        let _ = self.word().fetch_update(Ordering::SeqCst, Ordering::SeqCst, newer);
    }

    /// The owner: it takes back a lock that no transaction uses. Whether the client has none now.
    pub(crate) fn take_back(&self) -> bool {
        self.change(KEPT, GIVEN_UP) || !self.is_in_use()
    }
}

impl Drop for KeptLock {
    fn drop(&mut self) {
        // SAFETY: it was mapped so, and nothing else refers to it. It fails for no mapping that is there.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), SIZE) };
    }
}

/// The locks of all clients of a database.
#[derive(Default)]
pub(crate) struct KeptLocks(Mutex<Vec<Weak<KeptLock>>>);

impl KeptLocks {
    pub(crate) fn add(&self, lock: &Arc<KeptLock>) {
        let mut locks = self.0.lock();
        locks.retain(|known| known.strong_count() > 0);
        locks.push(Arc::downgrade(lock));
    }

    /// A commit begins.
    pub(crate) fn outdate(&self) {
        self.0.lock().iter().filter_map(Weak::upgrade).for_each(|lock| lock.outdate());
    }
}

fn map(file: &OwnedFd) -> io::Result<NonNull<AtomicU32>> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: at a new address.
    let memory =
        unsafe { mmap(std::ptr::null_mut(), SIZE, protection, MapFlags::SHARED, file, 0)? };
    NonNull::new(memory.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ends of one.
    fn pair() -> (KeptLock, KeptLock) {
        let (owner, memory) = KeptLock::new().unwrap();
        (owner, KeptLock::of(&memory).unwrap())
    }

    #[test]
    fn each_step_leads_where_the_picture_says_and_nowhere_else() {
        type Step = fn(&KeptLock, &KeptLock) -> bool;
        type Case = (&'static str, Step, [(u32, bool); 4]);
        let steps: [Case; 6] = [
            // From given up, in use, outdated, kept.
            (
                "keep",
                |_, client| client.keep(),
                [(GIVEN_UP, false), (KEPT, true), (OUTDATED, false), (KEPT, false)],
            ),
            (
                "take",
                |_, client| client.take(),
                [(GIVEN_UP, false), (IN_USE, false), (OUTDATED, false), (IN_USE, true)],
            ),
            (
                "outdate",
                |owner, _| {
                    owner.outdate();
                    true
                },
                [(GIVEN_UP, true), (OUTDATED, true), (OUTDATED, true), (GIVEN_UP, true)],
            ),
            (
                "take back",
                |owner, _| owner.take_back(),
                [(GIVEN_UP, true), (IN_USE, false), (OUTDATED, false), (GIVEN_UP, true)],
            ),
            (
                "give",
                |owner, _| {
                    owner.give();
                    owner.is_in_use()
                },
                [(IN_USE, true); 4],
            ),
            (
                "end",
                |owner, _| {
                    owner.end();
                    owner.is_in_use()
                },
                [(GIVEN_UP, false); 4],
            ),
        ];
        let (owner, client) = pair();
        for (name, step, expected) in steps {
            for (from, expected) in (GIVEN_UP..=KEPT).zip(expected) {
                owner.word().store(from, Ordering::SeqCst);
                let done = step(&owner, &client);
                assert_eq!((client.word().load(Ordering::SeqCst), done), expected, "{name} {from}");
            }
        }
    }

    #[test]
    fn what_is_no_state_is_no_lock() {
        let (owner, client) = pair();
        client.word().store(77, Ordering::SeqCst);
        owner.outdate();
        assert!(owner.take_back() && !owner.is_in_use());
        owner.give();
        assert!(client.keep() && client.take());
    }

    #[test]
    fn the_memory_keeps_its_size_and_no_other_is_taken() {
        let (_owner, memory) = KeptLock::new().unwrap();
        assert!(ftruncate(&memory, 0).is_err());
        let loose = memfd_create(NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&loose, SIZE as u64).unwrap();
        assert!(KeptLock::of(&loose).is_err());
        fcntl_add_seals(&loose, SEALS).unwrap();
        assert!(KeptLock::of(&loose).is_ok());
        let empty = memfd_create(NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        fcntl_add_seals(&empty, SEALS).unwrap();
        assert!(KeptLock::of(&empty).is_err());
    }
}
