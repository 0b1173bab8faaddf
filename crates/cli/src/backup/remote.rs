//! `tembo backup --server`: the server writes, this process asks and watches.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Context;
use tembo_server::{Answer, Client};

use super::saved::Saved;
use crate::exit::{Exit, refuse};
use crate::{password, progress, signals};

/// How long a server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at how the backup stands.
const PAUSE: Duration = Duration::from_millis(100);

const COMMAND: &[u8] = b"TEMBO.BACKUP";

/// What the server is asked for.
pub(super) struct Request<'a> {
    /// The name of the file, in the server's folder.
    pub(super) out: &'a Path,
    pub(super) requirepass_file: Option<&'a Path>,
    pub(super) since: Option<&'a str>,
    pub(super) keep: Option<&'a str>,
}

/// Has the server write the backup, and waits for its end.
pub(super) fn save(server: &str, request: &Request<'_>) -> anyhow::Result<Saved> {
    let Some(name) = request.out.to_str() else {
        return refuse(Exit::Usage, "the name of a backup is no text");
    };
    let cancelled = signals::stopped().context("watching signals")?;
    let mut server = Server::connect(server)?;
    if let Some(password) = password::read(request.requirepass_file)? {
        server.call(&[b"AUTH", password.as_bytes()])?;
    }
    let mut words = vec![COMMAND, b"START", name.as_bytes()];
    for (option, value) in [(&b"SINCE"[..], request.since), (b"KEEP", request.keep)] {
        words.extend(value.iter().flat_map(|value| [option, value.as_bytes()]));
    }
    server.call(&words)?;
    let progress = progress::written();
    loop {
        if cancelled.swap(false, Ordering::Relaxed) {
            // It may have ended in the meantime: the state shows it.
            let _ = server.client.call(&[COMMAND, b"CANCEL"]);
        }
        let status = server.call(&[COMMAND, b"STATUS"])?;
        progress.set_position(number(&status, "bytes")?);
        match text(&status, "state")?.as_str() {
            "running" => sleep(PAUSE),
            _ => {
                progress.finish_and_clear();
                return ended(name, &status);
            }
        }
    }
}

/// What is said of a backup that is no longer under way.
fn ended(name: &str, status: &Answer) -> anyhow::Result<Saved> {
    let state = text(status, "state")?;
    if text(status, "name")? != name {
        return refuse(Exit::Other, "another backup has begun since");
    }
    match state.as_str() {
        "done" => Ok(Saved {
            file: name.to_owned(),
            since: Some(number(status, "since")?).filter(|since| *since > 0),
            version: number(status, "version")?,
            entries: number(status, "entries")?,
            bytes: number(status, "bytes")?,
        }),
        "cancelled" => refuse(Exit::BackupCancelled, format!("the backup {name} was cancelled")),
        _ => refused(&text(status, "error")?),
    }
}

fn text(status: &Answer, name: &str) -> anyhow::Result<String> {
    status.field(name).with_context(|| format!("the server does not report `{name}`"))
}

fn number(status: &Answer, name: &str) -> anyhow::Result<u64> {
    text(status, name)?.parse().with_context(|| format!("`{name}`"))
}

/// The server said no, for a reason that its first word names.
fn refused<T>(error: &str) -> anyhow::Result<T> {
    let (code, what) = error.split_once(' ').unwrap_or(("", error));
    let exit = match code {
        "EXISTS" => Exit::Exists,
        "DISKFULL" => Exit::DiskFull,
        "NOPERM" => Exit::NoPermission,
        "BADBACKUP" => Exit::BackupDamaged,
        "NOTINAROW" => Exit::NotInARow,
        "NOTKEPT" => Exit::NotKept,
        "NODIR" => Exit::NoBackupDir,
        "INPROG" => Exit::BackupUnderWay,
        "BADNAME" => Exit::Usage,
        "NOAUTH" | "WRONGPASS" => Exit::Password,
        _ => return refuse(Exit::Other, error),
    };
    refuse(exit, what)
}

/// A running server.
struct Server {
    client: Client,
    address: String,
}

impl Server {
    fn connect(address: &str) -> anyhow::Result<Server> {
        match Client::connect(address, PATIENCE) {
            Ok(client) => Ok(Server { client, address: address.to_owned() }),
            Err(error) => lost(address, &error),
        }
    }

    fn call(&mut self, words: &[&[u8]]) -> anyhow::Result<Answer> {
        match self.client.call(words) {
            Ok(Answer::Error(error)) => refused(&error),
            Ok(answer) => Ok(answer),
            Err(error) => lost(&self.address, &error),
        }
    }
}

fn lost<T>(address: &str, error: &io::Error) -> anyhow::Result<T> {
    refuse(Exit::NoServer, format!("{address}: {error}"))
}
