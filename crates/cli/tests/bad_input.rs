//! What may be wrong with the files, the disk and the command line. Each has its own exit code
//! (`tembo --help` lists them); no file is changed; and an empty store never takes the place of a
//! damaged one.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, missing_docs, unreachable_pub)]

#[path = "bad_input/access.rs"]
mod access;
#[path = "bad_input/files.rs"]
mod files;
#[path = "driver/folder.rs"]
mod folder;
#[path = "bad_input/logs.rs"]
mod logs;
#[path = "bad_input/pools.rs"]
mod pools;
#[path = "driver/random.rs"]
mod random;
#[path = "driver/resp.rs"]
mod resp;
#[path = "driver/server.rs"]
mod server;
#[path = "bad_input/space.rs"]
mod space;
