//! Rivals of heaps: libpmemobj, and Berkeley DB by keys. `None`: not in this build.

use std::path::Path;

use crate::Error;
use crate::heap_program::{Extent, KeyedFile, Measured, Program};

/// Settings beyond defaults, for the page.
#[cfg(feature = "rivals-debian")]
pub(crate) const HEAP_SETTINGS: &[&str] = &[
    "libpmemobj: ",
    super::pmemobj::SETTINGS,
    ". Berkeley DB: ",
    super::berkeley::SETTINGS_SMALL,
    ".",
];
#[cfg(not(feature = "rivals-debian"))]
pub(crate) const HEAP_SETTINGS: &[&str] = &[];

/// A benchmark over libpmemobj.
#[cfg(feature = "rivals-debian")]
pub(crate) fn on_pmemobj<const D: usize, const L: usize, P: Program<D, L>>(
    folder: &Path,
    program: &P,
    extent: Extent,
) -> Result<Option<Measured>, Error> {
    let pool = super::pmemobj::Pmemobj::<D, L>::new(folder, program.form())?;
    crate::heap_program::measured(program, &pool, extent, &|| Ok(pool.allocated())).map(Some)
}

/// A benchmark over libpmemobj.
#[cfg(not(feature = "rivals-debian"))]
pub(crate) fn on_pmemobj<const D: usize, const L: usize, P: Program<D, L>>(
    _folder: &Path,
    _program: &P,
    _extent: Extent,
) -> Result<Option<Measured>, Error> {
    Ok(None)
}

/// Berkeley DB's hash table, or its B-tree.
#[cfg(feature = "rivals-debian")]
pub(crate) fn berkeley_keys(
    folder: &Path,
    is_hashed: bool,
) -> Result<Option<Box<dyn KeyedFile>>, Error> {
    Ok(Some(Box::new(super::berkeley::BerkeleyKeys::new(folder, is_hashed)?)))
}

/// Berkeley DB's hash table, or its B-tree.
#[cfg(not(feature = "rivals-debian"))]
pub(crate) fn berkeley_keys(
    _folder: &Path,
    _is_hashed: bool,
) -> Result<Option<Box<dyn KeyedFile>>, Error> {
    Ok(None)
}
