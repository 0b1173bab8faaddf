//! Values without elements, as an RDB file has them.

use crate::format::{Kind, Packed, UnknownLayout, Value, score_from_order};
use crate::rdb::Writer;

/// Appends a value that has all its entries in itself.
///
/// # Errors
/// It is none.
pub(super) fn write_packed(
    writer: &mut Writer,
    key: &[u8],
    value: &Value<'_>,
) -> Result<(), UnknownLayout> {
    let kind = value.of.kind;
    writer.begin_key(kind, key, value.expiry_ms);
    value.payload.with(|payload| {
        if kind == Kind::String {
            writer.string(payload);
            return Ok(());
        }
        let entries = Packed::new(payload)?;
        let count = entries.count();
        let is_paired = matches!(kind, Kind::Hash | Kind::SortedSet);
        if is_paired && count % 2 == 1 || kind == Kind::Stream {
            return Err(UnknownLayout);
        }
        writer.length(if is_paired { count / 2 } else { count } as u64);
        if kind != Kind::SortedSet {
            entries.for_each(|entry| writer.string(entry));
            return Ok(());
        }
        let mut score = 0.0;
        for (at, entry) in entries.enumerate() {
            if at % 2 == 0 {
                score = score_from_order(entry.try_into().map_err(|_| UnknownLayout)?);
            } else {
                writer.string(entry);
                writer.double(score);
            }
        }
        Ok(())
    })
}
