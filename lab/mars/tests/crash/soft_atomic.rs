//! Atomic writes in software: an update of several parts is there whole or not at all after a crash.

use std::collections::BTreeSet;
use std::sync::Arc;

use tembo_mars::{
    ArrayStore, Error, Geometry, Host, Machine, Parameters, RecoveryRule, Scheme, Store,
};
use tembo_pmem::Region;
use tembo_sim::{Broken, Random, Recorder};

use crate::recorded::{Judge, Recorded, Recording, digest, region};

const DATA: usize = 256;

const LOG_SIZE: u64 = 384;

fn geometry() -> Geometry {
    let size = DATA as u64 + u64::from(ArrayStore::THREADS) * LOG_SIZE;
    Geometry { controllers: 2, stripe: 64, stripes: size.div_ceil(128), entries: 12 }
}

fn store(region: &Arc<Region>, scheme: Scheme) -> Result<ArrayStore, Error> {
    let (machine, _) = Machine::open(region, geometry(), RecoveryRule::Participants)?;
    let mut store = ArrayStore::new(Host::new(machine, Parameters::moneta()), scheme, LOG_SIZE);
    store.recover()?;
    Ok(store)
}

fn data(store: &mut ArrayStore) -> Result<Vec<u8>, Error> {
    let mut data = vec![0; DATA];
    store.read(0, &mut data)?;
    Ok(data)
}

fn judge(scheme: Scheme) -> Judge {
    Box::new(move |image, reader| {
        let text = |error: Error| format!("{error:?}");
        let region = region(image, reader.clone());
        let shown = data(&mut store(&region, scheme).map_err(text)?).map_err(text)?;
        let again = data(&mut store(&region, scheme).map_err(text)?).map_err(text)?;
        if again == shown { Ok(digest(&shown)) } else { Err("a second recovery differs".into()) }
    })
}

/// Updates of two parts by two threads, which write over one another.
fn run(scheme: Scheme, seed: u64) -> Recorded {
    let (recorder, image) = (Recorder::new(), vec![0; geometry().region_size() as usize]);
    let mut store = store(&region(&image, recorder.clone()), scheme).unwrap();
    let (mut recording, mut random) = (Recording::new(recorder, image), Random::new(seed));
    let mut model = vec![0; DATA];
    for fill in 1..=12 {
        let mut during = BTreeSet::from([digest(&model)]);
        let mut writes = Vec::new();
        for _ in 0..2 {
            let at = 8 * random.below(22);
            writes.push((at as u64, vec![fill; 72]));
            model[at..at + 72].fill(fill);
        }
        let (thread, now) = (random.below(2) as u32, store.host().now_ns());
        store.host().go_on(thread, now);
        store.update(writes).unwrap();
        let after = BTreeSet::from([digest(&model)]);
        during.extend(&after);
        recording.end((during, after));
    }
    recording.finish(judge(scheme))
}

#[test]
fn an_update_is_there_whole_or_not_at_all() {
    for scheme in [Scheme::SoftAtomic, Scheme::LogWriteCommit, Scheme::AtomicWrite] {
        let mut images = 0;
        for seed in 0..4 {
            let explored = run(scheme, seed).explore(None);
            images += explored.unwrap_or_else(|what| panic!("{scheme:?}, {seed}: {what}"));
        }
        assert!(images > 100, "{images}");
    }
}

/// What the comparison calls unsafe is torn.
#[test]
fn plain_writes_are_torn() {
    assert!((0..4).all(|seed| run(Scheme::Unsafe, seed).explore(None).is_err()));
}

#[test]
fn a_write_that_is_not_durable_is_missed() {
    for step in ["mars.write.data", "mars.write.fence"] {
        let is_missed = (0..4).any(|seed| {
            run(Scheme::SoftAtomic, seed).explore(Some(Broken::Dropped(step))).is_err()
        });
        assert!(is_missed, "{step}");
    }
}
