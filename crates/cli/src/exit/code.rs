//! The exit codes, all of them.

use std::process::ExitCode;

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
    BackupDamaged,
    NotInARow,
    Exists,
    NotKept,
    NoBackupDir,
    BackupUnderWay,
    BackupCancelled,
    NoServer,
    Password,
    ReadOnly,
    NotMounted,
    NoNamespace,
    Conflict,
    NoDevice,
    NotADatabase,
    FileBusy,
    Unordered,
    Removed,
    LostPage,
    NoStore,
    NotDurable,
    Interrupted,
    /// What a program ended with that was run.
    Program(u8),
}

/// Code, meaning, and what to do about it.
type Row = (Exit, u8, &'static str, &'static str);

const TABLE: &[Row] = &[
    (Exit::Done, 0, "done", ""),
    (Exit::Other, 1, "any other error", ""),
    (Exit::Usage, 2, "wrong usage", "see `tembo --help`"),
    (Exit::NotAPool, 3, "the file is not a pool", "the file was left as it is"),
    (Exit::Damaged, 4, "the superblock is damaged", "nothing was changed"),
    (
        Exit::NewerVersion,
        5,
        "the pool has a newer format",
        "nothing was changed; the tembo that wrote it opens it, and a newer one",
    ),
    (
        Exit::UnknownFeature,
        6,
        "the pool uses an unknown feature",
        "nothing was changed; stat, check and dump may still read it",
    ),
    (
        Exit::Truncated,
        7,
        "the pool is shorter than it says",
        "nothing was changed; it was copied in part or cut short",
    ),
    (
        Exit::LogMissing,
        8,
        "the pool needs its log, and the log is missing",
        "the log (POOL.log) holds acknowledged writes",
    ),
    (
        Exit::LogForeign,
        9,
        "the log is another pool's",
        "nothing was changed; the log (POOL.log) has to be of the same moment as the pool",
    ),
    (Exit::LogDamaged, 10, "the log is damaged in its middle", "nothing was changed"),
    (
        Exit::Held,
        11,
        "another process holds the pool",
        "if it is a server, use that: redis-cli, `tembo backup --server`",
    ),
    (
        Exit::Poisoned,
        12,
        "a sync failed: nothing more could be promised",
        "look at the disk first (dmesg); under --sync always, what was acknowledged is there",
    ),
    (
        Exit::DiskFull,
        13,
        "the disk is full",
        "free some space (a quota and ulimit -f are limits, too), then start again",
    ),
    (
        Exit::PoolFull,
        14,
        "the pool is full",
        "--size-max raises the limit; removed keys and dropped snapshots give room",
    ),
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
        "keep the files; `tembo check` names the damage, `tembo dump` writes what can be read",
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
    // 24 and 25 are of `tembo-lab`.
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
        "a whole backup comes first, then the incremental ones of the same store, each once, in order",
    ),
    (Exit::Exists, 28, "something has that name already", "it was left as it is; choose another"),
    (
        Exit::NotKept,
        29,
        "that version is not kept any more",
        "of a backup: take a whole one; with --keep NAME the next one can follow it",
    ),
    (
        Exit::NoBackupDir,
        30,
        "the server has no folder for backups",
        "start it with `tembo serve --backup-dir DIR`, where DIR is there",
    ),
    (
        Exit::BackupUnderWay,
        31,
        "a backup is under way already",
        "wait until it ends, or send the server TEMBO.BACKUP CANCEL",
    ),
    (Exit::BackupCancelled, 32, "the backup was cancelled", "nothing is left of it"),
    (
        Exit::NoServer,
        33,
        "no server answers there",
        "see whether it runs, and where: `tembo serve` says so; an interrupted backup is gone on with by \
         the same command",
    ),
    (
        Exit::Password,
        34,
        "the server wants a password, or another one",
        "set TEMBO_REQUIREPASS or --requirepass-file",
    ),
    (Exit::ReadOnly, 35, "the pool is open to be read only", "leave --read-only out"),
    (
        Exit::NotMounted,
        36,
        "no file system of a pool is mounted there",
        "`tembo mount POOL DIR` mounts one; a program in a transaction begins no other",
    ),
    (
        Exit::NoNamespace,
        37,
        "a program cannot get a view of its own here",
        "permit user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone), or run it as root",
    ),
    (
        Exit::Conflict,
        38,
        "another has changed the same files meanwhile",
        "nothing of this one was done; run it again",
    ),
    (
        Exit::NoDevice,
        39,
        "the pool has no such device or database",
        "see `tembo device list POOL`, or `tembo sqlite list POOL`",
    ),
    (
        Exit::NotADatabase,
        40,
        "the file is not a SQLite database",
        "check the path; the file was left as it is",
    ),
    (
        Exit::FileBusy,
        41,
        "another process uses the file",
        "stop that process, or copy the database with VACUUM INTO, and import the copy",
    ),
    (
        Exit::Unordered,
        42,
        "the keys of the pool have no order, and this needs ranges of them",
        "the pool was left as it is; make another without `--index hash`: a backup of this one can be restored into it",
    ),
    (
        Exit::Removed,
        43,
        "a file of the pool was removed while it was open",
        "what the pool held is in no file any more",
    ),
    (
        Exit::LostPage,
        44,
        "a page of the pool could not be read",
        "another program has cut its file short, or its disk fails (dmesg): see to that, then start again",
    ),
    (
        Exit::NoStore,
        45,
        "the pool holds no store of that name",
        "commands that take --store NAME open a store of another name; `tembo heap` shows a heap",
    ),
    (
        Exit::NotDurable,
        46,
        "the transaction may be seen, and may not be durable: its sync failed",
        "do not repeat it before you have looked at its files; give the disk of the pool room, and fsync any file of the mount",
    ),
    (Exit::Interrupted, 130, "stopped at once by a second signal", ""),
];

impl Exit {
    pub(super) fn row(self) -> &'static Row {
        TABLE.iter().find(|row| row.0 == self).unwrap_or(&TABLE[1])
    }

    pub(crate) fn code(self) -> u8 {
        if let Exit::Program(code) = self {
            return code;
        }
        self.row().1
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
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
}
