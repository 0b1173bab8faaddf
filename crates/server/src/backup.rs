//! Backups of a running server: a command asks for one, a thread writes it.
//!
//! The event loop never waits for a backup. It refuses at once what it can refuse at once, and hands any
//! other request as a [`Job`] to the [`Worker`]. The worker's thread calls `Store::save`, which writes one
//! durable version while other clients write. The state of the backup stands on a [`Board`] that both
//! threads read. One backup runs at a time.
//!
//! A client gives a backup's name, never a path: all backups lie in the one folder that the operator chose.
//! A cancelled backup is removed. A backup that ended for another reason, such as the end of the server,
//! continues when it is asked for again.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tembo_kv::backup::peek;
use tembo_kv::{BackupError, SaveOptions, Since, Store};

use crate::failure::Failure;

/// Longest name of a backup, in bytes: with `.partial` behind it, it is still a valid file name.
const NAME_SIZE_MAX: usize = 200;

/// Snapshots that backups keep at most: a store has 64 names.
const KEPT_MAX: usize = 62;

/// A backup, as clients see it.
#[derive(Clone, Debug)]
pub(crate) struct Backup {
    pub(crate) name: String,
    /// It holds what has changed since that version; `None`: it holds everything.
    pub(crate) since: Option<u64>,
    /// When it was asked for, in seconds since 1970.
    pub(crate) started_s: u64,
    /// How long it took; `None` while it runs.
    pub(crate) took: Option<Duration>,
    /// Bytes written, with those of earlier attempts that it continues.
    pub(crate) bytes: u64,
    pub(crate) state: State,
}

/// The state of a backup.
#[derive(Clone, Debug)]
pub(crate) enum State {
    Running,
    Done {
        version: u64,
        entries: u64,
    },
    Cancelled,
    /// With the text of an error reply.
    Failed(String),
}

impl State {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            State::Running => "running",
            State::Done { .. } => "done",
            State::Cancelled => "cancelled",
            State::Failed(_) => "failed",
        }
    }
}

/// What the event loop and the worker both see.
#[derive(Default)]
struct Board {
    /// The running backup, else the last one.
    last: Mutex<Option<Backup>>,
    bytes: AtomicU64,
    /// One of the orders below.
    order: AtomicU8,
}

const GO_ON: u8 = 0;
const CANCEL: u8 = 1;
/// The server ends.
const STOP: u8 = 2;

impl Board {
    fn change<T>(&self, change: impl FnOnce(&mut Option<Backup>) -> T) -> T {
        change(&mut self.last.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn order(&self) -> u8 {
        self.order.load(Ordering::Acquire)
    }

    fn advance(&self, bytes: u64) -> ControlFlow<()> {
        if bytes > 0 {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        if self.order() == GO_ON { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

/// A backup to be written.
struct Job {
    path: PathBuf,
    options: SaveOptions,
}

/// Backups as commands ask for them.
pub(crate) struct Backups {
    folder: Option<PathBuf>,
    board: Arc<Board>,
    jobs: Sender<Job>,
}

/// Writes the backups, in its own thread.
pub(crate) struct Worker {
    board: Arc<Board>,
    jobs: Receiver<Job>,
}

impl Drop for Backups {
    fn drop(&mut self) {
        self.board.order.store(STOP, Ordering::Release);
    }
}

impl Backups {
    /// Backups in a folder; without one they are refused.
    pub(crate) fn new(folder: Option<PathBuf>) -> (Backups, Worker) {
        let board = Arc::new(Board::default());
        let (jobs, received) = channel();
        (Backups { folder, board: board.clone(), jobs }, Worker { board, jobs: received })
    }

    /// The running backup, else the last one since the server started.
    pub(crate) fn last(&self) -> Option<Backup> {
        let last = self.board.change(|last| last.clone());
        last.map(|backup| match backup.state {
            State::Running => Backup { bytes: self.board.bytes.load(Ordering::Relaxed), ..backup },
            _ => backup,
        })
    }

    /// Starts a backup of what is visible when the turn has ended, or later. It is of the store that is served: what else the
    /// pool holds, other stores and heaps, is not in it.
    pub(crate) fn start(
        &self,
        store: &Store,
        (name, since, keep): (&[u8], Option<&[u8]>, Option<&[u8]>),
        started_s: u64,
    ) -> Result<(), Failure> {
        let path = self.path(name)?;
        self.check_idle()?;
        let since = since.map(|since| self.version(store, since)).transpose()?;
        let keep = keep.map(checked).transpose()?.map(str::to_owned);
        if let Some(keep) = &keep {
            check_kept(store, keep)?;
        }
        if std::fs::symlink_metadata(&path).is_ok() {
            return Err(refused(&BackupError::Exists { path }));
        }
        if let Some(since) = since {
            // The worker would find the same; here the client gets the error.
            store.snapshot_at(since).map_err(|error| refused(&error.into()))?;
        }
        let name = String::from_utf8_lossy(name).into_owned();
        let (took, bytes, state) = (None, 0, State::Running);
        self.board.bytes.store(0, Ordering::Relaxed);
        self.board.order.store(GO_ON, Ordering::Release);
        self.board.change(|last| {
            *last = Some(Backup { name, since, started_s, took, bytes, state });
        });
        let options = SaveOptions { since: since.map(Since::Version), keep };
        let sent = self.jobs.send(Job { path, options });
        sent.map_err(|_| "ERR the thread that writes backups has ended".into())
    }

    /// Cancels the running backup; false if there is none.
    pub(crate) fn cancel(&self) -> bool {
        let is_running = self.check_idle().is_err();
        if is_running {
            self.board.order.store(CANCEL, Ordering::Release);
        }
        is_running
    }

    /// Removes what an interrupted backup has left.
    pub(crate) fn forget(&self, store: &Store, name: &[u8]) -> Result<(), Failure> {
        let path = self.path(name)?;
        self.check_idle()?;
        store.abandon_save(&path).map_err(|error| refused(&error))
    }

    fn check_idle(&self) -> Result<(), Failure> {
        let is_running =
            |last: &mut Option<Backup>| matches!(last, Some(Backup { state: State::Running, .. }));
        if self.board.change(is_running) {
            return Err("INPROG a backup is under way already".into());
        }
        Ok(())
    }

    /// Where a backup of that name lies.
    fn path(&self, name: &[u8]) -> Result<PathBuf, Failure> {
        let none = "NODIR this server has no folder for backups: start it with --backup-dir DIR";
        let folder = self.folder.as_ref().ok_or(none)?;
        if !folder.is_dir() {
            let folder = folder.display();
            return Err(format!("NODIR the folder for backups is gone: {folder}").into());
        }
        Ok(folder.join(checked(name)?))
    }

    /// The version that `since` names: by a backup of this store, or by its number.
    fn version(&self, store: &Store, since: &[u8]) -> Result<u64, Failure> {
        let path = self.path(since)?;
        let number = std::str::from_utf8(since).ok().and_then(|text| text.parse().ok());
        match number {
            Some(version) if !path.exists() => Ok(version),
            _ => version_of(&path, store).map_err(|error| refused(&error)),
        }
    }
}

fn version_of(path: &Path, store: &Store) -> Result<u64, BackupError> {
    let (identity, version) = peek(path)?;
    if identity != store.identity() {
        return Err(BackupError::OtherPool { path: path.to_owned() });
    }
    Ok(version)
}

/// Whether there is a name left for a snapshot, beside that of SAVE and that of the backup itself.
fn check_kept(store: &Store, keep: &str) -> Result<(), Failure> {
    let named = store.snapshots();
    let others = named.iter().filter(|(name, _)| name != keep && name != "save").count();
    if others < KEPT_MAX {
        return Ok(());
    }
    let advice = "drop some with TEMBO.SNAPSHOT DROP";
    Err(format!("FULL {KEPT_MAX} snapshots are kept, and no more can be: {advice}").into())
}

/// The name of a file in the folder, and of nothing else; or of a snapshot.
fn checked(name: &[u8]) -> Result<&str, Failure> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    let is_short = (1..=NAME_SIZE_MAX).contains(&name.len());
    let is_free = !name.starts_with(b".") && !name.ends_with(b".partial");
    match std::str::from_utf8(name) {
        Ok(text) if is_short && is_free && name.iter().all(is_plain) => Ok(text),
        _ => {
            Err("BADNAME a name has letters, digits, '.', '_' and '-', does not begin with a dot, \
                  and does not end with .partial"
                .into())
        }
    }
}

/// The error reply: its first word is for programs.
fn refused(error: &BackupError) -> Failure {
    text(error).into()
}

fn text(error: &BackupError) -> String {
    use std::io::ErrorKind::{
        FileTooLarge, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
    };
    let code = match error {
        BackupError::Exists { .. } | BackupError::InTheWay { .. } => "EXISTS",
        BackupError::Io { source, .. } => match source.kind() {
            StorageFull | QuotaExceeded | FileTooLarge => "DISKFULL",
            PermissionDenied | ReadOnlyFilesystem => "NOPERM",
            _ => "ERR",
        },
        BackupError::NotABackup { .. }
        | BackupError::Damaged { .. }
        | BackupError::NewerVersion { .. } => "BADBACKUP",
        BackupError::OtherPool { .. } | BackupError::NotInARow { .. } => "NOTINAROW",
        BackupError::Store(
            tembo_kv::Error::NotRetained { .. } | tembo_kv::Error::RolledBack { .. },
        ) => "NOTKEPT",
        _ => "ERR",
    };
    format!("{code} {error}")
}

impl Worker {
    /// Writes what is asked for until the server ends.
    pub(crate) fn run(&self, store: &Store) {
        while let Ok(job) = self.jobs.recv() {
            if self.board.order() == STOP {
                return;
            }
            let began = Instant::now();
            let state = self.write(store, &job);
            let bytes = self.board.bytes.load(Ordering::Relaxed);
            self.board.change(|last| {
                if let Some(backup) = last {
                    *backup =
                        Backup { took: Some(began.elapsed()), bytes, state, ..backup.clone() };
                }
            });
        }
    }

    fn write(&self, store: &Store, job: &Job) -> State {
        let mut advance = |bytes| self.board.advance(bytes);
        let saved = match store.save(&job.path, &job.options, &mut advance) {
            Ok(info) => {
                self.board.bytes.store(info.bytes, Ordering::Relaxed);
                return State::Done { version: info.until, entries: info.entries };
            }
            Err(error) => error,
        };
        let is_cancelled =
            matches!(saved, BackupError::Interrupted { .. }) && self.board.order() == CANCEL;
        if !is_cancelled {
            return State::Failed(text(&saved));
        }
        match store.abandon_save(&job.path) {
            Ok(()) => State::Cancelled,
            Err(error) => State::Failed(text(&error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_nowhere_else() {
        for name in ["a", "2026-11-21.bak", "A_b-c..d", "partial"] {
            assert!(checked(name.as_bytes()).is_ok(), "{name}");
        }
        let long = "n".repeat(NAME_SIZE_MAX + 1);
        let wrong = ["", ".", "..", ".a", "a/b", "../a", "/a", "a\\b", "a b", "a\n", "a\0b", "ä"];
        for name in wrong.into_iter().chain(["a.partial", &long]) {
            assert!(checked(name.as_bytes()).is_err(), "{name}");
        }
    }
}
