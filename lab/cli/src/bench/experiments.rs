//! `tembo-lab bench NAME...`: the documents' experiments and today's rivals, as JSON, a page and tables.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use tembo_bench::{EXPERIMENTS, Experiment, Report, Setting};

use super::trials::Trials;
use crate::exit::{Exit, refuse};
use crate::program::ProgramArgs;
use crate::progress;

/// Does all of them.
const ALL: &str = "all";

/// Does none, and writes the pages again.
const PAGE: &str = "page";

#[derive(Debug, clap::Args)]
pub(super) struct Named {
    /// Experiments by their names, below, or by the part before the last `-`, or `all`; `page` writes the pages of --out again
    #[arg(value_name = "NAME", value_parser = name, required = true)]
    names: Vec<String>,
    /// Few keys and rounds: all of it in a quarter of an hour
    #[arg(long)]
    quick: bool,
    /// With --quick: as little as there can be, to test this program
    #[arg(long, hide = true, requires = "quick")]
    tiny: bool,
    /// Leave out what results.json has: go on where a run was interrupted
    #[arg(long)]
    resume: bool,
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
    let is_group = EXPERIMENTS.iter().any(|experiment| is_group_of(name, experiment));
    if is_group || [ALL, PAGE].contains(&name) {
        return Ok(name.to_owned());
    }
    let known: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
    Err(format!("known are {ALL}, {PAGE}, {}", known.join(", ")))
}

/// Whether an experiment is one of a document: `mars` for `mars-3.5`.
fn is_group_of(name: &str, experiment: &Experiment) -> bool {
    let of_group = experiment.name.rsplit_once('-').is_some_and(|(group, _)| group == name);
    // `micro` is one itself, and not the group of `micro-disk`.
    of_group && Experiment::named(name).is_none()
}

pub(super) fn run(args: &Named) -> anyhow::Result<Exit> {
    let is_chosen = |experiment: &&Experiment| {
        let named =
            |name: &String| name == ALL || name == experiment.name || is_group_of(name, experiment);
        args.names.iter().any(named)
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
        print(args, &[], &report)?;
        return Ok(Exit::Done);
    }
    // A quick run is a smoke test: it takes no full run's place, and no part of it stands in one.
    if let Some(older) = &older
        && older.quick != args.quick
    {
        let (kind, other) = if older.quick { ("quick", "full") } else { ("full", "quick") };
        let text =
            format!("{} is of a {kind} run: give a {other} one another --out", path.display());
        return refuse(Exit::Usage, text);
    }
    let chosen = match &older {
        Some(older) if args.resume => left(chosen, older),
        _ => chosen,
    };
    let (report, done) = measured(args, &chosen, older)?;
    print(args, &done, &report)?;
    Ok(Exit::Done)
}

/// The experiments that a report does not have.
fn left(chosen: Vec<Experiment>, older: &Report) -> Vec<Experiment> {
    let is_done = |experiment: &Experiment| {
        older.findings.iter().any(|finding| finding.name == experiment.name)
    };
    chosen.into_iter().filter(|experiment| !is_done(experiment)).collect()
}

/// Does the experiments, one after the other; what has been found is written after each, so that a run that
/// is interrupted can go on. Also those that came to an end now, or could not be done.
fn measured(
    args: &Named,
    chosen: &[Experiment],
    older: Option<Report>,
) -> anyhow::Result<(Report, Vec<Experiment>)> {
    let setting = Setting {
        memory: args.memory.clone(),
        disk: args.disk.clone(),
        lab: std::env::current_exe().context("finding this program")?,
        tembo: ProgramArgs::of(args.tembo.clone()).path()?,
        quick: args.quick,
        tiny: args.tiny,
        rounds: args.rounds,
        seed: args.seed,
        commit: COMMIT.to_owned(),
        command: command(std::env::args().skip(1)),
    };
    let trials = Trials::new(chosen.len() as u64)?;
    let (mut all, mut done) = (older, Vec::new());
    let nothing = [];
    let parts: Vec<&[Experiment]> =
        if chosen.is_empty() { vec![&nothing] } else { chosen.chunks(1).collect() };
    for (place, part) in parts.into_iter().enumerate() {
        let report = tembo_bench::experiments(&setting, part, &mut |name, what| {
            trials.begin_at(place as u64, format!("{name}: {what}"))
        });
        done.extend(part.iter().filter(|experiment| has(&report, experiment.name)).copied());
        let report = match all {
            Some(older) => tembo_bench::with_older(report, older),
            None => report,
        };
        write_all(&args.out, &report)?;
        all = Some(report);
        if trials.is_stopped() {
            break;
        }
    }
    Ok((all.context("no experiment was chosen")?, done))
}

/// Whether a report has an experiment, or says why it could not be done.
fn has(report: &Report, name: &str) -> bool {
    report.findings.iter().any(|finding| finding.name == name)
        || report.missing.iter().any(|missing| missing.name == name)
}

/// Options whose value is a place of this machine, which means nothing to a reader.
const PLACES: [&str; 4] = ["--memory", "--disk", "--out", "--tembo"];

/// The command as it is published: without places of this machine.
fn command(words: impl Iterator<Item = String>) -> String {
    let (mut text, mut is_place) = (String::from("tembo-lab"), false);
    for word in words {
        let option = word.split('=').next().unwrap_or_default();
        if PLACES.contains(&option) {
            is_place = !word.contains('=');
        } else if !std::mem::take(&mut is_place) {
            text = text + " " + &word;
        }
    }
    text
}

/// The commit that this program was built from, with a mark if something was changed since; empty where none was known.
const COMMIT: &str = env!("TEMBO_COMMIT");

/// What was done now, a line each, how many claims agree, and where the page is. Lines of the table fit a
/// terminal; a pipe has them whole.
fn print(args: &Named, done: &[Experiment], report: &Report) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let columns = progress::columns(&out);
    for line in table(done, report) {
        writeln!(out, "{}", cut(line, columns))?;
    }
    let (same, other, all) = tembo_bench::agreement(report);
    if all > 0 {
        writeln!(out, "{same} of {all} claims of the documents hold on the page, {other} do not")?;
    }
    writeln!(out, "the page is {}", args.out.join("index.html").display())?;
    Ok(out.flush()?)
}

/// A line for each experiment: what it has found, or why it could not be done.
fn table(done: &[Experiment], report: &Report) -> Vec<String> {
    let width = done.iter().map(|experiment| experiment.name.len()).max().unwrap_or(0);
    let line = |experiment: &Experiment| {
        let name = experiment.name;
        let found = report.findings.iter().find(|finding| finding.name == name);
        let missing = report.missing.iter().find(|missing| missing.name == name);
        let text = match (found, missing) {
            (Some(finding), _) => finding.sentence.clone(),
            (None, Some(missing)) => format!("not done: {}", missing.reason),
            (None, None) => String::new(),
        };
        // A reason may have several lines.
        let words: Vec<&str> = text.split_whitespace().collect();
        format!("{name:width$}  {}", words.join(" "))
    };
    done.iter().map(line).collect()
}

/// A line of at most so many letters, with an ellipsis where something is left out.
fn cut(line: String, columns: Option<usize>) -> String {
    match columns {
        Some(columns) if line.chars().count() > columns => {
            let kept: String = line.chars().take(columns.saturating_sub(1)).collect();
            format!("{}…", kept.trim_end())
        }
        _ => line,
    }
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
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_to_the_terminal_and_whole_in_a_pipe() {
        let line = || String::from("micro  2× as fast");
        assert_eq!(cut(line(), None), "micro  2× as fast");
        assert_eq!(cut(line(), Some(17)), "micro  2× as fast");
        assert_eq!(cut(line(), Some(16)), "micro  2× as fa…");
        // Not a space and an ellipsis behind it.
        assert_eq!(cut(line(), Some(11)), "micro  2×…");
        assert_eq!(cut(line(), Some(1)), "…");
    }

    #[test]
    fn a_command_is_published_without_places() {
        let published = |words: &str| command(words.split(' ').map(String::from));
        let words = "bench ycsb --disk /a/b --rounds 3 --out=/c --memory /d --quick --tembo e";
        assert_eq!(published(words), "tembo-lab bench ycsb --rounds 3 --quick");
        assert_eq!(published("bench all --resume"), "tembo-lab bench all --resume");
    }
}
