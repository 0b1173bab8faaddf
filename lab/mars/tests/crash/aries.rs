//! ARIES: after a crash at any point, also of its recovery, there is what has committed and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tembo_mars::{
    Aries, AriesOptions, Error, Geometry, Host, Lsn, Machine, Parameters, RecoveryRule,
};
use tembo_pmem::Region;
use tembo_sim::{Broken, Random, Recorder};

use crate::recorded::{Judge, Recorded, Recording, digest, region};

/// Fewer frames than pages that transactions change: pages are stolen. A log that goes round.
const OPTIONS: AriesOptions = AriesOptions { page_size: 128, pages: 8, frames: 3, log_size: 4096 };

const PAYLOAD: usize = 64;

fn geometry() -> Geometry {
    let stripes = OPTIONS.size().div_ceil(2 * 64);
    Geometry { controllers: 2, stripe: 64, stripes, entries: 4 }
}

fn host(region: &Arc<Region>) -> Result<Host, Error> {
    let (machine, _) = Machine::open(region, geometry(), RecoveryRule::Participants)?;
    Ok(Host::new(machine, Parameters::moneta()))
}

/// All pages, as they can be read.
fn pages(host: &mut Host, aries: &mut Aries) -> Result<Vec<u8>, Error> {
    let mut all = vec![0; PAYLOAD * OPTIONS.pages as usize];
    for (page, to) in all.chunks_mut(PAYLOAD).enumerate() {
        aries.read(host, page as u64, 0, to)?;
    }
    Ok(all)
}

/// Recovered it shows something, and so it does when it is recovered again; and it goes on.
fn judge() -> Judge {
    Box::new(|image, reader| {
        let text = |error: Error| format!("{error:?}");
        let region = region(image, reader.clone());
        let mut host = host(&region).map_err(text)?;
        let (mut aries, _) = Aries::open(&mut host, OPTIONS).map_err(text)?;
        let mut shown = pages(&mut host, &mut aries).map_err(text)?;
        let (mut aries, again) = Aries::open(&mut host, OPTIONS).map_err(text)?;
        if again.losers > 0 || pages(&mut host, &mut aries).map_err(text)? != shown {
            return Err(format!("a second recovery finds {again:?}"));
        }
        let digest = digest(&shown);
        let transaction = aries.begin();
        for page in 0..OPTIONS.pages {
            aries.update(&mut host, transaction, page, 3, &[0xee; 5]).map_err(text)?;
            let from = page as usize * PAYLOAD + 3;
            shown[from..from + 5].fill(0xee);
        }
        aries.commit(&mut host, transaction).map_err(text)?;
        let (mut aries, _) = Aries::open(&mut host, OPTIONS).map_err(text)?;
        match pages(&mut host, &mut aries).map_err(text)? == shown {
            true => Ok(digest),
            false => Err("a transaction after the recovery differs".into()),
        }
    })
}

/// A transaction that is not over: what it makes of the pages that it has changed.
struct Pending {
    number: u64,
    changes: Vec<(usize, Vec<u8>)>,
    savepoint: Option<(Lsn, usize)>,
}

/// Transactions by chance, two at a time on pages of their own.
struct Driver {
    host: Host,
    aries: Aries,
    committed: Vec<u8>,
    pending: BTreeMap<u64, Pending>,
}

impl Driver {
    fn shown(&self) -> BTreeSet<u64> {
        BTreeSet::from([digest(&self.committed)])
    }

    fn step(&mut self, random: &mut Random) {
        let which = random.below(2) as u64;
        let Driver { host, aries, committed, pending } = self;
        let number = pending.entry(which).or_insert_with(|| Pending {
            number: aries.begin(),
            changes: Vec::new(),
            savepoint: None,
        });
        match random.below(10) {
            0..5 => {
                let page = 2 * random.below(4) as u64 + which;
                let (offset, len) = (8 * random.below(6), 8 + 8 * random.below(2));
                let after = vec![random.below(255) as u8 + 1; len];
                match aries.update(host, number.number, page, offset as u32, &after) {
                    // The other one is too old.
                    Err(Error::LogFull { .. }) => {
                        for (_, pending) in std::mem::take(pending) {
                            aries.abort(host, pending.number).unwrap();
                        }
                        return;
                    }
                    updated => updated.unwrap(),
                }
                number.changes.push((page as usize * PAYLOAD + offset, after));
            }
            5 => {
                let savepoint = aries.savepoint(number.number).unwrap();
                number.savepoint = Some((savepoint, number.changes.len()));
            }
            6 => {
                if let Some((savepoint, count)) = number.savepoint {
                    aries.roll_back_to(host, number.number, savepoint).unwrap();
                    number.changes.truncate(count);
                }
            }
            7 => {
                aries.abort(host, number.number).unwrap();
                pending.remove(&which);
            }
            _ => {
                aries.commit(host, number.number).unwrap();
                for (from, after) in &number.changes {
                    committed[*from..*from + after.len()].copy_from_slice(after);
                }
                pending.remove(&which);
            }
        }
    }
}

/// A run of so many steps, with what was on media behind each.
fn run(seed: u64, steps: usize) -> (Recorded, Vec<Vec<u8>>) {
    let (recorder, image) = (Recorder::new(), vec![0; geometry().region_size() as usize]);
    let mut host = host(&region(&image, recorder.clone())).unwrap();
    let (aries, _) = Aries::open(&mut host, OPTIONS).unwrap();
    let image = recorder.newest(&image);
    let committed = vec![0; PAYLOAD * OPTIONS.pages as usize];
    let mut driver = Driver { host, aries, committed, pending: BTreeMap::new() };
    let (mut recording, mut images) = (Recording::new(recorder, image), Vec::new());
    let mut random = Random::new(seed);
    for _ in 0..steps {
        let mut during = driver.shown();
        driver.step(&mut random);
        let after = driver.shown();
        during.extend(&after);
        recording.end((during, after));
        images.push(recording.recorder.newest(&recording.image));
    }
    (recording.finish(judge()), images)
}

#[test]
fn a_crash_leaves_what_has_committed_and_nothing_else() {
    let mut images = 0;
    for seed in 0..6 {
        let explored = run(seed, 60).0.explore(None);
        images += explored.unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
    assert!(images > 500, "{images}");
}

#[test]
fn a_recovery_that_a_crash_ends_undoes_nothing_twice() {
    let (mut images, mut undone) = (0, 0);
    for image in run(7, 60).1.iter().step_by(4) {
        let recorder = Recorder::new();
        let region = region(image, recorder.clone());
        let mut recording = Recording::new(recorder, image.clone());
        let mut host = host(&region).unwrap();
        let (mut aries, recovered) = Aries::open(&mut host, OPTIONS).unwrap();
        undone += recovered.undone;
        let shown = BTreeSet::from([digest(&pages(&mut host, &mut aries).unwrap())]);
        recording.end((shown.clone(), shown));
        images += recording.finish(judge()).explore(None).unwrap();
    }
    assert!(images > 100 && undone > 10, "{images}, {undone}");
}

/// The array's only steps that ARIES uses: a write that is not durable when it returns is missed.
#[test]
fn a_write_that_is_not_durable_is_missed() {
    let runs: Vec<Recorded> = (0..3).map(|seed| run(seed, 40).0).collect();
    for step in ["mars.write.data", "mars.write.fence"] {
        assert!(runs.iter().all(|run| run.names().contains(step)));
        assert!(runs.iter().any(|run| run.explore(Some(Broken::Dropped(step))).is_err()), "{step}");
    }
}

#[test]
fn a_log_that_a_transaction_fills_is_an_error_and_can_be_taken_back() {
    let image = vec![0; geometry().region_size() as usize];
    let mut host = host(&region(&image, Recorder::new())).unwrap();
    let (mut aries, _) = Aries::open(&mut host, OPTIONS).unwrap();
    let transaction = aries.begin();
    let full = (0..100).find_map(|_| aries.update(&mut host, transaction, 0, 0, &[7; 64]).err());
    assert!(matches!(full, Some(Error::LogFull { .. })), "{full:?}");
    aries.abort(&mut host, transaction).unwrap();
    assert_eq!(pages(&mut host, &mut aries).unwrap(), vec![0; 512]);
    let transaction = aries.begin();
    aries.update(&mut host, transaction, 0, 0, &[7; 64]).unwrap();
    aries.commit(&mut host, transaction).unwrap();
}
