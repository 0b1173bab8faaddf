//! An inode: all about a file but its name and its bytes.

use zerocopy::FromBytes;

use crate::Error;
use crate::format::{BelowRecord, InodeRecord, LayersRecord, TimeRecord};
use crate::time::Time;

/// What an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum FileKind {
    /// A named pipe.
    Fifo = 0o01,
    /// A device that is read byte by byte.
    CharacterDevice = 0o02,
    /// Names of others.
    Directory = 0o04,
    /// A device that is read by blocks.
    BlockDevice = 0o06,
    /// Bytes.
    Regular = 0o10,
    /// A path.
    Symlink = 0o12,
    /// A name that programs meet at.
    Socket = 0o14,
}

impl FileKind {
    /// By its code: bits 12 to 15 of a mode.
    pub(crate) fn of_code(code: u8) -> Option<FileKind> {
        let all = [
            FileKind::Fifo,
            FileKind::CharacterDevice,
            FileKind::Directory,
            FileKind::BlockDevice,
            FileKind::Regular,
            FileKind::Symlink,
            FileKind::Socket,
        ];
        all.into_iter().find(|kind| *kind as u8 == code)
    }

    /// That of a mode, as `st_mode` has it.
    pub fn of_mode(mode: u32) -> Option<FileKind> {
        FileKind::of_code((mode >> 12 & 0o17) as u8)
    }

    /// Whether it is a device.
    pub fn is_device(self) -> bool {
        matches!(self, FileKind::CharacterDevice | FileKind::BlockDevice)
    }
}

/// All about a file but its names and its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Inode {
    /// Its number: not 0, and no other file's.
    pub number: u64,
    /// What it is.
    pub kind: FileKind,
    /// The lower twelve bits of `st_mode`.
    pub permissions: u16,
    /// Number of the owner.
    pub user: u32,
    /// Number of the owner's group.
    pub group: u32,
    /// Names; of a directory 2, and its subdirectories. 0: it has none, and lives while it is open.
    pub links: u32,
    /// Bytes; of a directory its entries.
    pub size: u64,
    /// Pieces of its own that are there: what was never written takes no space.
    pub pieces: u64,
    /// Of a directory: the one that it is in. Else 0.
    pub parent: u64,
    /// Of a device: which.
    pub device: u64,
    /// Distinguishes it from a file that had its number before the file system was rolled back.
    pub generation: u64,
    /// Last time of reading, as far as the caller has said so.
    pub accessed: Time,
    /// Last change of its bytes or entries.
    pub modified: Time,
    /// Last change of the inode.
    pub changed: Time,
    /// When it was made.
    pub born: Time,
    /// Extended attributes, in number.
    pub attributes: u32,
    /// Rises with each change of its bytes.
    pub edits: u64,
    /// Of a directory: the cookie of the next entry.
    pub(crate) next_cookie: u64,
    /// The number that its own pieces lie under: that of the inode, until it is cloned.
    pub(crate) layer: u64,
    /// What it shows where it has no piece of its own.
    pub(crate) below: Option<Below>,
}

/// What a layer shows of another, which does not change, where it has no piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Below {
    /// The number of the other.
    pub(crate) layer: u64,
    /// Bytes of it that are shown. What a file gains behind that is zero.
    pub(crate) end: u64,
    /// Pieces that are shown, at most.
    pub(crate) pieces: u64,
}

impl Below {
    /// Shows no more than so many bytes.
    pub(crate) fn cut(&mut self, end: u64, piece_size: usize) {
        self.end = self.end.min(end);
        self.pieces = self.pieces.min(self.end.div_ceil(piece_size as u64));
    }

    pub(crate) fn to_record(below: Option<Below>) -> BelowRecord {
        let Below { layer, end, pieces } = below.unwrap_or(Below { layer: 0, end: 0, pieces: 0 });
        BelowRecord { layer: layer.into(), end: end.into(), pieces: pieces.into() }
    }

    pub(crate) fn of_record(record: &BelowRecord) -> Option<Below> {
        let (layer, end, pieces) = (record.layer.get(), record.end.get(), record.pieces.get());
        (layer != 0).then_some(Below { layer, end, pieces })
    }
}

impl Inode {
    /// Kind and permissions, as `st_mode` has them.
    pub fn mode(&self) -> u32 {
        (self.kind as u32) << 12 | u32::from(self.permissions)
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }

    /// Pieces up to its size.
    pub(crate) fn piece_count(&self, piece_size: usize) -> u64 {
        self.size.div_ceil(piece_size as u64)
    }

    /// Pieces that it shows, also such as it shares with other files: at most so many.
    pub fn pieces_shown(&self, piece_size: usize) -> u64 {
        match &self.below {
            None => self.pieces,
            Some(below) => {
                self.pieces.saturating_add(below.pieces).min(self.piece_count(piece_size))
            }
        }
    }

    /// Whether none of its own pieces is missing.
    pub(crate) fn is_dense(&self, piece_size: usize) -> bool {
        self.pieces == self.piece_count(piece_size)
    }

    /// # Errors
    /// [`Error::NotADirectory`].
    pub(crate) fn directory(self) -> Result<Inode, Error> {
        if self.is_directory() {
            Ok(self)
        } else {
            Err(Error::NotADirectory { inode: self.number })
        }
    }

    /// # Errors
    /// [`Error::IsADirectory`], [`Error::Invalid`].
    pub(crate) fn regular(self) -> Result<Inode, Error> {
        match self.kind {
            FileKind::Regular => Ok(self),
            FileKind::Directory => Err(Error::IsADirectory { inode: self.number }),
            _ => Err(Error::Invalid { inode: self.number, what: "it has no bytes" }),
        }
    }

    pub(crate) fn to_record(&self) -> InodeRecord {
        InodeRecord {
            mode: self.mode().into(),
            user: self.user.into(),
            group: self.group.into(),
            links: self.links.into(),
            size: self.size.into(),
            pieces: self.pieces.into(),
            parent: self.parent.into(),
            next_cookie: self.next_cookie.into(),
            device: self.device.into(),
            generation: self.generation.into(),
            accessed: time_record(self.accessed),
            modified: time_record(self.modified),
            changed: time_record(self.changed),
            born: time_record(self.born),
            attributes: self.attributes.into(),
            reserved: 0.into(),
            edits: self.edits.into(),
        }
    }

    /// What follows the record of a file that has layers.
    pub(crate) fn to_layers(&self) -> Option<LayersRecord> {
        let has_layers = self.layer != self.number || self.below.is_some();
        let below = Below::to_record(self.below);
        has_layers.then_some(LayersRecord { layer: self.layer.into(), below })
    }

    /// # Errors
    /// [`Error::Damaged`].
    pub(crate) fn of_bytes(number: u64, bytes: &[u8]) -> Result<Inode, Error> {
        let damaged = |what| Error::Damaged { inode: number, what };
        let wrong_len = || damaged("it has another length");
        let (record, rest) = InodeRecord::read_from_prefix(bytes).map_err(|_| wrong_len())?;
        let (layer, below) = if rest.is_empty() {
            (number, None)
        } else {
            let layers = LayersRecord::read_from_bytes(rest).map_err(|_| wrong_len())?;
            (layers.layer.get(), Below::of_record(&layers.below))
        };
        Ok(Inode {
            number,
            kind: FileKind::of_mode(record.mode.get())
                .ok_or_else(|| damaged("it is of no kind"))?,
            permissions: (record.mode.get() & 0o7777) as u16,
            user: record.user.get(),
            group: record.group.get(),
            links: record.links.get(),
            size: record.size.get(),
            pieces: record.pieces.get(),
            parent: record.parent.get(),
            device: record.device.get(),
            generation: record.generation.get(),
            accessed: time(record.accessed),
            modified: time(record.modified),
            changed: time(record.changed),
            born: time(record.born),
            attributes: record.attributes.get(),
            edits: record.edits.get(),
            next_cookie: record.next_cookie.get(),
            layer,
            below,
        })
    }
}

fn time_record(time: Time) -> TimeRecord {
    TimeRecord { seconds: time.seconds.into(), nanoseconds: time.nanoseconds.into() }
}

fn time(record: TimeRecord) -> Time {
    Time { seconds: record.seconds.get(), nanoseconds: record.nanoseconds.get() }
}
