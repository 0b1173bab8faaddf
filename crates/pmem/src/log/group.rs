//! Groups: how one is put together, and how one is taken for valid.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::checksum::OuterChecksum;
use crate::extent::Extent;
use crate::format::{ExtentRecord, GroupHeader, LogHeader};
use crate::mapping::PAGE;
use crate::{LINE, crc32c};

/// Lines in a group at most, and extents: what one fence appends is cut into groups of this size.
pub(super) const GROUP_MAX: usize = 1024;

const HEADER: usize = size_of::<GroupHeader>();
/// Bytes of a group's header that the running checksum covers.
const CHAINED: usize = 56;
/// Bytes of a group's header that its own checksum covers.
const CERTIFIED: usize = 60;

/// A point between two groups: where and as which the next one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(super) position: u64,
    pub(super) sequence: u64,
    pub(super) chain: u32,
}

impl Place {
    /// Where replay of a log begins.
    pub(super) fn start(header: &LogHeader) -> Place {
        Place {
            position: header.start_position.get(),
            sequence: header.start_sequence.get(),
            chain: header.start_chain.get(),
        }
    }
}

/// What a log's header says of its groups.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogKind {
    pub(super) salt: u64,
    /// Whether extents carry checksums.
    pub(super) checks_extents: bool,
    /// The checksum around payloads and extents.
    pub(super) outer: OuterChecksum,
}

impl LogKind {
    pub(super) fn of(header: &LogHeader) -> LogKind {
        LogKind {
            salt: header.salt.get(),
            checks_extents: header.checks_extents(),
            outer: header.outer_checksum(),
        }
    }

    /// Of a log that is written to.
    pub(super) fn written(salt: u64) -> LogKind {
        LogKind { salt, checks_extents: true, outer: OuterChecksum::Xxh3 }
    }
}

/// Bytes before the lines of a group: header, offsets, extents, zeroes up to a line.
fn head_size(lines: usize, extents: usize) -> usize {
    HEADER + (lines * 8 + extents * size_of::<ExtentRecord>()).next_multiple_of(LINE as usize)
}

/// Bytes of a group.
pub(super) fn group_size(lines: usize, extents: usize) -> usize {
    head_size(lines, extents) + lines * LINE as usize
}

/// Appends a group to `out`; the place behind it. `copy` puts a line's bytes behind `out`.
pub(super) fn encode(
    out: &mut Vec<u8>,
    (salt, synced_through): (u64, u64),
    place: Place,
    (lines, extents): (&[u64], &[Extent]),
    mut copy: impl FnMut(u64, &mut Vec<u8>),
) -> Place {
    let start = out.len();
    out.reserve(group_size(lines.len(), extents.len()));
    let mut header = GroupHeader::new_zeroed();
    header.salt.set(salt);
    header.sequence.set(place.sequence);
    header.synced_through.set(synced_through);
    header.lines.set(lines.len() as u32);
    header.extents.set(extents.len() as u32);
    header.position.set(place.position);
    out.extend_from_slice(header.as_bytes());
    lines.iter().for_each(|line| out.extend_from_slice(&line.to_le_bytes()));
    for extent in extents {
        let record = ExtentRecord {
            offset: extent.offset.into(),
            pages: ((extent.len / PAGE) as u32).into(),
            checksum: extent.checksum.unwrap_or_default().into(),
        };
        out.extend_from_slice(record.as_bytes());
    }
    out.resize(start + head_size(lines.len(), extents.len()), 0);
    lines.iter().for_each(|line| copy(*line, out));

    seal(out, start, place)
}

/// Appends a group without lines that carries a random number: no group that an earlier process
/// left behind it continues its chain.
pub(super) fn encode_opening(
    out: &mut Vec<u8>,
    (salt, synced_through): (u64, u64),
    place: Place,
    number: [u64; 2],
) -> Place {
    let start = out.len();
    let mut header = GroupHeader::new_zeroed();
    header.salt.set(salt);
    header.sequence.set(place.sequence);
    header.synced_through.set(synced_through);
    header.position.set(place.position);
    header.random = number.map(U64::new);
    out.extend_from_slice(header.as_bytes());
    seal(out, start, place)
}

/// Puts the checksums into the group that begins at `start` of `out`; the place behind it.
fn seal(out: &mut [u8], start: usize, place: Place) -> Place {
    let chain = chain(OuterChecksum::Xxh3, place.chain, &out[start..]);
    out[start + CHAINED..start + CERTIFIED].copy_from_slice(&chain.to_le_bytes());
    let crc = crc32c(0, &out[start..start + CERTIFIED]);
    out[start + CERTIFIED..start + HEADER].copy_from_slice(&crc.to_le_bytes());
    Place {
        position: place.position + (out.len() - start) as u64,
        sequence: place.sequence + 1,
        chain,
    }
}

fn chain(outer: OuterChecksum, before: u32, group: &[u8]) -> u32 {
    outer.chain(crc32c(before, &group[..CHAINED]), &group[HEADER..])
}

/// A header that certifies itself, wherever it was found.
pub(super) fn certified(bytes: &[u8], salt: u64) -> Option<GroupHeader> {
    if !bytes.starts_with(&salt.to_le_bytes()) {
        return None;
    }
    let header = GroupHeader::read_from_prefix(bytes).ok()?.0;
    (crc32c(0, &bytes[..CERTIFIED]) == header.crc.get()).then_some(header)
}

/// A valid group.
pub(super) struct Group<'b> {
    pub(super) sequence: u64,
    pub(super) synced_through: u64,
    offsets: &'b [u8],
    extents: &'b [u8],
    is_checked: bool,
    /// Where the first line's bytes begin, in the bytes that are walked.
    data_at: usize,
}

impl Group<'_> {
    /// Each line's offset in the region, and where its bytes are in the bytes that are walked.
    pub(super) fn lines(&self) -> impl Iterator<Item = (u64, usize)> {
        let data_at = self.data_at;
        self.offsets
            .chunks_exact(8)
            .enumerate()
            .map(move |(index, bytes)| (word(bytes), data_at + index * LINE as usize))
    }

    /// Each extent, with its checksum in a log that has them.
    pub(super) fn extents(&self) -> impl Iterator<Item = Extent> {
        let is_checked = self.is_checked;
        self.extents.chunks_exact(16).map(move |bytes| {
            let (offset, rest) = (word(&bytes[..8]), word(&bytes[8..]));
            match is_checked {
                true => {
                    let len = (rest & u64::from(u32::MAX)) * PAGE;
                    Extent { offset, len, checksum: Some((rest >> 32) as u32) }
                }
                false => Extent { offset, len: rest, checksum: None },
            }
        })
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map(u64::from_le_bytes).unwrap_or_default()
}

/// Walks groups that lie one after another in memory.
pub(super) struct Walk<'b> {
    bytes: &'b [u8],
    at: usize,
    kind: LogKind,
    pub(super) place: Place,
}

impl<'b> Walk<'b> {
    /// Walks `bytes`, which begin at `place` of a log.
    pub(super) fn new(bytes: &'b [u8], kind: LogKind, place: Place) -> Walk<'b> {
        Walk { bytes, at: 0, kind, place }
    }

    /// How far into the bytes.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The next group, if it is valid and whole.
    pub(super) fn next(&mut self) -> Option<Group<'b>> {
        let rest = self.bytes.get(self.at..)?;
        let header = certified(rest, self.kind.salt)?;
        let (lines, extents) = (header.lines.get() as usize, header.extents.get() as usize);
        if header.sequence.get() != self.place.sequence
            || header.position.get() != self.place.position
            || lines > GROUP_MAX
            || extents > GROUP_MAX
        {
            return None;
        }
        let group = rest.get(..group_size(lines, extents))?;
        let chain = chain(self.kind.outer, self.place.chain, group);
        if chain != header.chain.get() {
            return None;
        }
        let extents_at = HEADER + lines * 8;
        let found = Group {
            sequence: self.place.sequence,
            synced_through: header.synced_through.get(),
            offsets: &group[HEADER..extents_at],
            extents: &group[extents_at..extents_at + extents * size_of::<ExtentRecord>()],
            is_checked: self.kind.checks_extents,
            data_at: self.at + head_size(lines, extents),
        };
        self.at += group.len();
        self.place = Place {
            position: self.place.position + group.len() as u64,
            sequence: self.place.sequence + 1,
            chain,
        };
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place { position: 0, sequence: 1, chain: 5 };

    /// A group of one line, in which a value stands with its CRC-32C.
    fn group_with(value: u32) -> Vec<u8> {
        let mut out = Vec::new();
        let copy = |_, out: &mut Vec<u8>| {
            out.extend_from_slice(&value.to_le_bytes());
            out.extend_from_slice(&crc32c(0, &value.to_le_bytes()).to_le_bytes());
            out.resize(out.len() + LINE as usize - 8, 0);
        };
        encode(&mut out, (9, 0), PLACE, (&[4160], &[]), copy);
        out
    }

    /// What a torn write leaves: the first sector is new, the second one that of a group of the same form.
    #[test]
    fn a_torn_group_with_the_checksummed_value_of_an_older_one_is_not_valid() {
        let is_valid = |group: &[u8]| Walk::new(group, LogKind::written(9), PLACE).next().is_some();
        let (older, mut torn) = (group_with(11), group_with(13));
        assert!(is_valid(&torn));
        let cut = HEADER;
        torn[cut..].copy_from_slice(&older[cut..]);
        assert!(!is_valid(&torn));
    }
}
