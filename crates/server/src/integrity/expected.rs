//! What is expected, with what is said if it does not hold.

/// An error with that text unless it holds.
pub(super) fn expect(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}

/// A count of the head, and what was met.
pub(super) fn expect_count(said: u64, met: u64, what: &str) -> Result<(), String> {
    if said == met { Ok(()) } else { Err(format!("it says {said} {what}, and has {met}")) }
}
