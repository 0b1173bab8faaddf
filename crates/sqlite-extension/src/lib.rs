//! The loadable extension: `libtembo_sqlite.so`, which has the VFS of `tembo-sqlite` and its entry.
//!
//! It is a package of its own, since cargo gives a shared library one place for each profile: a program that links the
//! VFS may be built beside it with other settings.

pub use vfs::*;
