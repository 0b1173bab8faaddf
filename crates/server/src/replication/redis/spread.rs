//! Values whose entries are elements, as an RDB file has them.

use crate::format::{
    Kind, PIECE_SIZE, Part, Spread, Strip, StripEntry, Type, UnknownLayout, Value, decode_field,
    element_prefix, position_order, score_from_order,
};
use crate::rdb::Writer;
use crate::replication::outlet::End;
use crate::replication::redis::elements::Elements;
use crate::replication::redis::stream::read_stream;

/// What was written is taken when it has so many bytes.
pub(super) const PART_SIZE: usize = 64 << 10;

/// A value that has elements.
pub(super) struct Head {
    key: Vec<u8>,
    of: Type,
    expiry_ms: Option<u64>,
    payload: Vec<u8>,
}

impl Head {
    /// The value, if it has elements.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn of(key: &[u8], value: &Value<'_>) -> Result<Option<Head>, UnknownLayout> {
        let head = || Head {
            key: key.to_vec(),
            of: value.of,
            expiry_ms: value.expiry_ms,
            payload: value.payload.to_vec(),
        };
        Ok(value.elements()?.map(|_| head()))
    }
}

/// Takes what was written, if it is enough.
pub(super) type Flush<'f> = dyn FnMut(&mut Writer) -> Result<(), End> + 'f;

/// Writes an element, by what follows the prefix of its key, and its value.
type Write<'w> =
    dyn FnMut(&mut Writer, &[u8], tembo_kv::Value<'_>) -> Result<(), UnknownLayout> + 'w;

/// Writes the elements of a part, and has what was written taken while the store is not held.
fn write_part(
    elements: &Elements<'_>,
    of: (u64, Part),
    (writer, flush): (&mut Writer, &mut Flush<'_>),
    write: &mut Write<'_>,
) -> Result<(), End> {
    let mut behind = None;
    loop {
        behind = elements.visit(of, behind.as_deref(), &mut |rest, value| {
            write(writer, rest, value)?;
            Ok(writer.size() < PART_SIZE)
        })?;
        flush(writer)?;
        if behind.is_none() {
            return Ok(());
        }
    }
}

/// Writes a value with all its elements.
///
/// # Errors
/// Those of the store and of `flush`.
pub(super) fn write_spread(
    elements: &Elements<'_>,
    head: &Head,
    (writer, flush): (&mut Writer, &mut Flush<'_>),
) -> Result<(), End> {
    writer.begin_key(head.of.kind, &head.key, head.expiry_ms);
    if head.of.kind == Kind::Stream {
        writer.stream(&read_stream(elements, &head.payload)?);
        return flush(writer);
    }
    let spread = Spread::decode(head.payload[..].into())?;
    writer.length(spread.count);
    let (main, to) = ((spread.id, Part::Main), (&mut *writer, &mut *flush));
    match head.of.kind {
        Kind::String => write_pieces(elements, spread, to),
        Kind::List if head.of.in_strips => write_strips(elements, spread, to),
        Kind::Hash => write_part(elements, main, to, &mut |writer, field, value| {
            writer.string(field);
            let (_, value) = decode_field(value)?;
            value.with(|value| writer.string(value));
            Ok(())
        }),
        Kind::SortedSet => write_part(elements, main, to, &mut |writer, member, score| {
            writer.string(member);
            writer.double(score_from_order(score.array(0).ok_or(UnknownLayout)?));
            Ok(())
        }),
        Kind::List => write_part(elements, main, to, &mut |writer, _, element| {
            element.with(|element| writer.string(element));
            Ok(())
        }),
        Kind::Set | Kind::Stream => write_part(elements, main, to, &mut |writer, member, _| {
            writer.string(member);
            Ok(())
        }),
    }
}

/// A large string. What is missing of it is zero.
fn write_pieces(
    elements: &Elements<'_>,
    spread: Spread,
    (writer, flush): (&mut Writer, &mut Flush<'_>),
) -> Result<(), End> {
    let prefix = element_prefix(spread.id, Part::Main);
    let (mut left, mut number) = (spread.count as usize, 0u64);
    while left > 0 {
        let size = left.min(PIECE_SIZE);
        let key = [&prefix[..], &number.to_be_bytes()].concat();
        let found = elements.snapshot.get(elements.space, &key)?;
        let mut piece = found.map(|piece| piece.to_vec()).unwrap_or_default();
        piece.resize(size, 0);
        writer.raw(&piece);
        flush(writer)?;
        (left, number) = (left - size, number + 1);
    }
    Ok(())
}

/// A large list whose short elements lie in strips.
fn write_strips(
    elements: &Elements<'_>,
    spread: Spread,
    to: (&mut Writer, &mut Flush<'_>),
) -> Result<(), End> {
    let prefix = element_prefix(spread.id, Part::Main);
    let (mut position, mut fault) = (spread.first, None);
    let strips = (spread.id, Part::Strip);
    write_part(elements, strips, to, &mut |writer, _, strip| {
        let bytes = strip.to_vec();
        for entry in Strip::new(&bytes) {
            match entry? {
                StripEntry::Short(range) => writer.string(&bytes[range]),
                StripEntry::Long => {
                    let key = [&prefix[..], &position_order(position)].concat();
                    match elements.snapshot.get(elements.space, &key) {
                        Ok(found) => {
                            found.ok_or(UnknownLayout)?.with(|element| writer.string(element));
                        }
                        Err(error) => fault = Some(error),
                    }
                }
            }
            position = position.wrapping_add(1);
        }
        Ok(())
    })?;
    fault.map_or(Ok(()), |error| Err(error.into()))
}
