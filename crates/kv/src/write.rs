//! Writing: the writer's lock, the write slots beside it, and changes of a single key.
//!
//! # The life of a write
//! ```text
//!  put, remove                 exclusive           transaction: commit
//!      │                           │                    │
//!      ├─► a write slot?           │              the leader of a queue
//!      │   one fence, lands        │                    │
//!      ▼                           ▼                    ▼
//!   ┌──────────────── the writer's lock: slots closed ────────────────┐
//!   │ single change in place:       changes in place, one version     │
//!   │ one fence                     a group: `commit/uncommitted.rs`  │
//!   └───────┬───────────────────────────────┬─────────────────────────┘
//!           ▼                               ▼
//!     publish_single                     publish          (`ledger/publication.rs`)
//! ```

mod beside;
mod engine;
mod lock;
mod single;
mod slots;

pub(crate) use engine::{Engine, Locked, Owned, PAUSE};
pub(crate) use single::{change_alone, change_in_slot};
