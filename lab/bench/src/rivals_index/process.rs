//! A contender's process: one command a line, one reply a line.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::candidate::Candidate;
use super::plan::Plan;
use crate::clock::Elapsed;
use crate::{Error, Operation};

/// What one trial took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed {
    pub(super) operations: u64,
    /// Of the thread that did it, and on the wall.
    pub(super) elapsed: Elapsed,
    /// CPU time of the whole process meanwhile, with its background.
    pub(super) process: Duration,
    pub(super) right: u64,
}

impl Timed {
    /// Itself, if all answers were right; the wall has none.
    pub(super) fn judged(
        self,
        candidate: Candidate,
        operation: Operation,
        expected: u64,
    ) -> Result<Timed, Error> {
        if self.right == expected || candidate == Candidate::Wall {
            return Ok(self);
        }
        let (contender, operation) = (candidate.name(), operation.name());
        Err(Error::Wrong { contender, operation, expected, found: self.right })
    }
}

/// CPU time of this process, of all of its threads.
pub(super) fn process_cpu() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// A process with one structure; killed when this is dropped.
pub(super) struct Process {
    name: &'static str,
    child: Child,
    /// Closed when it is to end.
    commands: Option<ChildStdin>,
    replies: BufReader<ChildStdout>,
}

impl Process {
    /// Starts it, and waits until its structure is there.
    pub(super) fn start(name: &'static str, mut command: Command) -> Result<Process, Error> {
        let error = |source| Error::Process { contender: name.into(), source };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(error)?;
        let (commands, Some(replies)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(error(io::Error::other("no pipes")));
        };
        let mut process = Process { name, child, commands, replies: BufReader::new(replies) };
        process.reply()?;
        Ok(process)
    }

    /// Does an operation with the keys of a plan.
    pub(super) fn trial(&mut self, operation: Operation, plan: &Plan) -> Result<Timed, Error> {
        self.command(&format!("trial {} {}", operation.word(), keys(plan)))?;
        self.end(plan.count)
    }

    /// Lets it read the keys of a trial by the loop of [`pair`](Process::pair), and waits until it has them.
    pub(super) fn ready(&mut self, operation: Operation, plan: &Plan) -> Result<(), Error> {
        self.command(&format!("ready {} {}", operation.word(), keys(plan)))?;
        self.reply().map(drop)
    }

    /// Begins what is [`ready`](Process::ready).
    pub(super) fn go(&mut self) -> Result<(), Error> {
        self.command("go")
    }

    /// Waits for the end of what was begun.
    pub(super) fn end(&mut self, operations: u64) -> Result<Timed, Error> {
        let [cpu, wall, right, process] = self.reply()?;
        let elapsed = Elapsed { cpu: Duration::from_nanos(cpu), wall: Duration::from_nanos(wall) };
        Ok(Timed { operations, elapsed, process: Duration::from_nanos(process), right })
    }

    /// The same operation by two threads: CPU time of both, wall time of the longer.
    pub(super) fn pair(
        &mut self,
        operation: Operation,
        [one, other]: &[Plan; 2],
    ) -> Result<Timed, Error> {
        self.command(&format!("pair {} {} {}", operation.word(), keys(one), keys(other)))?;
        self.end(one.count + other.count)
    }

    /// Inserts the keys, each timed by itself: nanoseconds that half of them do not exceed, that 999 of 1000, the longest.
    pub(super) fn latencies(&mut self, plan: &Plan) -> Result<[u64; 3], Error> {
        self.command(&format!("latencies {}", keys(plan)))?;
        self.reply().map(|[median, p999, max, _]| [median, p999, max])
    }

    /// Bytes in its pool, and of other memory.
    pub(super) fn space(&mut self) -> Result<[u64; 2], Error> {
        self.command("space")?;
        self.reply().map(|[pool, memory, ..]| [pool, memory])
    }

    /// A sum over the keys that its scans from the keys of a plan visit: see [`Source`](super::plan::Source).
    pub(super) fn scan_sum(&mut self, plan: &Plan) -> Result<u64, Error> {
        self.command(&format!("scan-sum {}", keys(plan)))?;
        self.reply().map(|[sum, ..]| sum)
    }

    /// How much of its resident memory has pages of 2 MiB, from 0 to 1; `None` where the system does not say.
    pub(super) fn large_pages(&self) -> Option<f64> {
        let path = format!("/proc/{}/smaps_rollup", self.child.id());
        large_pages(&std::fs::read_to_string(path).ok()?)
    }

    /// A sum over the keys of a plan, as it reads them.
    #[cfg(test)]
    pub(super) fn sum(&mut self, plan: &Plan) -> Result<u64, Error> {
        self.command(&format!("sum {}", keys(plan)))?;
        self.reply().map(|[sum, ..]| sum)
    }

    /// Lets it come to its end: what watches it has then written what it has seen.
    pub(super) fn finish(mut self) -> Result<(), Error> {
        drop(self.commands.take());
        let mut rest = Vec::new();
        let ended = self.replies.read_to_end(&mut rest).and_then(|_| self.child.wait());
        let contender = self.name.to_owned();
        ended.map(drop).map_err(|source| Error::Process { contender, source })
    }

    fn command(&mut self, text: &str) -> Result<(), Error> {
        let sent = self
            .commands
            .as_mut()
            .map(|commands| writeln!(commands, "{text}").and_then(|()| commands.flush()));
        if matches!(sent, Some(Ok(()))) { Ok(()) } else { Err(self.failure()) }
    }

    /// The next line that begins with `@`: a rival prints other lines by itself.
    fn reply(&mut self) -> Result<[u64; 4], Error> {
        let mut line = Vec::new();
        loop {
            line.clear();
            match self.replies.read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return Err(self.failure()),
                Ok(_) => {}
            }
            if line.first() == Some(&b'@') {
                let text = String::from_utf8_lossy(&line[1..]);
                let mut figures = text.split_whitespace().map_while(|word| word.parse().ok());
                return Ok(std::array::from_fn(|_| figures.next().unwrap_or_default()));
            }
        }
    }

    /// Why it has ended, in its own words where it has any.
    fn failure(&mut self) -> Error {
        // It may be alive and silent, and then has to end first.
        let _ = self.child.kill();
        let status = self.child.wait();
        let mut said = String::new();
        if let Some(stderr) = &mut self.child.stderr {
            // What can be read of it.
            let _ = stderr.read_to_string(&mut said);
        }
        let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no word");
        let source = io::Error::other(format!("ended with {status}: {last}"));
        Error::Process { contender: self.name.into(), source }
    }
}

fn keys(plan: &Plan) -> String {
    format!("{} {}", plan.count, plan.path.display())
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Of the text of `smaps_rollup` (proc_pid_smaps(5)).
fn large_pages(text: &str) -> Option<f64> {
    let kib = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        value.split_whitespace().next()?.parse::<f64>().ok()
    };
    let resident = kib("Rss").filter(|kib| *kib > 0.0)?;
    let large = ["AnonHugePages", "ShmemPmdMapped", "FilePmdMapped"];
    Some(large.into_iter().filter_map(kib).sum::<f64>() / resident)
}

/// A path goes through a line of words.
pub(super) fn is_one_word(path: &Path) -> bool {
    path.to_str().is_some_and(|text| !text.contains(char::is_whitespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_pages_are_a_share_of_resident_memory() {
        let text = "5500-7ffe ---p 00000000 00:00 0 [rollup]\nRss:  8192 kB\nRssAnon: 1 kB\n\
                    AnonHugePages:  2048 kB\nShmemPmdMapped: 4096 kB\nFilePmdMapped: 0 kB\n";
        assert_eq!(large_pages(text), Some(0.75));
        assert_eq!(large_pages("Rss: 0 kB\n"), None);
    }
}
