//! The file systems, each by its name.

use std::fs;
use std::path::{Path, PathBuf};

use tembo_kv::{DomainRequest, Options, Store};
use tempfile::TempDir;

use super::directory::Directory;
use super::files::Files;
use super::library::Library;
use super::loop_device::LoopDevice;
use super::mounted::{Mounted, installed};
use crate::Error;
use crate::rival::Medium;

/// Bytes of the ram disk, which has none before they are written.
const RAM_DISK: u64 = 8 << 30;

/// A file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    /// `tembo::fs` in this process: `flush` in memory, `logged` with `always` on a disk.
    Library(Medium),
    /// `tembo::fs` with nothing durable.
    LibraryVolatile,
    /// `tembo mount` as it comes, durable at close; domains as of the library.
    Mount(Medium),
    /// `tembo mount --durable fsync`, on a disk.
    MountFsync,
    /// The folder on a disk itself: ext4, unless the finding says otherwise.
    Disk,
    /// `bindfs` over a folder on a disk: FUSE that hands on.
    PassThrough,
    /// ext4 on a loop device on a file of a tmpfs.
    RamDisk,
    Tmpfs,
}

/// A file system that is there, with a directory of files or a library; all of it is gone when it is dropped.
pub(crate) struct Opened {
    // In the order in which they end.
    linked: Option<Library>,
    directory: Option<Directory>,
    mounted: Option<Mounted>,
    _disk: Option<LoopDevice>,
    folder: TempDir,
}

/// What an experiment says of the contenders.
pub(crate) fn describe(disk: &Path) -> String {
    format!(
        "The disk is {}. \"mount\" is `tembo mount` as it comes, durable at close and fsync, unless it is said otherwise; \
         its pool is `logged` with `always` on the disk and `flush` in memory, as that of \"library\", which is `tembo::fs` in \
         the measuring process. \"bindfs\" is `bindfs --multithreaded` over a folder of the disk, which knows no caches of \
         attributes between calls. The ram disk is ext4 on a loop device on a file of a tmpfs. ext4 with DAX is \
         measured in a guest (`cargo xtask dax --bench`). Left out: ext4 with data=journal, which needs a disk to be mounted anew.",
        mount_of(disk).unwrap_or_else(|| "not known".into())
    )
}

/// Kind and options of the mount that a folder is on.
fn mount_of(folder: &Path) -> Option<String> {
    let folder = folder.canonicalize().ok()?;
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    let fields = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?, words.next()?))
    });
    let holding = fields.filter(|(point, ..)| folder.starts_with(point));
    let (_, kind, options) = holding.max_by_key(|(point, ..)| point.len())?;
    Some(format!("{kind} ({options})"))
}

impl System {
    pub(crate) fn name(self) -> &'static str {
        match self {
            System::Library(Medium::Memory) => "Tembo library, memory",
            System::Library(Medium::Disk) => "Tembo library, disk",
            System::LibraryVolatile => "Tembo library, volatile",
            System::Mount(Medium::Memory) => "Tembo mount, memory",
            System::Mount(Medium::Disk) => "Tembo mount, disk",
            System::MountFsync => "Tembo mount, disk, --durable fsync",
            System::Disk => "ext4",
            System::PassThrough => "bindfs on ext4",
            System::RamDisk => "ext4, ram disk",
            System::Tmpfs => "tmpfs",
        }
    }

    /// Where its folder has to be.
    pub(crate) fn medium(self) -> Medium {
        match self {
            System::Library(medium) | System::Mount(medium) => medium,
            System::MountFsync | System::Disk | System::PassThrough => Medium::Disk,
            System::LibraryVolatile | System::RamDisk | System::Tmpfs => Medium::Memory,
        }
    }

    /// Makes it, empty, in an empty folder of its medium.
    ///
    /// # Errors
    /// [`Error::Absent`]: this machine has it not.
    pub(crate) fn open(self, folder: TempDir, tembo: &Path) -> Result<Opened, Error> {
        let (mut linked, mut directory, mut mounted, mut disk) = (None, None, None, None);
        match self {
            System::Library(medium) => {
                let domain = match medium {
                    Medium::Memory => DomainRequest::Flush,
                    Medium::Disk => DomainRequest::Logged,
                };
                let options = Options::new().domain(domain);
                let store = Store::create(&folder.path().join("tembo.pool"), &options)?;
                linked = Some(Library::format(&store)?);
            }
            System::LibraryVolatile => {
                linked = Some(Library::format(&Store::volatile(&Options::new())?)?);
            }
            System::Mount(_) | System::MountFsync => {
                mounted = Some(self.mount(folder.path(), tembo)?);
            }
            System::Tmpfs if !mount_of(folder.path()).is_some_and(|of| of.starts_with("tmpfs")) => {
                return Err(Error::Absent("the folder in memory is on no tmpfs"));
            }
            System::Disk | System::Tmpfs => directory = Some(folder.path().join("files")),
            System::PassThrough => {
                check_fuse()?;
                let Some(bindfs) = installed("bindfs") else {
                    return Err(Error::Absent("bindfs is not installed"));
                };
                let (below, point) = (folder.path().join("below"), folder.path().join("files"));
                fs::create_dir(&below)?;
                let words = ["-f", "--multithreaded", &below.to_string_lossy()];
                mounted = Some(Mounted::start("bindfs", &bindfs, &words, point)?);
            }
            System::RamDisk => {
                let device = LoopDevice::attach(folder.path(), "disk", RAM_DISK);
                disk = device.and_then(|device| device.mount(folder.path()));
                let Some(point) = disk.as_ref().and_then(LoopDevice::mounted) else {
                    return Err(Error::Absent("no loop device to be had for ext4 in memory"));
                };
                directory = Some(point.join("files"));
            }
        }
        if let Some(path) = &directory {
            fs::create_dir(path)?;
        }
        let point = mounted.as_ref().map(|mounted| mounted.point().to_owned());
        let directory = directory.or(point).map(Directory);
        Ok(Opened { linked, directory, mounted, _disk: disk, folder })
    }

    fn mount(self, folder: &Path, tembo: &Path) -> Result<Mounted, Error> {
        check_fuse()?;
        if !tembo.is_file() {
            return Err(Error::Absent("the binary tembo, which mounts, is not there"));
        }
        let domain = if self.medium() == Medium::Memory { "flush" } else { "logged" };
        let durable = if self == System::MountFsync { "fsync" } else { "close" };
        let pool = folder.join("tembo.pool");
        let pool = pool.to_string_lossy();
        let words = ["mount", "--domain", domain, "--durable", durable, &*pool];
        Mounted::start("tembo mount", tembo, &words, folder.join("files"))
    }
}

fn check_fuse() -> Result<(), Error> {
    let device = fs::OpenOptions::new().read(true).write(true).open("/dev/fuse");
    device.map(drop).map_err(|_| Error::Absent("FUSE is not there, or not for this user"))
}

impl Opened {
    /// The calls of it.
    pub(crate) fn files(&self) -> Result<&dyn Files, Error> {
        match (&self.linked, &self.directory) {
            (Some(library), _) => Ok(library),
            (None, Some(directory)) => Ok(directory),
            (None, None) => Err(Error::Absent("it has neither a library nor a directory")),
        }
    }

    /// The library, if it is one.
    pub(crate) fn linked(&self) -> Option<&Library> {
        self.linked.as_ref()
    }

    /// The directory that programs use, if it has one.
    pub(crate) fn directory(&self) -> Option<&Path> {
        self.directory.as_ref().map(|directory| directory.0.as_path())
    }

    /// Ends what is open, and leaves the files of its folder: a pool can be opened by another program.
    ///
    /// # Errors
    /// A process that does not end.
    pub(crate) fn closed(mut self) -> Result<(TempDir, PathBuf), Error> {
        self.directory = None;
        if let Some(library) = self.linked.take() {
            let store = library.fs.store().clone();
            drop(library);
            store.close().map_err(|error| tembo_kv_error(&error))?;
        }
        if let Some(mounted) = self.mounted.take() {
            mounted.end()?;
        }
        let pool = self.folder.path().join("tembo.pool");
        Ok((self.folder, pool))
    }
}

fn tembo_kv_error(error: &dyn std::error::Error) -> Error {
    Error::File(std::io::Error::other(error.to_string()))
}
