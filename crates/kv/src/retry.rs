//! Transactions that are tried again after a conflict.

use std::time::Duration;

use crate::opened::Handle;
use crate::{Durability, Error, Isolation, Transaction};

/// Attempts after which a transaction that conflicts each time is given up.
pub const ATTEMPTS_MAX: u32 = 64;

/// How many attempts are made without a pause before them.
const EAGER: u32 = 2;

/// The longest pause is 2 to this power, in microseconds.
const PAUSE_BITS_MAX: u32 = 13;

/// See [`Store::with_retry`](crate::Store::with_retry).
pub(crate) fn with_retry<T>(
    handle: &Handle,
    isolation: Isolation,
    durability: Durability,
    mut work: impl FnMut(&mut Transaction) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut attempt = 1;
    loop {
        let mut tx = Transaction::begin(handle, isolation);
        let done = work(&mut tx).and_then(|done| tx.commit(durability).map(|_| done));
        match done {
            Err(Error::Conflict { .. }) if attempt < ATTEMPTS_MAX => {}
            done => return done,
        }
        if let Some(pauses) = attempt.checked_sub(EAGER) {
            std::thread::sleep(Duration::from_micros(1 << pauses.min(PAUSE_BITS_MAX)));
        }
        attempt += 1;
    }
}
