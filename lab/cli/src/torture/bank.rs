//! `tembo-lab torture bank`: this process audits, another one of the same binary serves and is killed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use indicatif::HumanBytes;
use serde::Serialize;
use tembo_kv::Store;
use tembo_torture::Random;
use tembo_torture::bank::{Audit, Bank};

use crate::exit::{Exit, refuse};
use crate::output::{Lines, print};
use crate::progress;
use crate::store::StoreArgs;

use super::life::{self, End};

#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    /// Transfers to acknowledge, at least
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    transfers: u64,
    /// Times to kill the process, at least
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    kills: u64,
    /// Threads that transfer
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=512))]
    threads: u16,
    /// Accounts
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(2..=100_000))]
    accounts: u32,
    /// Stores in the pool, each with a bank, its tellers and accounts
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=8))]
    stores: u16,
    /// Folder for the pool, which is kept if something is wrong with it
    #[arg(long, value_name = "DIR", default_value = ".")]
    path: PathBuf,
    /// Where chance begins
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    store: StoreArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Serve this pool until killed
    #[arg(long, hide = true)]
    serve: Option<PathBuf>,
}

/// By teller, the number of the last transfer that was reported.
type Reported = Vec<Option<u64>>;

/// What the audit has seen.
#[derive(Serialize)]
struct Audited {
    transfers: u64,
    acknowledged: u64,
    kills: u64,
    threads: u16,
    accounts: u32,
    stores: u16,
    seed: u64,
    pool_bytes: u64,
    object_bytes: u64,
    seconds: f64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    if let Some(pool) = &args.serve {
        return serve(args, pool);
    }
    let folder = args.path.join(format!("tembo-bank-{}", std::process::id()));
    std::fs::create_dir(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let mut rounds = Rounds::new(args, folder.join("bank.pool"));
    let began = Instant::now();
    if let Err(error) = rounds.run() {
        let kept = folder.display();
        return refuse(Exit::Violated, format!("{error:#}; kill {}, kept: {kept}", rounds.kills));
    }
    let audited = Audited {
        transfers: rounds.audits.iter().map(Audit::transfers).sum(),
        acknowledged: rounds.acknowledged,
        kills: rounds.kills,
        threads: args.threads,
        accounts: args.accounts,
        stores: args.stores,
        seed: args.seed,
        pool_bytes: std::fs::metadata(&rounds.pool)?.len(),
        object_bytes: rounds.object_bytes,
        seconds: began.elapsed().as_secs_f64(),
    };
    std::fs::remove_dir_all(&folder)?;
    let mut lines = Lines::default();
    let Audited { transfers, acknowledged, kills, .. } = audited;
    lines.add("transfers", format!("{transfers}, {acknowledged} of them acknowledged"));
    lines.add("kills", kills);
    lines.add("stores", audited.stores);
    lines.add("pool", HumanBytes(audited.pool_bytes));
    lines.add("objects in it", HumanBytes(audited.object_bytes));
    lines.add("time", format!("{:.1} s", audited.seconds));
    lines.add("result", "every acknowledged transfer is there, and the total is what it was");
    print(args.json, &audited, &lines)?;
    Ok(Exit::Done)
}

/// Serves, and says on standard output which transfers were made, until it is killed.
fn serve(args: &Args, pool: &Path) -> anyhow::Result<Exit> {
    let stores = args.store.open_or_create_all(pool, args.stores.into())?;
    thread::scope(|scope| {
        let serve = |(number, store)| scope.spawn(move || serve_one(args, number, store));
        let serving: Vec<_> = stores.iter().enumerate().map(serve).collect();
        serving.into_iter().try_for_each(|thread| match thread.join() {
            Ok(served) => served,
            Err(_) => bail!("a bank has panicked"),
        })
    })?;
    Ok(Exit::Done)
}

/// The bank in one store. Beside its tellers a thread counts the money of each snapshot that it takes.
fn serve_one(args: &Args, number: usize, store: &Store) -> anyhow::Result<()> {
    let bank = Bank::open(store, args.accounts)?;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                if let Err(what) = bank.count() {
                    eprintln!("store {number}: {what}");
                    // The process that audits takes it for what it is: no kill.
                    std::process::exit(1);
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        let served = bank.serve(args.threads, args.seed + number as u64, &|teller, transfer| {
            // One write a line. It fails when the pipe is closed.
            let line = format!("{number} {teller} {transfer}\n");
            std::io::stdout().lock().write_all(line.as_bytes()).is_ok()
        });
        is_over.store(true, Ordering::Relaxed);
        Ok(served?)
    })
}

/// The process is started, killed and audited, again and again.
struct Rounds<'a> {
    args: &'a Args,
    pool: PathBuf,
    /// Of each store.
    audits: Vec<Audit>,
    random: Random,
    kills: u64,
    acknowledged: u64,
    /// What the pool holds at last.
    object_bytes: u64,
}

impl<'a> Rounds<'a> {
    fn new(args: &'a Args, pool: PathBuf) -> Rounds<'a> {
        let audit = |_| Audit::new(args.accounts, args.threads);
        let (audits, random) = ((0..args.stores).map(audit).collect(), Random::new(args.seed));
        Rounds { args, pool, audits, random, kills: 0, acknowledged: 0, object_bytes: 0 }
    }

    fn run(&mut self) -> anyhow::Result<()> {
        let args = self.args;
        let none = vec![None; usize::from(args.threads)];
        self.look(|_, audit, bank| audit.follow(bank, &none))?;
        let bar = progress::operations(args.transfers);
        while self.kills < args.kills || self.acknowledged < args.transfers {
            let reported = self.round()?;
            self.kills += 1;
            self.look(|number, audit, bank| audit.follow(bank, &reported[number]))?;
            bar.set_position(self.acknowledged);
        }
        bar.finish_and_clear();
        // Nothing that was followed before has changed since.
        self.look(|_, audit, bank| audit.follow_again(bank))?;
        for store in args.store.open_or_create_all(&self.pool, args.stores.into())? {
            let found = store.check()?;
            if found.leaked > 0 {
                bail!("{} objects are unreachable", found.leaked);
            }
            self.object_bytes = found.account.object_bytes;
        }
        Ok(())
    }

    /// Opens what was left, which is recovery, and audits each store, which has a number.
    fn look(
        &mut self,
        audit: impl Fn(usize, &mut Audit, &Bank<'_>) -> Result<(), String>,
    ) -> anyhow::Result<()> {
        let stores = self.args.store.open_or_create_all(&self.pool, self.args.stores.into())?;
        for (number, (store, of_store)) in stores.iter().zip(&mut self.audits).enumerate() {
            let bank = Bank::open(store, self.args.accounts)?;
            let audited = audit(number, of_store, &bank);
            audited.map_err(|what| anyhow::anyhow!("store {number}: {what}"))?;
        }
        Ok(())
    }

    /// One life of the process; the last transfer that each teller of each store has reported.
    fn round(&mut self) -> anyhow::Result<Vec<Reported>> {
        let per_round = (3 * self.args.transfers / self.args.kills).max(2);
        let end = End::by_chance(&mut self.random, per_round);
        let none = vec![None; usize::from(self.args.threads)];
        let mut reported = vec![none; usize::from(self.args.stores)];
        let acknowledged = &mut self.acknowledged;
        life::live(&self.pool, end, &mut |line: &str| {
            let words: Vec<u64> =
                line.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
            let [store, teller, number] = words[..] else { bail!("a line of three words") };
            let of_store = reported.get_mut(store as usize);
            let last = of_store.and_then(|of_store| of_store.get_mut(teller as usize));
            *last.context("a teller that there is not")? = Some(number);
            *acknowledged += 1;
            Ok(())
        })?;
        Ok(reported)
    }
}
