//! Redis's RDB format for one value: what DUMP gives, RESTORE takes, and an RDB file has behind each key.
//!
//! Read are all encodings that Redis 2 to 7.2 writes, but for modules and streams. Written are those that each of these
//! versions reads: a value is its elements, one after the other, and Redis packs a small one again.
//!
//! The layout is described in `docs/formats/dump.md`.

mod checksum;
mod lzf;
mod old;
mod pack;
mod reader;
mod value;

pub(crate) use checksum::{crc64, seal, unseal};
pub(crate) use reader::{Broken, Reader};
pub(crate) use value::{Value, Writer};
