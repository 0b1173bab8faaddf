//! `tembo doctor`: what this machine offers, and what durability costs here.

mod measure;
mod system;
mod trial;

use std::path::{Path, PathBuf};

use serde::Serialize;
use tembo_kv::IndexKind;
use tembo_pmem::{Domain, DomainRequest, Error, Region, RegionOptions};

use crate::exit::{Exit, refuse};
use crate::output::{Lines, print};
use trial::Trial;

/// Bytes of the region that is made to try the medium.
const TRIAL_SIZE: u64 = 1 << 20;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory where a pool would lie
    #[arg(default_value = ".")]
    path: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Findings {
    path: String,
    processor: Processor,
    filesystem: String,
    is_memory: bool,
    map_sync: bool,
    domain: &'static str,
    /// Of a new pool.
    index: &'static str,
    pages: system::Pages,
    /// Store, flush and fence of one random line; None where flushing cannot be tried.
    persist_ns: Option<f64>,
    /// Where that was measured.
    persist_path: String,
    /// One `fdatasync` of a 4 KiB overwrite.
    fdatasync_us: Option<f64>,
}

#[derive(Serialize)]
struct Processor {
    instruction: &'static str,
    clwb: bool,
    clflushopt: bool,
    clflush: bool,
    avx512f: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let folder = if args.path.is_dir() {
        args.path.as_path()
    } else {
        // A pool's own path will do as well.
        args.path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
    };
    if !folder.is_dir() {
        return refuse(Exit::Usage, format!("{} is no directory", folder.display()));
    }
    let findings = examine(folder)?;
    print(args.json, &findings, &lines(&findings))?;
    Ok(Exit::Done)
}

fn examine(folder: &Path) -> anyhow::Result<Findings> {
    let (filesystem, is_memory) = system::filesystem(folder)?;
    let map_sync = probe(folder, DomainRequest::Auto)?
        .is_some_and(|(domain, _)| matches!(domain, Domain::Flush | Domain::Eadr));
    let trial = |at: &Path| anyhow::Ok(probe(at, DomainRequest::Flush)?.and_then(|(_, ns)| ns));
    // On a disk's page cache a flush means nothing, but what it costs there is the same.
    let shm = Path::new("/dev/shm");
    let persist_path = if map_sync || is_memory || !shm.is_dir() { folder } else { shm };
    let persist_ns = trial(persist_path)?;
    Ok(Findings {
        path: folder.display().to_string(),
        processor: processor(),
        domain: if map_sync { "flush" } else { "logged" },
        index: IndexKind::default().name(),
        filesystem,
        is_memory,
        map_sync,
        pages: system::Pages::read(),
        persist_ns,
        persist_path: persist_path.display().to_string(),
        fdatasync_us: measure::fdatasync_us(folder)?,
    })
}

/// The domain that a pool in `folder` gets, and what a persist costs in it; None if it can have none.
fn probe(folder: &Path, domain: DomainRequest) -> anyhow::Result<Option<(Domain, Option<f64>)>> {
    let trial = Trial::new(folder);
    let options = RegionOptions { domain, ..RegionOptions::default() };
    let made = Region::create(trial.path(), TRIAL_SIZE, &options, |_| Ok::<(), Error>(()));
    let region = match made {
        Ok(region) => region,
        Err(Error::Unsupported { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let domain = region.domain();
    let ns = match domain {
        Domain::Flush | Domain::Eadr => Some(measure::persist_ns(&region)?),
        Domain::Logged | Domain::Volatile => None,
    };
    Ok(Some((domain, ns)))
}

fn processor() -> Processor {
    let flags = system::processor_flags();
    let has = |flag: &str| flags.iter().any(|found| found == flag);
    let instructions = ["clwb", "clflushopt", "clflush"];
    Processor {
        instruction: instructions.into_iter().find(|flag| has(flag)).unwrap_or("none"),
        clwb: has("clwb"),
        clflushopt: has("clflushopt"),
        clflush: has("clflush"),
        avx512f: has("avx512f"),
    }
}

fn lines(findings: &Findings) -> Lines {
    let mut lines = Lines::default();
    let yes = |yes: bool| if yes { "yes" } else { "no" };
    let number = |number: Option<f64>, unit: &str| {
        number.map_or("cannot be tried".to_owned(), |number| format!("{number:.0} {unit}"))
    };
    lines.add("path", &findings.path);
    lines.add("file system", &findings.filesystem);
    lines.add("memory only", yes(findings.is_memory));
    lines.add("MAP_SYNC", yes(findings.map_sync));
    lines.add("domain", format_args!("{} (--domain auto)", findings.domain));
    lines.add("index", format_args!("{} (of a new pool)", findings.index));
    let processor = &findings.processor;
    lines.add("flush instruction", processor.instruction);
    lines.add("clwb", yes(processor.clwb));
    lines.add("clflushopt", yes(processor.clflushopt));
    lines.add("avx512f", yes(processor.avx512f));
    lines.add("large pages", &findings.pages.transparent);
    lines.add("large pages, shm", &findings.pages.shared);
    lines.add("hugetlb pages", findings.pages.reserved);
    let persist = number(findings.persist_ns, "ns");
    lines.add("flush + fence", format_args!("{persist} (in {})", findings.persist_path));
    lines.add("fdatasync", number(findings.fdatasync_us, "µs"));
    lines
}
