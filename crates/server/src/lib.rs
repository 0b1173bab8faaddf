//! Tembo's server: the Redis protocol over a durable store.
//!
//! One thread runs an event loop in turns. A turn takes all commands that all clients have sent so
//! far, executes them in one transaction of the store, commits that once, syncs it once, and only then
//! sends the replies: an acknowledged write is durable, a thousand pipelined writes cost one sync, and
//! nothing that a crash could take back, not even by way of a GET, leaves the process before.
//!
//! Life of a `SET`: `event_loop` waits until the socket is readable; `turn` reads from `connection`,
//! has `prefetch` look for the keys of what arrived, and hands each request that `parse` finds to
//! `dispatch`, which finds the command in `command`'s table; `commands` executes it on the `dataset`, which
//! lays it out as in `format` and puts it into the turn's transaction; `commit` commits and syncs; `turn`
//! sends what `reply` has collected.

mod access;
mod acl;
mod args;
mod backup;
mod bits;
mod buffer;
mod busy;
mod client;
mod clients;
mod clock;
mod collection;
mod command;
mod commands;
mod commit;
mod config;
mod config_file;
mod connection;
mod dataset;
mod dispatch;
mod door;
mod dump;
mod effects;
mod element_listing;
mod element_source;
mod encoding;
mod error;
mod event_class;
mod event_loop;
mod evict;
mod eviction;
mod face;
mod face_listener;
mod failure;
mod float;
pub mod format;
mod geo;
mod glob;
mod goal;
mod hexadecimal;
mod hyperloglog;
mod import;
mod inline;
mod integrity;
mod invalidate;
mod item_state;
mod join_listing;
mod key_positions;
mod key_search;
mod latency;
mod libraries;
mod listener;
mod local;
mod lua;
mod memcached;
mod memory;
mod metrics;
mod miss;
mod monitor;
mod notify;
mod number;
mod observed;
mod parse;
mod pause;
mod peek;
mod permission;
mod poll;
mod prefetch;
mod propagation;
mod pubsub;
mod put_off;
mod random_place;
mod rdb;
mod recency;
mod replication;
mod reply;
mod retention;
mod scan;
mod scripts;
mod secret;
mod server;
mod session;
mod set_join;
mod settings;
mod shared;
mod snapshot_values;
mod sort_plan;
mod sort_run;
mod sorting;
mod sources;
mod stats;
mod string;
mod strip_listing;
mod tls;
mod token;
mod tracking;
mod turn;
mod waiting;
mod watch;
mod welcome;

pub use client::{Answer, Client};
pub use config::{Config, DATABASES_MAX};
pub use config_file::{Directive, read_config_file};
pub use error::Error;
pub use import::{ImportError, Imported, Source, import_file, import_folder, import_live};
pub use integrity::check_collections;
pub use listener::Inherited;
pub use local::Local;
pub use server::Server;
pub use settings::Parameter;
pub use tls::{ClientCertificates, TlsConfig};
