//! Any bytes are taken or refused: the corpus, and changes of it from seeds.
//!
//! `TEMBO_FUZZ_SEED` is where the seeds begin. What was found once lies in the corpus.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::path::Path;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use tembo_torture::fuzz::{Campaign, Case, Kind, Tally, repair_log, repair_pool, seeds, whole};

/// Where the seeds begin by default.
const SEED: u64 = 20_261_121;

/// The peak of memory is known of the whole process, and so counts for every case that is under way: a case
/// that may take much runs alone.
static MEMORY: RwLock<()> = RwLock::new(());

fn offer(kind: Kind, cases: impl Iterator<Item = Case> + Send + 'static) -> Tally {
    let alone =
        (kind == Kind::Resp).then(|| MEMORY.write().unwrap_or_else(PoisonError::into_inner));
    let _beside = alone.is_none().then(|| MEMORY.read().unwrap_or_else(PoisonError::into_inner));
    let campaign = Campaign {
        kind,
        time: Duration::from_secs(600),
        case_time: Duration::from_secs(180),
        // A legal value takes 512 MiB.
        growth_max: if kind == Kind::Resp { 2 << 30 } else { 256 << 20 },
    };
    let tally = campaign.run(cases).unwrap();
    assert!(tally.findings.is_empty(), "{kind:?}: {:#?}", tally.findings);
    tally
}

/// The corpus, as it is and with its checksums made right.
fn corpus(kind: Kind, name: &str) -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut cases = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        let bytes = whole(kind, &std::fs::read(file.path()).unwrap());
        let mut repaired = bytes.clone();
        match kind {
            Kind::Pool | Kind::Served => repair_pool(&mut repaired),
            Kind::Log => repair_log(&mut repaired),
            Kind::Resp => {}
        }
        cases.extend([(format!("{name}, repaired"), repaired), (name, bytes)]);
    }
    assert!(!cases.is_empty());
    cases
}

fn seeded(kind: Kind, count: u64) -> Tally {
    let seed = std::env::var("TEMBO_FUZZ_SEED").map_or(SEED, |seed| seed.parse().unwrap());
    println!("TEMBO_FUZZ_SEED={seed}");
    let tally = offer(kind, seeds(kind, seed, count));
    assert_eq!(tally.cases, count);
    println!("{tally:?}");
    // Rare: an entry that no version sees, but that names what another one needs.
    assert!(tally.unnoticed.len() as u64 <= 1 + count / 5000, "{:#?}", tally.unnoticed);
    tally
}

#[test]
fn any_bytes_may_be_offered_as_a_pool() {
    offer(Kind::Pool, corpus(Kind::Pool, "pool").into_iter());
    let tally = seeded(Kind::Pool, 3000);
    // Most get past the checksums; some are noticed at opening, some later, some never.
    let least = tally.cases / 10;
    assert!(tally.refused.min(tally.damaged).min(tally.sound) > least, "{tally:?}");
}

#[test]
fn any_bytes_may_be_served() {
    offer(Kind::Served, corpus(Kind::Served, "pool").into_iter());
    let tally = seeded(Kind::Served, 2000);
    assert!(tally.refused.min(tally.sound) > tally.cases / 10, "{tally:?}");
}

#[test]
fn any_bytes_may_be_offered_as_a_log() {
    offer(Kind::Log, corpus(Kind::Log, "log").into_iter());
    let tally = seeded(Kind::Log, 3000);
    assert!(tally.refused.min(tally.sound) > tally.cases / 10, "{tally:?}");
    assert!(tally.damaged > tally.cases / 50, "{tally:?}");
}

#[test]
fn any_bytes_may_be_sent_by_a_client() {
    offer(Kind::Resp, corpus(Kind::Resp, "resp").into_iter());
    let tally = seeded(Kind::Resp, 8000);
    assert!(tally.sound > tally.cases / 2, "{tally:?}");
}

/// The inputs that all others are made from are sound: a refusal would hide everything.
#[test]
fn what_the_corpus_begins_with_is_sound() {
    for (kind, name) in [(Kind::Pool, "pool"), (Kind::Log, "log")] {
        let first = corpus(kind, name).into_iter();
        let first: Vec<Case> =
            first.filter(|(name, _)| name.starts_with("c") && !name.contains(' ')).collect();
        let count = first.len() as u64;
        let tally = offer(kind, first.into_iter());
        assert_eq!((count > 0, tally.sound), (true, count), "{kind:?}: {tally:?}");
    }
}
