//! Appending: what a fence does.
#![allow(unsafe_code)]

use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU64, Ordering};

use super::group::{GROUP_MAX, encode, group_size};
use super::voids::Voids;
use super::{RedoLog, State, UnderWay};
use crate::extent::{Extent, Freed, Room, WrittenExtent};
use crate::mapping::{Mapping, PAGE};
use crate::notes::Notes;
use crate::{HEADER_SIZE, LINE};

/// A tail of this many bytes is written, though no sync was asked for.
const WRITE_AT: usize = 1 << 20;

/// When extents of one part in this many of the largest ring are not durable, a thread syncs, though no sync was asked for:
/// an opening reads and writes them all.
const UNSYNCED_SHARE: u64 = 4;

impl RedoLog {
    /// Appends the lines and extents that a thread has noted, the calling one or one that ends, as groups. Cannot fail:
    /// what goes wrong here poisons the log, or is met again by the next sync.
    ///
    /// ORDER: a line is copied under the lock that orders groups, so that of two copies of a line
    /// the later in the log is the newer.
    pub(crate) fn append(&self, book: &impl Notes) {
        let (mut lines, mut extents, mut rooms) = book.with(|note| {
            let mut lines = std::mem::take(&mut note.lines);
            note.flushed.drain_into(&mut lines);
            let (mut extents, mut rooms) = note.take_written();
            if !note.freed.is_empty() {
                drop_freed(&note.freed, &mut rooms, &mut extents, &mut lines);
                note.freed.clear();
            }
            (lines, extents, rooms)
        });
        if lines.is_empty() && extents.is_empty() {
            return;
        }
        self.write_runs(&mut rooms, &mut lines, &mut extents);
        let first = lines.partition_point(|line| *line < HEADER_SIZE);
        let mut state = self.lock();
        let mut used = 0;
        for (lines, extents) in pieces(&lines[first..], &extents) {
            let size = group_size(lines, extents.len()) as u64;
            let mine = book.with(|note| note.held).saturating_sub(used);
            let has_room;
            (state, has_room) = self.room(state, size, mine);
            if !has_room {
                break;
            }
            // SAFETY: all lines are of the region. Those of the notes are, says what noted them (`Logged::note`); the others are
            // of extents, each of which was written to pages that are mapped (`bypass`, `write_extent`).
            unsafe { self.encode(&mut state, lines, extents) };
            used += size;
        }
        self.settle(&mut state, book, used);
        if state.tail.len() >= WRITE_AT && state.may_write() && state.poison.is_none() {
            // A failure is kept in the state, and reported by the next sync.
            let (unlocked, _) = self.write_out(state);
            state = unlocked;
        }
        self.check_fill(&mut state);
        if state.beside.unsynced() > self.log_size / UNSYNCED_SHARE
            && self.background
            && !state.want_sync
        {
            state.want_sync = true;
            self.wake.notify_all();
        }
        drop(state);
        lines.clear();
        rooms.clear();
        book.with(|note| note.give_back(lines, rooms));
    }

    /// Appends a group, which there is room for.
    ///
    /// # Safety
    /// The lines are of the region.
    unsafe fn encode(&self, state: &mut State, lines: &[u64], extents: &[WrittenExtent]) {
        let place = state.end;
        let synced_through = state.durable.sequence - 1;
        let mapping = &self.mapping;
        let records: Vec<Extent> = extents.iter().map(|written| written.extent).collect();
        let kept = state.outside_overwritten(lines);
        let lines = kept.as_deref().unwrap_or(lines);
        // Also what others have appended of it since it was written: the extent makes that count no longer.
        records.iter().for_each(|extent| state.hot.forget(extent.offset, extent.end()));
        // A group of fewer lines is no larger, though it may have more runs: each takes less than the line between them.
        // SAFETY: of both: the caller's promise.
        let read = |line| unsafe { read_line(mapping, line) };
        let changed = state.hot.changed(lines, read);
        let changed = changed.as_deref().unwrap_or(lines);
        state.end = encode(
            &mut state.tail,
            (self.salt, synced_through),
            place,
            (changed, &records),
            |line, out| {
                out.extend_from_slice(&read(line));
                if let Some(observer) = &self.observer {
                    observer.copied(line);
                }
            },
        );
        let data_at = state.tail.len() - changed.len() * LINE as usize;
        state.hot.appended(changed, &state.tail[data_at..]);
        self.frees.appended(state.end.sequence);
        state.beside.append(place.sequence, synced_through, extents);
        // Also those that have not changed are the process's own pages now.
        for page in lines.chunk_by(|one, other| one / PAGE == other / PAGE) {
            state.pages.touch(page[0], place.sequence);
            self.frees.logged(page[0], place.sequence);
        }
    }

    /// Takes what was used off what the thread holds; a thread without a section holds nothing.
    fn settle(&self, state: &mut State, book: &impl Notes, used: u64) {
        let released = book.with(|note| {
            let left = if note.depth > 0 { note.held.saturating_sub(used) } else { 0 };
            let released = note.held - left;
            note.held = left;
            released
        });
        state.held = state.held.saturating_sub(released);
    }

    /// Waits until `size` bytes are free beside what others hold; `false` when that cannot be.
    ///
    /// Only a thread that flushed more than it reserved comes to wait here.
    fn room<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        size: u64,
        mine: u64,
    ) -> (MutexGuard<'s, State>, bool) {
        loop {
            if state.poison.is_some() {
                return (state, false);
            }
            if self.fits(&state, state.held.saturating_sub(mine), size) {
                return (state, true);
            }
            let failures = state.failures;
            state = self.make_room(state);
            if state.failures != failures {
                let cause = format!(
                    "a fence without reservation found no room in the log: {}",
                    state.failure.as_ref().map_or("", |failure| &failure.text)
                );
                self.poison(&mut state, cause);
            }
        }
    }
}

impl State {
    /// Whether the tail can be written: no other thread writes groups, or zeroes where the tail goes.
    pub(super) fn may_write(&self) -> bool {
        let UnderWay { writing, zeroes, .. } = self.under_way;
        !writing && zeroes.is_none_or(|from| self.end.position <= from)
    }

    /// The lines that no thread overwrites beside the log just now; `None`: all. Such a line is one of a space that was given
    /// up: it may have the bytes half-way, and a checkpoint must not write these behind the thread.
    fn outside_overwritten(&self, lines: &[u64]) -> Option<Vec<u64>> {
        if self.overwritten.is_empty() {
            return None;
        }
        let is_inside = |line| self.overwritten.iter().any(|&(from, to)| from <= line && line < to);
        Some(lines.iter().copied().filter(|line| !is_inside(*line)).collect())
    }
}

/// Cuts what one fence appends into groups.
///
/// ORDER: no line is in a group before the one of an extent that it lies in. It was stored after the extent was written, and replay
/// takes lines of earlier groups for what was there before. So the first lines come with the last of the extents.
fn pieces<'a>(
    lines: &'a [u64],
    extents: &'a [WrittenExtent],
) -> impl Iterator<Item = (&'a [u64], &'a [WrittenExtent])> {
    let without_lines = extents.len().div_ceil(GROUP_MAX).saturating_sub(1);
    let with_lines = lines.len().div_ceil(GROUP_MAX).max(usize::from(!extents.is_empty()));
    (0..without_lines + with_lines).map(move |index| {
        let lines = index.checked_sub(without_lines).map_or(&[][..], |index| piece(lines, index));
        (lines, piece(extents, index))
    })
}

fn piece<T>(all: &[T], index: usize) -> &[T] {
    let start = (index * GROUP_MAX).min(all.len());
    &all[start..all.len().min(start + GROUP_MAX)]
}

/// Takes out what was written in space that was freed later: it may be in use by another thread. Of an extent whose
/// space was freed in part the rest becomes lines, for its checksum is of all of it.
fn drop_freed(
    freed: &[Freed],
    rooms: &mut Vec<Room>,
    extents: &mut Vec<WrittenExtent>,
    lines: &mut Vec<u64>,
) {
    let (mut freed_rooms, mut freed_extents) = (Voids::default(), Voids::default());
    for Freed { start, end, rooms, extents } in freed {
        freed_rooms.paint(*start, *end, *rooms as u64);
        freed_extents.paint(*start, *end, *extents as u64);
    }
    let is_kept = |freed: &Voids, (start, end): (u64, u64), number: usize| {
        freed.newest(start, end).is_none_or(|count| count <= number as u64)
    };
    let mut numbers = 0..;
    rooms.retain(|room| is_kept(&freed_rooms, (room.start, room.end), numbers.next().unwrap_or(0)));
    let (mut numbers, before) = (0.., lines.len());
    extents.retain(|WrittenExtent { extent, .. }| {
        let number = numbers.next().unwrap_or(0);
        let is_kept = is_kept(&freed_extents, (extent.offset, extent.end()), number);
        if !is_kept {
            let all = (extent.offset..extent.end()).step_by(LINE as usize);
            lines.extend(all.filter(|line| !freed_extents.covers(*line, number as u64)));
        }
        is_kept
    });
    if lines.len() > before {
        lines.sort_unstable();
        lines.dedup();
    }
}

/// A line's value while others may store to it: one that the line has had.
///
/// # Safety
/// It is a line of the region that has the mapping.
unsafe fn read_line(mapping: &Mapping, line: u64) -> [u8; LINE as usize] {
    let at = mapping.base().at(line).cast::<AtomicU64>();
    let read = || -> [u64; (LINE / 8) as usize] {
        std::array::from_fn(|index| {
            // SAFETY: a line of the region, says the caller: it is aligned, and stays mapped as long as the mapping.
            unsafe { &*at.add(index) }.load(Ordering::Acquire)
        })
    };
    let mut words = read();
    loop {
        let again = read();
        if again == words {
            break;
        }
        words = again;
    }
    zerocopy::transmute!(words)
}
