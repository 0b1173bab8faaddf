//! Groups: how one is put together, and how one is taken for valid.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::checksum::OuterChecksum;
use crate::extent::Extent;
use crate::format::{ExtentRecord, GroupHeader, LineRun, LogHeader};
use crate::mapping::PAGE;
use crate::{LINE, crc32c};

/// Lines in a group at most, and extents: what one fence appends is cut into groups of this size.
pub(super) const GROUP_MAX: usize = 1024;

const HEADER: usize = size_of::<GroupHeader>();
/// Runs that stand in a group's header.
const FIRST: usize = 2;
/// Bytes of a group's header that the running checksum covers.
const CHAINED: usize = 56;
/// Bytes of a group's header that its own checksum covers.
const CERTIFIED: usize = 60;

/// A point between two groups. It has the position, the sequence and the chain with which the next group begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// Whether lines are named in runs.
    pub(super) has_runs: bool,
    /// The checksum around payloads and extents.
    pub(super) outer: OuterChecksum,
}

impl LogKind {
    pub(super) fn of(header: &LogHeader) -> LogKind {
        LogKind {
            salt: header.salt.get(),
            checks_extents: header.checks_extents(),
            has_runs: header.has_runs(),
            outer: header.outer_checksum(),
        }
    }

    /// Of a log that is written to.
    pub(super) fn written(salt: u64) -> LogKind {
        LogKind { salt, checks_extents: true, has_runs: true, outer: OuterChecksum::Xxh3 }
    }

    /// The names of lines that stand in a group's header, and how many stand behind it.
    fn names<'h>(&self, header: &'h GroupHeader) -> (&'h [U64], usize) {
        let names = header.runs.get() as usize;
        let here = if self.has_runs { names.min(FIRST) } else { 0 };
        (&header.first[..here], names - here)
    }

    /// What a word says that names lines.
    fn run(&self, word: u64) -> LineRun {
        match self.has_runs {
            true => LineRun::of(word),
            false => LineRun { offset: word, count: 1 },
        }
    }
}

/// Bytes before the lines of a group: header, so many words that name lines, extents, zeroes up to a line.
fn head_size(words: usize, extents: usize) -> usize {
    HEADER + (words * 8 + extents * size_of::<ExtentRecord>()).next_multiple_of(LINE as usize)
}

/// Bytes of a group.
pub(super) fn group_size(lines: &[u64], extents: usize) -> usize {
    let words = runs_of(lines).count().saturating_sub(FIRST);
    head_size(words, extents) + lines.len() * LINE as usize
}

/// Bytes of a group of so many lines at most.
pub(super) fn group_size_max(lines: usize) -> usize {
    head_size(lines.saturating_sub(FIRST), 0) + lines * LINE as usize
}

/// The runs of lines that are in order.
fn runs_of(lines: &[u64]) -> impl Iterator<Item = LineRun> {
    let runs = lines.chunk_by(|one, next| one + LINE == *next);
    runs.map(|run| LineRun { offset: run[0], count: run.len() as u64 })
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
    out.reserve(group_size_max(lines.len()) + size_of_val(extents));
    let mut header = GroupHeader::new_zeroed();
    header.salt.set(salt);
    header.sequence.set(place.sequence);
    header.synced_through.set(synced_through);
    header.extents.set(extents.len() as u32);
    header.position.set(place.position);
    // The header is written when the runs are counted.
    out.resize(start + HEADER, 0);
    let mut count = 0;
    for run in runs_of(lines) {
        match header.first.get_mut(count) {
            Some(first) => first.set(run.word()),
            None => out.extend_from_slice(&run.word().to_le_bytes()),
        }
        count += 1;
    }
    header.runs.set(count as u32);
    out[start..start + HEADER].copy_from_slice(header.as_bytes());
    for extent in extents {
        let record = ExtentRecord {
            offset: extent.offset.into(),
            pages: ((extent.len / PAGE) as u32).into(),
            checksum: extent.checksum.unwrap_or_default().into(),
        };
        out.extend_from_slice(record.as_bytes());
    }
    out.resize(start + head_size(count.saturating_sub(FIRST), extents.len()), 0);
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
    header.first = number.map(U64::new);
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
    kind: LogKind,
    header: GroupHeader,
    /// Words behind the header that name lines.
    words: &'b [u8],
    extents: &'b [u8],
    /// Where the first line's bytes begin, in the bytes that are walked.
    data_at: usize,
}

impl Group<'_> {
    /// Each line's offset in the region, and where its bytes are in the bytes that are walked.
    pub(super) fn lines(&self) -> impl Iterator<Item = (u64, usize)> {
        let (kind, data_at) = (self.kind, self.data_at);
        let lines = runs(kind, &self.header, self.words).flat_map(LineRun::lines);
        lines.enumerate().map(move |(index, line)| (line, data_at + index * LINE as usize))
    }

    /// Each extent, with its checksum in a log that has them.
    pub(super) fn extents(&self) -> impl Iterator<Item = Extent> {
        let is_checked = self.kind.checks_extents;
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

/// The runs of a group: of its header, and of the words behind it.
fn runs<'g>(
    kind: LogKind,
    header: &'g GroupHeader,
    words: &'g [u8],
) -> impl Iterator<Item = LineRun> + 'g {
    let (here, _) = kind.names(header);
    let all = here.iter().map(|name| name.get()).chain(words.chunks_exact(8).map(word));
    all.map(move |word| kind.run(word))
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
        let (names, extents) = (header.runs.get() as usize, header.extents.get() as usize);
        if header.sequence.get() != self.place.sequence
            || header.position.get() != self.place.position
            || names > GROUP_MAX
            || extents > GROUP_MAX
        {
            return None;
        }
        let (_, words) = self.kind.names(&header);
        let (words_end, data_at) = (HEADER + words * 8, head_size(words, extents));
        // The words may not be those that were written. Only the checksum shows it, and it needs the number of lines first.
        let words = rest.get(..data_at)?.get(HEADER..words_end)?;
        let lines: u64 = runs(self.kind, &header, words).map(|run| run.count).sum();
        if lines > GROUP_MAX as u64 {
            return None;
        }
        let group = rest.get(..data_at + (lines * LINE) as usize)?;
        let chain = chain(self.kind.outer, self.place.chain, group);
        if chain != header.chain.get() {
            return None;
        }
        let found = Group {
            sequence: self.place.sequence,
            synced_through: header.synced_through.get(),
            kind: self.kind,
            header,
            words,
            extents: &group[words_end..words_end + extents * size_of::<ExtentRecord>()],
            data_at: self.at + data_at,
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

    /// A group of these lines, each of which holds its offset.
    fn group_of(lines: &[u64], extents: &[Extent]) -> Vec<u8> {
        let mut out = Vec::new();
        let copy = |line: u64, out: &mut Vec<u8>| {
            (0..LINE / 8).for_each(|_| out.extend_from_slice(&line.to_le_bytes()));
        };
        encode(&mut out, (9, 0), PLACE, (lines, extents), copy);
        out
    }

    /// The same in the form without runs, as earlier releases have written it.
    fn old_group_of(lines: &[u64], extents: &[Extent]) -> Vec<u8> {
        let mut header = GroupHeader::new_zeroed();
        header.salt.set(9);
        header.sequence.set(PLACE.sequence);
        header.runs.set(lines.len() as u32);
        header.extents.set(extents.len() as u32);
        header.position.set(PLACE.position);
        let mut out = header.as_bytes().to_vec();
        lines.iter().for_each(|line| out.extend_from_slice(&line.to_le_bytes()));
        for extent in extents {
            out.extend_from_slice(&extent.offset.to_le_bytes());
            out.extend_from_slice(&((extent.len / 4096) as u32).to_le_bytes());
            out.extend_from_slice(&extent.checksum.unwrap().to_le_bytes());
        }
        out.resize(out.len().next_multiple_of(64), 0);
        for line in lines {
            (0..8).for_each(|_| out.extend_from_slice(&line.to_le_bytes()));
        }
        seal(&mut out, 0, PLACE);
        out
    }

    /// Of a log of earlier releases.
    fn without_runs() -> LogKind {
        LogKind { has_runs: false, ..LogKind::written(9) }
    }

    /// Whether it is found as it was written.
    fn is_found(kind: LogKind, bytes: &[u8], lines: &[u64], extents: &[Extent]) -> bool {
        let mut walk = Walk::new(bytes, kind, PLACE);
        let Some(group) = walk.next() else { return false };
        let found: Vec<u64> = group.lines().map(|(line, _)| line).collect();
        let values = group.lines().all(|(line, at)| bytes[at..at + 8] == line.to_le_bytes());
        let is_whole = walk.at() == bytes.len() && walk.place.sequence == PLACE.sequence + 1;
        found == lines && values && is_whole && group.extents().eq(extents.iter().copied())
    }

    /// The next number of a sequence.
    fn next(state: &mut u64) -> u64 {
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *state >> 33
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

    #[test]
    fn whatever_lines_a_group_has_it_is_found_as_it_was_written() {
        let mut state = 1;
        for round in 0..300 {
            // Few long runs, or many short ones.
            let (count, gaps) = (next(&mut state) % 40, 1 + next(&mut state) % 40);
            let (mut lines, mut at) = (Vec::new(), 4096 + next(&mut state) * LINE);
            for _ in 0..count {
                at += (1 + next(&mut state) % gaps) * LINE;
                lines.extend((0..=next(&mut state) % 30).map(|number| at + number * LINE));
                at = lines.last().map_or(at, |last| last + LINE);
            }
            lines.truncate(GROUP_MAX);
            let extents: Vec<Extent> = (0..next(&mut state) % 5)
                .map(|number| {
                    let checksum = Some(next(&mut state) as u32);
                    Extent { offset: number << 20, len: (1 + number) * PAGE, checksum }
                })
                .collect();
            let bytes = group_of(&lines, &extents);
            assert_eq!(bytes.len(), group_size(&lines, extents.len()), "{round}");
            assert!(bytes.len() <= group_size_max(lines.len()) + (extents.len() + 4) * 16);
            let kind = LogKind::written(9);
            assert!(is_found(kind, &bytes, &lines, &extents), "{round}");
            assert!(!is_found(kind, &bytes[..bytes.len() - 1], &lines, &extents), "cut off");
            let old = old_group_of(&lines, &extents);
            assert!(is_found(without_runs(), &old, &lines, &extents), "{round}");
            assert!(!is_found(without_runs(), &old[..old.len() - 1], &lines, &extents));
            assert!(lines.is_empty() || !is_found(kind, &old, &lines, &extents), "{round}");
        }
    }

    #[test]
    fn as_many_lines_and_extents_as_a_group_may_have_are_found_in_both_forms() {
        let lines: Vec<u64> = (1..=GROUP_MAX as u64).map(|number| number * 4096).collect();
        let extents: Vec<Extent> = (1..=GROUP_MAX as u64)
            .map(|number| Extent { offset: number << 20, len: PAGE, checksum: Some(number as u32) })
            .collect();
        assert!(is_found(LogKind::written(9), &group_of(&lines, &extents), &lines, &extents));
        assert!(is_found(without_runs(), &old_group_of(&lines, &extents), &lines, &extents));
        let more = [&lines[..], &[8 << 20]].concat();
        assert!(!is_found(without_runs(), &old_group_of(&more, &extents), &more, &extents));
    }

    #[test]
    fn the_first_group_of_an_opening_has_no_lines_in_either_form() {
        let mut bytes = Vec::new();
        encode_opening(&mut bytes, (9, 0), PLACE, [u64::MAX, 77]);
        for kind in [LogKind::written(9), without_runs()] {
            assert!(is_found(kind, &bytes, &[], &[]));
        }
    }

    #[test]
    fn lines_that_lie_side_by_side_are_named_by_one_word_and_few_runs_take_no_room() {
        let page: Vec<u64> = (0..64).map(|number| (1 << 20) + number * LINE).collect();
        assert_eq!(group_size(&page, 0), HEADER + 64 * 64);
        assert_eq!(group_size(&[4160], 0), HEADER + 64);
        assert_eq!(group_size(&[4160, 8192], 0), HEADER + 2 * 64);
        assert_eq!(group_size(&[4160, 8192, 16384], 0), HEADER + 64 + 3 * 64);
        let most = LineRun { offset: crate::SIZE_MAX - LINE, count: GROUP_MAX as u64 };
        assert_eq!(LineRun::of(most.word()), most);
    }

    #[test]
    fn whatever_words_name_lines_nothing_is_read_behind_the_end() {
        let mut state = 7;
        let lines: Vec<u64> = (0..40).map(|number| 4096 + number * 3 * LINE).collect();
        let sound = group_of(&lines, &[]);
        let (mut valid, mut refused) = (0, 0);
        for _ in 0..2_000 {
            let mut bytes = sound.clone();
            // Words of the header and behind it, the number of runs, of extents.
            for _ in 0..1 + next(&mut state) % 3 {
                let at = [24, 28, 40, 48, 64 + 8 * (next(&mut state) as usize % 38)];
                let at = at[next(&mut state) as usize % 5];
                let value = next(&mut state) << (next(&mut state) % 32);
                let len = if at < 32 { 4 } else { 8 };
                bytes[at..at + len].copy_from_slice(&(value % 2000).to_le_bytes()[..len]);
                if at >= 40 {
                    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
                }
            }
            bytes.truncate(next(&mut state) as usize % (2 * bytes.len()) + 64);
            // The checksums are made to fit, for each length that the group may have.
            for end in (HEADER..=bytes.len()).step_by(LINE as usize) {
                let mut group = bytes[..end].to_vec();
                seal(&mut group, 0, PLACE);
                let mut walk = Walk::new(&group, LogKind::written(9), PLACE);
                let Some(found) = walk.next() else {
                    refused += 1;
                    continue;
                };
                valid += 1;
                assert!(found.lines().count() <= GROUP_MAX);
                assert!(found.lines().all(|(_, at)| at + LINE as usize <= end));
                assert!(found.extents().count() <= GROUP_MAX);
            }
        }
        assert!(valid > 0 && refused > 0, "{valid} and {refused}");
    }
}
