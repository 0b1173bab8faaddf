//! A server, as histories are taken of it: single keys, over sockets.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tembo_pmem::thread::lock;
use tembo_server::{Answer, Client};

use super::database::{Failure, Key, Registers, Value};
use super::record::ABSENT;

/// A server that takes longer to answer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server. Each calling thread has a connection of its own.
pub struct Served {
    address: SocketAddr,
    /// How long it may be gone after a crash; zero: it never crashes.
    absence: Duration,
    idle: Mutex<Vec<Client>>,
}

impl Served {
    /// The server at that address. If it is killed, it is there again, at the same address and with the same
    /// pool, before `absence` has passed; if that is zero, a lost connection is a failure.
    pub fn new(address: SocketAddr, absence: Duration) -> Served {
        Served { address, absence, idle: Mutex::new(Vec::new()) }
    }

    fn call(&self, words: &[&[u8]]) -> Result<Answer, Failure> {
        let idle = lock(&self.idle).pop();
        let connected = idle.map_or_else(|| Client::connect(self.address, PATIENCE), Ok);
        let called = connected.and_then(|mut client| Ok((client.call(words)?, client)));
        match called {
            Ok((Answer::Error(error), _)) => Err(Failure::Broken(error)),
            Ok((answer, client)) => {
                lock(&self.idle).push(client);
                Ok(answer)
            }
            Err(error) if self.absence.is_zero() => Err(Failure::Broken(error.to_string())),
            Err(_) => Err(Failure::Crashed),
        }
    }
}

fn key_text(key: Key) -> String {
    format!("history:{key}")
}

/// A number, and behind it as many letters as it says: some values are inline, some are records.
fn value_text(value: Value) -> String {
    let letters = if value.is_multiple_of(3) { value % 150 } else { 0 };
    format!("{value}{}", "x".repeat(letters as usize))
}

/// The number that is answered.
fn value(answer: &Answer) -> Result<Value, Failure> {
    let Answer::Bulk(bytes) = answer else {
        return if *answer == Answer::Nil { Ok(ABSENT) } else { Err(strange(answer)) };
    };
    let text = String::from_utf8_lossy(bytes);
    match text.trim_end_matches('x').parse() {
        Ok(value) if value_text(value) == text => Ok(value),
        _ => Err(strange(answer)),
    }
}

fn strange(answer: &Answer) -> Failure {
    Failure::Broken(format!("an answer that does not fit: {answer:?}"))
}

impl Registers for Served {
    fn get(&self, key: Key) -> Result<Value, Failure> {
        value(&self.call(&[b"GET", key_text(key).as_bytes()])?)
    }

    fn put(&self, key: Key, put: Value) -> Result<bool, Failure> {
        let (key, put) = (key_text(key), value_text(put));
        let before = self.call(&[b"SET", key.as_bytes(), put.as_bytes(), b"GET"])?;
        Ok(value(&before)? != ABSENT)
    }

    fn remove(&self, key: Key) -> Result<bool, Failure> {
        match self.call(&[b"DEL", key_text(key).as_bytes()])? {
            Answer::Integer(count) => Ok(count == 1),
            answer => Err(strange(&answer)),
        }
    }

    fn is_there_again(&self) -> bool {
        // Connections from before the crash would only be lost again.
        lock(&self.idle).clear();
        let gone = Instant::now();
        loop {
            match self.call(&[b"PING"]) {
                Ok(_) => return true,
                Err(_) if gone.elapsed() > self.absence => return false,
                Err(_) => sleep(Duration::from_millis(2)),
            }
        }
    }
}
