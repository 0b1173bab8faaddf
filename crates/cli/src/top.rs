//! `tembo top`: what a server does, again and again.

mod info;
mod sample;
mod screen;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context;
use tembo_server::{Answer, Client};

use crate::exit::{Exit, refuse};
use crate::{password, signals};

use info::Info;
use sample::{Sample, Slow};

/// How long a server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks whether it is time to end.
const PAUSE: Duration = Duration::from_millis(50);
/// Slow commands that are shown.
const SLOW_MAX: usize = 8;
// Sequences of the terminal: to another screen without a cursor; back; to the first line.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The server
    #[arg(value_name = "HOST:PORT", default_value = "127.0.0.1:6379")]
    server: String,
    /// A file with the password of the server (or set TEMBO_REQUIREPASS)
    #[arg(long, value_name = "FILE")]
    requirepass_file: Option<PathBuf>,
    /// Seconds between two looks
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS", value_parser = seconds)]
    interval: f64,
    /// Look once, and end
    #[arg(long)]
    once: bool,
    /// Print one JSON object for each look
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if (0.1..=3600.0).contains(&number) => Ok(number),
        _ => Err("it is a number from 0.1 to 3600".to_owned()),
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let stop = signals::stopped().context("watching signals")?;
    let mut server = Server::connect(args)?;
    let is_screen = !args.once && !args.json && io::stdout().is_terminal();
    if is_screen {
        put(ENTER)?;
    }
    let watched = watch(args, &mut server, is_screen, &stop);
    if is_screen {
        put(LEAVE)?;
    }
    watched.map(|()| Exit::Done)
}

fn watch(
    args: &Args,
    server: &mut Server,
    is_screen: bool,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let mut before: Option<(Instant, Info)> = None;
    loop {
        let (info, at) = (server.info()?, Instant::now());
        let earlier = before.as_ref().map(|(then, info)| (info, at.duration_since(*then)));
        let sample = Sample::new(&args.server, &info, earlier, server.slow()?);
        if args.json {
            put(&format!("{}\n", serde_json::to_string(&sample)?))?;
        } else if is_screen {
            let (rows, columns) = console::Term::stdout().size();
            let size = (columns.into(), rows.into());
            put(&screen::framed(HOME, &screen::lines(&sample), size))?;
        } else {
            put(&format!("{}\n", screen::lines(&sample).join("\n")))?;
        }
        if args.once || !wait(Duration::from_secs_f64(args.interval), stop) {
            return Ok(());
        }
        before = Some((at, info));
    }
}

/// Waits; false: it is time to end.
fn wait(time: Duration, stop: &AtomicBool) -> bool {
    let until = Instant::now() + time;
    while !stop.load(Ordering::Relaxed) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        sleep(left.min(PAUSE));
    }
    false
}

fn put(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// A running server.
struct Server {
    client: Client,
    address: String,
}

impl Server {
    fn connect(args: &Args) -> anyhow::Result<Server> {
        let address = args.server.clone();
        let mut server = match Client::connect(&address, PATIENCE) {
            Ok(client) => Server { client, address },
            Err(error) => return lost(&address, &error),
        };
        if let Some(password) = password::read(args.requirepass_file.as_deref())? {
            server.call(&[b"AUTH", password.as_bytes()])?;
        }
        Ok(server)
    }

    fn call(&mut self, words: &[&[u8]]) -> anyhow::Result<Answer> {
        match self.client.call(words) {
            Ok(Answer::Error(error)) => {
                let is_denied = ["NOAUTH", "WRONGPASS"].iter().any(|code| error.starts_with(code));
                refuse(if is_denied { Exit::Password } else { Exit::Other }, error)
            }
            Ok(answer) => Ok(answer),
            Err(error) => lost(&self.address, &error),
        }
    }

    fn info(&mut self) -> anyhow::Result<Info> {
        match self.call(&[b"INFO", b"ALL"])? {
            Answer::Bulk(text) => Ok(Info::parse(&String::from_utf8_lossy(&text))),
            other => refuse(Exit::Other, format!("the server answers INFO with {other:?}")),
        }
    }

    /// The last slow commands; none if the user may not ask for them.
    fn slow(&mut self) -> anyhow::Result<Vec<Slow>> {
        let count = SLOW_MAX.to_string();
        match self.client.call(&[b"SLOWLOG", b"GET", count.as_bytes()]) {
            Ok(Answer::Array(entries)) => Ok(entries.iter().filter_map(Slow::of).collect()),
            Ok(_) => Ok(Vec::new()),
            Err(error) => lost(&self.address, &error),
        }
    }
}

fn lost<T>(address: &str, error: &io::Error) -> anyhow::Result<T> {
    refuse(Exit::NoServer, format!("{address}: {error}"))
}
