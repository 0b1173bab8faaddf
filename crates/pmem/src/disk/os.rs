//! The operating system's files.
#![allow(unsafe_code)]

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, IoSlice, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use std::{process, thread};

use rustix::fs::{FallocateFlags, OFlags, SeekFrom, fallocate, major, minor, seek};
use rustix::io::{Errno, ReadWriteFlags, pwritev, pwritev2, retry_on_intr};

use super::{Disk, DiskFile};
use crate::process::Process;

/// Zeroes are written in pieces of this many bytes where the file system cannot allocate.
const ZERO_PIECE: u64 = 1 << 20;

/// How long a lock is waited for that no other process is seen to hold, ...
const PATIENCE: Duration = Duration::from_millis(200);
/// ... and how long between two attempts.
const PAUSE: Duration = Duration::from_millis(1);

/// Parts that the system takes at once.
const PARTS_MAX: usize = 1024;

/// The operating system's files.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsDisk;

struct OsFile {
    file: File,
    /// The same file, written past the system's cache; `None` where it cannot be.
    direct: OnceLock<Option<File>>,
    /// The process that took a lock of it.
    locked_by: OnceLock<Process>,
}

impl Disk for OsDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        open(OpenOptions::new().read(true).write(true), path)
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        open(OpenOptions::new().read(true), path)
    }

    fn create(&self, _step: &'static str, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let exclusive =
            || OpenOptions::new().read(true).write(true).create_new(true).mode_private().open(path);
        let file = match exclusive() {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let stale = OpenOptions::new().read(true).write(true).open(path)?;
                if !try_lock(&stale)? {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                fs::remove_file(path)?;
                exclusive()?
            }
            other => other?,
        };
        // Between creating and locking, another creator may have taken the file for stale.
        if !try_lock(&file)? || fs::metadata(path)?.ino() != file.metadata()?.ino() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let file = OsFile::new(file);
        file.note_lock();
        Ok(Arc::new(file))
    }

    fn link(&self, _step: &'static str, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn rename(&self, _step: &'static str, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, _step: &'static str, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, _step: &'static str, path: &Path) -> io::Result<()> {
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        File::open(directory)?.sync_all()
    }

    fn entropy(&self) -> u64 {
        let mut bytes = [0; 8];
        let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
        match read {
            Ok(()) => u64::from_le_bytes(bytes),
            Err(_) => fallback_entropy(),
        }
    }

    fn boot(&self) -> u64 {
        let id = fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        // FNV-1a: the value is compared, never trusted.
        id.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }
}

fn open(options: &OpenOptions, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
    let file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(Arc::new(OsFile::new(file)))
}

/// Hash keys of the standard library are random per process.
fn fallback_entropy() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

trait ModePrivate {
    /// Readable and writable by the owner, readable by the group: a pool may hold secrets.
    fn mode_private(&mut self) -> &mut Self;
}

impl ModePrivate for OpenOptions {
    fn mode_private(&mut self) -> &mut Self {
        std::os::unix::fs::OpenOptionsExt::mode(self, 0o640)
    }
}

fn try_lock(file: &File) -> io::Result<bool> {
    is_locked(file.try_lock())
}

fn is_locked(tried: Result<(), TryLockError>) -> io::Result<bool> {
    match tried {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

impl OsFile {
    fn new(file: File) -> OsFile {
        OsFile { file, direct: OnceLock::new(), locked_by: OnceLock::new() }
    }

    fn note_lock(&self) {
        self.locked_by.get_or_init(Process::current);
    }

    fn direct(&self) -> Option<&File> {
        let open = || {
            // Opened by the descriptor: the name may be another file's.
            let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            let flags = OFlags::DIRECT.bits() as i32;
            OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).ok()
        };
        // Miri does not know such files.
        if cfg!(miri) { None } else { self.direct.get_or_init(open).as_ref() }
    }

    /// Takes a lock. A child that another thread has forked, and that has not begun its program yet, keeps the lock of a file that
    /// was opened by this process and that did not end by its drop: that is waited for, as it is over at once. A lock without a
    /// holder has just been let go of.
    fn lock_patiently(&self, lock: fn(&File) -> Result<(), TryLockError>) -> io::Result<bool> {
        let begin = Instant::now();
        loop {
            if is_locked(lock(&self.file))? {
                self.note_lock();
                return Ok(true);
            }
            let is_others = self.holder().is_some_and(|holder| holder != process::id());
            if is_others || begin.elapsed() >= PATIENCE {
                return Ok(false);
            }
            thread::sleep(PAUSE);
        }
    }

    fn write_zeroes(&self, from: u64, to: u64) -> io::Result<()> {
        let zeroes = vec![0; ZERO_PIECE as usize];
        let mut at = from;
        while at < to {
            let piece = (to - at).min(ZERO_PIECE);
            self.file.write_all_at(&zeroes[..piece as usize], at)?;
            at += piece;
        }
        Ok(())
    }
}

/// The lock ends here, and not when the last descriptor is closed: a child that another thread has just forked has them all
/// until its program begins, and would keep the next opener out. A child that drops its copy leaves the lock to its parent.
impl Drop for OsFile {
    fn drop(&mut self) {
        if self.locked_by.get().is_some_and(Process::is_current) {
            let _ = self.file.unlock();
        }
    }
}

impl DiskFile for OsFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn has_name(&self) -> io::Result<bool> {
        Ok(self.file.metadata()?.nlink() > 0)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn write_at(&self, _step: &'static str, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn write_parts_at(
        &self,
        _step: &'static str,
        parts: &[&[u8]],
        mut offset: u64,
    ) -> io::Result<()> {
        let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut left = &mut slices[..];
        // What is empty at the begin would be taken for an end of the disk.
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            let most = left.len().min(PARTS_MAX);
            let written = retry_on_intr(|| pwritev(&self.file, &left[..most], offset))?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            offset += written as u64;
            IoSlice::advance_slices(&mut left, written);
        }
        Ok(())
    }

    fn is_direct(&self) -> bool {
        self.direct().is_some()
    }

    fn write_durably(
        &self,
        _write_step: &'static str,
        _sync_step: &'static str,
        bytes: &[u8],
        offset: u64,
    ) -> io::Result<()> {
        let mut done = 0;
        while let Some(file) = self.direct()
            && done < bytes.len()
        {
            let parts = [IoSlice::new(&bytes[done..])];
            let write = || pwritev2(file, &parts, offset + done as u64, ReadWriteFlags::DSYNC);
            match retry_on_intr(write) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => done += written,
                // There are file systems that open such a file and refuse each write, systems without the flag or the call, and
                // filters of calls that refuse what they do not know. What is refused for another reason is so below.
                Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => break,
                Err(error) => return Err(error.into()),
            }
        }
        if done < bytes.len() {
            self.file.write_all_at(&bytes[done..], offset + done as u64)?;
            self.file.sync_data()?;
        }
        Ok(())
    }

    fn begin_writing(&self, offset: u64, len: u64) {
        let (Ok(offset), Ok(len)) = (offset.try_into(), len.try_into()) else { return };
        // Miri does not know the call.
        if cfg!(miri) {
            return;
        }
        // Of libc, for want of it in rustix. Errors of writes stay for the sync: this call takes none of them away.
        // SAFETY: no memory of the process is concerned.
        let _ = unsafe {
            libc::sync_file_range(self.file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE)
        };
    }

    fn sync(&self, _step: &'static str) -> io::Result<()> {
        self.file.sync_data()
    }

    fn drain(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn allocate(&self, _step: &'static str, offset: u64, len: u64) -> io::Result<()> {
        match retry_on_intr(|| fallocate(&self.file, FallocateFlags::empty(), offset, len)) {
            // Only what lies beyond the end is known to hold nothing.
            Err(Errno::OPNOTSUPP) => self.write_zeroes(self.len()?.max(offset), offset + len),
            other => Ok(other?),
        }
    }

    fn hole(&self, offset: u64) -> io::Result<Option<u64>> {
        // Nothing depends on the file's own position, which this moves.
        Ok(Some(seek(&self.file, SeekFrom::Hole(offset))?))
    }

    fn punch(&self, _step: &'static str, offset: u64, len: u64) -> io::Result<bool> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match retry_on_intr(|| fallocate(&self.file, flags, offset, len)) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn fill_holes(&self, len: u64) -> io::Result<()> {
        if !matches!(self.hole(0), Ok(Some(at)) if at < len) {
            return Ok(());
        }
        match retry_on_intr(|| fallocate(&self.file, FallocateFlags::empty(), 0, len)) {
            // Such a file system has no holes that it was asked for.
            Err(Errno::OPNOTSUPP) => Ok(()),
            other => Ok(other?),
        }
    }

    fn truncate(&self, _step: &'static str, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn lock(&self) -> io::Result<bool> {
        self.lock_patiently(File::try_lock)
    }

    fn lock_shared(&self) -> io::Result<bool> {
        self.lock_patiently(File::try_lock_shared)
    }

    fn holder(&self) -> Option<u32> {
        let meta = self.file.metadata().ok()?;
        let wanted = format!("{:02x}:{:02x}:{}", major(meta.dev()), minor(meta.dev()), meta.ino());
        let locks = fs::read_to_string("/proc/locks").ok()?;
        locks.lines().find_map(|line| {
            let fields: Vec<_> = line.split_whitespace().collect();
            let at = fields.iter().position(|field| *field == wanted)?;
            fields.get(at.checked_sub(1)?)?.parse().ok().filter(|pid| *pid != 0)
        })
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}
