//! Any bytes, offered as a pool (to a store, to a server), as a redo log, or as what a client sends: they are taken or refused,
//! without a panic, without hanging, in bounded memory.
//!
//! A face takes bytes as they are. Random bytes die at the first checksum, so a case is made in two
//! steps: an input of the corpus is changed (`alter`), and its checksums are made right again
//! (`repair`). `cargo-fuzz` makes the changes itself and calls the faces with its bytes, as they
//! are and repaired; [`Campaign`] does it from seeds, with a clock beside it.

mod alter;
mod base;
mod campaign;
mod file;
mod fill;
mod format;
mod kind;
mod options;
mod repair;
mod serve;
mod talk;

pub use alter::{case, input};
pub use base::{keep, whole, write_corpus};
pub use campaign::{Campaign, Case, Finding, Tally, seeds};
pub use file::FileFace;
pub use kind::Kind;
pub use repair::{repair_log, repair_pool};
pub use serve::ServeFace;
pub use talk::TalkFace;

/// What became of some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// They were refused.
    Refused,
    /// They were taken, and found damaged later.
    Damaged,
    /// They were taken, and nothing was wrong.
    Sound,
    /// They were taken, a check found nothing, and then something failed: this is what a check cannot
    /// see, and must be rare.
    Unnoticed(String),
    /// Something that must not be.
    Wrong(String),
}

/// Something that takes any bytes.
pub trait Face {
    /// Offers the bytes, and goes on with what was taken as far as it goes.
    fn offer(&mut self, bytes: &[u8]) -> Fate;
}
