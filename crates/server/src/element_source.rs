//! The elements of a large list, set or sorted set, however they lie: some are read in a turn.

use tembo_kv::{Keyspace, Snapshot};

use crate::element_listing::Listed;
use crate::failure::Failure;
use crate::format::member_of;
use crate::strip_listing::Positions;

/// Elements that are still to be read.
pub(crate) enum ElementSource {
    /// Members of a set.
    Members(Listed),
    /// Members of a sorted set, by their keys in its order.
    Ordered(Listed),
    /// Elements of a list without strips.
    Elements(Listed),
    /// Elements of a list in strips.
    Strips(Positions),
}

impl ElementSource {
    /// Visits some of them in a snapshot, until `visit` returns false; true: there are no more.
    ///
    /// # Errors
    /// Damage; what another server has written.
    pub(crate) fn read(
        &mut self,
        source: (&Snapshot, Keyspace),
        visit: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<bool, Failure> {
        match self {
            ElementSource::Members(rest) => rest.read(source, &mut |name, _| Ok(visit(name))),
            ElementSource::Ordered(rest) => {
                rest.read(source, &mut |name, _| Ok(visit(member_of(name))))
            }
            ElementSource::Elements(rest) => {
                rest.read(source, &mut |_, element| Ok(element.with(&mut *visit)))
            }
            ElementSource::Strips(rest) => {
                rest.read(source, &mut |element| element.with(&mut *visit))
            }
        }
    }
}
