//! How a value is found, and how often one is.

use tembo_kv::{Exclusive, Keyspace};

use crate::failure::{Failure, WRONG_TYPE};
use crate::format::{KEY_SIZE_MAX, Kind, Value};

/// How often a key was looked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lookups {
    /// It was there.
    pub(crate) hits: u64,
    /// It was not, or had expired.
    pub(crate) misses: u64,
}

/// The value under a key, unless it has expired.
#[inline]
pub(super) fn find<'t>(
    transaction: &'t Exclusive,
    space: Keyspace,
    key: &[u8],
    now_ms: u64,
    lookups: &mut Lookups,
) -> Result<Option<Value<'t>>, Failure> {
    let found = match key.len() {
        0..=KEY_SIZE_MAX => transaction.get(space, key)?,
        _ => None,
    };
    let value = found.map(Value::decode).transpose()?.filter(|value| !value.is_expired(now_ms));
    let count = if value.is_some() { &mut lookups.hits } else { &mut lookups.misses };
    *count += 1;
    Ok(value)
}

/// The string under a key, unless it has expired.
#[inline]
pub(super) fn find_string<'t>(
    transaction: &'t Exclusive,
    space: Keyspace,
    key: &[u8],
    now_ms: u64,
    lookups: &mut Lookups,
) -> Result<Option<Value<'t>>, Failure> {
    match find(transaction, space, key, now_ms, lookups)? {
        Some(value) if value.of.kind != Kind::String => Err(WRONG_TYPE.into()),
        found => Ok(found),
    }
}
