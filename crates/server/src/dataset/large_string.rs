//! Large strings under their keys.

use crate::dataset::Dataset;
use crate::dataset::pieces::check_string;
use crate::failure::Failure;
use crate::format::{Kind, Spread, Type};

impl Dataset<'_> {
    /// Puts a large string under `key`.
    pub(super) fn put_large(
        &mut self,
        (db, key): (usize, &[u8]),
        payload: &[u8],
        expiry_ms: Option<u64>,
    ) -> Result<(), Failure> {
        check_string(payload.len())?;
        self.atomically(payload.len(), |data| {
            let id = data.new_id(db)?;
            data.write_pieces((db, id), 0, payload)?;
            data.put_pieces((db, key), (id, payload.len()), expiry_ms)
        })
    }

    /// Puts the value that names the pieces of a string.
    pub(crate) fn put_pieces(
        &mut self,
        (db, key): (usize, &[u8]),
        (id, len): (u64, usize),
        expiry_ms: Option<u64>,
    ) -> Result<(), Failure> {
        check_string(len)?;
        let spread = Spread { id, count: len as u64, first: 0 };
        self.put_value((db, key), Type::LARGE_STRING, &spread.encode(Kind::String), expiry_ms)
    }
}
