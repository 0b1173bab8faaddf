//! The server at a real socket.

#![allow(unreachable_pub, missing_docs)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod acl;
mod bits;
mod client;
mod client_memory;
mod collection_script;
mod commands;
mod connections;
mod databases;
mod differential;
mod digests;
mod dump;
mod earlier_layouts;
mod eviction;
mod expiry;
mod field_expiry;
mod golden;
mod import;
mod introspection;
mod large_strings;
mod lists;
mod malformed;
mod memcached;
mod pubsub;
mod redis_crate;
mod redis_replica;
mod replication;
mod scripts;
mod sets;
mod sorted_sets;
mod space;
#[path = "../../../pool/tests/pool/sparse.rs"]
mod sparse;
mod stream_script;
mod streams;
mod tracking;
mod turn;
mod unix_socket;
mod waiting;
