//! `tembo-lab crashtest`: what a crash could leave of every structure, and the proof that each step
//! towards durability is missed when it is not done.

mod report;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use tembo_torture as torture;
use torture::{Effort, Mutation, Target};

use crate::exit::{Exit, refuse};
use crate::output::{Lines, print, print_line};
use crate::{progress, signals};
use report::{Explored, Proved, Wasted};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to explore, once or several times; everything unless given
    #[arg(long, value_enum)]
    structure: Vec<Structure>,
    /// What the medium may do; the structure's own unless given
    #[arg(long, value_enum)]
    model: Vec<Model>,
    /// Where chance begins: the same seed does the same
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Images to judge of each structure, and of each mutation at most
    #[arg(long, default_value_t = 100_000)]
    images: u64,
    /// End each exploration after so many seconds; a signal ends it too, with what was seen until then
    #[arg(long, conflicts_with = "mutate")]
    seconds: Option<u64>,
    /// Break each step in turn, or the one given: it must be missed
    #[arg(long, value_name = "STEP", num_args = 0..=1, default_missing_value = "")]
    mutate: Option<String>,
    /// Break it in this way only
    #[arg(long, value_enum, requires = "mutate")]
    twist: Option<Twist>,
    /// Only this workload, by the name in a violation
    #[arg(long)]
    workload: Option<String>,
    /// List steps that bought nothing
    #[arg(long, conflicts_with = "mutate")]
    redundancy: bool,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Structure {
    /// Creation, opening, redo log, checkpoint, growth
    Region,
    /// Superblock, roots, allocator, sweep
    Pool,
    /// The log of the pool, by a heap of toys
    Log,
    /// The heap: allocation, counts, destruction, transactions
    Heap,
    /// The B-Tree
    Cdds,
    /// The NV-Tree
    Nvtree,
    /// The hash index
    Hash,
    /// The store, over the NV-Tree
    Kv,
    /// The store, over the B-Tree
    KvCdds,
    /// The store, over the hash index
    KvHash,
    /// A store that follows another one
    Replica,
    /// A store and a heap of toys in one pool
    Shared,
    /// Two stores in one pool
    Stores,
    /// Devices of blocks, over the NV-Tree
    Array,
    /// Devices of blocks, over the B-Tree
    ArrayCdds,
    /// The server's commands
    Server,
    /// The file system
    Fs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Model {
    /// Lines keep any prefix of what was not flushed and fenced
    Flush,
    /// Caches survive
    Eadr,
    /// Sectors of files, between two syncs
    Logged,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Twist {
    /// The step is not done
    Dropped,
    /// The commit store comes before what it should follow
    Early,
    /// The step is done elsewhere
    Misplaced,
}

impl From<Structure> for torture::Structure {
    fn from(structure: Structure) -> torture::Structure {
        match structure {
            Structure::Region => torture::Structure::Region,
            Structure::Pool => torture::Structure::Pool,
            Structure::Log => torture::Structure::Log,
            Structure::Heap => torture::Structure::Heap,
            Structure::Cdds => torture::Structure::Cdds,
            Structure::Nvtree => torture::Structure::Nvtree,
            Structure::Hash => torture::Structure::Hash,
            Structure::Kv => torture::Structure::Kv,
            Structure::KvCdds => torture::Structure::KvCdds,
            Structure::KvHash => torture::Structure::KvHash,
            Structure::Replica => torture::Structure::Replica,
            Structure::Shared => torture::Structure::Shared,
            Structure::Stores => torture::Structure::Stores,
            Structure::Array => torture::Structure::Array,
            Structure::ArrayCdds => torture::Structure::ArrayCdds,
            Structure::Server => torture::Structure::Server,
            Structure::Fs => torture::Structure::Fs,
        }
    }
}

impl From<Model> for torture::Model {
    fn from(model: Model) -> torture::Model {
        match model {
            Model::Flush => torture::Model::Flush,
            Model::Eadr => torture::Model::Eadr,
            Model::Logged => torture::Model::Logged,
        }
    }
}

impl From<Twist> for torture::Twist {
    fn from(twist: Twist) -> torture::Twist {
        match twist {
            Twist::Dropped => torture::Twist::Dropped,
            Twist::Early => torture::Twist::Early,
            Twist::Misplaced => torture::Twist::Misplaced,
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let targets = targets(args);
    if targets.is_empty() {
        return refuse(Exit::Usage, "no such structure on such a medium");
    }
    match &args.mutate {
        Some(step) => prove(args, &targets, step),
        None if args.redundancy => waste(args, &targets),
        None => explore(args, &targets),
    }
}

fn targets(args: &Args) -> Vec<Target> {
    let asked: Vec<torture::Structure> = args.structure.iter().copied().map(Into::into).collect();
    let structures = if asked.is_empty() { torture::Structure::ALL.to_vec() } else { asked };
    let models: Vec<torture::Model> = args.model.iter().copied().map(Into::into).collect();
    structures
        .into_iter()
        .flat_map(|structure| {
            let own = vec![structure.model()];
            let models = if models.is_empty() { own } else { models.clone() };
            models.into_iter().map(move |model| Target { structure, model })
        })
        .filter(|target| target.structure.has(target.model))
        .collect()
}

fn effort<'a>(args: &'a Args, progress: &'a (dyn Fn(u64) -> bool + Sync)) -> Effort<'a> {
    Effort {
        seed: args.seed,
        images_max: args.images,
        workload: args.workload.as_deref(),
        progress,
    }
}

fn explore(args: &Args, targets: &[Target]) -> anyhow::Result<Exit> {
    let mut violations = 0;
    let stopped = signals::stopped()?;
    for &target in targets {
        if stopped.load(Ordering::Relaxed) {
            break;
        }
        let bar = progress::images(args.images, target.structure.name());
        let end = args.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        let go_on = |images: u64| {
            bar.set_position(images);
            !stopped.load(Ordering::Relaxed) && end.is_none_or(|end| Instant::now() < end)
        };
        let outcome = torture::explore(target, &effort(args, &go_on), None);
        bar.finish_and_clear();
        violations += usize::from(outcome.violation.is_some());
        let explored = Explored::of(&outcome, args.seed);
        print(args.json, &explored, &explored.lines())?;
    }
    match violations {
        0 => Ok(Exit::Done),
        _ => refuse(Exit::Violated, format!("{violations} violations")),
    }
}

fn prove(args: &Args, targets: &[Target], step: &str) -> anyhow::Result<Exit> {
    let survived = std::sync::atomic::AtomicUsize::new(0);
    let mut tried = 0;
    for &target in targets {
        let all = torture::mutations(target.structure);
        let twist = args.twist.map(torture::Twist::from);
        let is_asked = |mutation: &Mutation| {
            (step.is_empty() || mutation.step == step)
                && twist.is_none_or(|twist| mutation.twist == twist)
        };
        let asked: Vec<Mutation> = all.into_iter().filter(is_asked).collect();
        tried += asked.len();
        let bar = progress::images(asked.len() as u64, target.structure.name());
        let go_on = |_: u64| true;
        let each = |mutation: &Mutation, outcome: &torture::Outcome| {
            bar.inc(1);
            let proved = Proved::of(mutation, outcome);
            if outcome.violation.is_none() {
                survived.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
            // A closed pipe needs no more of the table; what was not missed is still counted.
            let _ = bar.suspend(|| print_line(args.json, &proved, &proved.line(!step.is_empty())));
        };
        torture::prove(target, &effort(args, &go_on), &asked, &each);
        bar.finish_and_clear();
    }
    match (tried, survived.into_inner()) {
        (0, _) => refuse(Exit::Usage, "no step of that name and structure"),
        (_, 0) => Ok(Exit::Done),
        (_, count) => refuse(Exit::NotMissed, format!("{count} of {tried} steps are not missed")),
    }
}

fn waste(args: &Args, targets: &[Target]) -> anyhow::Result<Exit> {
    for &target in targets {
        let go_on = |_: u64| true;
        let found = torture::redundancy(target, &effort(args, &go_on));
        let found = found.map_err(anyhow::Error::msg)?;
        let wasted = Wasted::of(target, &found);
        let mut lines = Lines::default();
        wasted.add_to(&mut lines);
        print(args.json, &wasted, &lines)?;
    }
    Ok(Exit::Done)
}
