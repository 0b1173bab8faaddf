//! `tembo import`: from Redis into a server that runs.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use indicatif::ProgressBar;
use serde::Serialize;
use tembo_server::{Answer, Client, Imported, Source, import_file, import_folder, import_live};

use crate::exit::{Exit, refuse};
use crate::output::{Lines, print};
use crate::{password, progress, signals};

/// No answer of the server takes longer.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    /// An RDB file, an append-only file, or the folder of one in several parts
    #[arg(required_unless_present = "from", conflicts_with = "from")]
    file: Option<PathBuf>,
    /// A Redis server that runs: all it has, and then all it executes, until this is interrupted (Ctrl-C)
    #[arg(long, value_name = "HOST:PORT")]
    from: Option<String>,
    /// A file with the password of the Redis server
    #[arg(long, value_name = "FILE", requires = "from")]
    from_password_file: Option<PathBuf>,
    /// End as soon as the server has all that Redis had when its data was read
    #[arg(long, requires = "from")]
    once: bool,
    /// The server to import into; keys that it has already are replaced
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:6379")]
    server: String,
    /// A file with the password of the server (or set TEMBO_REQUIREPASS)
    #[arg(long, value_name = "FILE")]
    requirepass_file: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    keys: u64,
    bytes: u64,
    commands: u64,
    refused: u64,
    offset: u64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let stop = signals::stopped().context("watching signals")?;
    let target = connect(args)?;
    let imported = match (&args.file, &args.from) {
        (Some(path), _) => from_file(path, target)?,
        (None, Some(address)) => from_server(args, address, target, stop)?,
        (None, None) => return refuse(Exit::Usage, "there is nothing to import"),
    };
    let Imported { keys, bytes, commands, refused, offset, .. } = imported;
    let report = Report { keys, bytes, commands, refused, offset };
    let mut lines = Lines::default();
    lines.add("keys", keys);
    lines.add("bytes", bytes);
    lines.add("commands", commands);
    lines.add("refused", refused);
    print(args.json, &report, &lines)?;
    match imported.first_refusal {
        Some(text) => refuse(Exit::Other, format!("the server refused {refused}, first: {text}")),
        None => Ok(Exit::Done),
    }
}

fn connect(args: &Args) -> anyhow::Result<Client> {
    let lost = |error: std::io::Error| {
        refuse::<Client>(Exit::NoServer, format!("{}: {error}", args.server))
    };
    let mut client = match Client::connect(&*args.server, PATIENCE) {
        Ok(client) => client,
        Err(error) => return lost(error),
    };
    if let Some(password) = password::read(args.requirepass_file.as_deref())? {
        match client.call(&[b"AUTH", password.as_bytes()]) {
            Ok(Answer::Error(text)) => return refuse(Exit::Password, text),
            Ok(_) => {}
            Err(error) => return lost(error),
        }
    }
    Ok(client)
}

fn from_file(path: &Path, target: Client) -> anyhow::Result<Imported> {
    let opening = || format!("opening {}", path.display());
    if path.is_dir() {
        let bar = progress::bytes(None);
        let mut observe = |state: &Imported| bar.set_position(state.bytes);
        let imported = import_folder(path, target, &mut observe);
        bar.finish_and_clear();
        return imported.with_context(|| format!("importing {}", path.display()));
    }
    let file = File::open(path).with_context(opening)?;
    let bar = progress::bytes(Some(file.metadata().with_context(opening)?.len()));
    let mut observe = |state: &Imported| bar.set_position(state.bytes);
    let imported = import_file(BufReader::new(file), target, &mut observe);
    bar.finish_and_clear();
    imported.with_context(|| format!("importing {}", path.display()))
}

fn from_server(
    args: &Args,
    address: &str,
    target: Client,
    stop: Arc<AtomicBool>,
) -> anyhow::Result<Imported> {
    let importing = || format!("importing from {address}");
    let password = match &args.from_password_file {
        Some(file) => password::read(Some(file))?,
        None => None,
    };
    let source = Source::connect(address, password.as_deref(), stop.clone());
    let source = source.with_context(importing)?;
    let bar = progress::keys(true);
    let mut goal = None;
    let mut until = |state: &Imported| {
        if stop.load(Ordering::Relaxed) {
            return true;
        }
        let goal = *goal.get_or_insert_with(|| offset_of(address, password.as_deref()));
        args.once && goal.is_some_and(|goal| state.offset >= goal)
    };
    let mut observe = |state: &Imported| show(&bar, state);
    let imported = import_live(source, target, &mut observe, &mut until);
    bar.finish_and_clear();
    imported.with_context(importing)
}

fn show(bar: &ProgressBar, state: &Imported) {
    bar.set_position(state.keys + state.commands);
    if state.is_loaded {
        bar.set_message(format!("{} commands since, at offset {}", state.commands, state.offset));
    }
}

/// How far Redis is.
fn offset_of(address: &str, password: Option<&str>) -> Option<u64> {
    let mut client = Client::connect(address, PATIENCE).ok()?;
    if let Some(password) = password {
        client.call(&[b"AUTH", password.as_bytes()]).ok()?;
    }
    let Ok(Answer::Bulk(info)) = client.call(&[b"INFO", b"replication"]) else { return None };
    let info = String::from_utf8_lossy(&info).into_owned();
    let line = info.lines().find_map(|line| line.strip_prefix("master_repl_offset:"));
    line?.trim().parse().ok()
}
