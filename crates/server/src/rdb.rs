//! Redis's RDB format for one value: what DUMP gives, RESTORE takes, and an RDB file has behind each key.
//!
//! Read are all encodings that Redis 2 to 7.2 writes, but for modules. Written are those that each of these
//! versions reads: a value is its elements, one after the other, and Redis packs a small one again. A stream is written as
//! Redis 7.0 does.
//!
//! The layout is described in `docs/formats/dump.md`.

mod checksum;
mod library;
mod lzf;
mod old;
mod pack;
mod reader;
mod stream;
mod value;

pub(crate) use checksum::{crc64, is_of_our_version, seal, unseal};
pub(crate) use library::read_library;
pub(crate) use reader::{Broken, Reader};
pub(crate) use stream::{EntriesRead, GroupValue, PendingValue, StreamValue};
pub(crate) use value::{Value, Writer};
