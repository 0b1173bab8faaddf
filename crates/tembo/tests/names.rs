//! Every type that a function of the store takes or returns has a name in this crate.
//!
//! Nothing runs here but the compiler: an assignment to a type that cannot be named fails to compile.
#![forbid(unsafe_code)]
#![allow(clippy::type_complexity)]

use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use tembo::{
    Access, Account, BackupError, BackupInfo, Change, Changes, Check, CheckReport, ClassUsage,
    CloseError, Direction, DomainRequest, Durability, Entries, Entry, Error, Event, Exclusive,
    Fragmentation, Geometry, Holder, HolderKind, Horizon, IndexError, IndexKind, Isolation,
    KeyCount, Keyspace, Kind, LargeValue, LargeValueRead, LargeValueWrite, LogReport, Options,
    Pool, PoolCheck, PoolOptions, Prepared, Progress, Readiness, RegionOptions, Replica, Report,
    Retention, SaveOptions, Savepoint, Since, Snapshot, Store, SyncPolicy, TenantCheck, TenantStat,
    Transaction, Value, Visit, backup,
};

#[test]
fn what_options_take_has_a_name() {
    let _: fn(Options, DomainRequest) -> Options = Options::domain;
    let _: fn(Options, SyncPolicy) -> Options = Options::sync;
    let _: fn(Options, IndexKind) -> Options = Options::index;
    let _: fn(Options, Geometry) -> Options = Options::geometry;
    let _: fn(Options, PoolOptions) -> Options = Options::pool;
    let _: fn(&Options) -> PoolOptions = Options::pool_options;
    let _ = |options: PoolOptions| -> RegionOptions { options.region };
    let _: u64 = tembo::LOG_SIZE_MIN;
}

#[test]
fn what_a_store_takes_and_returns_has_a_name() {
    let _: fn(&Path, &Options) -> Result<Store, Error> = Store::open_or_create;
    let _: fn(&tembo::pool::Pool, IndexKind) -> Result<(), Error> = Store::format;
    let _: fn(tembo::pool::Pool, &Options) -> Result<Store, Error> = Store::start;
    let _: fn(Store) -> Result<(), CloseError> = Store::close;
    let _: fn(&Store, &str) -> Result<Keyspace, Error> = Store::keyspace;
    let _: fn(&Store) -> Vec<(String, Keyspace)> = Store::keyspaces;
    let _: fn(&Store, Isolation) -> Result<Transaction, Error> = Store::transaction;
    let _: fn(&Store) -> Result<Exclusive, Error> = Store::exclusive;
    let _: fn(&Store) -> Result<Snapshot, Error> = Store::snapshot;
    let _: fn(&Store, Keyspace, &[u8], &[u8], Durability) -> Result<bool, Error> = Store::put;
    let _ = |store: &Store, space: Keyspace| -> Result<(), Error> {
        store.get_with(space, b"key", |value: Option<Value<'_>>| value.is_some())?;
        let mut all: Entries<'static> = store.range::<[u8]>(space, ..)?;
        let _: Option<Result<Entry, Error>> = all.next();
        Ok(())
    };
    let _: fn(&Store, Retention) -> Result<u64, Error> = Store::retain;
    let _: fn(&Store, u64) -> Result<Changes, Error> = Store::changes;
    let _: fn(&Store, u64, Vec<Change>, Durability) -> Result<(), Error> = Store::apply_changes;
    let _: fn(&Store) -> Result<Replica, Error> = Store::replica;
    let _: fn(&Store) -> Vec<Prepared> = Store::prepared;
    let _: fn(&Store) -> Result<Vec<TenantStat>, Error> = Store::tenants;
    let _: fn(&Store, usize) -> Result<Progress, Error> = Store::maintain;
    let _: fn(
        &Store,
        &Path,
        &SaveOptions,
        &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<BackupInfo, BackupError> = Store::save;
    let _: fn(&Path, &mut dyn FnMut(u64)) -> Result<BackupInfo, BackupError> = backup::verify;
    let _ = |options: SaveOptions| -> Option<Since> { options.since };
}

#[test]
fn what_a_store_reports_has_a_name_down_to_its_fields() {
    let _: fn(&Store) -> Report = Store::report;
    let _ = |report: Report| -> (IndexKind, LogReport) { (report.index, report.log) };
    let _: fn(&Store) -> Horizon = Store::horizon;
    let _ = |horizon: Horizon| -> Vec<Holder> { horizon.holders };
    let _ = |holder: Holder| -> HolderKind { holder.kind };
    let _: fn(&Store) -> Option<Fragmentation> = Store::fragmentation;
    let _ = |found: Fragmentation| -> Vec<ClassUsage> { found.classes };
    let _: fn(&Store) -> Result<Check, Error> = Store::check;
    let _ = |check: Check| -> (Vec<(String, CheckReport)>, Account, Vec<(String, TenantCheck)>) {
        (check.keyspaces, check.account, check.tenants)
    };
    let _ = |stat: TenantStat| -> Kind { stat.kind };
}

#[test]
fn what_an_error_holds_has_a_name() {
    let _ = |error: Error| -> (Option<IndexError>, Option<Access>) {
        match error {
            Error::Index(error) => (Some(error), None),
            Error::Conflict { access, .. } => (None, Some(access)),
            _ => (None, None),
        }
    };
    let _ = |error: Error| -> Option<tembo::pool::Error> {
        if let Error::Pool(error) | Error::Full(error) = error { Some(error) } else { None }
    };
    let _ = |error: Error| -> Option<tembo::pmem::Error> {
        if let Error::Region(error) = error { Some(error) } else { None }
    };
}

#[test]
fn what_other_handles_take_and_return_has_a_name() {
    let _: fn(&Exclusive, Keyspace) -> Result<KeyCount, Error> = Exclusive::key_count;
    let _ = |writer: &Exclusive, space: Keyspace, way: Direction, visit: &mut Visit<'_>| {
        writer.range_with::<[u8]>(space, .., way, visit)
    };
    let _: fn(&mut Transaction) -> Savepoint = Transaction::savepoint;
    let _: fn(&mut Transaction, &Savepoint) -> Result<(), Error> = Transaction::rollback_to;
    let _: fn(&mut Changes) -> Result<Option<Change>, Error> = Changes::next;
    let _ = |change: Change| -> Event { change.event };
    let _: fn(&mut Changes, Duration) -> bool = Changes::wait;
    let _: fn(&mut Changes) -> Result<Readiness, Error> = Changes::readiness;
    fn is_fd<T: AsFd>() {}
    is_fd::<Readiness>();
    let _: fn(Replica) -> Result<(), Error> = Replica::promote;
    let _: fn(&Pool, &str) -> Result<Store, Error> = Pool::store;
    let _: fn(tembo::pool::Pool, &Options) -> Pool = Pool::of;
    let _: fn(&Pool) -> Result<PoolCheck, Error> = Pool::check;
}

#[test]
fn what_a_large_value_is_read_and_written_through_has_a_name() {
    fn reads<R: LargeValueRead>() {}
    fn writes<W: LargeValueWrite>() {}
    reads::<&Snapshot>();
    reads::<&mut Transaction>();
    writes::<&mut Transaction>();
    writes::<&mut Exclusive>();
    let _ = |value: &LargeValue<&mut Transaction>| -> u64 { value.len() };
}
