//! SQLite's databases in a Tembo pool: a VFS, named `tembo`, that needs no journal.
//!
//! Package `tembo-sqlite-extension` makes it a loadable extension, for programs as they are: Debian's `sqlite3`, Python, anything that loads extensions.
//!
//! ```text
//! $ sqlite3
//! sqlite> .load ./libtembo_sqlite
//! sqlite> .open file:app.pool?vfs=tembo
//! ```
//! A program in Rust passes [`auto_extension`] to `sqlite3_auto_extension`. [`import`] and [`export`] copy ordinary
//! database files, without a SQLite. The first process that opens a pool owns it and serves the others; an [`Owner`] outlives
//! programs. `docs/sqlite.md` says what a
//! database is then, and what differs from an ordinary file.

#![allow(unsafe_code)]

mod bytes;
mod code;
mod entry;
mod ffi;
mod file;
mod file_id;
mod journal;
mod kept_lock;
mod kept_pages;
mod listener;
mod main_file;
mod open_file;
mod open_names;
mod ordinary;
mod owner;
mod page_one;
mod pool;
mod pragma;
mod process;
mod recent;
mod refused;
mod remote;
mod socket;
mod super_journal;
mod temporary_file;
mod thread;
mod vfs;
mod view;
mod wire;

pub use entry::{auto_extension, sqlite3_tembosqlite_init};
pub use ordinary::{DatabaseHeader, FileError, Imported, export, header, import};
pub use owner::{Owner, OwnerError};
