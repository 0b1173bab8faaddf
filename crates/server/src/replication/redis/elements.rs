//! The elements of a database in a snapshot.

use std::ops::Bound;

use tembo_kv::{Direction, Keyspace, Snapshot};

use crate::format::{ELEMENT_PREFIX_SIZE, Part, UnknownLayout, element_prefix};
use crate::replication::outlet::End;

/// Elements of one part of a value: what follows the prefix of their keys, and their values.
type Visit<'v> = dyn FnMut(&[u8], tembo_kv::Value<'_>) -> Result<bool, UnknownLayout> + 'v;

/// Where the elements of a database are.
#[derive(Clone, Copy)]
pub(super) struct Elements<'s> {
    pub(super) snapshot: &'s Snapshot,
    pub(super) space: Keyspace,
}

impl Elements<'_> {
    /// Visits the elements of a part behind one of them, in order, until `visit` returns false; the last one then.
    ///
    /// # Errors
    /// Those of the store and of `visit`.
    pub(super) fn visit(
        &self,
        (id, part): (u64, Part),
        behind: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<Option<Vec<u8>>, End> {
        let prefix = element_prefix(id, part);
        let mut end = prefix;
        end[ELEMENT_PREFIX_SIZE - 1] += 1;
        let from = behind.map_or(Bound::Included(&prefix[..]), Bound::Excluded);
        let range = (from, Bound::Excluded(&end[..]));
        let (mut last, mut fault) = (None, None);
        let mut each = |key: &[u8], value: tembo_kv::Value<'_>| {
            let rest = key.get(ELEMENT_PREFIX_SIZE..).unwrap_or_default();
            match visit(rest, value) {
                Ok(true) => return true,
                Ok(false) => last = Some(key.to_vec()),
                Err(unknown) => fault = Some(unknown),
            }
            false
        };
        self.snapshot.range_with::<[u8]>(self.space, range, Direction::Forward, &mut each)?;
        match fault {
            Some(unknown) => Err(unknown.into()),
            None => Ok(last),
        }
    }
}
