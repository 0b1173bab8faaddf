//! `tembo-lab bench disk`: stores with more data than memory.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use parse_size::Config;
use tembo_bench::{DiskCell, DiskConfig, DiskReport, Part};

use super::trials::Trials;
use crate::exit::{Exit, refuse};
use crate::program::ProgramArgs;

#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// Folder on a disk, for the files of the contenders, which are gone when the run ends
    #[arg(long, value_name = "DIR", default_value = ".")]
    path: PathBuf,
    /// Take a folder in memory too
    #[arg(long)]
    force: bool,
    /// Memory of a contender, in bytes or with K, M, G (powers of 1024); at least 64M
    #[arg(long, value_parser = size, default_value = "64M", value_name = "SIZE")]
    memory: u64,
    /// Parts, with commas between: table, ycsb, churn, restart, server
    #[arg(long, value_delimiter = ',', value_parser = part, default_values = parts())]
    parts: Vec<Part>,
    /// Sizes of the stores in the table, in times of the memory
    #[arg(long, value_delimiter = ',', default_values_t = [0.5, 2.0, 8.0])]
    ratios: Vec<f64>,
    /// Bytes of the values in the table, as --memory; at least 8
    #[arg(long, value_delimiter = ',', value_parser = size, default_values = ["100", "1K", "16K"])]
    values: Vec<u64>,
    /// The contenders, with commas between; all that this build has unless given
    #[arg(long, value_delimiter = ',', value_parser = contender, default_values = tembo_bench::disk_contenders())]
    contenders: Vec<String>,
    /// Rounds, each with stores of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds of a phase
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Seconds of a load; what is left is then put in the order of the keys, within twice as long
    #[arg(long, default_value_t = 10.0)]
    load_seconds: f64,
    /// Begins no cell later than so many minutes after the start; what is left out is named on the page
    #[arg(long, value_name = "MINUTES")]
    within: Option<f64>,
    /// Where keys and orders come from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Few records and one round of short phases: to see that everything works, not how fast it is
    #[arg(long, conflicts_with_all = ["rounds", "seconds", "load_seconds", "short"])]
    quick: bool,
    /// Some three minutes: values of 1K, twice 64M of memory, the main rivals, one round of short phases
    #[arg(long, conflicts_with_all = ["rounds", "seconds", "load_seconds", "memory", "ratios", "values", "parts"])]
    short: bool,
    /// Goes on with a run of the same options that was interrupted
    #[arg(long, conflicts_with_all = ["quick", "json"])]
    resume: bool,
    /// Where disk.json and disk.md go (of short and quick runs: disk-short.* and disk-quick.*); what disk.json has of other cells is kept
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    out: PathBuf,
    /// Print one JSON object, and write no files
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    program: ProgramArgs,
}

/// What measures one contender in one cell: a process that `disk` starts.
#[derive(Debug, clap::Args)]
pub(super) struct CellArgs {
    /// The binary `tembo`
    program: PathBuf,
    /// What to measure, as JSON
    spec: String,
}

/// The word for [`CellArgs`] on the command line.
const CELL: &str = "disk-cell";

/// Less than this is not enough for the caches of every contender.
const MEMORY_MIN: u64 = 64 << 20;

/// The contenders of a short run.
const SHORT: [&str; 7] =
    ["tembo", "fjall", "rocksdb", "lmdb-no-readahead", "redb", "sqlite", "berkeley"];

/// The shortest value has the number of its record.
const VALUE_MIN: u64 = 8;

const QUICK_SECONDS: f64 = 0.05;

fn size(text: &str) -> Result<u64, parse_size::Error> {
    Config::new().with_binary().parse_size(text)
}

fn part(text: &str) -> Result<Part, String> {
    let part = Part::ALL.into_iter().find(|part| part.name() == text);
    part.ok_or_else(|| format!("known are {}", parts().join(", ")))
}

fn parts() -> Vec<&'static str> {
    Part::ALL.map(Part::name).into()
}

fn contender(text: &str) -> Result<String, String> {
    let known = tembo_bench::disk_contenders();
    let is_known = known.contains(&text);
    is_known.then(|| text.to_owned()).ok_or_else(|| format!("known are {}", known.join(", ")))
}

impl Args {
    fn check(&self) -> Option<&'static str> {
        let is_size = |number: &f64| number.is_finite() && *number > 0.0;
        if self.memory < MEMORY_MIN {
            return Some(
                "--memory is at least 64M: caches and buffers of some contenders have no less",
            );
        }
        if self.values.iter().any(|size| !(VALUE_MIN..=1 << 20).contains(size)) {
            return Some("--values are 8 to 1M");
        }
        let times = [&self.seconds, &self.load_seconds].into_iter().chain(&self.within);
        if !self.ratios.iter().chain(times).all(is_size) {
            return Some("--ratios, --seconds, --load-seconds and --within are above 0");
        }
        None
    }

    /// Of the files: a quick or short run never stands where a full one does.
    fn name(&self) -> &'static str {
        match (self.quick, self.short) {
            (true, _) => "disk-quick",
            (_, true) => "disk-short",
            _ => "disk",
        }
    }

    /// With what `--short` stands for.
    fn shortened(mut self) -> Args {
        if self.short {
            self.memory = MEMORY_MIN;
            (self.parts, self.ratios, self.values) = (vec![Part::Table], vec![2.0], vec![1024]);
            (self.rounds, self.seconds, self.load_seconds) = (1, 1.5, 4.0);
            self.contenders.retain(|name| SHORT.contains(&&name[..]));
        }
        self
    }

    fn config(&self) -> anyhow::Result<DiskConfig> {
        let (quick, memory) = (self.quick, self.memory);
        let pick = |short: f64, full: f64| if quick { short } else { full };
        let (seconds, load_seconds) =
            (pick(QUICK_SECONDS, self.seconds), pick(10.0, self.load_seconds));
        let lab = std::env::current_exe().context("finding this program")?;
        let tembo = self.program.path()?;
        let words = ["bench", CELL].map(str::to_owned);
        let tembo = tembo.to_str().context("a path that is no UTF-8")?.to_owned();
        let rounds = if quick { 1 } else { self.rounds };
        let command = if quick {
            "tembo-lab bench disk --quick".into()
        } else {
            format!(
                "tembo-lab bench disk --memory {}M --rounds {rounds} --seconds {seconds} --load-seconds {load_seconds} --seed {}",
                memory >> 20,
                self.seed
            )
        };
        Ok(DiskConfig {
            folder: self.path.clone(),
            takes_memory: self.force,
            memory,
            parts: self.parts.clone(),
            ratios: self.ratios.clone(),
            value_sizes: self.values.iter().map(|size| *size as usize).collect(),
            contenders: self.contenders.clone(),
            rounds,
            seconds,
            load_seconds,
            seed: self.seed,
            within: self.within.map(|minutes| Duration::from_secs_f64(60.0 * minutes.min(1e6))),
            quick,
            cell: (lab, [&words[..], &[tembo]].concat()),
            command,
        })
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let args = args.clone().shortened();
    if let Some(what) = args.check() {
        return refuse(Exit::Usage, what);
    }
    let config = args.config()?;
    let part_path = args.out.join(format!("{}.part.json", args.name()));
    let done = if args.resume { unfinished(&part_path)? } else { Vec::new() };
    let trials = Trials::new(config.trials())?;
    let (mut last, mut was_stopped) = (String::new(), false);
    let mut kept = Ok(());
    let mut keep = |cells: &[DiskCell]| {
        if !args.json && !args.quick {
            kept = keep_part(&part_path, cells);
        }
    };
    let report = tembo_bench::disk(&config, done, &mut keep, &mut |label, doing| {
        let is_next = last != label;
        label.clone_into(&mut last);
        was_stopped = !trials.go_on(is_next, &format!("{label}: {doing}"));
        !was_stopped
    });
    drop(trials);
    kept?;
    let report = match report {
        Err(error @ tembo_bench::Error::InMemory { .. }) => {
            return refuse(Exit::Usage, format!("{error}; --force takes it"));
        }
        report => report?,
    };
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
        return Ok(Exit::Done);
    }
    write!(out, "{}", tembo_bench::disk_markdown(&report))?;
    out.flush()?;
    if was_stopped && !args.quick {
        let path = part_path.display();
        writeln!(io::stderr(), "interrupted: --resume goes on with what is in {path}")?;
        return Ok(Exit::Done);
    }
    write_files(&args.out, args.name(), report)?;
    // A run without a cell has written none.
    let _ = fs::remove_file(&part_path);
    Ok(Exit::Done)
}

/// The cells of a run that was interrupted; none where there was no such run.
fn unfinished(path: &Path) -> anyhow::Result<Vec<DiskCell>> {
    match fs::read(path) {
        Ok(bytes) => {
            serde_json::from_slice(&bytes).with_context(|| format!("reading {}", path.display()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
    }
}

/// Writes what is measured so far, in one step.
fn keep_part(path: &Path, cells: &[DiskCell]) -> anyhow::Result<()> {
    let write = || {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        let next = path.with_extension("new");
        fs::write(&next, serde_json::to_vec(cells)?)?;
        fs::rename(&next, path)
    };
    write().with_context(|| format!("writing {}", path.display()))
}

/// A page, and the report; what there is of other cells under the same name is kept.
fn write_files(folder: &Path, name: &str, report: DiskReport) -> anyhow::Result<()> {
    let path = folder.join(format!("{name}.json"));
    let report = match fs::read(&path) {
        Ok(bytes) => {
            let older = serde_json::from_slice(&bytes);
            report.with_older(older.with_context(|| format!("reading {}", path.display()))?)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => report,
        Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
    };
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let page = folder.join(format!("{name}.md"));
    for (path, text) in
        [(&path, serde_json::to_string(&report)?), (&page, tembo_bench::disk_markdown(&report))]
    {
        fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    writeln!(io::stderr(), "the page is {}", page.display())?;
    Ok(())
}

/// The process that measures.
pub(super) fn cell(args: &CellArgs) -> anyhow::Result<Exit> {
    tembo_bench::disk_cell(&args.spec, &args.program, &mut io::stdout().lock())?;
    Ok(Exit::Done)
}
