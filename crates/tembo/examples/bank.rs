//! Moves money between accounts, and is killed at random while it does: no money is lost.

use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use tembo::{Durability, Error, Isolation, Options, Store};

const ACCOUNTS: u64 = 100;
const START: u64 = 1000;

fn amount(bytes: Option<Vec<u8>>) -> u64 {
    bytes.and_then(|bytes| bytes.try_into().ok()).map_or(START, u64::from_le_bytes)
}

/// Transfers until it is killed.
fn work(store: &Store) -> Result<(), Error> {
    let accounts = store.keyspace("accounts")?;
    for number in 1_u64.. {
        let (from, to) = (number * 7919 % ACCOUNTS, number * 31 % ACCOUNTS);
        store.with_retry(Isolation::Snapshot, Durability::Strict, |tx| {
            let payer = amount(tx.get(accounts, &from.to_be_bytes())?);
            let payee = amount(tx.get(accounts, &to.to_be_bytes())?);
            let sum = (number % 50).min(payer);
            if from != to {
                tx.put(accounts, &from.to_be_bytes(), &(payer - sum).to_le_bytes())?;
                tx.put(accounts, &to.to_be_bytes(), &(payee + sum).to_le_bytes())?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::temp_dir().join("tembo-bank.pool");
    if std::env::args().any(|argument| argument == "work") {
        return Ok(work(&Store::open(&path, &Options::new())?)?);
    }
    if !path.exists() {
        Store::create(&path, &Options::new())?.close()?;
    }
    for round in 1..=10 {
        let mut bank = Command::new(std::env::current_exe()?);
        let mut bank = bank.arg("work").stdout(Stdio::null()).spawn()?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        std::thread::sleep(Duration::from_millis(50 + u64::from(now.subsec_nanos()) % 300));
        bank.kill()?;
        bank.wait()?;

        let store = Store::open(&path, &Options::new())?;
        let accounts = store.keyspace("accounts")?;
        let account = |number: u64| store.get(accounts, &number.to_be_bytes()).map(amount);
        let total = (0..ACCOUNTS).map(account).sum::<Result<u64, Error>>()?;
        assert_eq!(total, ACCOUNTS * START);
        println!("killed {round} times, version {}: {total} in all", store.visible());
    }
    Ok(())
}
