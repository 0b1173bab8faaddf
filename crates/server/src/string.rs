//! Strings that are changed in part: APPEND, SETRANGE, SETBIT.

use crate::dataset::{Dataset, LARGE_STRING_SIZE, check_string};
use crate::failure::{Failure, WRONG_TYPE};
use crate::format::Kind;

/// Writes into the string under a key, from an offset on or at its end; one that is too short, or not there, is first
/// made longer by zeros. Of a large one no more than the pieces are written that it concerns. Returns its length.
pub(crate) fn write_string(
    data: &mut Dataset<'_>,
    (db, key): (usize, &[u8]),
    offset: Option<usize>,
    bytes: &[u8],
) -> Result<usize, Failure> {
    let (mut payload, mut pieces) = (Vec::new(), None);
    let found = data.find(db, key)?;
    let (len, expiry_ms) = match &found {
        Some(value) if value.of.kind != Kind::String => return Err(WRONG_TYPE.into()),
        Some(value) => (value.string_len()?, value.expiry_ms),
        None => (0, None),
    };
    let offset = offset.unwrap_or(len);
    let new_len = len.max(check_size(offset, bytes.len())?);
    if let Some(value) = found {
        pieces = value.pieces()?;
        if pieces.is_none() {
            payload.reserve_exact(if new_len < LARGE_STRING_SIZE { new_len } else { len });
            value.payload.append_to(&mut payload);
        }
    }
    if pieces.is_none() && new_len < LARGE_STRING_SIZE {
        payload.resize(new_len, 0);
        payload[offset..offset + bytes.len()].copy_from_slice(bytes);
        data.put(db, key, &payload, expiry_ms)?;
        return Ok(new_len);
    }
    data.atomically(payload.len() + bytes.len(), |data| {
        let id = match pieces {
            Some((id, _)) => id,
            None => data.new_id(db)?,
        };
        data.write_pieces((db, id), 0, &payload)?;
        data.write_pieces((db, id), offset, bytes)?;
        data.put_pieces((db, key), (id, new_len), expiry_ms)
    })?;
    Ok(new_len)
}

/// The sum, if a string may be so long.
fn check_size(size: usize, more: usize) -> Result<usize, Failure> {
    let size = size.saturating_add(more);
    check_string(size).map(|()| size)
}
