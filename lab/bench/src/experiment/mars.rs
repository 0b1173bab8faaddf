//! Coburn's thesis, figures 3.5 to 3.8: multi-part atomic writes, and MARS against ARIES.
//!
//! Figures in modelled time are of the thesis's machine (`tembo-mars`): the same in every run. Beside them stand runs in
//! real time by one thread, on memory that loses PCM's time for each line, where Tembo's own devices take part.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use tembo_array::{Array, DeviceOptions};
use tembo_kv::{Durability, Options, PoolOptions, Store as KvStore};
use tembo_mars::{AriesStore, ArrayStore, Crew, Random, Scheme, Store};

use super::context::{Context, rotated};
use super::mars_host::{LINE_NS, Timed, aries_options, array, array_on_pcm, host, pcm};
use crate::Error;
use crate::finding::{Finding, Shape, percent_more, times};
use crate::rival::Medium;
use crate::sheet::{Labels, Sheet};

pub(super) const TITLE_LATENCY: &str = "Atomic writes of 512 B: latency";
pub(super) const TITLE_BANDWIDTH: &str = "Atomic writes: effective bandwidth by size";
pub(super) const TITLE_INSIDE: &str = "Atomic writes: bandwidth inside the array";
pub(super) const TITLE_ARIES: &str = "MARS against ARIES";

/// Bytes of data that updates go to.
const DATA: u64 = 16 << 20;

/// Threads of the sweeps over sizes: as many as the thesis has at most.
const THREADS: u32 = 16;

const KNOWN: &str = "the host knows of the commit (C)";
const WRITTEN: &str = "all is in place (WB)";

const MODEL: &str = "Modelled time: the link, the controllers and PCM have the thesis's figures, and a write of 4 KB takes its 7 µs; how these divide into driver, DMA set-up and completion is a guess. A thread has one request at a time.";

fn size_name(size: u64) -> String {
    if size < 1024 { format!("{size} B") } else { format!("{} KiB", size >> 10) }
}

pub(super) fn latency(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("mars-3.5", TITLE_LATENCY, "Coburn, figure 3.5");
    let mut sheet = Sheet::default();
    for scheme in Scheme::ALL {
        context.trial(scheme.name())?;
        let mut store = array(scheme, DATA, (512, 1))?;
        store.update(vec![(0, vec![7; 512])])?;
        let last = store.last();
        sheet.push(KNOWN, scheme.name(), last.committed_ns as f64 / 1e3);
        sheet.push(WRITTEN, scheme.name(), last.written_back_ns as f64 / 1e3);
    }
    let [soft, log, atomic, _] = Scheme::ALL.map(Scheme::name);
    let known = sheet.ratio_between((KNOWN, log), (WRITTEN, soft));
    finding.claim("LogWrite+Commit to SoftAtomic", "−41.4 %", percent_more(known));
    let known = sheet.ratio_between((KNOWN, atomic), (KNOWN, log));
    finding.claim("AtomicWrite to LogWrite+Commit", "−41.8 %", percent_more(known));
    let total = sheet.ratio_between((WRITTEN, soft), (KNOWN, atomic));
    finding.claim("SoftAtomic to AtomicWrite", "2.9×", times(total));
    finding.sentence = "One transfer in place of three, and one request in place of three: nearly all of the latency is the way to the array and back.".into();
    finding.note(MODEL);
    let labels = Labels { title: "One update of 512 B", x: "", y: "µs, modelled" };
    finding.charts.push(sheet.chart(Shape::Bars, labels));
    Ok(finding)
}

/// What a sweep over the sizes finds, in MB a second.
struct Sweep {
    effective: Sheet,
    inside: Sheet,
    /// Bytes over the link for a byte of data.
    link: Sheet,
    sizes: Vec<u64>,
}

fn sweep(context: &mut Context<'_>) -> Result<Sweep, Error> {
    let sizes: Vec<u64> = (9..=19).map(|bits| 1 << bits).collect();
    let (mut effective, mut inside, mut link) =
        (Sheet::default(), Sheet::default(), Sheet::default());
    let bytes: u64 = context.pick(8 << 20, 128 << 20);
    for &size in &sizes {
        for scheme in Scheme::ALL {
            context.trial(&format!("{}, {}", size_name(size), scheme.name()))?;
            let mut store = array(scheme, DATA, (size, 1))?;
            let mut random = Random::new(context.seed());
            let count = (bytes / size).clamp(64, 4_000);
            let rate =
                Crew::new(THREADS).run(count, &mut store, ArrayStore::host, |store, _| {
                    let at = random.below(DATA / size) * size;
                    store.update(vec![(at, vec![7; size as usize])]).map_err(Error::from)
                })?;
            let (traffic, at) = (store.host().traffic(), size_name(size));
            let moved = (count * size) as f64;
            effective.push(scheme.name(), &at, rate * size as f64 / 1e6);
            let share = traffic.inside as f64 / moved;
            inside.push(scheme.name(), &at, share * rate * size as f64 / 1e6);
            link.push(scheme.name(), &at, traffic.to_array as f64 / moved);
        }
    }
    Ok(Sweep { effective, inside, link, sizes })
}

pub(super) fn bandwidth(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("mars-3.6", TITLE_BANDWIDTH, "Coburn, figure 3.6");
    let Sweep { effective, sizes, .. } = sweep(context)?;
    let [soft, _, atomic, write] = Scheme::ALL.map(Scheme::name);
    for (size, document) in [(512, "up to 3.8×"), (4096, "2 to 3.8×"), (512 << 10, "2×")] {
        let what = format!("AtomicWrite to SoftAtomic, {}", size_name(size));
        finding.claim(&what, document, times(effective.ratio(atomic, soft, size_name(size))));
    }
    for &size in sizes.iter().filter(|size| **size < 4096) {
        let what = format!("AtomicWrite to a write, {}", size_name(size));
        let ratio = effective.ratio(atomic, write, size_name(size));
        finding.claim(&what, "about equal (−8 %)", percent_more(ratio));
    }
    let labels = Labels { title: "16 threads, modelled", x: "size", y: "MB/s of data" };
    finding.charts.push(effective.chart(Shape::LogLines, labels));
    let real = in_real_time(context)?;
    for size in [512, 4096, 64 << 10] {
        let ratio = real.ratio(TEMBO, atomic, size_name(size));
        let what = format!("Tembo's devices to the machine in software, {}", size_name(size));
        finding.claim(&what, "–", times(ratio));
    }
    let labels = Labels { title: "One thread in real time, emulated PCM", x: "size", y: "MB/s" };
    finding.charts.push(real.chart(Shape::LogLines, labels));
    finding.sentence = "Small updates save requests, large ones the second way of the data over the link: from three times to twice the bandwidth of SoftAtomic.".into();
    finding.note(MODEL);
    finding.note(&format!("In real time all parts of the machine run in the caller's thread, one behind the other, on a tmpfs that loses {LINE_NS} ns for each line flushed. Blocks of Tembo's device have 4 KiB, and its smaller updates read and write a whole one."));
    Ok(finding)
}

const TEMBO: &str = "Tembo's device";

/// MB a second of updates by one thread.
fn in_real_time(context: &mut Context<'_>) -> Result<Sheet, Error> {
    let mut sheet = Sheet::default();
    let bytes: u64 = context.pick(512 << 10, 32 << 20);
    let contenders =
        [None, Some(Scheme::AtomicWrite), Some(Scheme::SoftAtomic), Some(Scheme::Unsafe)];
    for round in 0..context.rounds() {
        for size in [512, 4096, 64 << 10, 512 << 10] {
            for contender in rotated(&contenders, round) {
                let name = contender.map_or(TEMBO, Scheme::name);
                context.trial(&format!("round {}: {}, {name}", round + 1, size_name(size)))?;
                let folder = context.folder(Medium::Memory)?;
                let path = folder.path().join("array");
                let (mut random, count) = (Random::new(context.seed()), (bytes / size).max(4));
                let data = vec![7; size as usize];
                let elapsed = if let Some(scheme) = contender {
                    let mut store = array_on_pcm(&path, scheme, DATA, (size, 1))?;
                    let begin = Instant::now();
                    for _ in 0..count {
                        store.update(vec![(random.below(DATA / size) * size, data.clone())])?;
                    }
                    begin.elapsed()
                } else {
                    let pool = PoolOptions { region: pcm(1 << 30), ..PoolOptions::default() };
                    let store = KvStore::create(&path, &Options::new().pool(pool))?;
                    let array = Array::open(&store)?;
                    let options = DeviceOptions { len: DATA, ..DeviceOptions::default() };
                    let device = array.create("device", options)?;
                    let begin = Instant::now();
                    for _ in 0..count {
                        let at = random.below(DATA / size) * size;
                        array.write(&device, at, &data, Durability::Strict)?;
                    }
                    begin.elapsed()
                };
                let moved = (count * size) as f64;
                sheet.push(name, size_name(size), moved / elapsed.as_secs_f64() / 1e6);
            }
        }
    }
    Ok(sheet)
}

pub(super) fn inside(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("mars-3.7", TITLE_INSIDE, "Coburn, figure 3.7");
    let Sweep { inside, link, sizes, .. } = sweep(context)?;
    let [soft, _, atomic, _] = Scheme::ALL.map(Scheme::name);
    let most = sizes.iter().filter_map(|size| inside.spread(atomic, size_name(*size)));
    let most = most.map(|spread| spread.best).fold(0.0, f64::max);
    finding.claim("most inside, AtomicWrite", "5 GB/s", Some(format!("{:.1} GB/s", most / 1e3)));
    let share = link.spread(soft, size_name(512 << 10)).map(|spread| 1.0 - 1.0 / spread.median);
    let here = share.map(|share| format!("{:.0} % of the link's bytes", share * 100.0));
    finding.claim("SoftAtomic's log and records, 512 KiB, share", "50 % of the link's bytes", here);
    let labels = Labels { title: "16 threads, modelled", x: "size", y: "MB/s inside" };
    finding.charts.push(inside.chart(Shape::LogLines, labels));
    let labels = Labels { title: "Over the link", x: "size", y: "bytes for a byte of data" };
    finding.charts.push(link.chart(Shape::Lines, labels));
    finding.sentence =
        "The array writes the log, reads it and writes the data; the link carries the data once."
            .into();
    finding.note(MODEL);
    Ok(finding)
}

/// Objects that were read or written last: as many as ARIES keeps.
struct Cache {
    objects: BTreeMap<u64, Vec<u8>>,
    order: VecDeque<u64>,
    max: usize,
}

impl Cache {
    fn put(&mut self, number: u64, object: Vec<u8>) {
        if self.objects.insert(number, object).is_none() {
            self.order.push_back(number);
        }
        while self.order.len() > self.max {
            let oldest = self.order.pop_front();
            oldest.and_then(|oldest| self.objects.remove(&oldest));
        }
    }
}

/// A table of objects, two of which a transaction swaps.
struct Table {
    size: u64,
    objects: u64,
    cache: Cache,
    random: Random,
}

impl Table {
    /// Each object filled with its number.
    fn filled<S: Timed>(
        store: &mut S,
        (size, objects): (u64, u64),
        seed: u64,
    ) -> Result<Table, Error> {
        for number in 0..objects {
            store.update(vec![(number * size, number.to_le_bytes().repeat(size as usize / 8))])?;
        }
        let max = (objects as usize / 4).max(16);
        let cache = Cache { objects: BTreeMap::new(), order: VecDeque::new(), max };
        Ok(Table { size, objects, cache, random: Random::new(seed) })
    }

    fn read<S: Timed>(&mut self, store: &mut S, number: u64) -> Result<Vec<u8>, Error> {
        if let Some(object) = self.cache.objects.get(&number) {
            return Ok(object.clone());
        }
        let mut object = vec![0; self.size as usize];
        store.read(number * self.size, &mut object)?;
        Ok(object)
    }

    /// With `caches` the program keeps objects itself; ARIES has its pool.
    fn swap<S: Timed>(&mut self, store: &mut S, caches: bool) -> Result<(), Error> {
        let one = self.random.below(self.objects);
        let other = (one + 1 + self.random.below(self.objects - 1)) % self.objects;
        let locks = [one.min(other), one.max(other)];
        locks.iter().for_each(|lock| store.lock(*lock));
        let (first, second) = (self.read(store, one)?, self.read(store, other)?);
        if caches {
            self.cache.put(one, second.clone());
            self.cache.put(other, first.clone());
        }
        store.update(vec![(one * self.size, second), (other * self.size, first)])?;
        locks.iter().for_each(|lock| store.unlock(*lock));
        Ok(())
    }

    /// Whether each object is there once, and whole.
    fn check<S: Timed>(&self, store: &mut S, contender: &'static str) -> Result<(), Error> {
        let (mut seen, mut object) =
            (vec![false; self.objects as usize], vec![0; self.size as usize]);
        for number in 0..self.objects {
            store.read(number * self.size, &mut object)?;
            let (words, _) = object.as_chunks::<8>();
            let found = u64::from_le_bytes(words[0]);
            if words.iter().all(|word| *word == words[0])
                && let Some(seen) = seen.get_mut(found as usize)
            {
                *seen = true;
            }
        }
        let found = seen.iter().filter(|seen| **seen).count() as u64;
        let expected = self.objects;
        let operation = "swap";
        match found == expected {
            true => Ok(()),
            false => Err(Error::Wrong { contender, operation, expected, found }),
        }
    }
}

const MARS: &str = "MARS";
const ARIES: &str = "ARIES";

/// Thousand swaps a second by so many threads.
fn swaps<S: Timed>(
    store: &mut S,
    sizes: (u64, u64),
    (count, threads, seed): (u64, u32, u64),
    name: &'static str,
) -> Result<f64, Error> {
    let mut table = Table::filled(store, sizes, seed)?;
    let begin = store.host().now_ns();
    let mut crew = Crew::at(threads, begin);
    // A fourth to fill what is kept in memory.
    let swap = |store: &mut S, table: &mut Table| table.swap(store, name == MARS);
    crew.run(count / 4, store, S::host, |store, _| swap(store, &mut table))?;
    let rate = crew.run(count, store, S::host, |store, _| swap(store, &mut table))?;
    table.check(store, name)?;
    Ok(rate / 1e3)
}

pub(super) fn against_aries(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("mars-3.8", TITLE_ARIES, "Coburn, figure 3.8");
    let (objects, count) = (context.pick(128, 1024), context.pick(400, 8_000));
    let mut sheet = Sheet::default();
    let all = [4_u64 << 10, 16 << 10, 64 << 10];
    for size in all {
        for threads in [1, 2, 4, 8, 16] {
            let at = size_name(size);
            context.trial(&format!("{at}, {threads} threads"))?;
            let load = (count, threads, context.seed());
            let mut store = array(Scheme::AtomicWrite, objects * size, (2 * size, 2))?;
            let rate = swaps(&mut store, (size, objects), load, MARS)?;
            sheet.push(&format!("{MARS}, {at}"), threads, rate);
            let options = aries_options(size, objects);
            let mut store = AriesStore::open(host(options.size())?, options)?;
            let rate = swaps(&mut store, (size, objects), load, ARIES)?;
            sheet.push(&format!("{ARIES}, {at}"), threads, rate);
        }
    }
    for (size, document) in all.into_iter().zip(["up to 3.7×", "up to 3.1×", "up to 3×"]) {
        let at = size_name(size);
        let (mars, aries) = (format!("{MARS}, {at}"), format!("{ARIES}, {at}"));
        for threads in [1, 16] {
            let what = format!("MARS to ARIES, {at}, {threads} threads");
            finding.claim(&what, document, times(sheet.ratio(&mars, &aries, threads)));
        }
    }
    let at = size_name(all[0]);
    for (name, document) in [(MARS, "+60 %"), (ARIES, "−0.5 %")] {
        let series = format!("{name}, {at}");
        let ratio = sheet.ratio_between((&series, "8"), (&series, "4"));
        let what = format!("{name}: 8 threads to 4, {at}");
        finding.claim(&what, document, percent_more(ratio));
    }
    let labels = Labels {
        title: "Swaps of two objects, modelled",
        x: "threads",
        y: "thousand swaps a second",
    };
    finding.charts.push(sheet.chart(Shape::LogLines, labels));
    finding.sentence = "ARIES writes undo and redo to the log and the pages later; MARS writes each object once over the link.".into();
    finding.note(MODEL);
    finding.note("ARIES here: physical undo and redo, steal, no force, fuzzy checkpoints by a thread of its own, group commit; the thesis does not say whether its baseline has that. Both keep a quarter of the objects in memory. Where they lie in memory costs nothing in the model.");
    Ok(finding)
}
