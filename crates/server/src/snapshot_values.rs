//! Values of a database in a snapshot: strings, and fields of hashes.

use tembo_kv::{Keyspace, Snapshot};

use crate::failure::Failure;
use crate::format::{
    ELEMENT_SIZE_MAX, KEY_SIZE_MAX, Kind, PIECE_SIZE, Packed, Part, Value, decode_field,
    element_prefix,
};

/// A database in a snapshot, as it was at a time.
pub(crate) struct SnapshotValues {
    pub(crate) snapshot: Snapshot,
    /// Its keys.
    pub(crate) data: Keyspace,
    /// Its elements.
    pub(crate) elements: Keyspace,
    /// What has expired by then is not there.
    pub(crate) now_ms: u64,
}

impl SnapshotValues {
    fn find(&self, key: &[u8]) -> Result<Option<Value<'_>>, Failure> {
        if key.len() > KEY_SIZE_MAX {
            return Ok(None);
        }
        let found = self.snapshot.get(self.data, key)?.map(Value::decode).transpose()?;
        Ok(found.filter(|value| !value.is_expired(self.now_ms)))
    }

    fn element(&self, id: u64, name: &[u8]) -> Result<Option<tembo_kv::Value<'_>>, Failure> {
        if name.len() > ELEMENT_SIZE_MAX {
            return Ok(None);
        }
        let key = [&element_prefix(id, Part::Main)[..], name].concat();
        Ok(self.snapshot.get(self.elements, &key)?)
    }

    /// The string under a key; `None`: none is there, or it is of another kind.
    ///
    /// # Errors
    /// Damage; a value that another server has written.
    pub(crate) fn string(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        let found = self.find(key)?;
        let Some(value) = found.filter(|value| value.of.kind == Kind::String) else {
            return Ok(None);
        };
        let Some((id, size)) = value.pieces()? else { return Ok(Some(value.payload.to_vec())) };
        let mut bytes = Vec::with_capacity(size);
        for number in 0..size.div_ceil(PIECE_SIZE) {
            if let Some(piece) = self.element(id, &(number as u64).to_be_bytes())? {
                piece.append_to(&mut bytes);
            }
            // What is missing is zero.
            bytes.resize(size.min((number + 1) * PIECE_SIZE), 0);
        }
        Ok(Some(bytes))
    }

    /// The value of a field; `None`: it is not there, or nothing is under the key, or no hash.
    ///
    /// # Errors
    /// As of [`string`](SnapshotValues::string).
    pub(crate) fn field(&self, key: &[u8], field: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        let found = self.find(key)?;
        let Some(value) = found.filter(|value| value.of.kind == Kind::Hash) else {
            return Ok(None);
        };
        let Some(spread) = value.spread()? else {
            return Ok(value.payload.with(|bytes| {
                let mut entries = Packed::trusted(bytes);
                while let (Some(name), Some(value)) = (entries.next(), entries.next()) {
                    if name == field {
                        return Some(value.to_vec());
                    }
                }
                None
            }));
        };
        let Some(element) = self.element(spread.id, field)? else { return Ok(None) };
        let (expiry_ms, value) = decode_field(element)?;
        let is_there = expiry_ms.is_none_or(|expiry_ms| expiry_ms >= self.now_ms);
        Ok(is_there.then(|| value.to_vec()))
    }
}
