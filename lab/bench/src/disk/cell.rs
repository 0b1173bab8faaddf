//! The process that measures one contender in one cell. It has a memory group to itself.

use std::io::Write;
use std::time::{Duration, Instant};

use super::contender;
use super::group::Group;
use super::server;
use super::spec::{Event, Figure, Part, Phase, Spec};
use super::traffic::{Traffic, folder_bytes, resident_bytes};
use super::worker::{BATCH, Worker};
use crate::Error;
use crate::distribution::Distribution;
use crate::rival::{Medium, Place, Rival, Share};
use crate::ycsb::Workload;

/// After the churn nothing is asked for so long: stores tidy up then.
const REST: Duration = Duration::from_secs(5);

/// Reads after an opening.
const FIRST_GETS: u64 = 100;

/// Measures what `spec`, a JSON object, says, and writes events to `out`, a line each.
///
/// # Errors
/// If they cannot be written. What else goes wrong is an event.
pub fn disk_cell(spec: &str, tembo: &std::path::Path, out: &mut dyn Write) -> std::io::Result<()> {
    let mut events = Events { out };
    let spec: Spec = match serde_json::from_str(spec) {
        Ok(spec) => spec,
        Err(error) => return events.write(&Event::Failed(error.to_string())),
    };
    match measured(&spec, tembo, &mut events) {
        Ok(()) => Ok(()),
        Err(error) => events.write(&Event::Failed(error.reason())),
    }
}

struct Events<'o> {
    out: &'o mut dyn Write,
}

impl Events<'_> {
    fn write(&mut self, event: &Event) -> std::io::Result<()> {
        writeln!(self.out, "{}", serde_json::to_string(event)?)?;
        self.out.flush()
    }

    /// The parent has gone if this fails, and nothing is worth doing then.
    fn report(&mut self, event: Event) -> Result<(), Error> {
        self.write(&event).map_err(|_| Error::Stopped)
    }

    fn phase(&mut self, phase: Phase) -> Result<(), Error> {
        self.report(Event::Phase(phase))
    }

    fn figure(&mut self, name: &str, unit: &str, value: f64) -> Result<(), Error> {
        self.report(Event::Figure(Figure { name: name.into(), unit: unit.into(), value }))
    }

    fn begin(&mut self, what: &str) -> Result<(), Error> {
        self.report(Event::Begun(what.into()))
    }
}

fn measured(spec: &Spec, tembo: &std::path::Path, events: &mut Events<'_>) -> Result<(), Error> {
    let Some(brand) = contender::named(&spec.contender) else {
        return Err(Error::Absent("this contender"));
    };
    let share = Share { memory: spec.memory, value_size: spec.value_size };
    let place = Place { folder: &spec.folder, medium: Medium::Disk, tembo, share: Some(share) };
    let before = Instant::now();
    let Some(store) = brand.open(place)? else { return events.report(Event::Absent) };
    let open_ms = before.elapsed().as_secs_f64() * 1e3;
    events.report(Event::Settings(store.settings()))?;
    if spec.part == Part::Server {
        return served(spec, &*store, events);
    }
    let mut client = store.client()?;
    let mut worker = Worker::new(&mut *client, brand.name(), spec);
    let left = match (spec.part, spec.is_reopened) {
        (Part::Restart, true) => return reopened(&mut worker, open_ms, events),
        (Part::Restart, false) => return to_be_killed(spec, &mut worker, events),
        (Part::Churn, _) => churned(spec, &mut worker, events)?,
        (Part::Ycsb, _) => ycsb(spec, &mut worker, events)?,
        (Part::Table | Part::Server, _) => table(spec, &mut worker, events)?,
    };
    drop(worker);
    drop(client);
    space(spec, (store, left), events)
}

/// Puts all records; what a load that was cut leaves is filled in.
fn load(spec: &Spec, worker: &mut Worker<'_>, events: &mut Events<'_>) -> Result<bool, Error> {
    events.begin(Phase::LOAD)?;
    events.phase(worker.load(spec.load_seconds)?)?;
    if !worker.is_full() {
        events.begin(Phase::FILL)?;
        events.phase(worker.fill(Spec::FILL * spec.load_seconds)?)?;
    }
    if let Some(group) = &spec.group {
        Group::at(group).drop_pages();
    }
    Ok(worker.is_full())
}

/// Bytes of keys and values that are left, where that is known.
type Left = Option<u64>;

fn payload(spec: &Spec) -> u64 {
    spec.records * (super::dataset::KEY_SIZE + spec.value_size) as u64
}

fn table(spec: &Spec, worker: &mut Worker<'_>, events: &mut Events<'_>) -> Result<Left, Error> {
    let is_full = load(spec, worker, events)?;
    for (distribution, name) in
        [(Distribution::Uniform, "uniform"), (Distribution::Zipfian, "zipfian")]
    {
        let name = format!("get, {name}");
        events.begin(&name)?;
        events.phase(worker.get(&name, distribution)?)?;
    }
    for together in [BATCH, 1] {
        for (distribution, name) in
            [(Distribution::Uniform, "uniform"), (Distribution::Zipfian, "zipfian")]
        {
            let name = format!("overwrite, {together} a commit, {name}");
            events.begin(&name)?;
            events.phase(worker.overwrite(&name, distribution, together)?)?;
        }
    }
    events.begin("scan")?;
    events.phase(worker.scan()?)?;
    Ok(is_full.then(|| payload(spec)))
}

fn ycsb(spec: &Spec, worker: &mut Worker<'_>, events: &mut Events<'_>) -> Result<Left, Error> {
    if !load(spec, worker, events)? {
        return Err(Error::Absent("time to load all records"));
    }
    // The order that YCSB recommends: D and E insert.
    for workload in [Workload::A, Workload::B, Workload::C, Workload::F, Workload::D, Workload::E] {
        events.begin(workload.name())?;
        events.phase(worker.ycsb(workload)?)?;
    }
    Ok(None)
}

fn churned(spec: &Spec, worker: &mut Worker<'_>, events: &mut Events<'_>) -> Result<Left, Error> {
    if !load(spec, worker, events)? {
        return Err(Error::Absent("time to load all records"));
    }
    events.begin("churn")?;
    let (phase, left) = worker.churn(4.0 * spec.load_seconds)?;
    events.phase(phase)?;
    let bytes = folder_bytes(&spec.folder) as f64 / left.max(1) as f64;
    events.figure("files to what is left, at once", "×", bytes)?;
    std::thread::sleep(REST);
    Ok(Some(left))
}

/// Loads, fills the log, and goes on until the process is killed.
fn to_be_killed(
    spec: &Spec,
    worker: &mut Worker<'_>,
    events: &mut Events<'_>,
) -> Result<(), Error> {
    if !load(spec, worker, events)? {
        return Err(Error::Absent("time to load all records"));
    }
    events.begin("overwrite until killed")?;
    events.phase(worker.overwrite("overwrite before the kill", Distribution::Uniform, BATCH)?)?;
    events.report(Event::Ready)?;
    loop {
        worker.overwrite("overwrite", Distribution::Uniform, BATCH)?;
    }
}

fn reopened(worker: &mut Worker<'_>, open_ms: f64, events: &mut Events<'_>) -> Result<(), Error> {
    events.figure("open", "ms", open_ms)?;
    let first = worker.first_gets("the first get", 1)?;
    events.figure("the first get", "ms", first.latency.max_ns as f64 / 1e6)?;
    let next = worker.first_gets("100 gets", FIRST_GETS)?;
    events.figure("100 gets, together", "ms", next.seconds * 1e3)?;
    events.figure("100 gets, the worst", "ms", next.latency.max_ns as f64 / 1e6)?;
    events.figure("RSS", "MiB", resident_bytes() as f64 / f64::from(1 << 20))?;
    let read = Traffic::of_process(std::process::id()).unwrap_or_default().read;
    events.figure("read from the disk", "MiB", read as f64 / f64::from(1 << 20))
}

fn served(spec: &Spec, store: &dyn Rival, events: &mut Events<'_>) -> Result<(), Error> {
    for load in server::loads(spec.value_size, spec.records) {
        events.begin(&load.name())?;
        for figure in server::run(&load, store)? {
            events.report(Event::Figure(figure))?;
        }
    }
    Ok(())
}

/// The space of a closed store, and all bytes that were written for it.
fn space(
    spec: &Spec,
    (store, left): (Box<dyn Rival>, Left),
    events: &mut Events<'_>,
) -> Result<(), Error> {
    events.figure("RSS", "MiB", resident_bytes() as f64 / f64::from(1 << 20))?;
    let before = Instant::now();
    drop(store);
    events.figure("close", "ms", before.elapsed().as_secs_f64() * 1e3)?;
    if let Some(left) = left {
        let bytes = folder_bytes(&spec.folder) as f64 / left.max(1) as f64;
        events.figure("files to what is left, closed", "×", bytes)?;
    }
    let written = Traffic::of_process(std::process::id()).unwrap_or_default().written;
    events.figure("written in all, the close included", "MiB", written as f64 / f64::from(1 << 20))
}
