//! Requests on the bytes of a file.

use fuser::{Errno, FileHandle, INodeNo, LockOwner, OpenFlags, Request, WriteFlags};
use rustix::fs::OFlags;
use tembo_fs::{Allocate, AnyTreeMut};

use crate::caller::process_of;
use crate::handles::has_flag;
use crate::opened::Writer;
use crate::place::Place;
use crate::privileges::{Changed, take_privileges};
use crate::served::Served;

/// What whence is in a request: the values of Linux.
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

/// A file that is open, and where in it.
pub(crate) type At = (INodeNo, FileHandle, u64);

impl Served {
    pub(crate) fn read(
        &self,
        (number, handle, offset): At,
        size: u32,
        owner: Option<LockOwner>,
    ) -> Result<Vec<u8>, Errno> {
        let shown = match Place::of(number) {
            Place::Begin => Some(handle.0),
            Place::Version => Some(self.trees.fs.store().visible()),
            _ => None,
        };
        if let Some(shown) = shown {
            let text = format!("{shown}\n");
            let rest = text.as_bytes().get(offset as usize..).unwrap_or_default();
            return Ok(rest[..rest.len().min(size as usize)].to_vec());
        }
        let mut bytes = vec![0; size as usize];
        // The kernel fills its cache, which is everyone's, without saying for which program: for a private mapping.
        let own = Served::own(number, handle).filter(|_| owner.is_some());
        let len =
            self.read_one(number, own, |tree, number| tree.read(number, offset, &mut bytes))?;
        bytes.truncate(len);
        Ok(bytes)
    }

    /// Writes all of `data`; how many bytes that are.
    pub(crate) fn write(
        &self,
        request: &Request,
        (number, handle, offset): At,
        data: &[u8],
        (how, flags, owner): (WriteFlags, OpenFlags, Option<LockOwner>),
    ) -> Result<u32, Errno> {
        // The kernel writes its cache by any handle: what was stored to a mapping from before the mark.
        let is_cached = how.contains(WriteFlags::FUSE_WRITE_CACHE);
        let own = Served::own(number, handle).filter(|_| !is_cached);
        if let Some(handle) = own {
            self.opened.note_writer(handle, owner.map(Writer::Files));
        }
        let takes_bits = how.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let changed = Changed::Written { takes_bits };
        // The kernel knows the end that others see, and one from before a commit until it has asked again.
        let is_now = matches!(Place::of(number), Place::Now(_));
        let appends = is_now && !is_cached && has_flag(flags, OFlags::APPEND);
        let (taken, at) = self.change_one(number, own, |tree, number| {
            let at = if appends { tree.tree().inode(number)?.size } else { offset };
            let inode = tree.write(number, at, data)?;
            // What was stored to a mapping comes at any time, and cost the file nothing.
            let taken = !is_cached && take_privileges(tree, inode, changed, request)?;
            Ok((taken, at))
        })?;
        self.note_taken(number, taken);
        if own.is_none() && at != offset {
            // It has the bytes in its cache where it believes them.
            self.committer.forget(number);
        }
        Ok(data.len() as u32)
    }

    pub(crate) fn allocate(
        &self,
        request: &Request,
        (number, handle, offset): At,
        len: u64,
        mode: i32,
    ) -> Result<(), Errno> {
        let how = match mode {
            0 => Allocate::Extend,
            1 => Allocate::ExtendWithin,
            3 => Allocate::Punch,
            8 => Allocate::Collapse,
            0x10 => Allocate::Zero,
            0x11 => Allocate::ZeroWithin,
            0x20 => Allocate::Insert,
            _ => return Err(Errno::EOPNOTSUPP),
        };
        let own = Served::own(number, handle);
        self.note_process(own, request);
        let taken = self.change_one(number, own, |tree, number| {
            let inode = tree.allocate(number, offset, len, how)?;
            take_privileges(tree, inode, Changed::Cut, request)
        })?;
        self.note_taken(number, taken);
        Ok(())
    }

    /// Notes that a process changes a file in the transaction of an open, by a request that does not say which files it has open.
    pub(crate) fn note_process(&self, own: Option<u64>, request: &Request) {
        if let Some(handle) = own {
            let process = process_of(request.pid());
            self.opened.note_writer(handle, Some(Writer::Process(process)));
        }
    }

    /// A change whose answer has no attributes may have taken permissions.
    fn note_taken(&self, number: INodeNo, taken: bool) {
        if taken {
            self.forget_attributes(number);
        }
    }

    /// The next offset with data, or of a hole.
    pub(crate) fn seek(
        &self,
        (number, handle): (INodeNo, FileHandle),
        offset: i64,
        whence: i32,
    ) -> Result<u64, Errno> {
        let Ok(offset) = u64::try_from(offset) else { return Err(Errno::ENXIO) };
        let own = Served::own(number, handle);
        match whence {
            SEEK_DATA => self.read_one(number, own, |tree, number| tree.seek_data(number, offset)),
            SEEK_HOLE => self.read_one(number, own, |tree, number| tree.seek_hole(number, offset)),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Copies a range; how many bytes.
    pub(crate) fn copy(
        &self,
        request: &Request,
        (from, from_handle, from_offset): At,
        (to, handle, to_offset): At,
        len: u64,
    ) -> Result<u32, Errno> {
        // The answer has 32 bits.
        let len = len.min(1 << 30);
        let copy = |tree: &mut AnyTreeMut<'_, '_>, [from, to]: [u64; 2]| {
            let copied = tree.copy_range((from, from_offset), (to, to_offset), len)?;
            let inode = tree.tree().inode(to)?;
            let taken = take_privileges(tree, inode, Changed::Cut, request)?;
            Ok((copied, taken))
        };
        let own = Served::own(to, handle);
        // Only its own transaction has what an open has written, and it has other files as they were when it began. Of what has to
        // come from elsewhere the kernel reads the bytes.
        if Served::own(from, from_handle) != own || !Place::of(from).is_beside(Place::of(to)) {
            return Err(Errno::EXDEV);
        }
        self.note_process(own, request);
        let (copied, taken) = match own {
            None => self.trees.write([from, to], copy)?,
            // Its number is that of its inode.
            own => self.change_one(to, own, |tree, to| copy(tree, [from.0, to]))?,
        };
        self.note_taken(to, taken);
        Ok(copied as u32)
    }
}
