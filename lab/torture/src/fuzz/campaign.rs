//! Many cases one after another, with a clock and an eye on memory.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use super::{Face, Fate, FileFace, Kind, ServeFace, TalkFace, case};

/// A campaign of cases.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// The kind of input as which the bytes are offered.
    pub kind: Kind,
    /// No case begins later.
    pub time: Duration,
    /// A case that takes longer hangs.
    pub case_time: Duration,
    /// Bytes by which the process may grow in one case.
    pub growth_max: u64,
}

/// A name that finds the bytes again, and the bytes.
pub type Case = (String, Vec<u8>);

/// The cases of `count` seeds in a row.
pub fn seeds(kind: Kind, first: u64, count: u64) -> impl Iterator<Item = Case> + Send {
    (first..first.saturating_add(count)).map(move |seed| (format!("seed {seed}"), case(kind, seed)))
}

/// The result of a campaign.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Cases offered.
    pub cases: u64,
    /// Cases that were refused.
    pub refused: u64,
    /// Cases that were taken, and found damaged later.
    pub damaged: u64,
    /// Cases that were taken, and nothing was wrong.
    pub sound: u64,
    /// Damage that a check did not see.
    pub unnoticed: Vec<Finding>,
    /// Bytes by which the process grew at most in one case.
    pub growth_max: u64,
    /// How long the slowest case took.
    pub slowest: Duration,
    /// Results that must not occur.
    pub findings: Vec<Finding>,
}

/// A case that stands out.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Name of the case.
    pub name: String,
    /// What happened.
    pub what: String,
}

/// Findings after which a campaign ends.
const FINDINGS_MAX: usize = 20;

/// What the thread that offers reports.
enum Event {
    Failed(io::Error),
    Begun(String),
    Ended(Verdict),
    /// No case is left, or no time.
    Done,
}

impl Campaign {
    /// Offers the cases. A hanging case ends the campaign, and its thread stays behind.
    ///
    /// # Errors
    /// Of making the face.
    pub fn run(self, cases: impl Iterator<Item = Case> + Send + 'static) -> io::Result<Tally> {
        // Without a buffer: the thread ends when the channel is closed.
        let (sender, receiver) = sync_channel(0);
        let work = move || match face(self.kind) {
            Ok(mut face) => self.offer_all(face.as_mut(), cases, &sender),
            // The channel is closed when the campaign has ended.
            Err(error) => drop(sender.send(Event::Failed(error))),
        };
        let thread = std::thread::Builder::new().name("fuzz".into()).spawn(work)?;
        let mut tally = Tally::default();
        let (mut name, mut hangs) = (String::new(), false);
        while tally.findings.len() < FINDINGS_MAX {
            match receiver.recv_timeout(self.case_time) {
                Ok(Event::Failed(error)) => return Err(error),
                Ok(Event::Begun(next)) => name = next,
                Ok(Event::Ended(verdict)) => tally.add(&name, verdict, self.growth_max),
                Ok(Event::Done) => break,
                Err(RecvTimeoutError::Disconnected) => {
                    // Not by a case: those are caught.
                    tally.findings.push(Finding { name, what: "the thread ended".into() });
                    break;
                }
                Err(RecvTimeoutError::Timeout) => {
                    let what = format!("no end after {:?}", self.case_time);
                    tally.findings.push(Finding { name, what });
                    hangs = true;
                    break;
                }
            }
        }
        drop(receiver);
        if !hangs {
            // Its files are gone when it has ended, be it by a panic, which is a finding already.
            let _ = thread.join();
        }
        Ok(tally)
    }

    fn offer_all(
        self,
        face: &mut dyn Face,
        cases: impl Iterator<Item = Case>,
        sender: &SyncSender<Event>,
    ) {
        let began = Instant::now();
        for (name, bytes) in cases {
            if began.elapsed() > self.time {
                break;
            }
            if sender.send(Event::Begun(name)).is_err() {
                return;
            }
            if sender.send(Event::Ended(judge(face, &bytes))).is_err() {
                return;
            }
        }
        // The channel is closed if the campaign has ended for another reason.
        let _ = sender.send(Event::Done);
    }
}

/// What became of one case, and what it cost.
struct Verdict {
    fate: Fate,
    took: Duration,
    growth: u64,
}

fn judge(face: &mut dyn Face, bytes: &[u8]) -> Verdict {
    let (before, began) = (memory_max(), Instant::now());
    let fate = catch_unwind(AssertUnwindSafe(|| face.offer(bytes))).unwrap_or_else(|cause| {
        let text = cause.downcast_ref::<String>().map(String::as_str);
        let text = text.or(cause.downcast_ref::<&str>().copied()).unwrap_or("?");
        Fate::Wrong(format!("a panic: {text}"))
    });
    Verdict { fate, took: began.elapsed(), growth: memory_max().saturating_sub(before) }
}

impl Tally {
    fn add(&mut self, name: &str, verdict: Verdict, growth_max: u64) {
        self.cases += 1;
        self.slowest = self.slowest.max(verdict.took);
        self.growth_max = self.growth_max.max(verdict.growth);
        match verdict.fate {
            Fate::Refused => self.refused += 1,
            Fate::Damaged => self.damaged += 1,
            Fate::Sound => self.sound += 1,
            Fate::Unnoticed(what) => {
                self.unnoticed.push(Finding { name: name.into(), what });
            }
            Fate::Wrong(what) => self.findings.push(Finding { name: name.into(), what }),
        }
        if verdict.growth > growth_max {
            let what = format!("{} bytes of memory", verdict.growth);
            self.findings.push(Finding { name: name.into(), what });
        }
    }
}

fn face(kind: Kind) -> io::Result<Box<dyn Face>> {
    Ok(match kind {
        Kind::Pool => Box::new(FileFace::pool()?),
        Kind::Served => Box::new(ServeFace::new()?),
        Kind::Log => Box::new(FileFace::log()?),
        Kind::Resp => Box::new(TalkFace::new()?),
    })
}

/// The most bytes of memory that the process has had; zero where the system does not say.
fn memory_max() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.map_or(0, |kib| kib << 10)
}
