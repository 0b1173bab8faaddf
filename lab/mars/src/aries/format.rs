//! The bytes of ARIES on the array: two master lines, log records, the head of a page.

use tembo_pmem::{LINE, crc32c};

/// A place in the stream of the log, in bytes; 0: none.
pub type Lsn = u64;

/// The first place in the stream.
pub(crate) const FIRST: Lsn = LINE;

/// Bytes of the head of a record.
pub(crate) const HEAD_SIZE: usize = 64;

/// Bytes of the head of a page: how new it is, and nothing else.
pub(crate) const PAGE_HEAD: usize = LINE as usize;

/// Bytes of a master line.
pub(crate) const MASTER_SIZE: usize = LINE as usize;

/// A transaction of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Active {
    pub(crate) transaction: u64,
    /// Its last record.
    pub(crate) last: Lsn,
    /// Its next record to undo.
    pub(crate) undo_next: Lsn,
    /// Its first record.
    pub(crate) first: Lsn,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// Bytes of a page were changed: undo and redo.
    Update {
        page: u64,
        offset: u32,
        before: Vec<u8>,
        after: Vec<u8>,
    },
    /// A change was taken back: redo only. `undo_next` is what is to be undone after it.
    Compensation {
        page: u64,
        offset: u32,
        after: Vec<u8>,
        undo_next: Lsn,
    },
    Commit,
    /// Nothing of the transaction is left to do.
    End,
    /// The transactions that are not over, and the dirty pages with what made them so.
    Checkpoint {
        active: Vec<Active>,
        dirty: Vec<(u64, Lsn)>,
    },
}

/// A log record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) lsn: Lsn,
    pub(crate) transaction: u64,
    /// The record of the transaction before it.
    pub(crate) previous: Lsn,
    pub(crate) body: Body,
}

/// Words of a head, in their order.
struct Head {
    lsn: Lsn,
    /// Of the record, in the low half; its checksum in the high one.
    len_and_sum: u64,
    /// The opening that wrote it, shifted by 8, and the kind.
    kind: u64,
    transaction: u64,
    previous: Lsn,
    page: u64,
    offset: u64,
    undo_next: Lsn,
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(8).map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap_or_default()))
}

fn bytes(words: impl IntoIterator<Item = u64>) -> Vec<u8> {
    words.into_iter().flat_map(u64::to_le_bytes).collect()
}

impl Head {
    fn read(head: &[u8]) -> Option<Head> {
        let mut words = words(head.get(..HEAD_SIZE)?);
        let mut word = || words.next().unwrap_or_default();
        Some(Head {
            lsn: word(),
            len_and_sum: word(),
            kind: word(),
            transaction: word(),
            previous: word(),
            page: word(),
            offset: word(),
            undo_next: word(),
        })
    }

    fn bytes(&self) -> Vec<u8> {
        let Head { lsn, len_and_sum, kind, transaction, previous, page, offset, undo_next } = *self;
        bytes([lsn, len_and_sum, kind, transaction, previous, page, offset, undo_next])
    }
}

/// The length of the record of that place, if a head says that it is there.
pub(crate) fn len_of(head: &[u8], lsn: Lsn) -> Option<usize> {
    let head = Head::read(head)?;
    let len = head.len_and_sum as u32 as usize;
    (head.lsn == lsn && len >= HEAD_SIZE).then_some(len)
}

impl Record {
    /// The bytes that an opening of that number writes.
    pub(crate) fn encode(&self, opening: u64) -> Vec<u8> {
        let Record { lsn, transaction, previous, ref body } = *self;
        let (kind, page, offset, undo_next, data) = match body {
            Body::Update { page, offset, before, after } => {
                (1, *page, *offset, 0, [&before[..], after].concat())
            }
            Body::Compensation { page, offset, after, undo_next } => {
                (2, *page, *offset, *undo_next, after.clone())
            }
            Body::Commit => (3, 0, 0, 0, Vec::new()),
            Body::End => (4, 0, 0, 0, Vec::new()),
            Body::Checkpoint { active, dirty } => {
                let rows = active
                    .iter()
                    .flat_map(|row| [row.transaction, row.last, row.undo_next, row.first]);
                let pages = dirty.iter().flat_map(|(page, lsn)| [*page, *lsn]);
                (5, active.len() as u64, 0, 0, bytes(rows.chain(pages)))
            }
        };
        let (offset, kind) = (offset.into(), opening << 8 | kind);
        let len = (HEAD_SIZE + data.len()) as u64;
        let mut head =
            Head { lsn, len_and_sum: len, kind, transaction, previous, page, offset, undo_next };
        let sum = crc32c(crc32c(0, &head.bytes()), &data);
        head.len_and_sum |= u64::from(sum) << 32;
        [head.bytes(), data].concat()
    }

    /// The record of those bytes, and the opening that wrote it; `None`: it is torn, or no record.
    pub(crate) fn decode(record: &[u8]) -> Option<(Record, u64)> {
        let mut head = Head::read(record)?;
        let data = &record[HEAD_SIZE..];
        let sum = (head.len_and_sum >> 32) as u32;
        head.len_and_sum &= u64::from(u32::MAX);
        if head.len_and_sum != record.len() as u64 || crc32c(crc32c(0, &head.bytes()), data) != sum
        {
            return None;
        }
        let Head { lsn, kind, transaction, previous, page, undo_next, .. } = head;
        let offset = head.offset as u32;
        let body = match kind & 0xff {
            1 => {
                let (before, after) = data.split_at(data.len() / 2);
                Body::Update { page, offset, before: before.to_vec(), after: after.to_vec() }
            }
            2 => Body::Compensation { page, offset, after: data.to_vec(), undo_next },
            3 => Body::Commit,
            4 => Body::End,
            5 => {
                let all: Vec<u64> = words(data).collect();
                let (rows, pages) = all.split_at_checked(4 * page as usize)?;
                let active = rows.chunks_exact(4).map(|row| Active {
                    transaction: row[0],
                    last: row[1],
                    undo_next: row[2],
                    first: row[3],
                });
                let dirty = pages.chunks_exact(2).map(|pair| (pair[0], pair[1]));
                Body::Checkpoint { active: active.collect(), dirty: dirty.collect() }
            }
            _ => return None,
        };
        Some((Record { lsn, transaction, previous, body }, kind >> 8))
    }
}

/// Where recovery begins. Two lines hold it in turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Master {
    /// How often it was written.
    pub(crate) count: u64,
    /// How often the log was opened.
    pub(crate) opening: u64,
    /// The last checkpoint; 0: none.
    pub(crate) checkpoint: Lsn,
    /// The first record that recovery may need.
    pub(crate) from: Lsn,
}

impl Master {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Master { count, opening, checkpoint, from } = *self;
        let mut line = bytes([count, opening, checkpoint, from]);
        let sum = crc32c(!0, &line);
        line.extend(u64::from(sum).to_le_bytes());
        line.resize(MASTER_SIZE, 0);
        line
    }

    pub(crate) fn decode(line: &[u8]) -> Option<Master> {
        let found: Vec<u64> = words(line).collect();
        let [count, opening, checkpoint, from, sum, ..] = found[..] else { return None };
        let is_whole = u64::from(crc32c(!0, &line[..32])) == sum;
        is_whole.then_some(Master { count, opening, checkpoint, from })
    }
}
