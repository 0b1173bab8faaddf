//! What `cargo xtask dax` runs in its guest: `probe FOLDER` prints how a pool is opened there, `info
//! ADDRESS` what the server says of persistence, `run ADDRESS SEED` loads the server and prints what it
//! acknowledges, `verify ADDRESS SEED ACKED` compares what is there with what must be.
//!
//! The load is a sequence of units, each a MULTI that changes a few keys and notes its number, so that
//! the number found says what all keys must be.
#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;

use tembo_pmem::{Error, FlushInstruction, Region, RegionOptions};
use tembo_sim::Random;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;
type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Units sent at once.
const BATCH: u64 = 16;
const KEYS: usize = 500;
const LAST: &[u8] = b"last";

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["probe", folder] => probe(Path::new(folder)),
        ["info", address] => info(&mut Client::connect(address)?),
        ["run", address, seed] => run(&mut Client::connect(address)?, seed.parse()?),
        ["verify", address, seed, acked] => {
            verify(&mut Client::connect(address)?, seed.parse()?, acked.parse()?)
        }
        _ => {
            Err("usage: probe FOLDER | info ADDRESS | run ADDRESS SEED | verify ADDRESS SEED ACKED"
                .into())
        }
    }
}

/// Creates a region as probing decides, fills it, and opens it again.
fn probe(folder: &Path) -> Outcome {
    let (path, options) = (folder.join("probe.pool"), RegionOptions::default());
    let region = Region::create(&path, 4 << 20, &options, |_| Ok::<(), Error>(()))?;
    let bytes: Vec<u8> = (0..3 << 20).map(|i: u32| i as u8).collect();
    region.write("probe.write", 1 << 20, &[&bytes])?;
    // ORDER: the bytes before the region is forgotten as by a crash.
    region.fence("probe.fence");
    drop(region);
    let region = Region::open(&path, &options)?;
    if !region.media_bytes(1 << 20, bytes.len() as u64)?.eq_bytes(&bytes) {
        return Err("what was stored is not there".into());
    }
    let report = region.report();
    println!(
        "TEMBO PROBED domain={} emulated={} instruction={:?}",
        format!("{:?}", report.domain).to_lowercase(),
        report.emulated,
        FlushInstruction::detect()
    );
    region.close()?;
    Ok(std::fs::remove_file(&path)?)
}

fn info(client: &mut Client) -> Outcome {
    client.send(&[b"INFO", b"persistence"])?;
    let text = client.bulk()?.unwrap_or_default();
    for line in String::from_utf8_lossy(&text).lines().filter(|line| line.contains("tembo_")) {
        println!("TEMBO INFO {line}");
    }
    Ok(())
}

/// The changes of a unit: keys and what they become, in order.
fn unit(seed: u64, number: u64) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut random = Random::new(seed ^ number.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let mut changes = vec![(LAST.to_vec(), Some(number.to_string().into_bytes()))];
    for _ in 0..1 + random.below(4) {
        let key = format!("key:{:05}", random.below(KEYS)).into_bytes();
        let size = if random.below(40) == 0 { 5000 } else { random.below(200) };
        let value = vec![b'a' + (number % 26) as u8; size];
        changes.push((key, (random.below(5) > 0).then_some(value)));
    }
    changes
}

fn model(seed: u64, last: u64) -> Map {
    let mut map = Map::new();
    for (key, value) in (1..=last).flat_map(|number| unit(seed, number)) {
        match value {
            Some(value) => drop(map.insert(key, value)),
            None => drop(map.remove(&key)),
        }
    }
    map
}

/// Sends units until the machine is killed.
fn run(client: &mut Client, seed: u64) -> Outcome {
    let mut number = client.get(LAST)?.map_or(Ok(0), |last| {
        String::from_utf8(last)?.parse::<u64>().map_err(Box::<dyn std::error::Error>::from)
    })?;
    loop {
        for next in number + 1..=number + BATCH {
            client.push(&[b"MULTI"]);
            for (key, value) in unit(seed, next) {
                match value {
                    Some(value) => client.push(&[b"SET", &key, &value]),
                    None => client.push(&[b"DEL", &key]),
                }
            }
            client.push(&[b"EXEC"]);
        }
        client.flush()?;
        for next in number + 1..=number + BATCH {
            for _ in 0..unit(seed, next).len() + 1 {
                client.simple()?;
            }
            client.array_of_simples()?;
        }
        number += BATCH;
        // The full stop shows that the number is whole.
        println!("TEMBO ACKED {number}.");
    }
}

fn verify(client: &mut Client, seed: u64, acked: u64) -> Outcome {
    let last = client.get(LAST)?.unwrap_or_else(|| b"0".to_vec());
    let last: u64 = String::from_utf8(last)?.parse()?;
    if last < acked {
        return Err(format!("unit {acked} was acknowledged, and {last} is the last").into());
    }
    let model = model(seed, last);
    client.send(&[b"DBSIZE"])?;
    let count = client.line()?;
    if count != format!(":{}", model.len()) {
        return Err(format!("{count} keys, and after unit {last} there are {}", model.len()).into());
    }
    for (key, value) in &model {
        if client.get(key)?.as_ref() != Some(value) {
            return Err(format!("{} after unit {last}", String::from_utf8_lossy(key)).into());
        }
    }
    println!("TEMBO VERIFIED {last} units, {} keys", model.len());
    Ok(())
}

/// As much of a client as is needed.
struct Client {
    writer: TcpStream,
    reader: BufReader<TcpStream>,
    unsent: Vec<u8>,
}

impl Client {
    fn connect(address: &str) -> Outcome<Client> {
        let writer = TcpStream::connect(address)?;
        writer.set_nodelay(true)?;
        let reader = BufReader::new(writer.try_clone()?);
        Ok(Client { writer, reader, unsent: Vec::new() })
    }

    fn push(&mut self, words: &[&[u8]]) {
        self.unsent.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            self.unsent.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            self.unsent.extend_from_slice(word);
            self.unsent.extend_from_slice(b"\r\n");
        }
    }

    fn flush(&mut self) -> Outcome {
        self.writer.write_all(&self.unsent)?;
        self.unsent.clear();
        Ok(())
    }

    fn send(&mut self, words: &[&[u8]]) -> Outcome {
        self.push(words);
        self.flush()
    }

    fn get(&mut self, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        self.send(&[b"GET", key])?;
        self.bulk()
    }

    fn line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    /// A line that is no error.
    fn simple(&mut self) -> Outcome<String> {
        let line = self.line()?;
        if line.is_empty() || line.starts_with('-') {
            return Err(format!("the server says `{line}`").into());
        }
        Ok(line)
    }

    fn array_of_simples(&mut self) -> Outcome {
        let head = self.simple()?;
        let count: usize = head.strip_prefix('*').ok_or("no array")?.parse()?;
        (0..count).try_for_each(|_| self.simple().map(drop))
    }

    fn bulk(&mut self) -> Outcome<Option<Vec<u8>>> {
        let head = self.simple()?;
        let size: i64 = head.strip_prefix('$').ok_or("no bulk")?.parse()?;
        let Ok(size) = usize::try_from(size) else { return Ok(None) };
        let mut bytes = vec![0; size + 2];
        self.reader.read_exact(&mut bytes)?;
        bytes.truncate(size);
        Ok(Some(bytes))
    }
}
