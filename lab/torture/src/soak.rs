//! A soak: mixed load on a store that is larger than its memory, for as long as is wanted.
//!
//! Each thread has keys of its own, and knows what they hold: every answer is checked. Beside them a probe writes 4 KiB
//! to a file of its own and syncs it, again and again: where an operation waits long and the probe does too, the disk, or the
//! processor, is what both wait for.

mod course;
mod keys;
mod thread;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread::{scope, sleep};
use std::time::Duration;

use tembo_kv::{Options, Store};
use tembo_pmem::memory_used;

pub use course::SoakError;
use course::{Course, Stretch};
use thread::Worker;

/// Between two looks at memory and files, and between two writes of the probe.
const PAUSE: Duration = Duration::from_millis(50);

/// What is asked of a soak.
#[derive(Clone, Debug)]
pub struct SoakConfig {
    /// How long.
    pub length: Duration,
    /// Threads, each with keys of its own.
    pub threads: u64,
    /// Keys of a thread.
    pub keys: u64,
    /// Bytes that the store may have as its own.
    pub memory: u64,
    /// An operation that takes longer is counted as a stall.
    pub stall: Duration,
    /// Where chance begins.
    pub seed: u64,
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Soaked {
    /// Operations of all threads, and keys that they changed or read.
    pub operations: u64,
    /// As [`operations`](Soaked::operations).
    pub keys: u64,
    /// Of each kind of operation its name, how many there were, and the longest.
    pub longest: Vec<(&'static str, u64, Duration)>,
    /// Operations that took longer than wanted: while the probe took half as long, and while it did not.
    pub stalls: (u64, u64),
    /// The longest write and sync of the probe.
    pub probe: Duration,
    /// Most bytes of memory that the process had beside those at the start.
    pub memory: u64,
    /// Most bytes of keys and values at a time.
    pub live: u64,
    /// Most bytes that pool and log took on the disk.
    pub files: u64,
    /// Bytes that they took in the end, after keys and values of so many bytes were left.
    pub end: (u64, u64),
}

/// Makes a store in `folder`, which is empty, and works on it. At the end all keys are compared, before and after a
/// reopening, and the store is checked.
///
/// # Errors
/// [`SoakError`]: the first thing that is wrong.
pub fn soak(folder: &Path, options: &Options, config: &SoakConfig) -> Result<Soaked, SoakError> {
    let pool = folder.join("soak.pool");
    let mut workers: Vec<Worker> =
        (0..config.threads).map(|number| Worker::new(number, config.keys, config.seed)).collect();
    let before = memory_used().unwrap_or_default();
    let store = Store::create(&pool, &options.clone().memory(config.memory))?;
    let course = Course::new(config.length, config.stall);
    let mut seen = Soaked::default();
    let mut probes = Vec::new();
    let worked = scope(|scope| {
        let threads: Vec<_> =
            workers.iter_mut().map(|worker| scope.spawn(|| worker.work(&store, &course))).collect();
        let probe = scope.spawn(|| probe(&folder.join("probe"), &course));
        while !course.is_over() {
            sleep(PAUSE);
            let used = memory_used().unwrap_or_default().saturating_sub(before);
            seen.memory = seen.memory.max(used);
            seen.live = seen.live.max(course.live.load(Ordering::Relaxed));
            seen.files = seen.files.max(blocks(folder));
        }
        let worked: Result<Vec<()>, SoakError> = threads.into_iter().map(joined).collect();
        probes = joined(probe)?;
        worked
    });
    worked?;
    summed(&mut seen, &workers, &probes);
    workers.iter().try_for_each(|worker| worker.compare(&store))?;
    checked(&store)?;
    store.close().map_err(|error| SoakError::Wrong(error.to_string()))?;
    let store = Store::open(&pool, &options.clone().memory(config.memory))?;
    workers.iter().try_for_each(|worker| worker.compare(&store))?;
    checked(&store)?;
    seen.end = (blocks(folder), course.live.load(Ordering::Relaxed));
    Ok(seen)
}

fn joined<T>(
    thread: std::thread::ScopedJoinHandle<'_, Result<T, SoakError>>,
) -> Result<T, SoakError> {
    thread.join().unwrap_or_else(|_| Err(SoakError::Wrong("a thread has panicked".into())))
}

fn checked(store: &Store) -> Result<(), SoakError> {
    match store.check()?.leaked {
        0 => Ok(()),
        leaked => Err(SoakError::Wrong(format!("{leaked} objects have leaked"))),
    }
}

/// Writes and syncs until the end; what took long.
fn probe(path: &Path, course: &Course) -> Result<Vec<Stretch>, SoakError> {
    let mut file = File::create_new(path)?;
    file.write_all(&[0; 4096])?;
    let mut seen = Vec::new();
    while !course.is_over() {
        let from = course.start.elapsed();
        file.write_all_at(&[1; 4096], 0)?;
        file.sync_data()?;
        let stretch = Stretch { from, to: course.start.elapsed() };
        if stretch.len() * 4 > course.stall || seen.is_empty() {
            seen.push(stretch);
        }
        sleep(PAUSE);
    }
    Ok(seen)
}

/// Bytes that the files of a store take on the disk.
fn blocks(folder: &Path) -> u64 {
    let files = ["soak.pool", "soak.pool.log", "soak.pool.log.new"];
    let sizes = files.map(|name| fs::metadata(folder.join(name)).map_or(0, |file| file.blocks()));
    sizes.iter().sum::<u64>() * 512
}

fn summed(seen: &mut Soaked, workers: &[Worker], probes: &[Stretch]) {
    seen.probe = probes.iter().map(|probe| probe.len()).max().unwrap_or_default();
    for worker in workers {
        seen.operations += worker.operations();
        seen.keys += worker.changed();
        for &(name, count, longest) in worker.longest() {
            match seen.longest.iter_mut().find(|(known, ..)| *known == name) {
                Some((_, all, most)) => {
                    (*all, *most) = (*all + count, longest.max(*most));
                }
                None => seen.longest.push((name, count, longest)),
            }
        }
        for stall in worker.stalls() {
            let overlaps = |probe: &&Stretch| probe.from < stall.to && stall.from < probe.to;
            let waited = probes.iter().filter(overlaps).map(|probe| probe.len()).max();
            let is_shared = waited.is_some_and(|waited| waited * 2 >= stall.len());
            let (shared, own) = &mut seen.stalls;
            *if is_shared { shared } else { own } += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_soak_finds_nothing_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let config = SoakConfig {
            length: Duration::from_millis(300),
            threads: 2,
            keys: 300,
            memory: 64 << 20,
            stall: Duration::from_secs(60),
            seed: 7,
        };
        let options = Options::new().domain(tembo_kv::DomainRequest::Logged);
        let seen = soak(folder.path(), &options, &config).unwrap();
        assert!(seen.operations > 0 && seen.files > 0, "{seen:?}");
    }
}
