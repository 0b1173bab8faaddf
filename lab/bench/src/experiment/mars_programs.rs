//! Coburn's thesis, figures 3.9 and 3.10: programs over multi-part atomic writes, in modelled time.

use tembo_mars::{
    AriesStore, ArrayStore, BplusTree, Crew, Error as MarsError, Graph, HashTable, Host, Random,
    Scheme, Store,
};

use super::context::Context;
use super::mars_host::{Timed, aries_options, array, host};
use crate::Error;
use crate::finding::{Finding, Shape, percent_more, times};
use crate::sheet::{Labels, Sheet};

pub(super) const TITLE: &str = "Hash table, B+tree and graph over atomic writes";
pub(super) const TITLE_MEMCACHE: &str = "A cache's server over atomic writes";

const THREADS: [u32; 5] = [1, 2, 4, 8, 16];

const SCHEMES: [Scheme; 3] = [Scheme::Unsafe, Scheme::AtomicWrite, Scheme::SoftAtomic];

/// An update of a program: at most so many bytes in so many parts. A split of a B+tree is the largest.
const UPDATE: (u64, u64) = (64 << 10, 16);

/// Nodes that a search of the graph may read.
const READS: usize = 16;

/// A program of the figure.
enum Program {
    Hash(HashTable, u64),
    Tree(BplusTree, u64),
    Graph(Graph, u64),
}

impl Program {
    fn all(scale: u64) -> [Program; 3] {
        let keys = 700 * scale;
        [
            Program::Hash(HashTable::new(512 * scale), keys),
            Program::Tree(BplusTree::new(keys), keys),
            Program::Graph(Graph::new(256 * scale), 0),
        ]
    }

    fn name(&self) -> &'static str {
        match self {
            Program::Hash(..) => "hash table",
            Program::Tree(..) => "B+tree",
            Program::Graph(..) => "six degrees",
        }
    }

    fn size(&self) -> u64 {
        match self {
            Program::Hash(table, _) => table.size(),
            Program::Tree(tree, _) => tree.size(),
            Program::Graph(graph, _) => graph.size(),
        }
    }

    /// An update; of the graph each second time a search before it, unless it is being filled.
    fn step<S: Timed>(
        &mut self,
        store: &mut S,
        random: &mut Random,
        fills: bool,
    ) -> Result<(), Error> {
        match self {
            Program::Hash(table, keys) => table.toggle(store, random.below(*keys), 7).map(drop)?,
            Program::Tree(tree, keys) => tree.toggle(store, random.below(*keys), 7).map(drop)?,
            Program::Graph(graph, steps) => {
                *steps += 1;
                let ends = (graph.node(random), graph.node(random));
                if fills || *steps % 2 == 0 {
                    graph.toggle(store, ends).map(drop)?;
                } else {
                    graph.search(store, ends, READS).map(drop)?;
                }
            }
        }
        Ok(())
    }
}

pub(super) fn programs(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("mars-3.9", TITLE, "Coburn, figure 3.9");
    let (scale, count) = (context.pick(1, 8), context.pick(400, 8_000));
    for which in 0..3 {
        let (mut sheet, mut name) = (Sheet::default(), "");
        for scheme in SCHEMES {
            let mut all = Program::all(scale);
            let program = &mut all[which];
            name = program.name();
            context.trial(&format!("{name}, {}", scheme.name()))?;
            let mut store = array(scheme, program.size(), UPDATE)?;
            let mut random = Random::new(context.seed());
            let mut begin = 0;
            for (threads, fills) in [(1, true)].into_iter().chain(THREADS.map(|n| (n, false))) {
                let mut crew = Crew::at(threads, begin);
                let count = if fills { 2_000 * scale } else { count };
                let rate = crew.run(count, &mut store, ArrayStore::host, |store, _| {
                    program.step(store, &mut random, fills)
                })?;
                begin = crew.end_ns();
                if !fills {
                    sheet.push(scheme.name(), threads, rate / 1e3);
                }
            }
        }
        judge(&mut finding, &sheet, name);
        let labels = Labels { title: "", x: "threads", y: "thousand operations a second" };
        let mut chart = sheet.chart(Shape::LogLines, labels);
        chart.title = format!("{name}, modelled");
        finding.charts.push(chart);
    }
    finding.sentence = "What atomicity in the array costs is a small part of what it costs in software, in each program.".into();
    finding.note("Modelled time, as in mars-3.5. The thesis has 32 GB each; a part of a memory costs the same here whatever its size. A search reads 16 nodes at most, and leaves of the tree are not merged. Locks are held until the write-back is over.");
    Ok(finding)
}

fn judge(finding: &mut Finding, sheet: &Sheet, name: &str) {
    let [write, atomic, soft] = SCHEMES.map(Scheme::name);
    let atomic_document = if name == "six degrees" { "−21 %" } else { "−13 %" };
    for threads in [4, 16] {
        let at_16 = name == "hash table" && threads == 16;
        let document = if at_16 { "−11 %" } else { atomic_document };
        let what = format!("{name}: AtomicWrite to Write, {threads} threads");
        finding.claim(&what, document, percent_more(sheet.ratio(atomic, write, threads)));
        let document = if at_16 { "−46 %" } else { "−28 to −46 %" };
        let what = format!("{name}: SoftAtomic to Write, {threads} threads");
        finding.claim(&what, document, percent_more(sheet.ratio(soft, write, threads)));
    }
}

/// Bytes in memory: what a cache without a store has.
struct Dram {
    host: Host,
    bytes: Vec<u8>,
}

impl Store for Dram {
    type Error = MarsError;

    fn read(&mut self, at: u64, to: &mut [u8]) -> Result<(), MarsError> {
        to.copy_from_slice(&self.bytes[at as usize..at as usize + to.len()]);
        Ok(())
    }

    fn update(&mut self, writes: Vec<(u64, Vec<u8>)>) -> Result<(), MarsError> {
        for (at, data) in writes {
            self.bytes[at as usize..at as usize + data.len()].copy_from_slice(&data);
        }
        Ok(())
    }

    fn lock(&mut self, lock: u64) {
        self.host.lock(lock);
    }

    fn unlock(&mut self, lock: u64) {
        let now = self.host.now_ns();
        self.host.unlock_at(lock, now);
    }
}

impl Timed for Dram {
    fn host(&mut self) -> &mut Host {
        &mut self.host
    }
}

/// Nanoseconds of a client and of the server for a request, outside of the store: a guess for sockets of one machine.
const REQUEST_NS: u64 = 20_000;

/// Nanoseconds under the lock for what the server does itself.
const LOCKED_NS: u64 = 1_000;

/// The server's only lock, which updates take.
const LOCK: u64 = 1 << 40;

/// Thousand requests a second by each count of clients; half of them are updates.
fn requests<S: Timed>(
    mut store: S,
    buckets: u64,
    (count, seed): (u64, u64),
    mut each: impl FnMut(u32, f64),
) -> Result<(), Error> {
    let (mut table, mut random, mut begin) = (HashTable::new(buckets), Random::new(seed), 0);
    for (clients, fills) in [(1, true)].into_iter().chain(THREADS.map(|n| (n, false))) {
        let mut crew = Crew::at(clients, begin);
        let rate = crew.run(count, &mut store, S::host, |store, _| {
            store.host().compute(REQUEST_NS);
            let key = random.below(buckets);
            if !fills && random.below(2) == 0 {
                table.get(store, key)?;
                return Ok::<(), Error>(());
            }
            store.lock(LOCK);
            store.host().compute(LOCKED_NS);
            table.toggle(store, key, 7)?;
            store.unlock(LOCK);
            Ok(())
        })?;
        begin = crew.end_ns();
        if !fills {
            each(clients, rate / 1e3);
        }
    }
    Ok(())
}

pub(super) fn memcache(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("mars-3.10", TITLE_MEMCACHE, "Coburn, figure 3.10");
    let (buckets, count) = (context.pick(512, 8_192), context.pick(600, 10_000));
    let (size, load) = (HashTable::new(buckets).size(), (count, context.seed()));
    let mut sheet = Sheet::default();
    const DRAM: &str = "DRAM";
    const ARIES: &str = "ARIES, for Berkeley DB";
    context.trial(DRAM)?;
    let dram = Dram { host: host(1 << 20)?, bytes: vec![0; size as usize] };
    requests(dram, buckets, load, |clients, rate| sheet.push(DRAM, clients, rate))?;
    for scheme in SCHEMES {
        context.trial(scheme.name())?;
        let store = array(scheme, size, UPDATE)?;
        requests(store, buckets, load, |clients, rate| sheet.push(scheme.name(), clients, rate))?;
    }
    context.trial(ARIES)?;
    let options = aries_options(4032, size.div_ceil(4032));
    let store = AriesStore::open(host(options.size())?, options)?;
    requests(store, buckets, load, |clients, rate| sheet.push(ARIES, clients, rate))?;
    let [write, atomic, soft] = SCHEMES.map(Scheme::name);
    let less = |to: &str| percent_more(sheet.ratio(atomic, to, 8));
    finding.claim("AtomicWrite to DRAM, 8 clients", "−41 %", less(DRAM));
    finding.claim("AtomicWrite to Write, 8 clients", "−15 %", less(write));
    let more = |to: &str| times(sheet.ratio(atomic, to, 8));
    finding.claim("AtomicWrite to SoftAtomic, 8 clients", "1.7×", more(soft));
    finding.claim("AtomicWrite to ARIES for Berkeley DB, 8 clients", "3.8×", more(ARIES));
    let labels = Labels {
        title: "Half gets, half updates, modelled",
        x: "clients",
        y: "thousand requests a second",
    };
    finding.charts.push(sheet.chart(Shape::Lines, labels));
    finding.sentence =
        "One lock for updates: what a store takes under it decides how many clients it serves."
            .into();
    finding.note("MemcacheDB is not kept any more, and Berkeley DB runs in no modelled time: a hash table with a single lock for updates stands for the first, ARIES with pages of 4 KiB for the second (cdds-5.3 has Berkeley DB itself, in real time). The times of a request outside of the store (20 µs) and under the lock (1 µs), and the share of gets, are guesses; the thesis has none of them.");
    Ok(finding)
}
