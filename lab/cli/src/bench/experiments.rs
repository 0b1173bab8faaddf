//! `tembo-lab bench NAME...`: the documents' experiments and today's rivals, as JSON, a page and tables.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use tembo_bench::{EXPERIMENTS, Experiment, Report, Setting};

use super::trials::Trials;
use crate::exit::{Exit, refuse};
use crate::program::ProgramArgs;

/// Does all of them.
const ALL: &str = "all";

/// Does none, and writes the pages again.
const PAGE: &str = "page";

#[derive(Debug, clap::Args)]
pub(super) struct Named {
    /// Experiments by their names, below, or `all`; `page` writes the pages of --out again
    #[arg(value_name = "NAME", value_parser = name, required = true)]
    names: Vec<String>,
    /// Few keys and rounds: all of it in a quarter of an hour
    #[arg(long)]
    quick: bool,
    /// Rounds of each experiment; its own number unless given
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Where keys and orders come from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A folder in memory, for what is kept with flush instructions
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    memory: PathBuf,
    /// A folder on a disk
    #[arg(long, value_name = "DIR", default_value = ".")]
    disk: PathBuf,
    /// Where results.json, index.html, experiments.md and plots go; what results.json has of other
    /// experiments is kept
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    out: PathBuf,
    /// The binary `tembo` that serves; the one beside this program unless given
    // Not flattened: then clap would not see that the experiments are named.
    #[arg(long, value_name = "FILE")]
    tembo: Option<PathBuf>,
}

/// All experiments, a line each.
pub(super) fn names() -> String {
    let line = |experiment: &Experiment| format!("\n  {:14} {}", experiment.name, experiment.title);
    format!("Experiments:{}", EXPERIMENTS.iter().map(line).collect::<String>())
}

fn name(name: &str) -> Result<String, String> {
    if let Some(experiment) = Experiment::named(name) {
        return Ok(experiment.name.to_owned());
    }
    if [ALL, PAGE].contains(&name) {
        return Ok(name.to_owned());
    }
    let known: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
    Err(format!("known are {ALL}, {PAGE}, {}", known.join(", ")))
}

pub(super) fn run(args: &Named) -> anyhow::Result<Exit> {
    let is_chosen = |experiment: &&Experiment| {
        args.names.iter().any(|name| name == ALL || name == experiment.name)
    };
    let chosen: Vec<Experiment> = EXPERIMENTS.iter().filter(is_chosen).copied().collect();
    let path = args.out.join("results.json");
    let older = match fs::read(&path) {
        Ok(bytes) => {
            let report = serde_json::from_slice::<Report>(&bytes);
            Some(report.with_context(|| format!("reading {}", path.display()))?)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
    };
    if chosen.is_empty() {
        let Some(report) = older else {
            return refuse(Exit::Usage, format!("there is no {}", path.display()));
        };
        write_all(&args.out, &report)?;
        return Ok(Exit::Done);
    }
    let report = measured(args, &chosen)?;
    print(&report)?;
    let report = match older {
        Some(older) => tembo_bench::with_older(report, older),
        None => report,
    };
    write_all(&args.out, &report)?;
    Ok(Exit::Done)
}

fn measured(args: &Named, chosen: &[Experiment]) -> anyhow::Result<Report> {
    let setting = Setting {
        memory: args.memory.clone(),
        disk: args.disk.clone(),
        lab: std::env::current_exe().context("finding this program")?,
        tembo: ProgramArgs::of(args.tembo.clone()).path()?,
        quick: args.quick,
        rounds: args.rounds,
        seed: args.seed,
    };
    let trials = Trials::new(chosen.len() as u64)?;
    let report = tembo_bench::experiments(&setting, chosen, &mut |name, what| {
        let place = chosen.iter().position(|experiment| experiment.name == name);
        trials.begin_at(place.unwrap_or_default() as u64, format!("{name}: {what}"))
    });
    Ok(report)
}

/// What was found, on the terminal.
fn print(report: &Report) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    write!(out, "{}", tembo_bench::markdown(report))?;
    out.flush()?;
    Ok(())
}

fn write_all(folder: &Path, report: &Report) -> anyhow::Result<()> {
    let plots = folder.join("plots");
    fs::create_dir_all(&plots).with_context(|| format!("creating {}", plots.display()))?;
    let write = |path: PathBuf, text: &str| {
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    };
    write(folder.join("results.json"), &serde_json::to_string(report)?)?;
    write(folder.join("index.html"), &tembo_bench::html(report))?;
    write(folder.join("experiments.md"), &tembo_bench::markdown(report))?;
    for (name, svg) in tembo_bench::plots(report) {
        write(plots.join(name), &svg)?;
    }
    writeln!(io::stderr(), "the page is {}", folder.join("index.html").display())?;
    Ok(())
}
