//! `tembo-lab torture histories`.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use clap::ValueEnum;
use serde::Serialize;
use tembo_kv::{Options, Store};
use tembo_torture::history::{
    self, Calls, Checked, History, Isolation, Plan, Progress, Stored, check_registers,
};

use crate::exit::{Exit, refuse};
use crate::output::{Lines, print};
use crate::progress;
use crate::store::Index;

use super::served::{self, ServedArgs};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to judge; everything that the index has unless given
    #[arg(long, value_enum)]
    level: Vec<Level>,
    /// Over which index; over each unless given
    #[arg(long, value_enum)]
    index: Vec<Index>,
    /// Operations of each history
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    operations: u64,
    /// Threads
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: u16,
    /// Keys; half of all operations go to 16 of them
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    keys: u32,
    /// Where chance begins: it repeats what each thread tries, not how they meet
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    served: ServedArgs,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Level {
    /// Operations on single keys: linearisable
    Single,
    /// Operations on single keys of a server, over sockets: linearisable
    Served,
    /// Transactions in snapshot isolation
    Snapshot,
    /// Serialisable transactions
    Serialisable,
}

/// A history that was judged.
#[derive(Serialize)]
struct Judged {
    level: &'static str,
    index: &'static str,
    threads: u16,
    keys: u32,
    seed: u64,
    #[serde(flatten)]
    checked: Checked,
    run_seconds: f64,
    judge_seconds: f64,
    violation: Option<String>,
}

impl Judged {
    fn lines(&self) -> Lines {
        let mut lines = Lines::default();
        lines.add("history", format!("{}, {}", self.level, self.index));
        let Checked { operations, transactions, committed, conflicts, overlapping } = self.checked;
        lines.add("operations", format!("{operations} by {} threads", self.threads));
        if transactions > 0 {
            lines.add("transactions", transactions);
            lines.add("committed", committed);
            lines.add("in conflict", conflicts);
            lines.add("beside others", overlapping);
        }
        lines.add("time", format!("{:.1} s", self.run_seconds));
        lines.add("judged in", format!("{:.1} s", self.judge_seconds));
        match &self.violation {
            None => lines.add("result", "no violation"),
            Some(violation) => lines.add("VIOLATION", violation),
        }
        lines
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let levels = if args.level.is_empty() { Level::value_variants() } else { &args.level };
    let indexes = if args.index.is_empty() { Index::value_variants() } else { &args.index };
    let is_asked = !args.level.is_empty() && !args.index.is_empty();
    let mut violations = 0;
    for &index in indexes {
        for &level in levels.iter().filter(|level| is_asked || level.is_for(index)) {
            let judged = judge(args, level, index)?;
            violations += usize::from(judged.violation.is_some());
            print(args.json, &judged, &judged.lines())?;
        }
    }
    match violations {
        0 => Ok(Exit::Done),
        _ => refuse(Exit::Violated, format!("{violations} violations")),
    }
}

fn judge(args: &Args, level: Level, index: Index) -> anyhow::Result<Judged> {
    let &Args { operations, threads, keys, seed, .. } = args;
    let plan = Plan { isolation: level.isolation(), operations, threads, keys, seed };
    let bar = progress::operations(operations);
    let advance = |done: u64| bar.set_position(done);
    let began = Instant::now();
    let (recorded, folder) = level.record(&plan, args, index, &advance)?;
    let (run_seconds, ended) = (began.elapsed().as_secs_f64(), Instant::now());
    bar.finish_and_clear();
    let (checked, violation) = recorded.judge(plan.isolation);
    if let Some(folder) = folder.filter(|_| violation.is_none()) {
        std::fs::remove_dir_all(folder)?;
    }
    Ok(Judged {
        level: level.name(),
        index: index.name(),
        threads,
        keys,
        seed,
        checked,
        run_seconds,
        judge_seconds: ended.elapsed().as_secs_f64(),
        violation,
    })
}

/// What was written down.
enum Recorded {
    Calls(Calls),
    History(History),
}

impl Recorded {
    /// What there was to judge, and the report of what is wrong with it.
    fn judge(&self, isolation: Isolation) -> (Checked, Option<String>) {
        match self {
            Recorded::Calls(calls) => {
                let checked = Checked { operations: calls.len() as u64, ..Checked::default() };
                let broken = check_registers(calls).err();
                (checked, broken.map(|broken| broken.report(&History::default())))
            }
            Recorded::History(history) => {
                let broken = history::judge(history, isolation).err();
                (Checked::of(history), broken.map(|broken| broken.report(history)))
            }
        }
    }
}

impl Level {
    /// A server takes an order of its keys.
    fn is_for(self, index: Index) -> bool {
        index.kind().is_ordered() || !matches!(self, Level::Served)
    }

    fn isolation(self) -> Isolation {
        match self {
            Level::Single | Level::Served | Level::Snapshot => Isolation::Snapshot,
            Level::Serialisable => Isolation::Serialisable,
        }
    }

    /// Writes it down; and the folder that is to go if it is right.
    fn record(
        self,
        plan: &Plan,
        args: &Args,
        index: Index,
        advance: &Progress<'_>,
    ) -> anyhow::Result<(Recorded, Option<PathBuf>)> {
        if let Level::Served = self {
            let (calls, folder) = served::record(plan, &args.served, index, advance)?;
            return Ok((Recorded::Calls(calls), folder));
        }
        let options = Options::new().index(index.kind());
        let store = Store::volatile(&options).context("reserving memory")?;
        let stored = Stored::new(&store, "history")?;
        let recorded = match self {
            Level::Single | Level::Served => plan.run_calls(&stored, advance).map(Recorded::Calls),
            Level::Snapshot | Level::Serialisable => {
                plan.run(&stored, advance).map(Recorded::History)
            }
        };
        Ok((recorded.map_err(anyhow::Error::msg)?, None))
    }
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Single => "single",
            Level::Served => "served",
            Level::Snapshot => "snapshot",
            Level::Serialisable => "serialisable",
        }
    }
}
