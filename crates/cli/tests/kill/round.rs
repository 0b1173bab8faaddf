//! The rounds: load, SIGKILL, start again (perhaps killed again), compare, check.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::load;
use crate::model::Model;
use crate::random::Random;
use crate::resp::Reply;
use crate::server::{Server, Setup, run};

const CONNECTIONS: u64 = 4;
const SIGKILL: i32 = 9;
/// A pool is thrown away after so many rounds, so that creation and growth are met again.
const ROUNDS_PER_POOL: u64 = 8;

/// Where a test keeps its pool; stays there when the test fails.
pub struct Scene {
    folder: PathBuf,
    words: Vec<&'static str>,
    random: Random,
    models: Vec<Model>,
}

/// What the rounds have met, so that one sees that the test did something.
#[derive(Debug, Default)]
pub struct Tally {
    pub units: usize,
    pub unacknowledged: usize,
    pub killed_in_creation: u64,
    pub killed_in_recovery: u64,
    pub clean_stops: u64,
    pub pools: u64,
    /// The largest pool, in bytes: more than it had at first.
    pub pool_bytes_max: u64,
}

impl Scene {
    pub fn new(folder: &Path, words: &[&'static str], seed: u64) -> Scene {
        // What an earlier run of the same process number left.
        let _ = std::fs::remove_dir_all(folder);
        std::fs::create_dir_all(folder).unwrap();
        let folder = folder.to_owned();
        Scene { folder, words: words.to_vec(), random: Random::new(seed), models: Vec::new() }
    }

    fn setup(&self) -> Setup {
        Setup::new(&self.folder.join("kill.pool"), &self.words)
    }

    pub fn round(&mut self, number: u64, tally: &mut Tally) -> Result<(), String> {
        if number.is_multiple_of(ROUNDS_PER_POOL) {
            self.begin_anew(number, tally)?;
        }
        let server = self.start(tally)?;
        self.load_and_kill(server, tally)?;
        if self.random.once_in(2) {
            self.check_a_copy()?;
        }
        let server = self.start(tally)?;
        self.compare(&server)?;
        let pool_bytes = std::fs::metadata(self.setup().pool).map_or(0, |metadata| metadata.len());
        tally.pool_bytes_max = tally.pool_bytes_max.max(pool_bytes);
        // Going on afterwards must work too; the next round does that, after one more end.
        if self.random.once_in(2) {
            tally.clean_stops += 1;
            let status = server.stop();
            if !status.success() {
                return Err(format!("the clean stop ended with {status}"));
            }
        } else {
            server.kill();
        }
        check(&self.setup().pool)
    }

    /// Removes the pool, and kills a few servers while they make a new one.
    fn begin_anew(&mut self, number: u64, tally: &mut Tally) -> Result<(), String> {
        std::fs::remove_dir_all(&self.folder).unwrap();
        std::fs::create_dir_all(&self.folder).unwrap();
        tally.pools += 1;
        for _ in 0..self.random.below(4) {
            let delay = Duration::from_micros(self.random.below(30_000));
            self.kill_after(delay)?;
            tally.killed_in_creation += 1;
        }
        let seed = self.random.next() ^ number;
        self.models = (0..CONNECTIONS).map(|id| Model::new(id, seed)).collect();
        Ok(())
    }

    /// Starts a server, after some that are killed while they recover.
    fn start(&mut self, tally: &mut Tally) -> Result<Server, String> {
        while self.random.once_in(2) {
            let delay = Duration::from_micros(self.random.below(20_000));
            self.kill_after(delay)?;
            tally.killed_in_recovery += 1;
        }
        let setup = self.setup();
        setup.try_start().map_err(|status| format!("no start: {status}\n{}", setup.errors()))
    }

    fn kill_after(&self, delay: Duration) -> Result<(), String> {
        let setup = self.setup();
        let process = setup.spawn();
        thread::sleep(delay);
        let status = process.kill();
        if status.signal() == Some(SIGKILL) {
            return Ok(());
        }
        Err(format!("a server that was to be killed ended with {status}\n{}", setup.errors()))
    }

    fn load_and_kill(&mut self, server: Server, tally: &mut Tally) -> Result<(), String> {
        let millis = [3, 40, 300][self.random.below(3) as usize];
        let delay = Duration::from_micros(self.random.below(millis * 1000));
        let address = server.address;
        let results: Vec<Result<(), String>> = thread::scope(|scope| {
            let threads: Vec<_> = self
                .models
                .iter_mut()
                .map(|model| scope.spawn(move || load::run(model, address)))
                .collect();
            thread::sleep(delay);
            let status = server.kill();
            let ended = match status.signal() {
                Some(SIGKILL) => Ok(()),
                _ => Err(format!("the server ended by itself, with {status}")),
            };
            let joined = threads.into_iter().map(|thread| thread.join().unwrap());
            joined.chain(std::iter::once(ended)).collect()
        });
        for model in &self.models {
            tally.units += model.units.len();
            tally.unacknowledged += model.units.len() - model.acknowledged;
        }
        let failed: Vec<String> = results.into_iter().filter_map(Result::err).collect();
        if failed.is_empty() {
            return Ok(());
        }
        Err(format!("{}\n{}", failed.join("\n"), self.setup().errors()))
    }

    /// Each connection's keys are in a state that its units allow, and there are no other keys.
    fn compare(&mut self, server: &Server) -> Result<(), String> {
        let mut client = server.client();
        let mut expected = BTreeSet::new();
        for model in &mut self.models {
            let found = model.observe(&mut client)?;
            model.accept(found)?;
            expected.extend(model.keys());
        }
        let reply = client.call(&[b"KEYS", b"*"]).map_err(|error| error.to_string())?;
        let Reply::Array(keys) = reply else { return Err(format!("KEYS: {reply:?}")) };
        let found: BTreeSet<Vec<u8>> = keys
            .into_iter()
            .map(|key| match key {
                Reply::Bulk(key) => key,
                other => panic!("KEYS has {other:?}"),
            })
            .collect();
        if found != expected {
            let ghosts: Vec<_> = found.symmetric_difference(&expected).collect();
            return Err(format!("KEYS and GET disagree about {ghosts:?}"));
        }
        Ok(())
    }

    /// As the crash left it.
    fn check_a_copy(&self) -> Result<(), String> {
        let (pool, copy) = (self.setup().pool, self.folder.join("copy.pool"));
        std::fs::copy(&pool, &copy).unwrap();
        let (log, log_copy) = (pool.with_extension("pool.log"), copy.with_extension("pool.log"));
        if log.exists() {
            std::fs::copy(log, &log_copy).unwrap();
        }
        check(&copy)?;
        for file in [copy, log_copy] {
            // A pool without a log has no second file.
            let _ = std::fs::remove_file(file);
        }
        Ok(())
    }

    /// Leaves nothing behind.
    pub fn clean_up(self) {
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

fn check(pool: &Path) -> Result<(), String> {
    let output = run(&["check", pool.to_str().unwrap()]);
    if output.status.success() {
        return Ok(());
    }
    Err(format!("check of {} ended with {}: {output:?}", pool.display(), output.status))
}
