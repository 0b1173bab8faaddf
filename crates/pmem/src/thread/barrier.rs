//! A barrier that one thread pays for all.
//!
//! Two threads each store a word and then load the other's, and one of them has to see that the other was
//! there (Dekker). A processor lets a load overtake an earlier store, so each needs a full barrier between its
//! two steps, and a full barrier waits for the flushes before it. If one of the two comes much more rarely
//! it can pay for both: `membarrier` does not return before every thread of the process has been through a full
//! barrier: one that runs is interrupted, one that does not went through it when it lost its processor (Desnoyers,
//! McKenney, Stern, Dagenais, Walpole, *User-level implementations of read-copy update*, IEEE TPDS 2012;
//! the manual's membarrier(2)).
//!
//! # Why one sees the other
//! The frequent one stores *a*, then loads *b*; only the compiler has to keep that order
//! ([`compiler_fence`](std::sync::atomic::compiler_fence)). The rare one stores *b*, calls [`barrier`],
//! then loads *a*. The frequent thread goes through its barrier somewhere between two of its instructions,
//! after the call began and before it ends.
//!
//! ```text
//!   frequent:  store a ─────────── load b          frequent:           store a ── load b
//!                         ▲ its barrier                        ▲ its barrier
//!   rare:     store b ── call ── return ── load a  rare:  store b ── call ── return ── load a
//!              the load of a sees the store                     the load of b sees the store
//! ```
//!
//! If that is behind its store of *a*, a load of *a* after the call sees the store. Else it is before its load of *b*
//! too, which then sees what was stored before the call. The memory model of the language does not know of this: it is
//! an argument about processors, and the tests of [`Latch`](super::Latch) are run on them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

use rustix::thread::{MembarrierCommand, membarrier};

/// Far beyond the time for which a processor keeps a store to itself.
const STORES_LAND: Duration = Duration::from_millis(10);

static IS_LOST: AtomicBool = AtomicBool::new(false);

/// Whether the system has such a barrier and lets this process use it. Without having asked, a thread must not rely
/// on it.
pub(super) fn has_barrier() -> bool {
    if cfg!(miri) {
        // Miri does not know the call.
        return false;
    }
    static IS_REGISTERED: OnceLock<bool> = OnceLock::new();
    let commands =
        [MembarrierCommand::RegisterPrivateExpedited, MembarrierCommand::PrivateExpedited];
    let register = || commands.into_iter().all(|command| membarrier(command).is_ok());
    *IS_REGISTERED.get_or_init(register) && !IS_LOST.load(Ordering::Relaxed)
}

/// As [`barrier`], by a thread that has not asked whether there is one: where there is none, time must do.
pub(super) fn full_barrier() {
    if has_barrier() {
        barrier();
    } else {
        fence(Ordering::SeqCst);
        std::thread::sleep(STORES_LAND);
        fence(Ordering::SeqCst);
    }
}

/// Every thread of the process goes through a full barrier meanwhile.
pub(super) fn barrier() {
    fence(Ordering::SeqCst);
    if membarrier(MembarrierCommand::PrivateExpedited).is_err() {
        // A program that has forbidden itself the call since. No thread relies on it any more; for those that
        // did, time must do.
        IS_LOST.store(true, Ordering::SeqCst);
        std::thread::sleep(STORES_LAND);
        fence(Ordering::SeqCst);
    }
}
