//! Crashes of the machine: between the steps of its parts in any order, and in the middle of each step; also of its
//! recovery. By our rule of recovery every transaction is there whole or not at all; by the thesis's it is not.
//!
//! Two controllers never are in the middle of a step both: a step of one lies before or behind that of the other. They
//! share no storage, so what a crash leaves of each is looked at; two halves together are not.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use tembo_mars::{
    Error, Geometry, Machine, Notice, Owner, RecoveryRule, Request, State, Step, Write,
};
use tembo_pmem::{Region, RegionOptions};
use tembo_sim::{Broken, Random, Recorder};

use crate::recorded::{Judge, Recorded, Recording, digest, region};

const RULES: [RecoveryRule; 3] =
    [RecoveryRule::AllLoggers, RecoveryRule::AllHolding, RecoveryRule::Participants];

fn geometry(controllers: usize) -> Geometry {
    Geometry { controllers, stripe: 64, stripes: 8, entries: 12 }
}

/// Bytes before the log: the first half of the file space.
fn data_size(geometry: Geometry) -> usize {
    geometry.size() as usize / 2
}

fn owner(tid: u8) -> Owner {
    Owner { channel: 0, tid }
}

/// A write of `len` bytes that all have one value, logged in a row of the second half.
fn write(geometry: Geometry, target: u64, len: usize, value: u8, row: u64) -> Write {
    let from = data_size(geometry) as u64 + row * geometry.row();
    Write { target, log: geometry.colocated(target, from), data: vec![value; len] }
}

fn data_of(machine: &Machine) -> Vec<u8> {
    let mut data = vec![0; data_size(machine.geometry())];
    machine.read(0, &mut data).unwrap();
    data
}

/// What the requests of a script are to do: the writes of each transaction, in the order of the commits.
#[derive(Default)]
struct Model {
    pending: HashMap<u8, Vec<Write>>,
    commits: Vec<Vec<Write>>,
}

impl Model {
    fn request(&mut self, request: &Request) {
        match request {
            Request::LogWrite(owner, write) => {
                self.pending.entry(owner.tid).or_default().push(write.clone());
            }
            Request::AtomicWrite(owner, write) => {
                self.pending.entry(owner.tid).or_default().push(write.clone());
                self.commits.extend(self.pending.remove(&owner.tid));
            }
            Request::Commit(owner) => self.commits.extend(self.pending.remove(&owner.tid)),
            Request::Abort(owner) => drop(self.pending.remove(&owner.tid)),
            Request::AbortTo(owner, log) => {
                let writes = self.pending.entry(owner.tid).or_default();
                let at = writes.iter().position(|write| write.log == *log).unwrap();
                writes.truncate(at);
            }
            // Scripts edit what is logged, and whole writes only.
            Request::Write { target, data } => {
                let writes = self.pending.values_mut().flatten();
                writes.filter(|write| write.log == *target).for_each(|write| {
                    assert_eq!(write.data.len(), data.len());
                    write.data.clone_from(data);
                });
            }
        }
    }

    /// Digests of the data by those commits and any of the others.
    fn acceptable(&self, size: usize, known: &BTreeSet<usize>) -> BTreeSet<u64> {
        let sets = (0..1_usize << self.commits.len())
            .filter(|set| known.iter().all(|commit| set >> commit & 1 == 1));
        sets.map(|set| {
            let mut data = vec![0; size];
            let chosen = self.commits.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1);
            for write in chosen.flat_map(|(_, writes)| writes) {
                let from = write.target as usize;
                data[from..from + write.data.len()].copy_from_slice(&write.data);
            }
            digest(&data)
        })
        .collect()
    }
}

/// A run that was written down.
struct Run {
    geometry: Geometry,
    recorded: Recorded,
    /// What was on media behind each step.
    images: BTreeMap<u64, Vec<u8>>,
}

/// A machine that runs a script, one step at a time.
struct Driver {
    machine: Machine,
    script: VecDeque<Request>,
    model: Model,
    /// Commits that the host has learned of.
    known: BTreeSet<usize>,
}

impl Driver {
    fn new(machine: Machine, script: &[Request]) -> Driver {
        let script = script.iter().cloned().collect();
        Driver { machine, script, model: Model::default(), known: BTreeSet::new() }
    }

    /// Whether the host can issue its next request.
    fn is_host_ready(&self) -> bool {
        match self.script.front() {
            None => false,
            Some(Request::Write { .. }) => true,
            Some(
                Request::LogWrite(owner, _)
                | Request::AtomicWrite(owner, _)
                | Request::Commit(owner)
                | Request::Abort(owner)
                | Request::AbortTo(owner, _),
            ) => matches!(self.machine.state(*owner), State::Free | State::Pending),
        }
    }

    /// A step of the host or of the machine, by chance; false: the script is over and the machine at rest.
    fn step(&mut self, random: &mut Random) -> bool {
        let (steps, host) = (self.machine.steps(), usize::from(self.is_host_ready()));
        if steps.len() + host == 0 {
            assert!(self.script.is_empty(), "the machine has stopped before {:?}", self.script);
            return false;
        }
        match steps.get(random.below(steps.len() + host)) {
            Some(step) => self.machine.step(*step).unwrap(),
            None => {
                let request = self.script.pop_front().unwrap();
                self.model.request(&request);
                self.machine.request(request).unwrap();
            }
        }
        while let Some(notice) = self.machine.notice() {
            if let Notice::Committed { sequence, .. } = notice {
                self.known.insert(sequence as usize - 1);
            }
        }
        true
    }

    fn acceptable(&self) -> BTreeSet<u64> {
        self.model.acceptable(data_size(self.machine.geometry()), &self.known)
    }
}

impl Run {
    fn of(geometry: Geometry, script: &[Request], seed: u64, rule: RecoveryRule) -> Run {
        let (recorder, image) = (Recorder::new(), vec![0; geometry.region_size() as usize]);
        let (machine, _) =
            Machine::open(&region(&image, recorder.clone()), geometry, rule).unwrap();
        let mut recording = Recording::new(recorder, image);
        let (mut driver, mut images) = (Driver::new(machine, script), BTreeMap::new());
        let (mut random, mut before) = (Random::new(seed), driver.acceptable());
        while driver.step(&mut random) {
            // A commit that was asked for in this step may be there.
            let mut during = driver.acceptable();
            let after = during.clone();
            during.append(&mut before);
            before.clone_from(&after);
            recording.end((during, after));
            let bytes = recording.recorder.newest(&recording.image);
            images.insert(digest(&bytes), bytes);
        }
        assert_eq!(driver.known.len(), driver.model.commits.len());
        assert_eq!(before, BTreeSet::from([digest(&data_of(&driver.machine))]));
        Run { geometry, recorded: recording.finish(judge(geometry, rule)), images }
    }

    fn explore(&self) -> Result<u64, String> {
        self.recorded.explore(None)
    }
}

/// The recovery of an image by our rule, written down.
fn recovery(geometry: Geometry, image: &[u8]) -> Recorded {
    let (recorder, rule) = (Recorder::new(), RecoveryRule::Participants);
    let region = region(image, recorder.clone());
    let mut recording = Recording::new(recorder, image.to_vec());
    let (machine, _) = Machine::open(&region, geometry, rule).unwrap();
    let shown = BTreeSet::from([digest(&data_of(&machine))]);
    recording.end((shown.clone(), shown));
    recording.finish(judge(geometry, rule))
}

/// Recovered it shows something, another recovery finds nothing to do, and it goes on.
fn judge(geometry: Geometry, rule: RecoveryRule) -> Judge {
    Box::new(move |image, reader| {
        let text = |error: Error| format!("{error:?}");
        let region = region(image, reader.clone());
        let (machine, _) = Machine::open(&region, geometry, rule).map_err(text)?;
        let shown = data_of(&machine);
        let (mut machine, again) = Machine::open(&region, geometry, rule).map_err(text)?;
        if (again.replayed, again.aborted) != (0, 0) || data_of(&machine) != shown {
            return Err(format!("a second recovery finds {again:?}"));
        }
        let (target, len) = (16, 2 * geometry.stripe as usize);
        let write = write(geometry, target, len, 0xee, 0);
        machine.request(Request::AtomicWrite(owner(5), write)).map_err(text)?;
        machine.settle().map_err(text)?;
        let mut expected = shown.clone();
        expected[16..16 + len].fill(0xee);
        if data_of(&machine) != expected {
            return Err("a transaction after the recovery differs".into());
        }
        Ok(digest(&shown))
    })
}

/// Transactions over all controllers and on one; overlapping ones; a savepoint out of the order of the offsets, an edited
/// log, an abort, a number that is used again.
fn scripts(geometry: Geometry) -> Vec<Vec<Request>> {
    let row = geometry.row() as usize;
    let write = |target, len, value, row| write(geometry, target, len, value, row);
    let across = vec![
        Request::AtomicWrite(owner(0), write(0, row, 1, 0)),
        Request::AtomicWrite(owner(1), write(32, row, 2, 1)),
    ];
    let overlapping = vec![
        Request::LogWrite(owner(0), write(8, 48, 1, 0)),
        Request::LogWrite(owner(1), write(0, 64, 2, 1)),
        Request::LogWrite(owner(0), write(row as u64 - 8, 40, 3, 2)),
        Request::Commit(owner(0)),
        Request::Commit(owner(1)),
        Request::AtomicWrite(owner(2), write(40, 16, 4, 3)),
    ];
    let edited = write(0, row, 7, 1);
    let edit = Request::Write { target: edited.log, data: vec![8; row] };
    let savepoint = write(40, 64, 2, 0);
    let rolled = vec![
        Request::LogWrite(owner(3), write(0, 24, 1, 2)),
        Request::LogWrite(owner(3), savepoint.clone()),
        Request::LogWrite(owner(3), write(8, 8, 3, 3)),
        Request::AbortTo(owner(3), savepoint.log),
        Request::LogWrite(owner(3), edited),
        Request::LogWrite(owner(4), write(0, 64, 9, 0)),
        edit,
        Request::Commit(owner(3)),
        Request::Abort(owner(4)),
        Request::AtomicWrite(owner(3), write(24, 8, 5, 3)),
    ];
    vec![across, overlapping, rolled]
}

/// Some orders of the steps of each script.
fn runs(controllers: usize, orders: u64, rule: RecoveryRule) -> Vec<Run> {
    let geometry = geometry(controllers);
    let scripts = scripts(geometry);
    let all = scripts.iter().flat_map(|script| (0..orders).map(move |seed| (script, seed)));
    all.map(|(script, seed)| Run::of(geometry, script, seed, rule)).collect()
}

#[test]
fn by_our_rule_a_crash_at_any_step_leaves_whole_transactions() {
    for controllers in [1, 2, 3, 8] {
        let mut images = 0;
        for (number, run) in runs(controllers, 6, RecoveryRule::Participants).iter().enumerate() {
            let explored = run.explore();
            images += explored.unwrap_or_else(|what| panic!("{controllers}, {number}: {what}"));
        }
        assert!(images > 500, "{images}");
    }
}

#[test]
fn by_either_reading_of_the_thesis_the_same_crashes_tear_transactions() {
    for rule in [RecoveryRule::AllLoggers, RecoveryRule::AllHolding] {
        let torn = runs(2, 6, rule).iter().filter(|run| run.explore().is_err()).count();
        assert!(torn > 3, "{rule:?}: {torn}");
    }
}

#[test]
fn a_recovery_that_a_crash_ends_is_done_again() {
    let mut images = 0;
    for run in runs(2, 4, RecoveryRule::Participants) {
        for image in run.images.values() {
            images += recovery(run.geometry, image).explore(None).unwrap();
        }
    }
    assert!(images > 500, "{images}");
}

/// Each flush, fence and commit store is left out in its turn: crashes of the runs or of the recovery then tear something.
#[test]
fn a_step_that_is_left_out_is_missed() {
    let runs = runs(2, 4, RecoveryRule::Participants);
    let images = runs.iter().flat_map(|run| run.images.values());
    let mut all: Vec<Recorded> = images.map(|image| recovery(geometry(2), image)).collect();
    all.extend(runs.into_iter().map(|run| run.recorded));
    let steps: BTreeSet<&str> = all.iter().flat_map(Recorded::names).collect();
    let is_missed = |broken: Broken<'_>| all.iter().any(|run| run.explore(Some(broken)).is_err());
    let kept: Vec<&str> =
        steps.iter().copied().filter(|step| !is_missed(Broken::Dropped(step))).collect();
    assert_eq!(kept, NOT_NEEDED);
    assert!(steps.len() > 10, "{steps:?}");
}

/// What may be left out, as far as the runs see.
const NOT_NEEDED: [&str; 0] = [];

/// What each rule makes of a crash, of what 64 bytes on each of two controllers were and are.
fn recovered(image: &[u8], geometry: Geometry) -> Vec<Vec<u8>> {
    let machine = |rule| {
        let options = RegionOptions { size_max: 4 << 20, ..RegionOptions::default() };
        let region = Arc::new(Region::from_image(image, &options).unwrap());
        Machine::open(&region, geometry, rule).unwrap().0
    };
    RULES.map(|rule| data_of(&machine(rule))[..128].to_vec()).to_vec()
}

/// The bytes behind that many steps of each kind.
fn image_after(geometry: Geometry, requests: &[Request], steps: &[Step]) -> Vec<u8> {
    let options = RegionOptions { size_max: 4 << 20, ..RegionOptions::default() };
    let region = Arc::new(Region::volatile(geometry.region_size(), &options).unwrap());
    let (mut machine, _) = Machine::open(&region, geometry, RecoveryRule::Participants).unwrap();
    requests.iter().for_each(|request| machine.request(request.clone()).unwrap());
    for step in steps {
        assert!(machine.steps().contains(step), "{step:?}");
        machine.step(*step).unwrap();
    }
    region.media_bytes(0, region.size()).unwrap().to_vec()
}

/// The thesis: "It identifies the TIDs … that all loggers have marked as COMMITTED … Finally, it issues Abort commands for
/// all the other TIDs." The logger that has written back has set its record free.
#[test]
fn the_rule_of_the_thesis_aborts_what_one_logger_has_written_back() {
    let geometry = geometry(2);
    let (central, one, other) = (Step::Central, Step::Logger(0), Step::Logger(1));
    let write = write(geometry, 0, 128, 1, 0);
    let request = [Request::AtomicWrite(owner(0), write)];
    // Each logs and marks; the four replies; the order to write back, which one of them carries out.
    let steps = [
        one,
        one,
        other,
        other,
        central,
        central,
        central,
        central,
        one,
        other,
        Step::WriteBack(0),
    ];
    let [all_loggers, all_holding, participants] =
        recovered(&image_after(geometry, &request, &steps), geometry).try_into().unwrap();
    assert_eq!(all_loggers, [[1; 64], [0; 64]].concat(), "torn");
    assert_eq!(all_holding, [1; 128]);
    assert_eq!(participants, [1; 128]);
}

/// Read kindly the rule tears another transaction: the write of one controller is on its way when the other marks.
#[test]
fn the_rule_of_the_thesis_replays_what_one_logger_has_not_got() {
    let geometry = geometry(2);
    let write = write(geometry, 0, 128, 1, 0);
    let steps = [Step::Logger(0), Step::Logger(0)];
    let request = [Request::AtomicWrite(owner(0), write)];
    let [all_loggers, all_holding, participants] =
        recovered(&image_after(geometry, &request, &steps), geometry).try_into().unwrap();
    assert_eq!(all_loggers, [0; 128]);
    assert_eq!(all_holding, [[1; 64], [0; 64]].concat(), "torn");
    assert_eq!(participants, [0; 128]);
}

/// To the letter the rule loses what an array of two knows as committed and only one took part in.
#[test]
fn the_rule_of_the_thesis_loses_a_commit_that_not_all_loggers_take_part_in() {
    let geometry = geometry(2);
    let request = [Request::AtomicWrite(owner(0), write(geometry, 0, 64, 1, 0))];
    let steps = [Step::Logger(0), Step::Central];
    let [all_loggers, all_holding, participants] =
        recovered(&image_after(geometry, &request, &steps), geometry).try_into().unwrap();
    let whole = [[1; 64], [0; 64]].concat();
    assert_eq!(all_loggers, [0; 128], "lost");
    assert_eq!((all_holding, participants), (whole.clone(), whole));
}
