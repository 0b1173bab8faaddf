//! How a region is created or opened.

use std::sync::Arc;

use crate::mapping::SIZE_MAX;
use crate::{Disk, DomainRequest, Emulation, Error, Observer, OsDisk, SyncPolicy, memory_max};

/// How a region is created or opened.
#[derive(Clone)]
pub struct RegionOptions {
    /// The domain asked for.
    pub domain: DomainRequest,
    /// What a sync waits for in the `logged` domain.
    pub sync: SyncPolicy,
    /// Opens a pool without ever changing its file or its log: what the log holds is brought into memory, and what
    /// is stored stays there. Excludes programs that write, and no others that only read. The files may be ones
    /// that this process may not write. [`sync`](crate::Region::sync) and
    /// [`close`](crate::Region::close) do nothing, `domain` and `sync` have no meaning.
    pub read_only: bool,
    /// Address space reserved: the region never grows beyond this many bytes. More than
    /// [`SIZE_MAX`] counts as that, more than the system gives as what it gives.
    pub size_max: u64,
    /// Bytes that the redo log may have; at most [`SIZE_MAX`].
    pub log_size: u64,
    /// Bytes that a new redo log begins with, if that is less: it is extended when they are used, up to twice the size of
    /// the pool and to an eighth of [`memory`](RegionOptions::memory) (8 MiB at least), before it goes round. One operation that
    /// needs more until then is given it.
    pub log_initial: u64,
    /// Watches the region.
    pub observer: Option<Arc<dyn Observer>>,
    /// The files.
    pub disk: Arc<dyn Disk>,
    /// Whether threads of the region checkpoint and sync behind the callers' backs. Without them,
    /// which is for simulation, the caller's own thread checkpoints when it reserves.
    pub background: bool,
    /// Bytes of private pages, near to which a checkpoint begins and those that are in the pool file are given back, so
    /// that a pool may be larger than memory.
    /// Unless it is `u64::MAX`, *every* store must lie in a [`Section`](crate::Section), which debug
    /// builds assert. `logged` domain only.
    pub private_max: u64,
    /// Bytes of memory that the process may have as its own: private pages, side-cars, inner nodes, and all that it
    /// allocates; half of what the system says that there is, unless given. What the process has beside private pages is
    /// taken from [`private_max`](RegionOptions::private_max), of which an eighth stays. Exceeded by at most a sixteenth, or 1
    /// MiB: then an operation waits for a checkpoint.
    ///
    /// The pages of a pool that takes more than this are read from the file one by one, as they are asked for; those of a
    /// smaller one with what lies around them. Of such a pool no private page is left when nothing was stored for a second.
    /// `logged` domain only.
    pub memory: Option<u64>,
    /// Protects the region from stray stores, of a wrong pointer of the process: its pages can be stored to only while a
    /// [`Section`](crate::Section) of any thread lives, and such a store ends the process by SIGSEGV at other times. *Every* store must lie in
    /// a section then. Two system calls for a section that is open alone, `mprotect` of all pages
    /// ([`Report::protection_calls`](crate::Report::protection_calls)), which take longer the more pages are in memory: a transaction of a heap that
    /// changes a word takes some 11 times the processor time where these are few, and some 900 times with 32 MiB of them. For tests, and
    /// where little is written. Off, unless given.
    ///
    /// (Protection keys would do without calls, but a thread that was there before the key could not even read.)
    pub protect: bool,
    /// A slower medium than there is, in the `flush` domain: for experiments only.
    pub emulation: Option<Emulation>,
}

impl RegionOptions {
    /// Whether a region of `size` bytes, and a log of the size that is asked for, can be.
    pub(crate) fn check_sizes(&self, size: u64) -> Result<(), Error> {
        match size.max(self.log_size) {
            0..=SIZE_MAX => Ok(()),
            size => Err(Error::Oversize { size, size_max: SIZE_MAX }),
        }
    }

    /// Bytes that the process may have as its own. The other half is for pages of files.
    pub(crate) fn own_memory(&self) -> Option<u64> {
        self.memory.or_else(own_memory)
    }

    /// The size of a file above which its pages are read alone.
    pub(crate) fn alone_above(&self) -> u64 {
        self.own_memory().unwrap_or(u64::MAX)
    }
}

/// Unless given.
pub(crate) fn own_memory() -> Option<u64> {
    memory_max().map(|memory| memory / 2)
}

impl Default for RegionOptions {
    fn default() -> Self {
        RegionOptions {
            domain: DomainRequest::Auto,
            sync: SyncPolicy::Always,
            read_only: false,
            size_max: 1 << 40,
            log_size: 64 << 20,
            log_initial: 1 << 20,
            observer: None,
            disk: Arc::new(OsDisk),
            background: true,
            private_max: u64::MAX,
            memory: None,
            protect: false,
            emulation: None,
        }
    }
}
