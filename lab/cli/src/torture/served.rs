//! Histories over sockets: a process of `tembo` serves, and is killed if asked for.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

use anyhow::{Context, bail};
use tembo_torture::history::{Calls, Plan, Progress, Served};

use crate::program::ProgramArgs;
use crate::store::{Index, Sync};

/// How long a killed server may be gone.
const ABSENCE: Duration = Duration::from_secs(60);

/// The options of histories that are taken of a server.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ServedArgs {
    /// Times to kill the server; one that is not killed serves from memory
    #[arg(long, default_value_t = 0)]
    kills: u64,
    /// Folder for the pool of a server that is killed; it is kept if something is wrong
    #[arg(long, value_name = "DIR", default_value = ".")]
    path: PathBuf,
    /// When the redo log of a server that is killed is synced
    #[arg(long, value_enum, default_value_t)]
    sync: Sync,
    #[command(flatten)]
    program: ProgramArgs,
}

/// A server, which is killed when it is forgotten.
struct Process {
    child: Child,
    address: SocketAddr,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already; the history shows it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A history of single keys, and where the pool lies that is to go if the history is right.
pub(super) fn record(
    plan: &Plan,
    args: &ServedArgs,
    index: Index,
    advance: &Progress<'_>,
) -> anyhow::Result<(Calls, Option<PathBuf>)> {
    let tembo = args.program.existing()?;
    if args.kills == 0 {
        let process = start(&tembo, &["--domain", "volatile", "--index", index.name()], 0)?;
        let served = Served::new(process.address, Duration::ZERO);
        let calls = plan.run_calls(&served, advance).map_err(anyhow::Error::msg)?;
        return Ok((calls, None));
    }
    let folder = args.path.join(format!("tembo-history-{}", std::process::id()));
    std::fs::create_dir(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let calls = run_and_kill(plan, args, index, &tembo, &folder, advance);
    let calls = calls.with_context(|| format!("kept: {}", folder.display()))?;
    Ok((calls, Some(folder)))
}

/// Kills the server now and then, and starts it again.
fn run_and_kill(
    plan: &Plan,
    args: &ServedArgs,
    index: Index,
    tembo: &Path,
    folder: &Path,
    advance: &Progress<'_>,
) -> anyhow::Result<Calls> {
    let pool = folder.join("history.pool");
    let pool = pool.to_str().context("the path of the pool is no text")?;
    let sync = clap::ValueEnum::to_possible_value(&args.sync);
    let sync = sync.as_ref().map_or("always", |sync| sync.get_name());
    let bind = own_address().to_string();
    let words = ["--pool", pool, "--index", index.name(), "--sync", sync, "--bind", &bind];
    let first = start(tembo, &words, 0)?;
    let address = first.address;
    let (served, done) = (Served::new(address, ABSENCE), AtomicU64::new(0));
    let count = |operations| {
        done.fetch_max(operations, Ordering::Relaxed);
        advance(operations);
    };
    scope(|threads| {
        let running = threads.spawn(|| plan.run_calls(&served, &count));
        let mut process = first;
        for kill in 1..=args.kills {
            let goal = (plan.operations as f64 * kill as f64 / (args.kills + 1) as f64) as u64;
            while done.load(Ordering::Relaxed) < goal && !running.is_finished() {
                sleep(Duration::from_micros(100));
            }
            drop(process);
            process = start(tembo, &words, address.port())?;
        }
        match running.join() {
            Ok(calls) => calls.map_err(anyhow::Error::msg),
            Err(_) => bail!("a thread has panicked"),
        }
    })
}

/// An address of this machine for this process alone: while its server is down, no other process takes the
/// port.
fn own_address() -> Ipv4Addr {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 1 + high % 63, middle, low.max(1))
}

/// Starts a server and waits until it is ready.
fn start(tembo: &Path, words: &[&str], port: u16) -> anyhow::Result<Process> {
    let mut command = Command::new(tembo);
    command.args(["serve", "--json", "--port", &port.to_string()]).args(words);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("starting {command:?}"))?;
    let output = child.stdout.take().context("the server has no output")?;
    // From here on it is killed whatever happens.
    let mut process = Process { child, address: ([127, 0, 0, 1], port).into() };
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    let ready: serde_json::Value = serde_json::from_str(&line).context("the server ended")?;
    let address = ready["address"].as_str().and_then(|address| address.parse().ok());
    process.address = address.context("the server does not say where it listens")?;
    Ok(process)
}
