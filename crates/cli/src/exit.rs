//! The exit codes, all of them, and how an error is told to a person.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use tembo_kv as kv;
use tembo_pmem as pmem;
use tembo_pool as pool;
use tembo_server as server;

/// Why the process ended. Scripts may rely on the numbers: one is never given a new meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    Other,
    Usage,
    NotAPool,
    Damaged,
    NewerVersion,
    UnknownFeature,
    Truncated,
    LogMissing,
    LogForeign,
    LogDamaged,
    Held,
    Poisoned,
    DiskFull,
    PoolFull,
    NoPermission,
    EmulationLost,
    CheckFailed,
    Unprotected,
    AddressInUse,
    PoolMissing,
    LogOrphaned,
    Unsupported,
    BadLine,
    Violated,
    NotMissed,
    BackupDamaged,
    NotInARow,
    Exists,
    NotKept,
    Interrupted,
}

/// Code, meaning, and what to do about it.
type Row = (Exit, u8, &'static str, &'static str);

const TABLE: &[Row] = &[
    (Exit::Done, 0, "done", ""),
    (Exit::Other, 1, "any other error", ""),
    (Exit::Usage, 2, "wrong usage", "see `tembo --help`"),
    (Exit::NotAPool, 3, "the file is not a pool", "check the path; the file was left as it is"),
    (
        Exit::Damaged,
        4,
        "the superblock is damaged",
        "nothing was changed; copy the file away and restore a backup",
    ),
    (
        Exit::NewerVersion,
        5,
        "the pool has a newer format",
        "open it with a tembo at least as new as the one that wrote it",
    ),
    (
        Exit::UnknownFeature,
        6,
        "the pool uses an unknown feature",
        "open it with a tembo at least as new as the one that wrote it",
    ),
    (
        Exit::Truncated,
        7,
        "the pool is shorter than it says",
        "nothing was changed; it was copied in part, so copy it again or restore a backup",
    ),
    (
        Exit::LogMissing,
        8,
        "the pool needs its log, and the log is missing",
        "put POOL.log back beside the pool: it holds acknowledged writes",
    ),
    (
        Exit::LogForeign,
        9,
        "the log is another pool's",
        "put this pool's own POOL.log back, from the same moment as the pool",
    ),
    (
        Exit::LogDamaged,
        10,
        "the log is damaged in its middle",
        "nothing was changed; copy pool and log away and restore a backup",
    ),
    (Exit::Held, 11, "another process holds the pool", "stop that process, or use its server"),
    (
        Exit::Poisoned,
        12,
        "a sync failed: nothing more could be promised",
        "look at the disk (dmesg), then start again: what was acknowledged is there",
    ),
    (Exit::DiskFull, 13, "the disk is full", "free some space and start again"),
    (Exit::PoolFull, 14, "the pool is full", "remove keys, or raise --size-max"),
    (
        Exit::NoPermission,
        15,
        "no permission",
        "the user needs to read and write the pool, its log and their directory",
    ),
    (
        Exit::EmulationLost,
        16,
        "emulated persistent memory did not survive a reboot",
        "open it with --domain flush if what was lost does not matter, or restore a backup",
    ),
    (
        Exit::CheckFailed,
        17,
        "what the pool holds is damaged",
        "keep the files; run `tembo check POOL`, and dump what can be read",
    ),
    (
        Exit::Unprotected,
        18,
        "refused to listen to the network without a password",
        "set TEMBO_REQUIREPASS or --requirepass-file, or say --unprotected",
    ),
    (
        Exit::AddressInUse,
        19,
        "the address is in use",
        "choose another --port, or stop what listens there",
    ),
    (Exit::PoolMissing, 20, "there is no such pool", "check the path; `tembo serve` creates pools"),
    (
        Exit::LogOrphaned,
        21,
        "there is a log, but not its pool",
        "put the pool back beside POOL.log, or move the log away to begin anew",
    ),
    (
        Exit::Unsupported,
        22,
        "the file's medium has no such domain",
        "leave --domain out, or see `tembo doctor PATH`",
    ),
    (Exit::BadLine, 23, "the input to load is malformed", "mend the line; those before it are in"),
    (
        Exit::Violated,
        24,
        "a test has found a promise broken",
        "please report it, with the line `replay` or the pool that was kept",
    ),
    (
        Exit::NotMissed,
        25,
        "a step towards durability is not missed",
        "the step is not needed, or no workload needs it: look at it, and at the workloads",
    ),
    (
        Exit::BackupDamaged,
        26,
        "the backup is damaged, or none",
        "nothing was made of it; use another copy, or the backup before",
    ),
    (
        Exit::NotInARow,
        27,
        "the backups do not follow each other",
        "give a whole backup first, then the incremental ones of the same pool, each once, in order",
    ),
    (Exit::Exists, 28, "something has that name already", "it was left as it is; choose another"),
    (
        Exit::NotKept,
        29,
        "that version is not kept any more",
        "take a whole backup; with --keep NAME the next one can follow it",
    ),
    (Exit::Interrupted, 130, "stopped at once by a second signal", ""),
];

impl Exit {
    fn row(self) -> &'static Row {
        TABLE.iter().find(|row| row.0 == self).unwrap_or(&TABLE[1])
    }

    pub(crate) fn code(self) -> u8 {
        self.row().1
    }

    /// The code that stands for `error`.
    pub(crate) fn of(error: &anyhow::Error) -> Exit {
        error.chain().find_map(of_cause).unwrap_or(Exit::Other)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// A refusal of the command line's own.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) exit: Exit,
    pub(crate) what: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Refusal {}

/// Refuses with that code.
pub(crate) fn refuse<T>(exit: Exit, what: impl Into<String>) -> anyhow::Result<T> {
    Err(Refusal { exit, what: what.into() }.into())
}

fn of_cause(cause: &(dyn std::error::Error + 'static)) -> Option<Exit> {
    if let Some(refusal) = cause.downcast_ref::<Refusal>() {
        return Some(refusal.exit);
    }
    if let Some(error) = cause.downcast_ref::<server::Error>() {
        return of_server(error);
    }
    if let Some(error) = cause.downcast_ref::<kv::BackupError>() {
        return of_backup(error);
    }
    if let Some(error) = cause.downcast_ref::<kv::Error>() {
        return of_kv(error);
    }
    if let Some(error) = cause.downcast_ref::<pool::Error>() {
        return of_pool(error);
    }
    if let Some(error) = cause.downcast_ref::<pmem::Error>() {
        return of_pmem(error);
    }
    of_io(cause.downcast_ref::<io::Error>()?)
}

fn of_server(error: &server::Error) -> Option<Exit> {
    match error {
        server::Error::Bind { source, .. } | server::Error::Io { source, .. } => of_io(source),
        server::Error::Unprotected { .. } => Some(Exit::Unprotected),
        server::Error::Config(_) => Some(Exit::Usage),
        server::Error::Poisoned => Some(Exit::Poisoned),
        server::Error::Store(error) => of_kv(error),
        _ => None,
    }
}

fn of_backup(error: &kv::BackupError) -> Option<Exit> {
    match error {
        kv::BackupError::Exists { .. } => Some(Exit::Exists),
        kv::BackupError::Io { source, .. } => of_io(source),
        kv::BackupError::NotABackup { .. } | kv::BackupError::Damaged { .. } => {
            Some(Exit::BackupDamaged)
        }
        kv::BackupError::NewerVersion { .. } => Some(Exit::NewerVersion),
        kv::BackupError::OtherPool { .. } | kv::BackupError::NotInARow { .. } => {
            Some(Exit::NotInARow)
        }
        kv::BackupError::Store(error) => of_kv(error),
        _ => None,
    }
}

fn of_kv(error: &kv::Error) -> Option<Exit> {
    match error {
        kv::Error::Full(error) => of_pool(error),
        kv::Error::Poisoned => Some(Exit::Poisoned),
        kv::Error::Pool(error) => of_pool(error),
        kv::Error::Region(error) => of_pmem(error),
        kv::Error::Index(_) | kv::Error::Damaged { .. } => Some(Exit::CheckFailed),
        kv::Error::NotRetained { .. } | kv::Error::HistoryGone { .. } => Some(Exit::NotKept),
        _ => None,
    }
}

fn of_pool(error: &pool::Error) -> Option<Exit> {
    match error {
        pool::Error::Region(error) => of_pmem(error),
        pool::Error::NotAPool { .. } => Some(Exit::NotAPool),
        pool::Error::NewerVersion { .. } => Some(Exit::NewerVersion),
        pool::Error::UnknownFeature { .. } => Some(Exit::UnknownFeature),
        pool::Error::Checksum { .. }
        | pool::Error::Damaged { .. }
        | pool::Error::BadGeometry { .. } => Some(Exit::Damaged),
        pool::Error::Truncated { .. } => Some(Exit::Truncated),
        pool::Error::PoolFull { .. } => Some(Exit::PoolFull),
        pool::Error::OutOfBounds { .. }
        | pool::Error::Misplaced { .. }
        | pool::Error::Overlap { .. } => Some(Exit::CheckFailed),
        _ => None,
    }
}

fn of_pmem(error: &pmem::Error) -> Option<Exit> {
    match error {
        pmem::Error::Io { source, .. } => of_io(source),
        pmem::Error::Fault(_) => Some(Exit::CheckFailed),
        pmem::Error::Held { .. } => Some(Exit::Held),
        pmem::Error::NotAPool { .. } => Some(Exit::NotAPool),
        pmem::Error::Damaged { .. } => Some(Exit::Damaged),
        pmem::Error::Truncated { .. } => Some(Exit::Truncated),
        pmem::Error::NewerVersion { .. } => Some(Exit::NewerVersion),
        pmem::Error::UnknownFeatures { .. } => Some(Exit::UnknownFeature),
        pmem::Error::LogMissing { .. } => Some(Exit::LogMissing),
        pmem::Error::LogForeign { .. } => Some(Exit::LogForeign),
        pmem::Error::LogDamaged { .. } => Some(Exit::LogDamaged),
        pmem::Error::Poisoned { .. } => Some(Exit::Poisoned),
        pmem::Error::DiskFull { .. } => Some(Exit::DiskFull),
        pmem::Error::EmulationLost { .. } => Some(Exit::EmulationLost),
        pmem::Error::Unsupported { .. } => Some(Exit::Unsupported),
        _ => None,
    }
}

fn of_io(error: &io::Error) -> Option<Exit> {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            Some(Exit::NoPermission)
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some(Exit::DiskFull),
        io::ErrorKind::AddrInUse => Some(Exit::AddressInUse),
        _ => None,
    }
}

/// Tells the person what happened and what to do, and returns the code. A reader that has gone away
/// (`tembo dump | head`) is no error.
pub(crate) fn report(error: &anyhow::Error) -> Exit {
    let gone = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    if error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(gone)) {
        return Exit::Done;
    }
    let exit = Exit::of(error);
    // Nobody is left to tell if this fails.
    let mut out = io::stderr().lock();
    let _ = writeln!(out, "tembo: {error:#}");
    let advice = exit.row().3;
    if !advice.is_empty() {
        let _ = writeln!(out, "  help: {advice} (exit code {})", exit.code());
    }
    exit
}

/// The exit codes as text.
pub(crate) fn table() -> String {
    let rows = TABLE.iter().map(|(_, code, meaning, _)| format!("  {code:>3}  {meaning}\n"));
    format!("Exit codes:\n{}", rows.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_stands_once_and_means_something() {
        for (index, (exit, code, meaning, _)) in TABLE.iter().enumerate() {
            assert!(!meaning.is_empty());
            assert_eq!(exit.code(), *code);
            assert!(TABLE[..index].iter().all(|row| row.1 != *code && row.2 != *meaning), "{code}");
        }
    }

    #[test]
    fn errors_find_their_codes_under_their_context() {
        let io = |kind| io::Error::from(kind);
        let of = |error: anyhow::Error| Exit::of(&error.context("opening"));
        assert_eq!(of(io(io::ErrorKind::PermissionDenied).into()), Exit::NoPermission);
        assert_eq!(of(io(io::ErrorKind::AddrInUse).into()), Exit::AddressInUse);
        let full = pool::Error::PoolFull { size: 1, recovering: false };
        assert_eq!(of(kv::Error::from(full).into()), Exit::PoolFull);
        assert_eq!(of(anyhow::anyhow!("?")), Exit::Other);
        let refusal = Refusal { exit: Exit::Unprotected, what: String::new() };
        assert_eq!(of(refusal.into()), Exit::Unprotected);
    }
}
