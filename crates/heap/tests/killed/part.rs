//! What a process reports, and how a test says what is wrong.

use std::collections::BTreeMap;

/// The last number that each part has reported: `lane 0` …, `safe`, `base`.
pub(crate) type Reported = BTreeMap<String, u64>;

pub(crate) fn expect(is_so: bool, what: &str) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(what.to_owned()) }
}

pub(crate) fn text(error: impl std::error::Error) -> String {
    error.to_string()
}
