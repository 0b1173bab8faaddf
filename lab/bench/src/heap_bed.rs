//! Heaps for experiments, on the media of Coburn's thesis.

use std::path::Path;

use tembo_heap::{Access, Base, Error, Heap, HeapFile, PoolOptions};
use tembo_pmem::{DomainRequest, Emulation, RegionOptions};

/// Where a heap lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeapMedium {
    /// In memory, where nothing is made durable.
    NoDur,
    /// A tmpfs, with real flush instructions.
    Dram,
    /// The same, emulated slower.
    SttRam,
    Pcm,
}

impl HeapMedium {
    pub(crate) const ALL: [HeapMedium; 4] =
        [HeapMedium::NoDur, HeapMedium::Dram, HeapMedium::SttRam, HeapMedium::Pcm];

    pub(crate) fn name(self) -> &'static str {
        match self {
            HeapMedium::NoDur => "NoDur",
            HeapMedium::Dram => "DRAM",
            HeapMedium::SttRam => "STT-RAM",
            HeapMedium::Pcm => "PCM",
        }
    }

    /// Nanoseconds lost for a line, as in the NV-Tree's figures (NV-Tree, section 6.7.1).
    fn emulation(self) -> Option<Emulation> {
        let line_ns = match self {
            HeapMedium::NoDur | HeapMedium::Dram => return None,
            HeapMedium::SttRam => 50,
            HeapMedium::Pcm => 180,
        };
        Some(Emulation { waits: true, line_ns, ..Emulation::default() })
    }
}

/// A heap of an experiment. Its file is in a folder that goes with it.
pub(crate) struct HeapBed {
    file: HeapFile,
}

impl HeapBed {
    /// A heap in a new pool of `size` bytes.
    pub(crate) fn new(folder: &Path, medium: HeapMedium, size: u64) -> Result<HeapBed, Error> {
        if medium == HeapMedium::NoDur {
            return HeapBed::volatile(size);
        }
        let emulation = medium.emulation();
        let domain = DomainRequest::Flush;
        let region = RegionOptions { domain, emulation, ..RegionOptions::default() };
        let options = PoolOptions { size, region, ..PoolOptions::default() };
        let path = folder.join("heap.pool");
        let file = HeapFile::create(&path, &options)?;
        // A run that is killed leaves nothing behind. Of no consequence when it fails: the folder goes in the end.
        let _ = std::fs::remove_file(path);
        Ok(HeapBed { file })
    }

    /// A heap in memory.
    pub(crate) fn volatile(size: u64) -> Result<HeapBed, Error> {
        let mut options = PoolOptions { size, ..PoolOptions::default() };
        options.region.size_max = size;
        Ok(HeapBed { file: HeapFile::volatile(&options)? })
    }

    /// Uses it.
    pub(crate) fn enter<R, E: From<Error>>(
        &self,
        body: impl for<'h> FnOnce(Heap<'h>) -> Result<R, E>,
    ) -> Result<R, E> {
        self.file.enter(body)
    }

    /// Uses it with memory managed by hand.
    pub(crate) fn base<R, E: From<Error>>(
        &self,
        body: impl for<'h> FnOnce(&mut Access<'h, Base>) -> Result<R, E>,
    ) -> Result<R, E> {
        self.file.base(body)
    }

    /// Everything in it is freed that can be, and every byte accounted for.
    #[cfg(test)]
    pub(crate) fn check(&self) -> Result<tembo_pool::PoolCheck, Error> {
        self.file.enter(|heap| heap.settle())?;
        self.file.check()
    }

    /// Bytes that its objects take.
    pub(crate) fn allocated(&self) -> u64 {
        self.file.pool().usage().allocated_bytes
    }
}
