//! The contenders by their names on the command line.

use tembo_index::IndexKind;

use crate::rival::{Brand, RedisLog, TemboServer};

/// Stores in the process that measures, Tembo first.
const EMBEDDED: [(&str, Brand); 10] = [
    ("tembo", Brand::Tembo(IndexKind::Nvtree)),
    ("tembo-cdds", Brand::Tembo(IndexKind::Cdds)),
    ("fjall", Brand::Fjall),
    ("rocksdb", Brand::RocksDb),
    ("rocksdb-direct", Brand::RocksDbDirect),
    ("lmdb", Brand::Lmdb),
    ("lmdb-no-readahead", Brand::LmdbNoReadahead),
    ("redb", Brand::Redb),
    ("sqlite", Brand::SqliteWal),
    ("berkeley", Brand::Berkeley),
];

/// Servers, each with the place of its rival above.
const SERVERS: [(&str, Brand); 3] = [
    ("tembo-server", Brand::Server(TemboServer::Durable)),
    ("tembo-server-cdds", Brand::Server(TemboServer::Cdds)),
    ("redis-always", Brand::Redis(RedisLog::Always)),
];

fn all() -> impl Iterator<Item = &'static (&'static str, Brand)> {
    EMBEDDED.iter().chain(&SERVERS)
}

/// The names of all of them.
pub fn disk_contenders() -> Vec<&'static str> {
    all().map(|(name, _)| *name).collect()
}

/// The contender of that name.
pub(super) fn named(name: &str) -> Option<Brand> {
    all().find(|(known, _)| *known == name).map(|(_, brand)| *brand)
}

/// The title in the report.
pub(super) fn title(name: &str) -> &str {
    named(name).map_or(name, |brand| brand.name())
}

pub(super) fn is_server(name: &str) -> bool {
    SERVERS.iter().any(|(known, _)| *known == name)
}

pub(super) fn is_tembo(name: &str) -> bool {
    name.starts_with("tembo")
}
