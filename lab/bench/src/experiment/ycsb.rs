//! YCSB's core workloads: embedded stores, and servers over a socket.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use tembo_index::IndexKind;

use super::context::{Context, rotated};
use crate::Error;
use crate::finding::{Finding, Shape};
use crate::keys::Keys;
use crate::rival::{Brand, Medium, RedisLog, Rival, TemboServer};
use crate::sheet::{Labels, Sheet};
use crate::tuple::{Tuples, Verb, kops};
use crate::ycsb::{Stream, Workload};

pub(super) const TITLE: &str = "YCSB A–F in memory";
pub(super) const TITLE_DISK: &str = "YCSB A–F on a disk";

/// Ten fields of a hundred bytes.
const VALUE_SIZE: usize = 1000;

const TEMBO: Brand = Brand::Tembo(IndexKind::Nvtree);
const SERVER: Brand = Brand::Server(TemboServer::Durable);

/// Over sockets.
const SERVERS: [Brand; 5] = [
    SERVER,
    Brand::Redis(RedisLog::Always),
    Brand::Redis(RedisLog::EverySecond),
    Brand::Redis(RedisLog::None),
    Brand::Memcached,
];

/// Connections to a server.
const CLIENTS: u64 = 8;

pub(super) fn memory(context: &mut Context<'_>) -> Result<Finding, Error> {
    let size =
        Size { records: context.pick(10_000, 200_000), operations: context.pick(10_000, 200_000) };
    measured(context, "ycsb", TITLE, Medium::Memory, size)
}

pub(super) fn disk(context: &mut Context<'_>) -> Result<Finding, Error> {
    let size = Size { records: context.pick(300, 10_000), operations: context.pick(300, 5_000) };
    measured(context, "ycsb-disk", TITLE_DISK, Medium::Disk, size)
}

#[derive(Clone, Copy)]
struct Size {
    records: u64,
    operations: u64,
}

fn measured(
    context: &mut Context<'_>,
    name: &str,
    title: &str,
    medium: Medium,
    size: Size,
) -> Result<Finding, Error> {
    let mut finding = Finding::new(name, title, "Cooper et al., SoCC 2010; records of 1000 B");
    let place = if medium == Medium::Memory { "in memory" } else { "on disk" };
    for (brands, own, clients, how) in [
        (&Brand::EMBEDDED[..], TEMBO, 1, "embedded"),
        (&SERVERS[..], SERVER, CLIENTS, "over a socket"),
    ] {
        let sheet = sheet(context, medium, size, brands, clients)?;
        for workload in Workload::ALL {
            for brand in brands.iter().filter(|brand| !matches!(brand, Brand::Tembo(_))) {
                if *brand != own {
                    let ratio = sheet.ratio(own.name(), brand.name(), workload.name());
                    finding.duel(
                        &format!("YCSB {}, {how}, {place}", workload.name()),
                        brand.name(),
                        ratio,
                    );
                }
            }
        }
        let labels = Labels { title: "", x: "workload", y: "thousand operations a second" };
        let mut chart = sheet.chart(Shape::LogBars, labels);
        chart.title = format!("{title}, {how}, clients: {clients}");
        finding.charts.push(chart);
    }
    let lost = finding.duels.iter().filter(|duel| duel.ratio.median < 1.0).count();
    finding.sentence = format!("Tembo is slower in {lost} of {} comparisons.", finding.duels.len());
    finding.note("Servers and clients share this machine's processors, so with a socket between them it is mostly the kernel that is measured. memcached, and Redis without a log, promise nothing after a crash.");
    Ok(finding)
}

/// Thousand operations a second.
fn sheet(
    context: &mut Context<'_>,
    medium: Medium,
    size: Size,
    brands: &[Brand],
    clients: u64,
) -> Result<Sheet, Error> {
    let mut sheet = Sheet::default();
    let keys = Keys { count: size.records, seed: context.seed() };
    let tuples = Tuples { keys, key_size: 24, value_size: VALUE_SIZE };
    for round in 0..context.rounds() {
        for brand in rotated(brands, round) {
            let name = brand.name();
            context.trial(&format!("round {}: {name}", round + 1))?;
            let folder = context.folder(medium)?;
            let Some(store) = brand.open(context.place(folder.path(), medium))? else { continue };
            let loaded = keys.shuffled(round.into());
            tuples.run(&mut *store.client()?, Verb::Put, &loaded, name)?;
            for workload in Workload::ALL {
                let run = Run {
                    workload,
                    tuples,
                    clients,
                    operations: size.operations / clients,
                    // D inserts keys that E's insertions must not meet again.
                    first: (workload as u64) << 40,
                };
                if let Some(elapsed) = run.all(&*store, name)? {
                    let operations = run.operations * clients;
                    sheet.push(name, workload.name(), kops(operations, elapsed));
                }
            }
        }
    }
    Ok(sheet)
}

/// A workload by several clients.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) workload: Workload,
    pub(super) tuples: Tuples,
    pub(super) clients: u64,
    /// Of each client.
    pub(super) operations: u64,
    /// Where the numbers of inserted keys begin.
    pub(super) first: u64,
}

impl Run {
    /// The wall time from the start of the first to the end of the last; `None`: the store cannot
    /// scan.
    pub(super) fn all(
        self,
        store: &dyn Rival,
        name: &'static str,
    ) -> Result<Option<Duration>, Error> {
        let clients = (0..self.clients).map(|_| store.client()).collect::<Result<Vec<_>, _>>()?;
        let barrier = Barrier::new(clients.len() + 1);
        thread::scope(|scope| {
            let mut threads = Vec::new();
            for (number, mut client) in clients.into_iter().enumerate() {
                let barrier = &barrier;
                threads.push(scope.spawn(move || {
                    let stream =
                        Stream::new(self.workload, self.tuples.keys, number as u64, self.clients);
                    let mut stream = stream.from(self.first);
                    barrier.wait();
                    self.tuples.ycsb(&mut *client, &mut stream, self.operations, name)
                }));
            }
            barrier.wait();
            let start = Instant::now();
            let mut all = Some(());
            for thread in threads {
                let elapsed = thread.join().unwrap_or(Err(Error::Panicked))?;
                all = all.and(elapsed.map(drop));
            }
            Ok(all.map(|()| start.elapsed()))
        })
    }
}
