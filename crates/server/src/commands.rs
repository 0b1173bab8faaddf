//! All commands, by family.

mod acl;
mod argument;
mod backup;
mod bitfield;
mod bitmap;
mod catalog;
mod client;
mod cluster;
mod command;
mod command_keys;
mod config;
mod connection;
mod counter;
mod debug;
mod digest;
mod docs;
mod dump;
mod eval;
mod expire;
mod facts;
mod failover;
mod field_expiry;
mod function;
mod function_dump;
mod generic;
mod geo;
mod geo_search;
mod hash;
mod help;
mod hyperloglog;
mod info;
mod join_source;
mod keys;
mod latency;
mod lcs;
mod list;
mod list_move;
mod listing;
mod memory;
mod migrate;
mod module;
mod monitor;
mod multi_pop;
mod pubsub;
mod redis_sync;
mod removal;
mod replication;
mod sample;
mod scan;
mod script;
mod script_run;
mod server;
mod set;
mod slowlog;
mod snapshot;
mod sort;
mod sorted_set;
mod stored_libraries;
mod stream;
mod string;
mod string_set;
mod swapdb;
mod tracking;
mod transaction;
mod wait;

use crate::command::Command;

pub(crate) use catalog::{catalog, served_stale};
pub(crate) use connection::REDIS_VERSION;

/// All commands, by family.
pub(crate) const FAMILIES: &[&[Command]] = &[
    acl::COMMANDS,
    backup::COMMANDS,
    bitfield::COMMANDS,
    bitmap::COMMANDS,
    client::COMMANDS,
    cluster::COMMANDS,
    command::COMMANDS,
    config::COMMANDS,
    connection::COMMANDS,
    counter::COMMANDS,
    dump::COMMANDS,
    debug::COMMANDS,
    eval::COMMANDS,
    expire::COMMANDS,
    failover::COMMANDS,
    function::COMMANDS,
    generic::COMMANDS,
    geo::COMMANDS,
    geo_search::COMMANDS,
    hyperloglog::COMMANDS,
    info::COMMANDS,
    hash::COMMANDS,
    field_expiry::COMMANDS,
    keys::COMMANDS,
    list::COMMANDS,
    list_move::COMMANDS,
    migrate::COMMANDS,
    latency::COMMANDS,
    lcs::COMMANDS,
    memory::COMMANDS,
    module::COMMANDS,
    monitor::COMMANDS,
    pubsub::COMMANDS,
    redis_sync::COMMANDS,
    replication::COMMANDS,
    script::COMMANDS,
    server::COMMANDS,
    set::COMMANDS,
    slowlog::COMMANDS,
    sort::COMMANDS,
    sorted_set::COMMANDS,
    snapshot::COMMANDS,
    stream::COMMANDS,
    string_set::COMMANDS,
    string::COMMANDS,
    swapdb::COMMANDS,
    transaction::COMMANDS,
];

#[cfg(test)]
mod tests {
    use super::FAMILIES;
    use crate::command::Table;

    #[test]
    fn every_command_is_found() {
        let table = Table::new(FAMILIES);
        for command in table.all() {
            let upper = command.name.to_ascii_uppercase();
            assert_eq!(table.find(upper.as_bytes()).unwrap().name, command.name);
            assert_eq!(command.name, command.name.to_ascii_lowercase());
        }
        assert!(table.find(b"nosuch").is_none() && table.find(b"").is_none());
        assert!(table.all().count() < 512, "the table is half empty");
    }
}
