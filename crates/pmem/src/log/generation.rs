//! Generations: each opening begins a log of its own, and no crash in between loses the old one.

use std::path::{Path, PathBuf};
use std::{io, mem};

use zerocopy::FromZeros;

use super::beside::Beside;
use super::group::{GROUP_MAX, Place, encode, encode_opening, group_size_max};
use super::replay::{Owner, Replay, read_extent, replay};
use super::ring::{CAPACITY_MIN, PIECE, Ring, capacity, limit};
use super::voids::Voids;
use crate::disk::WatchedFile;
use crate::format::{
    BLOCK, FLAG_CLEAN, FLAG_EMULATED, FLAG_LOG_NEEDED, LOG_HEADER_SIZE, LOG_MAGIC, LOG_MUST,
    LOG_VERSION, LogHeader, MediaHeader, split,
};
use crate::header::{Slots, check_features};
use crate::pool_file::with_suffix;
use crate::{Disk, DiskFile, Error, LINE};

/// A ring with fewer free bytes is not gone on with.
const RESUME_ROOM: u64 = 64 << 10;
/// As much where the disk has no room for another: the group of the opening, and zeroes to the end of a block. A checkpoint frees the
/// rest.
const RESUME_ROOM_MIN: u64 = 2 * BLOCK;
/// A ring that is not extended any more, and is smaller than one part in so many of what it may be, is not gone on with.
const SMALL_SHARE: u64 = 4;

/// Where the logs of a pool are found and made.
pub(crate) struct Source<'a> {
    pub(crate) disk: &'a dyn Disk,
    pub(crate) pool: &'a dyn DiskFile,
    pub(crate) pool_path: &'a Path,
    /// Bytes that a ring has at most, and that a new one begins with.
    pub(crate) log_size: u64,
    pub(crate) log_initial: u64,
    /// Bytes that the process may have as its own.
    pub(crate) memory: Option<u64>,
    /// Whether a thread of the log will write the zeroes of a new ring.
    pub(crate) zero_later: bool,
    /// Whether nothing is written.
    pub(crate) read_only: bool,
}

/// A log of the pool's current generation.
pub(crate) struct Adopted {
    pub(super) path: PathBuf,
    pub(super) header: Slots<LogHeader>,
    pub(super) ring: Ring,
    /// Where the groups end that are durable.
    pub(super) settled: Place,
    /// A group behind them that is still to be written, and where it ends.
    pub(super) opening: Vec<u8>,
    pub(super) end: Place,
    /// Where the ring's blocks begin that are still to be written, if some are.
    pub(super) blank: Option<u64>,
    /// Ranges of which the log holds lines that no longer count.
    pub(super) voids: Voids,
    pub(super) beside: Beside,
}

/// A log as it was found.
struct Found {
    header: Slots<LogHeader>,
    ring: Ring,
}

/// What an opening found beside the pool; nothing has been changed.
#[derive(Default)]
pub(crate) struct Old {
    found: Option<Found>,
    /// The content, of a log that the pool needs.
    pub(crate) replay: Option<Replay>,
    /// The log is of the generation behind the one that the pool's header names.
    follows: bool,
}

/// Reads the log of a pool, if it has one, and replays it, if the pool needs that.
pub(crate) fn load(source: &Source<'_>, pool: &MediaHeader) -> Result<Old, Error> {
    let path = with_suffix(source.pool_path, ".log");
    let generation = pool.generation.get();
    let found = find(source, &path, pool)?;
    if !pool.has(FLAG_LOG_NEEDED) {
        let log = found.as_ref().map(|found| found.header.get());
        return match log.filter(|log| log.generation.get() > generation + 1) {
            Some(log) => Err(foreign(&path, pool, Some(log))),
            None => Ok(Old { found, replay: None, follows: false }),
        };
    }
    let Some(found) = found else {
        return Err(Error::LogMissing { path, generation });
    };
    let log = *found.header.get();
    let follows = log.generation.get() == generation + 1 && log.previous.get() == generation;
    if log.generation.get() != generation && !follows {
        return Err(foreign(&path, pool, Some(&log)));
    }
    let owner = source.owner(&path, pool.size.get());
    let replay = replay(&found.ring, &owner, &log)?;
    Ok(Old { found: Some(found), replay: Some(replay), follows })
}

impl Source<'_> {
    fn owner<'a>(&'a self, path: &'a Path, size: u64) -> Owner<'a> {
        Owner { path, pool: self.pool, pool_path: self.pool_path, size }
    }

    /// Writes once more what of the replayed log stands in the pool file, beyond doubt: durable with the next sync of the
    /// pool file, which must come before any group or header calls the groups durable.
    pub(crate) fn rewrite_extents(&self, old: &Old) -> Result<(), Error> {
        let extents = old.replay.as_ref().map_or(&[][..], |replay| &replay.unsettled_extents);
        // A sync that failed may have left the bytes in the system's memory alone: a sync would not write them.
        let owner = self.owner(self.pool_path, 0);
        for (_, extent) in extents {
            read_extent(&owner, extent, |at, bytes| {
                self.pool.write_at("open.extent_write", bytes, at)
            })?;
        }
        Ok(())
    }
}

/// Makes the pool's header name the generation of the log that was found.
pub(crate) fn confirm(pool: &mut Slots<MediaHeader>, old: &Old) -> Result<(), Error> {
    let Some(found) = old.found.as_ref().filter(|_| old.follows) else {
        return Ok(());
    };
    // The last opening was cut off between the log's name or header and the pool's header.
    // ORDER: the log's header is durable before the pool's header names this generation, and it
    // does before the next generation begins.
    found.header.settle("open.follow_log_write", "open.follow_log_sync")?;
    pool.update("open.follow_write", "open.follow_sync", |header| {
        header.generation = found.header.get().generation;
    })
}

/// Begins a generation, in the log that the pool needs or in another, and names it in the pool's
/// header.
pub(crate) fn adopt(
    source: &Source<'_>,
    pool: &mut Slots<MediaHeader>,
    old: Old,
) -> Result<Adopted, Error> {
    confirm(pool, &old)?;
    let path = with_suffix(source.pool_path, ".log");
    let adopted = match old.replay {
        Some(mut replay) => go_on(source, pool.get(), &path, (old.found, &mut replay))?,
        None => recycle(source, pool.get(), &path, old.found)?,
    };
    let generation = adopted.header.get().generation.get();
    // ORDER: the log is durable under its name before the header names it; the header says that it
    // is needed before the first group is appended.
    pool.update("open.generation_write", "open.generation_sync", |header| {
        header.generation.set(generation);
        header.set(FLAG_LOG_NEEDED, true);
        header.set(FLAG_CLEAN, false);
        // What an emulation left in the system's memory is on the disk: opening has synced the file.
        header.set(FLAG_EMULATED, false);
    })?;
    Ok(adopted)
}

/// How a ring that was replayed serves for what comes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// As one that would be made.
    Good,
    /// It is small, or nearly full.
    Poor,
    /// It cannot be gone on with.
    None,
}

impl Fit {
    fn of(source: &Source<'_>, pool_size: u64, found: &Found, replay: &Replay) -> Fit {
        let size = found.ring.capacity();
        let wanted = limit(source.log_size, pool_size, source.memory);
        let free = size - replay.bytes;
        let can_extend = replay.end.position < size && size < wanted;
        let is_small = size < initial(source) || (!can_extend && size < wanted / SMALL_SHARE);
        if found.header.get().is_old() {
            Fit::None
        } else if !is_small && (can_extend || free >= RESUME_ROOM.min(size / 4)) {
            Fit::Good
        } else if free >= RESUME_ROOM_MIN {
            Fit::Poor
        } else {
            Fit::None
        }
    }
}

/// Goes on with a log that was replayed: in its ring, or in a new log where the ring is too small or too full, or cannot be written.
/// A disk without room for a new one leaves the ring that is there, if that can be gone on with at all.
fn go_on(
    source: &Source<'_>,
    pool: &MediaHeader,
    path: &Path,
    (found, replay): (Option<Found>, &mut Replay),
) -> Result<Adopted, Error> {
    let Some(found) = found else {
        return create(source, pool, path, Some(replay));
    };
    let fit = Fit::of(source, pool.size.get(), &found, replay);
    if fit == Fit::Good {
        return match resume(source, path, found, replay) {
            Some(adopted) => Ok(adopted),
            None => create(source, pool, path, Some(replay)),
        };
    }
    match create(source, pool, path, Some(replay)) {
        // Another size has to wait for room.
        Err(full @ Error::DiskFull { .. }) if fit == Fit::Poor => {
            resume(source, path, found, replay).ok_or(full)
        }
        made => made,
    }
}

impl Found {
    /// Makes what was replayed durable as it was found, under the next generation's number.
    ///
    /// A sync that failed may have left groups that no group calls durable in the system's memory alone: a sync would not write them,
    /// they have to be written once more. Where they are: until the header is durable, an older one may count, and name all that lies
    /// elsewhere.
    fn settle(&mut self, replay: &Replay) -> Result<(), Error> {
        let write = |bytes: &[u8], position| self.ring.write("log.resume_write", bytes, position);
        replay.unsettled(write).map_err(|e| Error::io("write", self.header.path(), e))?;
        // ORDER: what was read is durable, with the header that was found, before that one's successor overwrites the one before it, and before
        // anything is built on it.
        self.header.update_found("log.resume_next_write", "log.resume_next_sync", |header| {
            header.previous = header.generation;
            header.generation.set(header.previous.get() + 1);
        })
    }
}

/// Has the log say durably that all which was replayed is durable: before the pool file gets lines of it by another way than a
/// checkpoint, of an opening that may be cut off then, and that does without a log.
pub(crate) fn vouch(old: &mut Old) -> Result<(), Error> {
    let (Some(found), Some(replay)) = (&mut old.found, &old.replay) else {
        return Ok(());
    };
    // ORDER: the log is durable before a line of it reaches the pool file: else a crash could keep the line and lose the group.
    found.settle(replay)?;
    if !found.header.get().checks_extents() {
        return Ok(());
    }
    // ORDER: a durable header vouches for extents before lines lie over them, whose checksums fail then; and not before the groups are
    // durable for which it does.
    write_vouching(&mut found.header, replay.end.sequence - 1)
}

/// Has a log's header say durably that all groups up to `through` are durable, which they are.
pub(super) fn write_vouching(header: &mut Slots<LogHeader>, through: u64) -> Result<(), Error> {
    // ORDER: a durable header vouches for an extent before its place is overwritten, by whatever way.
    header.update("log.vouch_write", "log.vouch_sync", |header| {
        header.synced_through.set(through);
    })
}

/// Goes on in the ring of a log that was replayed, behind its last group. `None` where it cannot be written: then a log
/// elsewhere may do.
fn resume(
    source: &Source<'_>,
    path: &Path,
    mut found: Found,
    replay: &mut Replay,
) -> Option<Adopted> {
    found.settle(replay).ok()?;
    let Found { header, ring } = found;
    let (salt, settled) = (header.get().salt.get(), replay.end);
    let mut opening = Vec::new();
    let number = [source.disk.entropy(), source.disk.entropy()];
    let end = encode_opening(&mut opening, (salt, replay.synced_through), settled, number);
    let blank = blank(source, &ring, end);
    let voids = mem::take(&mut replay.voids);
    let mut doubtful = Voids::default();
    for (group, extent) in &replay.unsettled_extents {
        doubtful.paint(extent.offset, extent.end(), group + 1);
    }
    let last = replay.unsettled_extents.last().map_or(0, |(group, _)| *group);
    let beside = Beside::new(replay.synced_through, last, doubtful);
    let path = path.to_owned();
    Some(Adopted { path, header, ring, settled, opening, end, blank, voids, beside })
}

/// Where blocks begin that were never written, in a ring on its first lap.
fn blank(source: &Source<'_>, ring: &Ring, end: Place) -> Option<u64> {
    if !source.zero_later || end.position >= ring.capacity() {
        return None;
    }
    let hole = ring.file.hole(ring.offset(end.position)).ok().flatten()?;
    let is_in_ring = hole < LOG_HEADER_SIZE + ring.capacity();
    is_in_ring.then(|| hole.saturating_sub(LOG_HEADER_SIZE).max(end.position))
}

/// Recycles the log of a clean pool, or makes its first.
fn recycle(
    source: &Source<'_>,
    pool: &MediaHeader,
    path: &Path,
    found: Option<Found>,
) -> Result<Adopted, Error> {
    let wanted = initial(source)..=capacity(source.log_size);
    let mut found = match found {
        Some(found) if wanted.contains(&found.ring.capacity()) => found,
        Some(found) => match create(source, pool, path, None) {
            // Another size has to wait for room.
            Err(Error::DiskFull { .. }) => found,
            made => return made,
        },
        None => return create(source, pool, path, None),
    };
    let fresh = fresh_header(source, pool, found.ring.capacity());
    // ORDER: the header that was found is durable before its successor overwrites the one before it; the log's groups are void, by their
    // salt, before the pool's header needs the log.
    found.header.update_found("log.recycle_write", "log.recycle_sync", |header| {
        let sequence = header.sequence;
        *header = fresh;
        header.sequence = sequence;
    })?;
    let end = Place::start(found.header.get());
    let Found { header, ring } = found;
    let blank = blank(source, &ring, end);
    let voids = Voids::default();
    let (settled, opening) = (end, Vec::new());
    let (path, beside) = (path.to_owned(), Beside::default());
    Ok(Adopted { path, header, ring, settled, opening, end, blank, voids, beside })
}

/// The log of that name, if there is one; it is the pool's and whole.
fn find(source: &Source<'_>, path: &Path, pool: &MediaHeader) -> Result<Option<Found>, Error> {
    let opened = match source.read_only {
        true => source.disk.open_to_read(path),
        false => source.disk.open(path),
    };
    let file = match opened {
        Ok(file) => WatchedFile::new(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("open", path, error)),
    };
    let header = match Slots::<LogHeader>::read(file.clone(), path) {
        Err(Error::NotAPool { .. }) => return Err(foreign(path, pool, None)),
        Err(Error::Damaged { .. }) => return Err(damaged(path, 0)),
        other => other?,
    };
    let log = *header.get();
    let (must, read) = (log.features_must.get(), log.features_read.get());
    check_features(path, (must, LOG_MUST), read, source.read_only)?;
    if log.identity != pool.identity {
        return Err(foreign(path, pool, Some(&log)));
    }
    let len = file.len().map_err(|e| Error::io("measure", path, e))?;
    let capacity = log.capacity.get();
    let whole = capacity >= CAPACITY_MIN
        && capacity % LOG_HEADER_SIZE == 0
        && capacity.checked_add(LOG_HEADER_SIZE).is_some_and(|size| size <= len)
        && log.start_position.get() % LINE == 0
        && log.start_position.get() < 1 << 62
        && log.start_sequence.get() > 0;
    if !whole {
        return Err(damaged(path, log.start_sequence.get()));
    }
    Ok(Some(Found { header, ring: Ring::new(file, capacity) }))
}

/// Makes a log with the content of `replay` in the place of whatever has the name.
fn create(
    source: &Source<'_>,
    pool: &MediaHeader,
    path: &Path,
    replay: Option<&Replay>,
) -> Result<Adopted, Error> {
    let new_path = with_suffix(path, ".new");
    create_as(source, pool, path, &new_path, replay).inspect_err(|_| {
        // Of no consequence when it fails: the next creation replaces the file.
        let _ = source.disk.remove("log.remove_new", &new_path);
    })
}

fn create_as(
    source: &Source<'_>,
    pool: &MediaHeader,
    path: &Path,
    new_path: &Path,
    replay: Option<&Replay>,
) -> Result<Adopted, Error> {
    let io = |action, e| Error::io(action, new_path, e);
    let lines = replay.map_or(Vec::new(), Replay::last_places);
    let content = content_size(lines.len() as u64);
    let beside = if lines.is_empty() { 0 } else { content + source.log_size / 4 };
    let capacity = capacity(beside.max(initial(source)));
    let header = fresh_header(source, pool, capacity);
    let file = source.disk.create("log.create", new_path).map_err(|e| io("create", e))?;
    let file = WatchedFile::new(file);
    file.allocate("log.allocate", 0, LOG_HEADER_SIZE + capacity).map_err(|e| io("allocate", e))?;
    let end = fill_groups(file.as_ref(), &header, &lines, replay).map_err(|e| io("write", e))?;
    let blank = source.zero_later.then_some(end.position);
    if !source.zero_later {
        fill_zeroes(file.as_ref(), end, capacity).map_err(|e| io("write", e))?;
    }
    let mut slots = Slots::new(file.clone(), path, header);
    // ORDER: the whole log is durable before it takes the name of the old one.
    slots.update("log.header_write", "log.sync_before_rename", |_| {})?;
    let disk = source.disk;
    disk.rename("log.rename", new_path, path).map_err(|e| io("rename", e))?;
    // From here on the old log has no name, and must not be gone on with: a full disk is an error like others.
    let failure = |source| Error::Io { action: "sync directory of", path: path.to_owned(), source };
    // ORDER: the name is durable before the pool's header needs the log.
    disk.sync_dir("log.sync_dir", path).map_err(failure)?;
    let ring = Ring::new(file, capacity);
    let voids = Voids::default();
    let (header, settled, opening) = (slots, end, Vec::new());
    let (path, beside) = (path.to_owned(), Beside::default());
    Ok(Adopted { path, header, ring, settled, opening, end, blank, voids, beside })
}

/// Writes lines, which are there in what was replayed, as the ring's first groups; the place behind them.
fn fill_groups(
    file: &dyn DiskFile,
    header: &LogHeader,
    lines: &[(u64, usize)],
    replay: Option<&Replay>,
) -> io::Result<Place> {
    let mut place = Place::start(header);
    let mut at = LOG_HEADER_SIZE;
    let mut bytes = Vec::with_capacity(2 * PIECE);
    let mut groups = lines.chunks(GROUP_MAX).peekable();
    while let Some(group) = groups.next() {
        let offsets: Vec<u64> = group.iter().map(|(line, _)| *line).collect();
        let line =
            |at: usize| replay.map(|replay| replay.content.line(at)).unwrap_or([0; LINE as usize]);
        let mut values = group.iter().map(|(_, at)| line(*at));
        place = encode(
            &mut bytes,
            (header.salt.get(), place.sequence - 1),
            place,
            (&offsets, &[]),
            |_, out| out.extend(values.next().into_iter().flatten()),
        );
        if bytes.len() >= PIECE || groups.peek().is_none() {
            file.write_at("log.fill_groups", &bytes, at)?;
            at += bytes.len() as u64;
            bytes.clear();
        }
    }
    Ok(place)
}

/// Writes zeroes behind `from`, so that later groups meet blocks that are in use already, whose
/// `fdatasync` is cheaper.
fn fill_zeroes(file: &dyn DiskFile, from: Place, capacity: u64) -> io::Result<()> {
    let zeroes = vec![0; PIECE];
    let (mut at, end) = (LOG_HEADER_SIZE + from.position, LOG_HEADER_SIZE + capacity);
    while at < end {
        let piece = (end - at).min(PIECE as u64);
        file.write_at("log.fill_zeroes", &zeroes[..piece as usize], at)?;
        at += piece;
    }
    Ok(())
}

/// Bytes that replayed lines take in a new log, at most.
fn content_size(lines: u64) -> u64 {
    let (full, rest) = (lines / GROUP_MAX as u64, lines as usize % GROUP_MAX);
    full * group_size_max(GROUP_MAX) as u64 + group_size_max(rest) as u64
}

/// Bytes that a new ring begins with.
fn initial(source: &Source<'_>) -> u64 {
    capacity(source.log_initial.min(source.log_size))
}

fn fresh_header(source: &Source<'_>, pool: &MediaHeader, capacity: u64) -> LogHeader {
    let mut header = LogHeader::new_zeroed();
    header.magic = LOG_MAGIC;
    header.version.set(LOG_VERSION);
    header.features_must.set(LOG_MUST);
    header.identity = split(pool.identity());
    header.previous = pool.generation;
    header.generation.set(pool.generation.get() + 1);
    header.salt.set(source.disk.entropy());
    header.start_chain.set(source.disk.entropy() as u32);
    header.start_sequence.set(1);
    header.capacity.set(capacity);
    header
}

fn foreign(path: &Path, pool: &MediaHeader, log: Option<&LogHeader>) -> Error {
    Error::LogForeign {
        path: path.to_owned(),
        identity: pool.identity(),
        generation: pool.generation.get(),
        found_identity: log.map_or(0, |log| crate::format::join(log.identity)),
        found_generation: log.map_or(0, |log| log.generation.get()),
    }
}

fn damaged(path: &Path, sequence: u64) -> Error {
    Error::LogDamaged { path: path.to_owned(), sequence, position: 0 }
}
