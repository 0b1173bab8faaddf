//! `tembo-lab guard`: instructions, fences and lines of the hot paths against what the repository has.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Context;
use tembo_bench::guard::{self, Change, Counts, Profile};
use tembo_bench::{Kind, traced};

use crate::contender;
use crate::exit::{Exit, refuse};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The counts that are kept
    #[arg(long, value_name = "FILE", default_value = "lab/bench/guard.json")]
    counts: PathBuf,
    /// Keep what is counted now
    #[arg(long)]
    write: bool,
    /// Say in which parts of the code the instructions of lookups and changes are, and count nothing else
    #[arg(long, conflicts_with = "write")]
    profile: bool,
    /// With --profile: the functions of each part too
    #[arg(long, requires = "profile")]
    functions: bool,
    /// Only run the cases: what is started under callgrind
    #[arg(long, hide = true)]
    run: bool,
    /// With --run: insert into this tree
    #[arg(long, hide = true, value_parser = contender::parse)]
    tree: Option<Kind>,
    /// With --tree: say in the trace of valgrind's lackey what is flushed
    #[arg(long, hide = true)]
    traced: bool,
    #[arg(long, hide = true, default_value_t = 10_000)]
    keys: u64,
    #[arg(long, hide = true, default_value_t = 1024)]
    node_size: u32,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut out = io::stdout().lock();
    if let (true, Some(kind)) = (args.run, args.tree) {
        let insert = if args.traced { traced::insert } else { guard::insert };
        insert(kind, args.keys, args.node_size)?;
        return Ok(Exit::Done);
    }
    if args.run && args.profile {
        guard::run_profiled()?;
        return Ok(Exit::Done);
    }
    if args.run {
        writeln!(out, "{}", serde_json::to_string(&guard::run()?)?)?;
        return Ok(Exit::Done);
    }
    let program = std::env::current_exe().context("finding this program")?;
    if args.profile {
        let profile = guard::profile(&program, &["guard", "--run", "--profile"])?;
        write!(out, "{profile}")?;
        if args.functions {
            write_functions(&mut out, &profile)?;
        }
        return Ok(Exit::Done);
    }
    let read = |bytes: &[u8]| serde_json::from_slice(bytes).ok();
    let (counted, has_valgrind) = guard::count(&program, &["guard", "--run"], &read)?;
    if !has_valgrind {
        writeln!(out, "instructions: SKIPPED, for there is no valgrind")?;
    }
    if args.write {
        let text = serde_json::to_string_pretty(&counted)?;
        fs::write(&args.counts, text + "\n")
            .with_context(|| format!("writing {}", args.counts.display()))?;
        return Ok(Exit::Done);
    }
    let bytes = fs::read(&args.counts);
    let bytes = bytes.with_context(|| format!("reading {}", args.counts.display()))?;
    let stored: Counts = serde_json::from_slice(&bytes).context("reading the counts")?;
    let changes = guard::changes(&stored, &counted);
    for Change { case, what, stored, counted } in &changes {
        let text = |count: &Option<f64>| count.map_or("none".into(), |count| count.to_string());
        writeln!(out, "{case}: {what} {} -> {}", text(stored), text(counted))?;
    }
    if changes.iter().all(Change::is_better) {
        writeln!(out, "guard: {} cases cost no more than they did", stored.len())?;
        return Ok(Exit::Done);
    }
    let what = "hot paths cost more; if that is meant, `tembo-lab guard --write` keeps the counts";
    refuse(Exit::Other, what)
}

fn write_functions(out: &mut impl Write, profile: &Profile) -> io::Result<()> {
    for table in &profile.tables {
        writeln!(out, "\n{}, all of these operations together", table.title)?;
        for (part, functions) in &table.functions {
            writeln!(out, "  {part}")?;
            for (function, count) in functions {
                writeln!(out, "    {count:8.1} {function}")?;
            }
        }
    }
    Ok(())
}
