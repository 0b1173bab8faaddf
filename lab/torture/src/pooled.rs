//! What all that lies in a pool has to do and to show alike.

use tembo_pmem::Region;
use tembo_pool::{Account, Error, Kinds, Pool};

use crate::judge::{expect, text};

/// The pool in a region; `None`: its formatting has not come to an end.
pub(crate) fn formatted(region: Region) -> Result<Option<Pool>, String> {
    formatted_of(region, Kinds::default())
}

/// The same, with tenants of these kinds.
pub(crate) fn formatted_of(region: Region, kinds: Kinds) -> Result<Option<Pool>, String> {
    match Pool::from_region_of(region, kinds) {
        Err(Error::NotAPool { found: 0 }) => Ok(None),
        opened => opened.map(Some).map_err(text),
    }
}

/// The pool in a region, if it holds a store.
pub(crate) fn stored(region: Region) -> Result<Option<Pool>, String> {
    let Some(pool) = formatted_of(region, tembo_kv::kinds())? else { return Ok(None) };
    let made = !pool.tenants().map_err(text)?.is_empty();
    Ok(made.then_some(pool))
}

/// The same, if its first root names something.
pub(crate) fn rooted(region: Region) -> Result<Option<Pool>, String> {
    let Some(pool) = formatted(region)? else { return Ok(None) };
    let made = pool.root(0).map_err(text)?.load() != 0;
    Ok(made.then_some(pool))
}

/// Every byte of a region of that size is somewhere, and once.
pub(crate) fn expect_accounted(account: &Account, size: u64) -> Result<(), String> {
    let counted = (account.total, account.accounted_bytes());
    expect(counted == (size, size), "bytes that are not accounted for")
}
