//! Optimistic transactions: what a second thread brings, how many are refused, and how many
//! share one `fdatasync`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tembo_kv::{
    DomainRequest, Durability, Error as StoreError, Isolation, Keyspace, Options, Store,
    Transaction,
};

use super::context::Context;
use crate::Error;
use crate::finding::{Finding, Shape, times};
use crate::keys::{Random, Zipf};
use crate::rival::Medium;
use crate::sheet::{Labels, Sheet};

pub(super) const TITLE: &str = "Transactions of one, two and many threads";

/// Keys of a transaction, each read and then put.
const SIZES: [usize; 4] = [1, 4, 16, 64];

/// The skew of YCSB.
const THETA: f64 = 0.99;

const ISOLATIONS: [(Isolation, &str); 2] =
    [(Isolation::Snapshot, "snapshot"), (Isolation::Serialisable, "serialisable")];

/// How the keys of a transaction are drawn.
#[derive(Clone, Copy)]
enum Draw<'z> {
    Uniform,
    Zipfian(&'z Zipf),
}

impl Draw<'_> {
    fn name(self) -> &'static str {
        match self {
            Draw::Uniform => "uniform",
            Draw::Zipfian(_) => "zipfian",
        }
    }
}

/// What is done to a store.
struct Load<'l> {
    store: &'l Store,
    space: Keyspace,
    keys: u64,
    draw: Draw<'l>,
    isolation: Isolation,
    /// Keys of a transaction.
    size: usize,
    durability: Durability,
}

/// What it took.
struct Rate {
    /// Thousand commits a second.
    commits: f64,
    /// Percentage of tried commits that were refused.
    refused: f64,
}

impl Load<'_> {
    /// Runs one thread's part. Returns how often it was refused.
    fn thread(&self, count: u64, seed: u64) -> Result<u64, Error> {
        let (mut random, mut tries) = (Random::new(seed), 0);
        for _ in 0..count {
            let keys: Vec<[u8; 8]> = (0..self.size)
                .map(|_| match self.draw {
                    Draw::Uniform => random.below(self.keys).to_be_bytes(),
                    Draw::Zipfian(zipf) => zipf.rank(&mut random).to_be_bytes(),
                })
                .collect();
            let mut attempt = || {
                self.store.with_retry(self.isolation, self.durability, |tx| {
                    tries += 1;
                    self.change(tx, &keys)
                })
            };
            // Of many hot keys one is changed by the other thread nearly always.
            while let Err(error) = attempt() {
                if !matches!(error, StoreError::Conflict { .. }) {
                    return Err(error.into());
                }
            }
        }
        Ok(tries - count)
    }

    /// Reads and puts each key.
    fn change(&self, tx: &mut Transaction, keys: &[[u8; 8]]) -> Result<(), StoreError> {
        for key in keys {
            let before = tx.get(self.space, key)?.unwrap_or_default();
            let before = before.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
            tx.put(self.space, key, &(before + 1).to_le_bytes())?;
        }
        Ok(())
    }

    /// Runs so many transactions by so many threads.
    fn run(&self, count: u64, threads: u64, seed: u64) -> Result<Rate, Error> {
        let (begin, refused) = (Instant::now(), AtomicU64::new(0));
        let each = count / threads;
        std::thread::scope(|scope| {
            let part = |thread| {
                let more = self.thread(each, seed << 8 | thread)?;
                refused.fetch_add(more, Ordering::Relaxed);
                Ok(())
            };
            let all: Vec<_> =
                (0..threads).map(|thread| scope.spawn(move || part(thread))).collect();
            let joined =
                all.into_iter().map(|thread| thread.join().unwrap_or(Err(Error::Panicked)));
            joined.collect::<Result<(), Error>>()
        })?;
        let (seconds, refused) = (begin.elapsed().as_secs_f64(), refused.into_inner() as f64);
        let commits = (each * threads) as f64;
        Ok(Rate {
            commits: commits / seconds / 1e3,
            refused: refused / (commits + refused) * 100.0,
        })
    }
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("transactions", TITLE, "Tembo's own");
    let (rates, refused) = in_memory(context)?;
    let y = "thousand commits a second";
    let x = "keys of a transaction";
    finding.charts.push(rates.chart(Shape::LogLines, Labels { title: "In memory", x, y }));
    let labels = Labels { title: "Refused by first committer wins, two threads", x, y: "of 100" };
    finding.charts.push(refused.chart(Shape::Lines, labels));
    for draw in ["uniform", "zipfian"] {
        for size in SIZES {
            let ratio =
                rates.ratio(&series("snapshot", draw, 2), &series("snapshot", draw, 1), size);
            let what = format!("two threads against one, {size} keys, {draw}");
            finding.claim(&what, "more than 1", times(ratio));
            let (of, to) = (series("serialisable", draw, 1), series("snapshot", draw, 1));
            let what = format!("serialisable against snapshot isolation, {size} keys, {draw}");
            finding.claim(&what, "less than 1", times(rates.ratio(&of, &to, size)));
        }
    }
    let (shared, rates) = on_disk(context)?;
    let title = "logged, always: commits for one fdatasync";
    let labels = Labels { title, x: "threads", y: "commits" };
    finding.charts.push(shared.chart(Shape::Lines, labels));
    let labels = Labels { title: "logged, always", x: "threads", y };
    finding.charts.push(rates.chart(Shape::Lines, labels));
    finding.sentence = "Optimistic transactions read, write and are validated side by side; their \
                        changes are made one after the other, by the thread that leads the batch."
        .into();
    Ok(finding)
}

fn series(isolation: &str, draw: &str, threads: u64) -> String {
    format!("{isolation}, {draw}, threads: {threads}")
}

fn in_memory(context: &mut Context<'_>) -> Result<(Sheet, Sheet), Error> {
    let (mut rates, mut refused) = (Sheet::default(), Sheet::default());
    let keys = context.pick(20_000, 1_000_000);
    let changes = context.pick(30_000, 1_000_000);
    let zipf = Zipf::new(keys, THETA);
    for round in 0..context.rounds() {
        context.trial(&format!("round {}", round + 1))?;
        let folder = context.folder(Medium::Memory)?;
        let options = Options::new().domain(DomainRequest::Flush);
        let store = Store::create(&folder.path().join("tembo.pool"), &options)?;
        let space = store.keyspace("bench")?;
        for key in 0..keys {
            store.put(space, &key.to_be_bytes(), &[0; 8], Durability::Strict)?;
        }
        for (isolation, name) in ISOLATIONS {
            for draw in [Draw::Uniform, Draw::Zipfian(&zipf)] {
                for size in SIZES {
                    let durability = Durability::Strict;
                    let load =
                        Load { store: &store, space, keys, draw, isolation, size, durability };
                    for threads in [1, 2] {
                        let seed = context.seed() ^ u64::from(round) << 32;
                        let rate = load.run(changes / size as u64, threads, seed)?;
                        rates.push(&series(name, draw.name(), threads), size, rate.commits);
                        if threads > 1 {
                            refused.push(&format!("{name}, {}", draw.name()), size, rate.refused);
                        }
                    }
                }
            }
        }
    }
    Ok((rates, refused))
}

fn on_disk(context: &mut Context<'_>) -> Result<(Sheet, Sheet), Error> {
    let (mut shared, mut rates) = (Sheet::default(), Sheet::default());
    let keys = 100_000;
    for round in 0..context.rounds() {
        for threads in [1, 8, 64] {
            context.trial(&format!("on disk, round {}: {threads} threads", round + 1))?;
            let folder = context.folder(Medium::Disk)?;
            let store = Store::create(&folder.path().join("tembo.pool"), &Options::new())?;
            let space = store.keyspace("bench")?;
            store.sync()?;
            let before = store.report().fdatasyncs;
            let (draw, isolation, durability) =
                (Draw::Uniform, Isolation::Snapshot, Durability::Strict);
            let load = Load { store: &store, space, keys, draw, isolation, size: 4, durability };
            let count = threads * context.pick(64, 512);
            let rate = load.run(count, threads, context.seed() ^ u64::from(round) << 32)?;
            let syncs = store.report().fdatasyncs - before;
            shared.push("Tembo", threads, count as f64 / syncs.max(1) as f64);
            rates.push("Tembo", threads, rate.commits);
        }
    }
    Ok((shared, rates))
}
