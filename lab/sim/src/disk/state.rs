//! What a disk and the system's memory of it hold: files and names, each with what a power loss may
//! leave instead.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::chooser::{Chooser, Site};
use super::kept::Kept;
use super::sector::{SECTOR, Sector, mix};

/// What a sector of a file occupies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// Nothing: a write has to find room.
    Hole,
    /// Room, which was never written: the first write changes more than the bytes.
    Unwritten,
    /// Room with bytes.
    Written,
}

/// A file.
#[derive(Clone, Debug)]
pub(super) struct File {
    sectors: Vec<Kept<Arc<Sector>>>,
    blocks: Vec<Block>,
    /// Sectors that were given back since the last sync that succeeded, and not written since.
    punched: BTreeSet<usize>,
    len: Kept<u64>,
}

impl File {
    pub(super) fn empty() -> File {
        File {
            sectors: Vec::new(),
            blocks: Vec::new(),
            punched: BTreeSet::new(),
            len: Kept::durable(0),
        }
    }

    /// A file that the medium holds.
    pub(super) fn durable(bytes: &[u8]) -> File {
        let sector = |piece: &[u8]| {
            let mut bytes = [0; SECTOR];
            bytes[..piece.len()].copy_from_slice(piece);
            Kept::durable(Sector::of(bytes))
        };
        let sectors: Vec<_> = bytes.chunks(SECTOR).map(sector).collect();
        let blocks = vec![Block::Written; sectors.len()];
        File { sectors, blocks, punched: BTreeSet::new(), len: Kept::durable(bytes.len() as u64) }
    }

    fn extend(&mut self, sectors: usize) {
        if sectors > self.sectors.len() {
            self.sectors.resize_with(sectors, || Kept::durable(Sector::zero()));
            self.blocks.resize(sectors, Block::Hole);
        }
    }

    /// The first sector, at or behind `from`, that was never written.
    pub(super) fn unwritten(&self, from: usize) -> Option<usize> {
        (from..self.blocks.len()).find(|at| self.blocks[*at] != Block::Written)
    }

    /// Sectors of these bytes that were never written.
    pub(super) fn unwritten_count(&self, bytes: Range<usize>) -> usize {
        let blocks = self.blocks.iter().take(bytes.end / SECTOR).skip(bytes.start / SECTOR);
        blocks.filter(|block| **block != Block::Written).count()
    }

    /// Sectors that have room.
    pub(super) fn room_taken(&self) -> usize {
        self.blocks.iter().filter(|block| **block != Block::Hole).count()
    }

    /// Takes room for a sector where it has none; `false` when `room` has none left.
    fn occupy(&mut self, at: usize, as_what: Block, room: &mut Option<usize>) -> bool {
        if self.blocks[at] == Block::Hole {
            if *room == Some(0) {
                return false;
            }
            *room = room.map(|left| left - 1);
            self.blocks[at] = as_what;
        } else if as_what == Block::Written {
            self.blocks[at] = as_what;
        }
        true
    }

    pub(super) fn sync(&mut self) {
        self.len.sync();
        self.sectors.iter_mut().for_each(Kept::sync);
        self.punched.clear();
    }

    pub(super) fn fail_sync(&mut self) {
        self.len.fail_sync();
        // What was given back goes through a journal: it has that still, or never writes anything again.
        let sectors = self.sectors.iter_mut().enumerate();
        let bytes = sectors.filter(|(at, _)| !self.punched.contains(at));
        bytes.for_each(|(_, sector)| sector.fail_sync());
    }
}

/// Everything that outlives a process, and what of it outlives the power.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) files: Vec<Arc<File>>,
    pub(super) names: BTreeMap<PathBuf, Kept<Option<usize>>>,
    /// How often random bits were asked for.
    pub(super) entropy: u64,
    /// How often the machine has booted.
    pub(super) boots: u64,
    /// A sector that was written is written elsewhere the next time, which takes room for a moment.
    pub(super) copies: bool,
    /// Sectors that the disk has left; without a number, as many as are wanted.
    pub(super) room: Option<usize>,
}

impl State {
    /// The file of that name.
    pub(super) fn find(&mut self, path: &Path, chooser: &mut Chooser) -> Option<usize> {
        let place = self.names.keys().position(|name| name == path)?;
        *self.names.get_mut(path)?.get(|count| chooser.choose(Site::Name(place), count))
    }

    /// Lets a name stand for a file, or for none.
    pub(super) fn name(&mut self, path: &Path, file: Option<usize>) {
        self.names.entry(path.to_owned()).or_insert_with(|| Kept::durable(None)).set(file);
    }

    pub(super) fn len(&mut self, file: usize, chooser: &mut Chooser) -> u64 {
        let len = &self.files[file].len;
        if let Some(len) = len.decided() {
            return *len;
        }
        let file_of = Arc::make_mut(&mut self.files[file]);
        let len = *file_of.len.get(|count| chooser.choose(Site::Length(file), count));
        // What lay behind is not there if the file grows again.
        let sectors = (len as usize).div_ceil(SECTOR);
        file_of.sectors.truncate(sectors);
        file_of.blocks.truncate(sectors);
        len
    }

    fn sector(&mut self, file: usize, at: usize, chooser: &mut Chooser) -> Arc<Sector> {
        let Some(sector) = self.files[file].sectors.get(at) else {
            return Sector::zero();
        };
        if let Some(sector) = sector.decided() {
            return sector.clone();
        }
        let kept = &mut Arc::make_mut(&mut self.files[file]).sectors[at];
        let torn = kept.ends().filter(|_| chooser.tears()).map(|(old, new)| Sector::torn(old, new));
        let found = kept.get(|count| chooser.choose(Site::Sector(file, at), count)).clone();
        let Some(torn) = torn else { return found };
        *kept = Kept::durable(torn.clone());
        torn
    }

    /// Reads what lies within the file's length, which the caller has checked; a hash of it.
    pub(super) fn read(
        &mut self,
        file: usize,
        buffer: &mut [u8],
        offset: usize,
        chooser: &mut Chooser,
    ) -> u64 {
        let mut hash = mix(file as u64, offset as u64);
        let mut done = 0;
        while done < buffer.len() {
            let (at, from) = ((offset + done) / SECTOR, (offset + done) % SECTOR);
            let piece = (SECTOR - from).min(buffer.len() - done);
            let sector = self.sector(file, at, chooser);
            buffer[done..done + piece].copy_from_slice(&sector.bytes[from..from + piece]);
            hash = mix(hash, sector.hash);
            done += piece;
        }
        hash
    }

    /// Writes, and returns how many bytes found room.
    pub(super) fn write(
        &mut self,
        file: usize,
        bytes: &[u8],
        offset: usize,
        chooser: &mut Chooser,
    ) -> usize {
        let len = self.len(file, chooser);
        let mut done = 0;
        while done < bytes.len() {
            let (at, from) = ((offset + done) / SECTOR, (offset + done) % SECTOR);
            let piece = (SECTOR - from).min(bytes.len() - done);
            let before = self.sector(file, at, chooser);
            let file_of = Arc::make_mut(&mut self.files[file]);
            file_of.extend(at + 1);
            let is_copied = self.copies && file_of.blocks[at] == Block::Written;
            if is_copied && self.room == Some(0)
                || !file_of.occupy(at, Block::Written, &mut self.room)
            {
                break;
            }
            let mut sector = before.bytes;
            sector[from..from + piece].copy_from_slice(&bytes[done..done + piece]);
            file_of.sectors[at].set(Sector::of(sector));
            file_of.punched.remove(&at);
            done += piece;
        }
        let end = (offset + done) as u64;
        if done > 0 && end > len {
            Arc::make_mut(&mut self.files[file]).len.set(end);
        }
        done
    }

    /// Takes room, and makes the file as long as that; `false` when the disk is full.
    pub(super) fn allocate(
        &mut self,
        file: usize,
        offset: u64,
        len: u64,
        chooser: &mut Chooser,
    ) -> bool {
        let before = self.len(file, chooser);
        let end = offset + len;
        let file = Arc::make_mut(&mut self.files[file]);
        file.extend((end as usize).div_ceil(SECTOR));
        let mut sectors = offset as usize / SECTOR..(end as usize).div_ceil(SECTOR);
        if !sectors.all(|at| file.occupy(at, Block::Unwritten, &mut self.room)) {
            return false;
        }
        if end > before {
            file.len.set(end);
        }
        true
    }

    /// Cuts: what lay behind is zero if the file ever grows again, or comes back.
    pub(super) fn truncate(&mut self, file: usize, len: u64, chooser: &mut Chooser) {
        if self.len(file, chooser) <= len {
            return;
        }
        let file = Arc::make_mut(&mut self.files[file]);
        file.len.set(len);
        for at in (len as usize).div_ceil(SECTOR)..file.sectors.len() {
            file.sectors[at].set(Sector::zero());
            if std::mem::replace(&mut file.blocks[at], Block::Hole) != Block::Hole {
                self.room = self.room.map(|left| left + 1);
            }
        }
    }

    /// Gives room back, of whole sectors: they are zero from here on.
    pub(super) fn punch(&mut self, file: usize, offset: u64, len: u64, chooser: &mut Chooser) {
        for at in offset as usize / SECTOR..(offset + len) as usize / SECTOR {
            self.sector(file, at, chooser);
            let file = Arc::make_mut(&mut self.files[file]);
            if at >= file.sectors.len() {
                return;
            }
            file.sectors[at].set(Sector::zero());
            file.punched.insert(at);
            if std::mem::replace(&mut file.blocks[at], Block::Hole) != Block::Hole {
                self.room = self.room.map(|left| left + 1);
            }
        }
    }

    /// Brings the names to the medium.
    pub(super) fn sync_names(&mut self) {
        self.names.values_mut().for_each(Kept::sync);
    }

    /// Stands for all that a power loss may take, which no reader sees.
    pub(super) fn pending(&self) -> u64 {
        let mut all = 0;
        let mut add = |place: u64, pending: u64| {
            if pending != 0 {
                all = mix(mix(all, place), pending);
            }
        };
        for (place, name) in self.names.values().enumerate() {
            add(place as u64, name.pending(|file| file.map_or(u64::MAX, |file| file as u64)));
        }
        for (index, file) in self.files.iter().enumerate() {
            let place = (index as u64 + 1) << 32;
            add(place - 1, file.len.pending(|len| *len));
            for (at, sector) in file.sectors.iter().enumerate() {
                add(place + at as u64, sector.pending(|sector| sector.hash));
            }
        }
        all
    }

    /// The power is gone, and back.
    pub(super) fn lose_power(&mut self) {
        self.boots += 1;
        self.names.values_mut().for_each(Kept::lose_power);
        for file in &mut self.files {
            if file.is_settled() {
                continue;
            }
            let file = Arc::make_mut(file);
            file.len.lose_power();
            file.punched.clear();
            file.sectors.iter_mut().for_each(Kept::lose_power);
        }
    }
}

impl File {
    fn is_settled(&self) -> bool {
        self.len.is_settled() && self.sectors.iter().all(Kept::is_settled)
    }
}
