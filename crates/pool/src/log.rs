//! The pool's log: one for redo, undo and intents of structures that have no versions.
//!
//! A structure that is changed in place, at several words at once, notes in the log what a recovery needs to make the
//! change whole or to take it back. The log lies in an object of the pool, made on first use, and consists of *lanes*. An
//! operation has a lane for itself. A lane is a line with its state, and entries, which are true as far as their chained checksums hold:
//!
//! ```text
//!            64 bytes           entries
//! log        magic, shape
//! lane 0     number, phase      undo │ undo │ intent │ redo │ seal │ …
//! lane 1     number, phase      …
//!              │
//!              ├─ open ─────────► committed ──────► open, next number
//!              │   undo entries     intents are       nothing in the lane is true
//!              │   are rolled back  executed again
//!              └───────────────────────────────────►
//! ```
//!
//! The number salts the checksums: one store of the state makes all entries void. So an operation goes like this
//! (`┊` is a fence):
//!
//! | | notes | commits | |
//! |---|---|---|---|
//! | undo | entry: old words ┊ new words in place, more of both | ┊ state: next number | ┊ |
//! | redo | (collected in memory) | what was changed in place and allocated, if anything ┊ entries, seal ┊ | new words in place ┊ state: next number ┊ |
//! | words | (collected in memory) | entries, seal, what the words before changed in place, state of those before them: next number ┊ words in place | |
//! | intent | (collected in memory) | entry, with one of the above; state: committed | ┊ work … state: next number ┊ |
//!
//! A *seal* is an entry too: where it is true, all before it is, and the operation is committed. Recovery looks at each lane: sealed,
//! its redo entries are applied; not sealed, its undo entries are restored, the last first; then the lane gets its next number. Both can
//! be interrupted and done again, because entries hold whole words and nothing else runs. It runs when the pool is opened, before
//! anything else uses the pool. *Intents* are code and arguments of work that need not be done at once (to take a large structure
//! apart): their tenant asks for them when it opens ([`Pool::unfinished`](crate::Pool::unfinished)), and does them
//! again, from wherever they were interrupted.
//!
//! Objects need no entries: one is allocated iff something reachable refers to it. What an operation allocates is given
//! back if it aborts and swept if it is interrupted before its commit; what it frees is given back after its commit.
//!
//! Committed words are the cheapest: they are durable by their entries, and in place without a fence, unless the region gives pages back. The next operation flushes them beside its own
//! entries, and the one behind that makes their entries void, also beside its own. So when words are changed again, the entries of the last two
//! operations can be true: a recovery applies them in their order. What they name is not given to others before they are void: an operation that
//! unlinks objects is *settled* by a second fence.
//!
//! A lane's residue must not become true again: a torn operation can leave a second entry without a first, and the next operation of the lane
//! could write that first one. So a lane begins in each process with a new number, durable before an entry carries it: two processes
//! never use the same.
//! So must not an entry that is void by what it names, an object that a later operation has changed: that may get its first content again. A
//! recovery gives each lane its next number in which it meets an entry, true or not.
//!
//! Fences: words one, two where the region gives pages back, three if what they unlink is to be free; undo one for each [`undo`](Operation::undo), and two for the commit; redo three, four if it allocates; both together four, plus one for each `undo`; intents one more, when
//! they are [done](Committed::done). An abort two, if anything was noted. The first operation that a lane has in a process: one more.

mod entry;
mod lanes;
mod operation;
mod recover;
mod shape;

pub use entry::Intent;
pub(crate) use lanes::Log;
pub use operation::{Committed, Operation};
