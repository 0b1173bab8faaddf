//! Bytes that survive: the waist of the house.
//!
//! Everything above knows *store*, *load*, *flush*, *fence* and *sync*, and nothing of the medium.

mod backend;
mod checksum;
mod choice;
mod counters;
mod disk;
mod domain;
mod emulation;
mod error;
mod extent;
mod file_check;
mod flush;
mod format;
mod frees;
mod header;
mod line_stores;
mod log;
mod lost_page;
mod mapping;
mod media;
mod memory;
mod notes;
mod observer;
mod options;
mod pool_file;
mod prefetch;
mod process;
mod racy;
mod region;
mod regular_file;
mod report;
mod table;
pub mod thread;
mod ticks;
mod unfenced;
mod whole_object;

pub use backend::BYPASS_MIN;
pub use checksum::OuterChecksum;
pub use counters::Counters;
pub use disk::{Disk, DiskFile, OsDisk};
pub use domain::{Domain, DomainRequest, SyncPolicy};
pub use emulation::Emulation;
pub use error::{Error, Fault};
pub use flush::FlushInstruction;
pub use format::HEADER_SIZE;
pub use frees::Frees;
pub use line_stores::LineStores;
pub use lost_page::end_at_lost_page;
pub use mapping::SIZE_MAX;
pub use media::{Borrowed, BorrowedBytes, Media, MediaBytes, Word, crc32c};
pub use memory::{memory_max, memory_used};
pub use observer::{Observer, Stored};
pub use options::RegionOptions;
pub use prefetch::prefetch;
pub use region::{Region, Section};
pub use regular_file::open_regular;
pub use report::Report;
pub use table::Table;
pub use ticks::TickClock;
pub use whole_object::WholeObject;

/// Bytes in a cache line: the unit of flushing, and of the order in which stores become durable.
pub const LINE: u64 = 64;

/// The words of a cache line, in memory of the program.
pub type LineWords = [u64; (LINE / 8) as usize];

// Offsets are addresses' differences, and words on media are little-endian.
const _: () = assert!(size_of::<usize>() == 8 && cfg!(target_endian = "little"));
