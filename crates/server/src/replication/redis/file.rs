//! All databases of a snapshot as an RDB file.
//!
//! What is made is given away in parts: neither the file nor a large value is ever in memory as a whole, but for a stream. The
//! store is not held while a part is given away. The file of a snapshot is the same each time.

use std::ops::Bound;

use tembo_kv::{Direction, Keyspace, Snapshot};

use crate::config::DATABASES_MAX;
use crate::format::{
    LIBRARIES_KEYSPACE, ORDER_KEY, ORDER_KEYSPACE, Value, data_keyspace, decode_order,
    elements_keyspace,
};
use crate::rdb::{Writer, crc64};
use crate::replication::outlet::End;
use crate::replication::redis::elements::Elements;
use crate::replication::redis::packed::write_packed;
use crate::replication::redis::spread::{Head, PART_SIZE, write_spread};

/// The format's name and version, which is that of Redis 7.0.
const BEGIN: &[u8] = b"REDIS0010";
/// Before the number of a database.
const DATABASE: u8 = 0xfe;
/// At the end, before the checksum.
const FILE_END: u8 = 0xff;
/// Takes the parts of a file.
pub(super) type Give<'g> = dyn FnMut(&[u8]) -> Result<(), End> + 'g;

/// Where the parts of a file go.
struct Output<'f, 'g> {
    checksum: u64,
    give: &'f mut Give<'g>,
}

impl Output<'_, '_> {
    /// Gives away what was made.
    fn flush(&mut self, writer: &mut Writer) -> Result<(), End> {
        let part = writer.take();
        self.checksum = crc64(self.checksum, &part);
        (self.give)(&part)
    }

    fn flush_if_full(&mut self, writer: &mut Writer) -> Result<(), End> {
        if writer.size() >= PART_SIZE { self.flush(writer) } else { Ok(()) }
    }
}

/// Makes the file of a snapshot of so many databases, and gives its parts away.
///
/// # Errors
/// The snapshot cannot be read, or the parts are not taken.
pub(super) fn write_file(
    snapshot: &Snapshot,
    databases: usize,
    give: &mut Give<'_>,
) -> Result<(), End> {
    let (mut writer, mut output) = (Writer::default(), Output { checksum: 0, give });
    writer.raw(BEGIN);
    let keyspaces = snapshot.keyspaces()?;
    let find = |name: &str| keyspaces.iter().find(|(other, _)| other == name).map(|(_, id)| *id);
    if let Some(space) = find(LIBRARIES_KEYSPACE) {
        let all = (Bound::Unbounded, Bound::Unbounded);
        snapshot.range_with::<[u8]>(space, all, Direction::Forward, &mut |_, code| {
            code.with(|code| writer.function_library(code));
            true
        })?;
    }
    let order = match find(ORDER_KEYSPACE) {
        Some(space) => snapshot.get(space, ORDER_KEY)?.map(|value| value.to_vec()),
        None => None,
    };
    let order = order.and_then(|order| decode_order(&order, DATABASES_MAX).ok());
    let order = order.unwrap_or_else(|| (0..DATABASES_MAX as u8).collect());
    for (db, number) in order.into_iter().map(usize::from).enumerate().take(databases) {
        if let Some(data) = find(&data_keyspace(number)) {
            let space = find(&elements_keyspace(number));
            let elements = space.map(|space| Elements { snapshot, space });
            write_database((snapshot, data, db), elements, (&mut writer, &mut output))?;
        }
    }
    writer.raw(&[FILE_END]);
    output.flush(&mut writer)?;
    let checksum = output.checksum.to_le_bytes();
    (output.give)(&checksum)
}

fn write_database(
    (snapshot, data, db): (&Snapshot, Keyspace, usize),
    elements: Option<Elements<'_>>,
    (writer, output): (&mut Writer, &mut Output<'_, '_>),
) -> Result<(), End> {
    let mut is_begun = false;
    let mut behind: Bound<Vec<u8>> = Bound::Unbounded;
    loop {
        // Where it goes on; a value whose elements are written before.
        let (mut last, mut spread, mut fault) = (None, None, None);
        let range = (behind.as_ref().map(Vec::as_slice), Bound::Unbounded);
        snapshot.range_with::<[u8]>(data, range, Direction::Forward, &mut |key, bytes| {
            if !std::mem::replace(&mut is_begun, true) {
                writer.raw(&[DATABASE]);
                writer.length(db as u64);
            }
            let written = Value::decode(bytes).and_then(|value| {
                spread = Head::of(key, &value)?;
                if spread.is_none() { write_packed(writer, key, &value) } else { Ok(()) }
            });
            fault = written.err();
            let goes_on = fault.is_none() && spread.is_none() && writer.size() < PART_SIZE;
            last = (!goes_on).then(|| key.to_vec());
            goes_on
        })?;
        if let Some(fault) = fault {
            return Err(fault.into());
        }
        if let Some(head) = spread {
            let mut flush = |writer: &mut Writer| output.flush_if_full(writer);
            write_spread(&elements.ok_or(End::Store)?, &head, (writer, &mut flush))?;
        }
        output.flush_if_full(writer)?;
        let Some(key) = last else { return Ok(()) };
        behind = Bound::Excluded(key);
    }
}
