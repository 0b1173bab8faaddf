//! One life of another process of this binary, which says on its standard output what it has done, until it is killed.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use tembo_torture::Random;

const SIGKILL: i32 = 9;

/// How long a process may take for what it is to report.
const PATIENCE: Duration = Duration::from_secs(600);

/// When a process is killed: a pause after so many lines, or after a time.
pub(super) struct End {
    lines: u64,
    patience: Duration,
    pause: Duration,
}

impl End {
    /// As chance has it, after at most so many lines.
    pub(super) fn by_chance(random: &mut Random, lines_max: u64) -> End {
        // One in four is killed by the clock: while it opens the pool, or soon after. The others make half
        // of the lines on average.
        let (lines, patience) = if random.below(4) == 0 {
            (u64::MAX, Duration::from_micros(random.number() % 60_000))
        } else {
            (1 + random.number() % lines_max, PATIENCE)
        };
        let pause = Duration::from_micros(random.number() % 1000);
        End { lines, patience, pause }
    }
}

/// Starts a process with the words of this one, that it is to serve the pool, and kills it. `each` gets each line that it has printed.
pub(super) fn live(
    pool: &Path,
    end: End,
    each: &mut dyn FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut process = spawn(pool)?;
    let output = process.stdout.take().context("the process has no output")?;
    let End { lines, patience, pause } = end;
    let (reached, wait) = mpsc::channel();
    let killer = thread::spawn(move || kill(process, &wait, patience, pause));
    let listened = listen(output, lines, &reached, each);
    drop(reached);
    let status = match killer.join() {
        Ok(status) => status?,
        Err(_) => bail!("the thread that kills has panicked"),
    };
    if status.signal() != Some(SIGKILL) {
        bail!("the process that was to be killed ended with {status}");
    }
    listened
}

fn spawn(pool: &Path) -> anyhow::Result<Child> {
    let binary = std::env::current_exe().context("looking for this binary")?;
    let mut command = Command::new(binary);
    command.args(std::env::args_os().skip(1)).arg("--serve").arg(pool);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.spawn().with_context(|| format!("starting {command:?}"))
}

/// Reads what is reported until the end, and signals when there were `goal` lines.
fn listen(
    output: impl Read,
    goal: u64,
    reached: &Sender<()>,
    each: &mut dyn FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (mut output, mut line, mut count) = (BufReader::new(output), String::new(), 0);
    // A line without an end was cut off by the kill.
    while output.read_line(&mut line)? > 0 && line.ends_with('\n') {
        each(&line)?;
        count += 1;
        if count == goal {
            // The process has ended by itself if the channel is closed.
            let _ = reached.send(());
        }
        line.clear();
    }
    Ok(())
}

/// Kills the process, a little after the signal to do so, or when its time has passed.
fn kill(
    mut process: Child,
    reported: &Receiver<()>,
    patience: Duration,
    pause: Duration,
) -> std::io::Result<ExitStatus> {
    if reported.recv_timeout(patience).is_ok() {
        thread::sleep(pause);
    }
    // One that has ended by itself has another status.
    let _ = process.kill();
    process.wait()
}
