//! Transactions that are tried again when others were first.

use std::time::Duration;

use crate::{Durability, Error, Isolation, Store, Transaction};

/// After so many conflicts in a row a transaction is given up.
pub const ATTEMPTS_MAX: u32 = 64;

/// The first attempts are made without a pause.
const EAGER: u32 = 2;

/// The longest pause is 2 to this power, in microseconds.
const PAUSE_BITS_MAX: u32 = 13;

impl Store {
    /// Runs `work` in a transaction and commits it; after a [`Error::Conflict`] of either, again, in a
    /// transaction of its own, with pauses that double up to 8 ms. `work` may run several times, and
    /// nothing of an attempt that was given up remains.
    ///
    /// Durability point: as `durability` says, capped by the region's sync policy.
    ///
    /// # Errors
    /// The last conflict, after [`ATTEMPTS_MAX`] attempts; any other error of `work` and of
    /// [`Transaction::commit`], at once.
    pub fn with_retry<T>(
        &self,
        isolation: Isolation,
        durability: Durability,
        mut work: impl FnMut(&mut Transaction<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut attempt = 1;
        loop {
            let mut tx = self.transaction(isolation)?;
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
}
