//! What `cargo xtask dax --nbd` runs in its guest, on a file system on a served device. `run FOLDER SEED ACKED` compares what is there
//! with what was acknowledged and then loads; `verify FOLDER SEED ACKED` only compares. ACKED: a number for each thread, with `x` between.
//!
//! Each thread has a folder and does numbered operations, one after the other: a file replaced by rename, a record added to a log,
//! a file removed. Each is durable by fsync before its number is printed. So what a crash leaves is what some number of
//! operations of each thread have made, and that number is not below the one that was printed last.
#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Files of a thread.
const SLOTS: u64 = 24;
/// Operations that may be durable although the guest could not say so any more.
const UNTOLD_MAX: u64 = 64;
const MAGIC: u64 = 0x646d_7563_6f64_2121;
/// The head of a file or record: magic, seed, thread, operation, length of what follows.
const HEAD: usize = 40;
/// Bytes of a record, without its head, at most.
const RECORD_MAX: u64 = 3000;

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let [mode @ ("run" | "verify"), folder, seed, acked] = words[..] else {
        return Err("usage: run | verify FOLDER SEED ACKED".into());
    };
    let seed: u64 = seed.parse()?;
    let acked: Vec<u64> = acked.split('x').map(str::parse).collect::<Result<_, _>>()?;
    let mut threads = Vec::new();
    for (thread, &acked) in acked.iter().enumerate() {
        let thread = Thread { folder: Path::new(folder).join(thread.to_string()), seed, thread };
        let found = thread.found(acked)?;
        threads.push((thread, found));
    }
    let found: Vec<String> = threads.iter().map(|(_, found)| found.to_string()).collect();
    println!("TEMBO VERIFIED {}", found.join("x"));
    if mode == "verify" {
        return Ok(());
    }
    // One line at a time.
    let console = Mutex::new(());
    std::thread::scope(|scope| {
        for (thread, found) in &threads {
            let console = &console;
            scope.spawn(move || {
                if let Err(error) = thread.go_on(*found, console) {
                    println!("TEMBO LOST {error}");
                }
            });
        }
    });
    Ok(())
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }
}

/// What one operation does.
enum Operation {
    Replace { slot: u64, len: u64 },
    Append { len: u64 },
    Remove { slot: u64 },
}

/// What a thread's folder holds, by the operations that have made it.
#[derive(Default, PartialEq, Eq)]
struct State {
    slots: BTreeMap<u64, u64>,
    records: Vec<u64>,
}

struct Thread {
    folder: PathBuf,
    seed: u64,
    thread: usize,
}

impl Thread {
    fn random(&self, operation: u64) -> Random {
        let of_thread = self.seed ^ ((self.thread as u64) << 56);
        Random(of_thread ^ operation.wrapping_mul(0x2545_f491_4f6c_dd1d))
    }

    fn operation(&self, number: u64) -> Operation {
        let mut random = self.random(number);
        let (kind, slot) = (random.below(10), random.below(SLOTS));
        let most = if random.below(8) == 0 { 400_000 } else { 20_000 };
        match kind {
            0 => Operation::Remove { slot },
            1..=3 => Operation::Append { len: random.below(RECORD_MAX) },
            _ => Operation::Replace { slot, len: random.below(most) },
        }
    }

    /// The head and what follows it.
    fn bytes(&self, number: u64, len: u64) -> Vec<u8> {
        let words = [MAGIC, self.seed, self.thread as u64, number, len];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut random = self.random(number.wrapping_add(1 << 40));
        let end = HEAD + len as usize;
        while bytes.len() < end {
            bytes.extend(random.draw().to_le_bytes());
        }
        bytes.truncate(end);
        bytes
    }

    /// The number of the operation that made the bytes, if they begin with all that it wrote; how many bytes that are.
    fn made_by(&self, bytes: &[u8]) -> Option<(u64, usize)> {
        let word = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let number = word(24)?;
        let (Operation::Replace { len, .. } | Operation::Append { len }) = self.operation(number)
        else {
            return None;
        };
        let whole = self.bytes(number, len);
        bytes.starts_with(&whole).then_some((number, whole.len()))
    }

    /// What the folder holds; all of it must be whole but for what the operation at the crash was about to write.
    fn state(&self) -> Outcome<State> {
        let mut state = State::default();
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(state),
            entries => entries?,
        };
        for entry in entries {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let bytes = fs::read(self.folder.join(&name))?;
            match (name.as_str(), name.strip_prefix('s').and_then(|slot| slot.parse().ok())) {
                (_, Some(slot)) => match self.made_by(&bytes) {
                    Some((number, len)) if len == bytes.len() => {
                        state.slots.insert(slot, number);
                    }
                    _ => return Err(format!("{name} of thread {} is torn", self.thread).into()),
                },
                ("log", _) => {
                    let (records, end) = self.records(&bytes);
                    if bytes.len() - end > HEAD + RECORD_MAX as usize {
                        return Err(format!("the log has no records from byte {end} on").into());
                    }
                    state.records = records;
                }
                // What was not renamed.
                ("tmp", _) => {}
                _ => return Err(format!("what is {name}?").into()),
            }
        }
        Ok(state)
    }

    /// The whole records of a log, and where they end.
    fn records(&self, bytes: &[u8]) -> (Vec<u64>, usize) {
        let (mut records, mut end) = (Vec::new(), 0);
        while let Some((number, len)) = self.made_by(&bytes[end..]) {
            records.push(number);
            end += len;
        }
        (records, end)
    }

    fn apply(&self, state: &mut State, number: u64) {
        match self.operation(number) {
            Operation::Replace { slot, .. } => {
                state.slots.insert(slot, number);
            }
            Operation::Append { .. } => state.records.push(number),
            Operation::Remove { slot } => {
                state.slots.remove(&slot);
            }
        }
    }

    /// How many operations have made what is there: all that were acknowledged, and perhaps some more.
    fn found(&self, acked: u64) -> Outcome<u64> {
        let (there, mut state) = (self.state()?, State::default());
        let mut found = None;
        for number in 0..=acked + UNTOLD_MAX {
            if number > 0 {
                self.apply(&mut state, number);
            }
            if number >= acked && state == there {
                found = Some(number);
            }
        }
        let last = there.slots.values().chain(&there.records).max();
        found.ok_or_else(|| {
            let thread = self.thread;
            format!("thread {thread}: {acked} were acknowledged; what is there, up to {last:?}, no number of operations makes")
                .into()
        })
    }

    /// Does one operation after the other until one fails.
    fn go_on(&self, found: u64, console: &Mutex<()>) -> Outcome {
        fs::create_dir_all(&self.folder)?;
        File::open(self.folder.join(".."))?.sync_all()?;
        self.cut_log()?;
        for number in found + 1.. {
            self.do_one(number)?;
            let _line = console.lock();
            // The full stop shows that the number is whole.
            println!("TEMBO ACKED {} {number}.", self.thread);
        }
        Ok(())
    }

    /// Takes from the log what is no whole record.
    fn cut_log(&self) -> Outcome {
        let log = self.folder.join("log");
        if !log.exists() {
            return Ok(());
        }
        let (_, end) = self.records(&fs::read(&log)?);
        let log = OpenOptions::new().write(true).open(&log)?;
        log.set_len(end as u64)?;
        Ok(log.sync_all()?)
    }

    fn do_one(&self, number: u64) -> Outcome {
        match self.operation(number) {
            Operation::Replace { slot, len } => {
                let new = self.folder.join("tmp");
                let mut file = File::create(&new)?;
                file.write_all(&self.bytes(number, len))?;
                file.sync_all()?;
                fs::rename(&new, self.folder.join(format!("s{slot}")))?;
            }
            Operation::Append { len } => {
                let log = self.folder.join("log");
                let mut file = OpenOptions::new().create(true).append(true).open(log)?;
                file.write_all(&self.bytes(number, len))?;
                file.sync_data()?;
            }
            Operation::Remove { slot } => {
                // It may not be there.
                let removed = fs::remove_file(self.folder.join(format!("s{slot}")));
                removed.or_else(|error| match error.kind() {
                    ErrorKind::NotFound => Ok(()),
                    _ => Err(error),
                })?;
            }
        }
        Ok(File::open(&self.folder)?.sync_all()?)
    }
}
