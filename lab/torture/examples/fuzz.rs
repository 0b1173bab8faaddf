//! `fuzz pool|served|log|resp SEED CASES SECONDS`: a long campaign; `fuzz show pool|served|log|resp SEED` shows one
//! case, of a pool or log the words that differ from its input; `fuzz save … FILE` keeps one; `fuzz corpus FOLDER` writes the inputs that
//! pools and logs are made from.
#![allow(clippy::print_stdout)]

use std::path::Path;
use std::time::Duration;

use tembo_torture::fuzz::{Campaign, Kind, case, input, keep, seeds, write_corpus};

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["corpus", folder] => Ok(write_corpus(Path::new(folder))?),
        ["save", kind, seed, path] => {
            Ok(keep(&case(kind_of(kind)?, seed.parse()?), Path::new(path))?)
        }
        ["show", kind, seed] => show(kind, seed.parse()?),
        [kind, seed, cases, seconds] => run(kind, seed.parse()?, cases.parse()?, seconds.parse()?),
        _ => Err("usage: fuzz pool|served|log|resp SEED CASES SECONDS, or fuzz show … SEED, or fuzz save … SEED FILE, or fuzz corpus FOLDER".into()),
    }
}

fn show(kind: &str, seed: u64) -> Outcome {
    let kind = kind_of(kind)?;
    let bytes = case(kind, seed);
    let Some(input) = input(kind, seed) else {
        println!("{}", bytes.escape_ascii());
        return Ok(());
    };
    println!("{} bytes of {}", bytes.len(), input.len());
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    for (index, (new, old)) in bytes.chunks(8).zip(input.chunks(8)).enumerate() {
        if new != old {
            println!("{:6}: {:016x} was {:016x}", index * 8, word(new), word(old));
        }
    }
    Ok(())
}

fn kind_of(kind: &str) -> Result<Kind, String> {
    match kind {
        "pool" => Ok(Kind::Pool),
        "served" => Ok(Kind::Served),
        "log" => Ok(Kind::Log),
        "resp" => Ok(Kind::Resp),
        other => Err(format!("`{other}` is none of pool, served, log and resp")),
    }
}

fn run(kind: &str, seed: u64, cases: u64, seconds: u64) -> Outcome {
    let kind = kind_of(kind)?;
    // A value of 512 MiB is legal, and so are copies of it on its way.
    let growth_max = if kind == Kind::Resp { 2 << 30 } else { 64 << 20 };
    let (time, case_time) = (Duration::from_secs(seconds), Duration::from_secs(15));
    let tally = Campaign { kind, time, case_time, growth_max }.run(seeds(kind, seed, cases))?;
    println!(
        "{kind:?}: {} cases from seed {seed}: {} refused, {} damaged, {} sound, {} not noticed by \
         a check; at most {} KiB more \
         memory and {:?} in a case",
        tally.cases,
        tally.refused,
        tally.damaged,
        tally.sound,
        tally.unnoticed.len(),
        tally.growth_max >> 10,
        tally.slowest
    );
    for finding in tally.unnoticed.iter().chain(&tally.findings) {
        println!("{}: {}", finding.name, finding.what);
    }
    if tally.findings.is_empty() { Ok(()) } else { Err("something was found".into()) }
}
