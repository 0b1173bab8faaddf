//! Servers: thesis 5.5 to 5.7, and figures 9b and 9c of the NV-Tree's paper.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use tembo_index::IndexKind;

use super::context::{Context, rotated};
use super::nvtree_other::store_prime;
use super::ycsb::Run;
use crate::Error;
use crate::finding::{Finding, Shape, percent_more, times};
use crate::keys::Keys;
use crate::rival::{Brand, Medium, RedisLog, Rival, TemboServer};
use crate::sheet::{Labels, Sheet};
use crate::tuple::{Tuples, Verb, kops};
use crate::ycsb::Workload;

pub(super) const TITLE_LOGGING: &str = "Versioning against logging, by value size";
pub(super) const TITLE_SESSION: &str = "SessionStore (YCSB A) by client threads";
pub(super) const TITLE_STATUS: &str = "StatusUpdates (YCSB D) by client threads";

const SERVER: Brand = Brand::Server(TemboServer::Durable);
const SERVER_CDDS: Brand = Brand::Server(TemboServer::Cdds);
const ALWAYS: Brand = Brand::Redis(RedisLog::Always);

/// Of figure 5.5.
const STORES: usize = 6;
const CLIENTS: u64 = 2;
const VALUE_SIZES: [usize; 3] = [256, 1024, 4096];

pub(super) fn logging(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("thesis-5.5", TITLE_LOGGING, "Thesis 5.5");
    let count = context.pick(6_000, 300_000);
    let labels = Labels {
        title: "Six processes of each server, two clients, inserts over the loopback interface",
        x: "bytes of a value",
        y: "thousand operations a second",
    };
    let servers = [SERVER_CDDS, SERVER, ALWAYS, Brand::Redis(RedisLog::None)];
    let served = by_size(context, &servers, STORES, count)?;
    finding.charts.push(served.chart(Shape::Bars, labels));
    let embedded =
        [Brand::Tembo(IndexKind::Cdds), Brand::Tembo(IndexKind::Nvtree), Brand::LoggedTree];
    let alone = by_size(context, &embedded, 1, count)?;
    let title = "One store without a server: versions against a tree and an append-only log";
    finding.charts.push(alone.chart(Shape::Bars, Labels { title, ..labels }));
    let (cdds, tree) = (Brand::Tembo(IndexKind::Cdds).name(), Brand::LoggedTree.name());
    for (size, document) in [(256, "about equal"), (1024, "more"), (4096, "up to +30 %")] {
        let what = format!("{size} B: CDDS to a B-Tree with a log");
        finding.claim(&what, document, percent_more(alone.ratio(cdds, tree, size)));
    }
    for (size, document) in [(256, "slower"), (1024, "about equal"), (4096, "+15 %")] {
        let ratio = served.ratio(SERVER_CDDS.name(), ALWAYS.name(), size);
        let what = format!("{size} B: server with CDDS to Redis with its hash table, always");
        finding.claim(&what, document, percent_more(ratio));
        let ratio = served.ratio(SERVER.name(), ALWAYS.name(), size);
        finding.duel(&format!("inserts of {size} B, six servers"), ALWAYS.name(), ratio);
    }
    let ratio = served.ratio(SERVER_CDDS.name(), ALWAYS.name(), 4096).map_or(0.0, |r| r.median);
    finding.sentence = format!(
        "With 4 KiB values the server over CDDS makes {ratio:.2} times the inserts of Redis with a synced log; the thesis says 1.15."
    );
    finding.note("Redis with its hash table exchanged for a B-Tree does not exist any more: an ordered map with an append-only log, synced by each operation, stands in for it, without a server around either. The log lies on a tmpfs, whose fsync is free.");
    Ok(finding)
}

/// Thousand inserts a second of two clients, each to all of the stores in turn.
fn by_size(
    context: &mut Context<'_>,
    brands: &[Brand],
    stores: usize,
    count: u64,
) -> Result<Sheet, Error> {
    let mut sheet = Sheet::default();
    for value_size in VALUE_SIZES {
        for round in 0..context.rounds() {
            for brand in rotated(brands, round) {
                let name = brand.name();
                context.trial(&format!("{value_size} B, round {}: {name}", round + 1))?;
                let folders = (0..stores).map(|_| context.folder(Medium::Memory));
                let folders = folders.collect::<Result<Vec<_>, _>>()?;
                let mut open = Vec::new();
                for folder in &folders {
                    open.extend(brand.open(context.place(folder.path(), Medium::Memory))?);
                }
                if open.is_empty() {
                    continue;
                }
                let keys = Keys { count: count / CLIENTS, seed: context.seed() };
                let figure = inserts(&open, Tuples { keys, key_size: 24, value_size }, name)?;
                sheet.push(name, value_size, figure);
            }
        }
    }
    Ok(sheet)
}

fn inserts(stores: &[Box<dyn Rival>], tuples: Tuples, name: &'static str) -> Result<f64, Error> {
    let barrier = Barrier::new(CLIENTS as usize + 1);
    let mut all = Vec::new();
    for _ in 0..CLIENTS {
        all.push(stores.iter().map(|store| store.client()).collect::<Result<Vec<_>, _>>()?);
    }
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, mut clients) in all.into_iter().enumerate() {
            let barrier = &barrier;
            // Each client inserts keys of its own.
            let keys = Keys { seed: tuples.keys.seed + 1 + number as u64, ..tuples.keys };
            let (plan, count) = (keys.shuffled(0), clients.len());
            threads.push(scope.spawn(move || {
                barrier.wait();
                // In short bursts, so that no store waits for the end of the others'.
                for (nth, piece) in plan.chunks(16).enumerate() {
                    tuples.run(&mut *clients[nth % count], Verb::Put, piece, name)?;
                }
                Ok(())
            }));
        }
        barrier.wait();
        let start = Instant::now();
        for thread in threads {
            thread.join().unwrap_or(Err(Error::Panicked))?;
        }
        Ok(kops(tuples.keys.count * CLIENTS, start.elapsed()))
    })
}

/// A figure about one workload by client threads.
struct Figure {
    name: &'static str,
    title: &'static str,
    source: &'static str,
    workload: Workload,
    brands: &'static [Brand],
}

const BRANDS: &[Brand] = &[
    SERVER,
    SERVER_CDDS,
    ALWAYS,
    Brand::Redis(RedisLog::EverySecond),
    Brand::Redis(RedisLog::None),
    Brand::Memcached,
];

const NVTREE_BRANDS: &[Brand] =
    &[SERVER, ALWAYS, Brand::Redis(RedisLog::EverySecond), Brand::Tembo(IndexKind::Nvtree)];

/// Client threads: the thesis has up to thirty, the paper 32.
const THREADS: [u64; 5] = [1, 2, 4, 8, 32];

pub(super) fn session(context: &mut Context<'_>) -> Result<Finding, Error> {
    let (name, title, source) = ("thesis-5.6", TITLE_SESSION, "Thesis 5.6, figure 5.6");
    let figure = Figure { name, title, source, workload: Workload::A, brands: BRANDS };
    let (mut finding, _) = figure.run(context)?;
    finding.claim("to durable Cassandra in memory, 30 threads", "+286 %", None);
    finding.note(NO_CASSANDRA);
    Ok(finding)
}

pub(super) fn status(context: &mut Context<'_>) -> Result<Finding, Error> {
    let (name, title, source) = ("thesis-5.7", TITLE_STATUS, "Thesis 5.6, figure 5.7");
    let figure = Figure { name, title, source, workload: Workload::D, brands: BRANDS };
    let (mut finding, _) = figure.run(context)?;
    finding.claim("to durable Cassandra in memory", "+250 %", None);
    finding.note(NO_CASSANDRA);
    Ok(finding)
}

const NO_CASSANDRA: &str = "Thirteen machines with Cassandra are not at hand: one machine stands here, with Redis and memcached, and clients and servers share its two processors.";

pub(super) fn nvstore_status(context: &mut Context<'_>) -> Result<Finding, Error> {
    let (name, title) = ("nvtree-9b", "NV-Store: StatusUpdate by clients");
    let source = "NV-Tree, figure 9b";
    let figure = Figure { name, title, source, workload: Workload::D, brands: NVTREE_BRANDS };
    let (mut finding, sheet) = figure.run(context)?;
    nvstore(&mut finding, &sheet, "up to 4.7×");
    store_prime(context, &mut finding, Workload::D, "up to +9 %")?;
    Ok(finding)
}

pub(super) fn nvstore_session(context: &mut Context<'_>) -> Result<Finding, Error> {
    let (name, title) = ("nvtree-9c", "NV-Store: SessionStore by clients");
    let source = "NV-Tree, figure 9c";
    let figure = Figure { name, title, source, workload: Workload::A, brands: NVTREE_BRANDS };
    let (mut finding, sheet) = figure.run(context)?;
    nvstore(&mut finding, &sheet, "up to 7.3×");
    store_prime(context, &mut finding, Workload::A, "up to +30 %")?;
    Ok(finding)
}

fn nvstore(finding: &mut Finding, sheet: &Sheet, document: &str) {
    let embedded = Brand::Tembo(IndexKind::Nvtree).name();
    for clients in [2, 32] {
        let here = times(sheet.ratio(embedded, ALWAYS.name(), clients));
        finding.claim(
            &format!("embedded store to Redis, always, {clients} clients"),
            document,
            here,
        );
        let here = times(sheet.ratio(SERVER.name(), ALWAYS.name(), clients));
        finding.claim(&format!("server to Redis, always, {clients} clients"), "", here);
    }
    finding.note("NV-Store is a library within the paper's clients, Redis a server over sockets: so much of the paper's factor is the socket. Both comparisons stand here.");
}

impl Figure {
    /// Thousand operations a second, by client threads.
    fn run(&self, context: &mut Context<'_>) -> Result<(Finding, Sheet), Error> {
        let mut finding = Finding::new(self.name, self.title, self.source);
        let keys = Keys { count: context.pick(5_000, 200_000), seed: context.seed() };
        let tuples = Tuples { keys, key_size: 24, value_size: 1000 };
        let operations = context.pick(6_000, 200_000);
        let mut sheet = Sheet::default();
        for round in 0..context.rounds() {
            for brand in rotated(self.brands, round) {
                let name = brand.name();
                context.trial(&format!("round {}: {name}", round + 1))?;
                let folder = context.folder(Medium::Memory)?;
                let place = context.place(folder.path(), Medium::Memory);
                let Some(store) = brand.open(place)? else { continue };
                tuples.run(&mut *store.client()?, Verb::Put, &keys.shuffled(0), name)?;
                for (nth, clients) in THREADS.into_iter().enumerate() {
                    let run = Run {
                        workload: self.workload,
                        tuples,
                        clients,
                        operations: operations / clients,
                        first: (nth as u64) << 40,
                    };
                    if let Some(elapsed) = run.all(&*store, name)? {
                        sheet.push(name, clients, kops(run.operations * clients, elapsed));
                    }
                }
            }
        }
        let labels = Labels { title: "", x: "clients", y: "thousand operations a second" };
        let mut chart = sheet.chart(Shape::Lines, labels);
        chart.title = format!("{}, in memory", self.title);
        finding.charts.push(chart);
        for brand in self.brands.iter().filter(|brand| !matches!(brand, Brand::Tembo(_))) {
            if *brand != SERVER && *brand != SERVER_CDDS {
                let ratio = sheet.ratio(SERVER.name(), brand.name(), 32);
                finding.duel(&format!("{}, 32 clients", self.title), brand.name(), ratio);
            }
        }
        let ratio = sheet.ratio(SERVER.name(), ALWAYS.name(), 32).map_or(0.0, |r| r.median);
        finding.sentence = format!(
            "At 32 clients Tembo's server does {ratio:.2} times what Redis with a synced log does, on a tmpfs where that sync is free."
        );
        Ok((finding, sheet))
    }
}
