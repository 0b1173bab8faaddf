//! `tembo-lab torture heap`: this process audits, another one of the same binary runs programs and is killed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail};
use indicatif::HumanBytes;
use serde::Serialize;
use tembo_torture::Random;
use tembo_torture::heap_programs::{self, Audit, THREADS_MAX};

use crate::exit::{Exit, refuse};
use crate::output::{Lines, print};
use crate::progress;
use crate::store::{Domain, size};

use super::life::{self, End};

#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    /// Programs to acknowledge, at least: each is a transaction, or ends with a checkpoint
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    programs: u64,
    /// Times to kill the process, at least
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    kills: u64,
    /// Threads that run programs
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=i64::from(THREADS_MAX)))]
    threads: u16,
    /// Folder for the pool, which is kept if something is wrong with it
    #[arg(long, value_name = "DIR", default_value = ".")]
    path: PathBuf,
    /// Where chance begins: it repeats the programs of each thread, not how they meet
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What makes the bytes durable
    #[arg(long, value_enum, default_value_t)]
    domain: Domain,
    /// Size of the pool at first, in bytes or with K, M, G or T (powers of 1024); it grows as needed
    #[arg(long, value_parser = size, default_value = "1M", value_name = "SIZE")]
    size: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Run programs on the heap of this pool until killed
    #[arg(long, hide = true)]
    serve: Option<PathBuf>,
}

/// What the audit has seen.
#[derive(Serialize)]
struct Audited {
    programs: u64,
    acknowledged: u64,
    kills: u64,
    threads: u16,
    seed: u64,
    pool_bytes: u64,
    seconds: f64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    if let Some(pool) = &args.serve {
        return serve(args, pool);
    }
    let folder = args.path.join(format!("tembo-heap-{}", std::process::id()));
    std::fs::create_dir(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let mut rounds = Rounds::new(args, folder.join("heap.pool"));
    let began = Instant::now();
    if let Err(error) = rounds.run() {
        let (kept, Rounds { kills, .. }) = (folder.display(), rounds);
        let what = format!("{error:#}; seed {}, kill {kills}, kept: {kept}", args.seed);
        return refuse(Exit::Violated, what);
    }
    let audited = Audited {
        programs: rounds.audit.programs(),
        acknowledged: rounds.acknowledged,
        kills: rounds.kills,
        threads: args.threads,
        seed: args.seed,
        pool_bytes: std::fs::metadata(&rounds.pool)?.len(),
        seconds: began.elapsed().as_secs_f64(),
    };
    std::fs::remove_dir_all(&folder)?;
    let mut lines = Lines::default();
    let Audited { programs, acknowledged, kills, .. } = audited;
    lines.add("programs", format!("{programs}, {acknowledged} of them acknowledged"));
    lines.add("kills", kills);
    lines.add("threads", audited.threads);
    lines.add("seed", audited.seed);
    lines.add("pool", HumanBytes(audited.pool_bytes));
    lines.add("time", format!("{:.1} s", audited.seconds));
    lines.add("result", "the heap holds what its programs make, whole, and nothing else");
    print(args.json, &audited, &lines)?;
    Ok(Exit::Done)
}

/// Runs programs, and says on standard output which are durable, until it is killed.
fn serve(args: &Args, pool: &Path) -> anyhow::Result<Exit> {
    let served = heap_programs::open(pool, args.domain.request(), args.size).and_then(|file| {
        heap_programs::serve(&file, args.threads, args.seed, &|thread, program| {
            // One write a line. It fails when the pipe is closed.
            let line = format!("{thread} {program}\n");
            std::io::stdout().lock().write_all(line.as_bytes()).is_ok()
        })
    });
    served.map_err(anyhow::Error::msg)?;
    Ok(Exit::Done)
}

/// The process is started, killed and audited, again and again.
struct Rounds<'a> {
    args: &'a Args,
    pool: PathBuf,
    audit: Audit,
    random: Random,
    kills: u64,
    acknowledged: u64,
}

impl<'a> Rounds<'a> {
    fn new(args: &'a Args, pool: PathBuf) -> Rounds<'a> {
        let (audit, random) = (Audit::new(args.seed), Random::new(args.seed));
        Rounds { args, pool, audit, random, kills: 0, acknowledged: 0 }
    }

    fn run(&mut self) -> anyhow::Result<()> {
        let args = self.args;
        let bar = progress::operations(args.programs);
        while self.kills < args.kills || self.acknowledged < args.programs {
            let reported = self.round()?;
            self.kills += 1;
            self.look(&reported)?;
            bar.set_position(self.acknowledged);
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Opens what was left, which is recovery, and audits it.
    fn look(&mut self, reported: &[Option<u64>]) -> anyhow::Result<()> {
        // A process that is killed while it makes the pool leaves none.
        let is_new = self.audit.programs() == 0 && reported.iter().all(Option::is_none);
        if is_new && !self.pool.try_exists()? {
            return Ok(());
        }
        if !self.pool.try_exists()? {
            bail!("the pool is gone");
        }
        let file = heap_programs::open(&self.pool, self.args.domain.request(), self.args.size);
        let audited = file.and_then(|file| self.audit.follow(&file, reported));
        audited.map_err(anyhow::Error::msg)
    }

    /// One life of the process; the last program that each thread has reported.
    fn round(&mut self) -> anyhow::Result<Vec<Option<u64>>> {
        let per_round = (3 * self.args.programs / self.args.kills).max(2);
        let end = End::by_chance(&mut self.random, per_round);
        let mut reported = vec![None; usize::from(self.args.threads)];
        let acknowledged = &mut self.acknowledged;
        life::live(&self.pool, end, &mut |line: &str| {
            let words: Vec<u64> =
                line.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
            let [thread, program] = words[..] else { bail!("a line of two words") };
            let last = reported.get_mut(thread as usize);
            *last.context("a thread that there is not")? = Some(program);
            *acknowledged += 1;
            Ok(())
        })?;
        Ok(reported)
    }
}
