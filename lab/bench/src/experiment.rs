//! Experiments, each by its name.
//!
//! An experiment takes a [`Context`], lets contenders alternate round after round, and returns a
//! [`Finding`]. Its extent is a number of operations, not a time, so that a quick run is the same
//! everywhere.

mod adaptive;
mod amplification;
mod berkeley;
mod cache;
mod context;
mod effort;
mod fs_calls;
mod fs_contenders;
mod fs_servers;
mod fs_small;
mod fs_stream;
mod fs_trees;
mod fs_versions;
mod ftrace;
mod hash;
mod heap;
mod heap_programs;
mod index;
mod mars;
mod mars_host;
mod mars_programs;
mod medium;
mod micro;
mod nvtree_insert;
mod nvtree_other;
mod own_leaves;
mod served;
mod stack;
mod transactions;
mod wear;
mod ycsb;
mod zones;

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::Error;
use crate::finding::{Finding, Measured, Missing, Report};
use crate::machine::Machine;
use crate::rival::take_settings;
use context::Context;
pub use context::{Setting, Watch};

/// An experiment.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// The name on the command line.
    pub name: &'static str,
    /// What it is about.
    pub title: &'static str,
    run: fn(&mut Context<'_>) -> Result<Finding, Error>,
}

/// Everything that `tembo-lab bench all` does, in its order.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment { name: "micro", title: micro::TITLE, run: micro::micro },
    Experiment { name: "micro-disk", title: micro::TITLE_DISK, run: micro::micro_disk },
    Experiment { name: "latency", title: micro::TITLE_LATENCY, run: micro::latency },
    Experiment { name: "amplification", title: amplification::TITLE, run: amplification::run },
    Experiment { name: "ycsb", title: ycsb::TITLE, run: ycsb::memory },
    Experiment { name: "ycsb-disk", title: ycsb::TITLE_DISK, run: ycsb::disk },
    Experiment { name: "transactions", title: transactions::TITLE, run: transactions::run },
    Experiment { name: "thesis-3", title: stack::TITLE, run: stack::layers_of_stack },
    Experiment { name: "thesis-5.2", title: stack::TITLE_FLUSH, run: stack::flushing },
    Experiment { name: "cdds-5.3", title: berkeley::TITLE, run: berkeley::run },
    Experiment { name: "thesis-4.5", title: hash::TITLE, run: hash::run },
    Experiment { name: "thesis-5.4", title: effort::TITLE, run: effort::versions },
    Experiment { name: "thesis-t5.1", title: effort::TITLE_LINES, run: effort::code },
    Experiment { name: "thesis-5.5", title: served::TITLE_LOGGING, run: served::logging },
    Experiment { name: "thesis-5.6", title: served::TITLE_SESSION, run: served::session },
    Experiment { name: "thesis-5.7", title: served::TITLE_STATUS, run: served::status },
    Experiment { name: "thesis-6", title: wear::TITLE, run: wear::by_place_and_time },
    Experiment { name: "thesis-6.5", title: wear::TITLE_LOGGING, run: wear::against_log },
    Experiment { name: "nvtree-1", title: nvtree_insert::TITLE_COST, run: nvtree_insert::cost },
    Experiment {
        name: "nvtree-5",
        title: nvtree_insert::TITLE_INSERT,
        run: nvtree_insert::against,
    },
    Experiment {
        name: "nvtree-5d",
        title: nvtree_insert::TITLE_COUNT,
        run: nvtree_insert::by_count,
    },
    Experiment { name: "nvtree-6", title: cache::TITLE, run: cache::misses },
    Experiment { name: "nvtree-7", title: nvtree_other::TITLE, run: nvtree_other::by_node_size },
    Experiment { name: "nvtree-7d", title: nvtree_other::TITLE_MIXED, run: nvtree_other::mixed },
    Experiment { name: "nvtree-8", title: adaptive::TITLE, run: adaptive::skewed },
    Experiment { name: "nvtree-9a", title: adaptive::TITLE_REBUILD, run: adaptive::rebuilding },
    Experiment { name: "nvtree-10a", title: nvtree_insert::TITLE_MEDIA, run: nvtree_insert::media },
    Experiment { name: "medium", title: medium::TITLE, run: medium::run },
    Experiment {
        name: "nvtree-10b",
        title: nvtree_insert::TITLE_FLUSH,
        run: nvtree_insert::flushing,
    },
    Experiment { name: "nvtree-9b", title: "NV-Store: StatusUpdate", run: served::nvstore_status },
    Experiment { name: "nvtree-9c", title: "NV-Store: SessionStore", run: served::nvstore_session },
    Experiment { name: "mars-3.5", title: mars::TITLE_LATENCY, run: mars::latency },
    Experiment { name: "mars-3.6", title: mars::TITLE_BANDWIDTH, run: mars::bandwidth },
    Experiment { name: "mars-3.7", title: mars::TITLE_INSIDE, run: mars::inside },
    Experiment { name: "mars-3.8", title: mars::TITLE_ARIES, run: mars::against_aries },
    Experiment { name: "mars-3.9", title: mars_programs::TITLE, run: mars_programs::programs },
    Experiment {
        name: "mars-3.10",
        title: mars_programs::TITLE_MEMCACHE,
        run: mars_programs::memcache,
    },
    Experiment { name: "nvheaps-4.1", title: heap::TITLE, run: heap::latency },
    Experiment {
        name: "nvheaps-programs",
        title: heap_programs::TITLE,
        run: heap_programs::programs,
    },
    Experiment { name: "durablefs-3.3", title: fs_calls::TITLE, run: fs_calls::run },
    Experiment { name: "durablefs-3.8", title: fs_servers::TITLE, run: fs_servers::run },
    Experiment { name: "durablefs-small", title: fs_small::TITLE, run: fs_small::run },
    Experiment { name: "durablefs-stream", title: fs_stream::TITLE, run: fs_stream::run },
    Experiment { name: "durablefs-trees", title: fs_trees::TITLE, run: fs_trees::run },
    Experiment { name: "durablefs-versions", title: fs_versions::TITLE, run: fs_versions::run },
];

/// Figures of the documents that cannot be repeated on one machine, or not on this one.
const IMPOSSIBLE: &[(&str, &str)] = &[
    (
        "thesis 5.6 and 5.7: a cluster with Cassandra",
        "one machine; Redis and memcached stand there",
    ),
    ("thesis 5.2: questions to a second socket", "one socket, and no counters of its uncore"),
    (
        "thesis 3.2: the block RAM device",
        "no module brd; a loop device on a tmpfs stands for it, if this user may make one",
    ),
    (
        "thesis 5.5: Redis with a B-Tree",
        "does not exist any more; an ordered map with a synced log stands for it",
    ),
    (
        "NV-Tree 1b and 6 by counters",
        "a guest has none; callgrind's simulation stands for them, and a model that knows flushes",
    ),
    (
        "NV-Tree 5d and table 4 with 100 million keys",
        "hours with the baselines; a full run has up to 10 million, a quick one fewer",
    ),
    (
        "Coburn 3.10: MemcacheDB with Berkeley DB",
        "MemcacheDB is not kept any more; a hash table under one lock, and ARIES, stand there",
    ),
    ("Coburn 4.10: Stasis", "not kept any more, and in no distribution"),
    (
        "Coburn 4.8 and 5.5 with 4 and 8 threads, and with 3 MB to 24 GB",
        "two processors; a small part of the extent",
    ),
    (
        "reads of PCM and STT-RAM in real time",
        "an emulation delays flushes and fences; which loads miss the caches no program sees without counters. nvtree-6 models what reads add to an insertion, from the misses of a simulated cache",
    ),
    (
        "DurableFS 3.8: NOVA, ext4 with DAX",
        "NOVA needs its own kernel, DAX a guest with persistent memory; ext4 and tmpfs stand there",
    ),
    (
        "NV-Tree on an NVDIMM",
        "none here: a tmpfs with real flush instructions, as in most of the paper's successors",
    ),
];

/// Figures by their own names, and the experiments that have them.
const FIGURES: &[(&str, &str)] = &[
    ("thesis-5.3", "cdds-5.3"),
    ("cdds-7", "cdds-5.3"),
    ("thesis-6.1", "thesis-6"),
    ("thesis-6.2", "thesis-6"),
    ("thesis-6.3", "thesis-6"),
    ("thesis-6.4", "thesis-6"),
    ("nvtree-1a", "nvtree-1"),
    ("nvtree-1b", "nvtree-6"),
    ("nvtree-1c", "nvtree-1"),
    ("nvtree-1d", "nvtree-1"),
    ("nvtree-5a", "nvtree-5"),
    ("nvtree-5b", "nvtree-5"),
    ("nvtree-5c", "nvtree-5"),
    ("nvtree-7a", "nvtree-7"),
    ("nvtree-7b", "nvtree-7"),
    ("nvtree-7c", "nvtree-7"),
    ("nvtree-8a", "nvtree-8"),
    ("nvtree-8b", "nvtree-8"),
    ("nvtree-8c", "nvtree-8"),
    ("nvtree-8d", "nvtree-8"),
    ("nvtree-t4", "nvtree-9a"),
    ("nvtree-6.5", "nvtree-9a"),
    ("nvheaps-5.1", "nvheaps-4.1"),
    ("nvheaps-4.8", "nvheaps-programs"),
    ("nvheaps-4.10", "nvheaps-programs"),
    ("nvheaps-5.5", "nvheaps-programs"),
    ("durablefs-3.7", "durablefs-3.3"),
];

impl Experiment {
    /// The experiment of that name, or that has the figure of that name.
    pub fn named(name: &str) -> Option<Experiment> {
        let figure = FIGURES.iter().find(|(figure, _)| *figure == name);
        let name = figure.map_or(name, |(_, name)| *name);
        EXPERIMENTS.iter().find(|experiment| experiment.name == name).copied()
    }
}

/// `report` with what an older one has of experiments that it did not do.
pub fn with_older(report: Report, older: Report) -> Report {
    let names: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
    report.with_older(older, &names)
}

/// Runs experiments, one after the other. One that fails stands among what is missing.
pub fn experiments(setting: &Setting, chosen: &[Experiment], watch: &mut Watch<'_>) -> Report {
    let (mut findings, mut missing) = (Vec::new(), Vec::new());
    for experiment in chosen {
        let mut relay = |name: &str, what: &str| watch(name, what);
        let mut context = Context::new(setting, experiment.name, &mut relay);
        let (begin, machine, rounds) = (Instant::now(), Machine::this(), context.rounds());
        match (experiment.run)(&mut context) {
            Ok(mut finding) => {
                finding.measured = Some(Measured {
                    time_s: now_s(),
                    lasted_s: begin.elapsed().as_secs(),
                    machine,
                    commit: setting.commit.clone(),
                    command: setting.command.clone(),
                    rounds,
                });
                let settings = take_settings();
                if !settings.is_empty() {
                    finding.note(&format!("Settings beyond defaults. {}.", settings.join(". ")));
                }
                findings.push(finding);
            }
            // What was stopped is not run yet.
            Err(Error::Stopped) => break,
            Err(error) => {
                missing.push(Missing { name: experiment.name.into(), reason: error.reason() });
            }
        }
    }
    missing.extend(
        IMPOSSIBLE
            .iter()
            .map(|(name, reason)| Missing { name: (*name).into(), reason: (*reason).into() }),
    );
    let (machine, time_s) = (Machine::this(), now_s());
    let Setting { quick, seed, .. } = *setting;
    let (commit, command) = (setting.commit.clone(), setting.command.clone());
    Report { machine, time_s, quick, seed, commit, command, findings, missing }
}

/// Seconds since 1970.
fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Names of the experiments that a report neither has nor says why it has not.
pub(crate) fn not_run(report: &Report) -> Vec<&'static str> {
    let has = |name: &str| {
        report.findings.iter().any(|finding| finding.name == name)
            || report.missing.iter().any(|missing| missing.name == name)
    };
    EXPERIMENTS.iter().map(|experiment| experiment.name).filter(|name| !has(name)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_unique_and_every_figure_has_its_experiment() {
        let names: HashSet<&str> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
        assert_eq!(names.len(), EXPERIMENTS.len());
        for (figure, name) in FIGURES {
            let found = Experiment::named(figure).map(|experiment| experiment.name);
            assert_eq!(found, Some(*name));
            assert!(!names.contains(figure));
        }
    }
}
