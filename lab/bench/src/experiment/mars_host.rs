//! What the experiments of the multi-part atomic writes run on: arrays in modelled time, and in real time on an emulated medium.

use std::path::Path;
use std::sync::Arc;

use tembo_mars::{
    AriesOptions, AriesStore, ArrayStore, Error as MarsError, Geometry, Host, Machine, Parameters,
    RecoveryRule, Scheme, Store,
};
use tembo_pmem::{DomainRequest, Emulation, Region, RegionOptions};

use crate::Error;

/// A store with a clock in modelled time.
pub(super) trait Timed: Store<Error = MarsError> {
    fn host(&mut self) -> &mut Host;
}

impl Timed for ArrayStore {
    fn host(&mut self) -> &mut Host {
        ArrayStore::host(self)
    }
}

impl Timed for AriesStore {
    fn host(&mut self) -> &mut Host {
        AriesStore::host(self)
    }
}

/// Nanoseconds lost for each line that is flushed: PCM's write (thesis, section 2.3.1).
pub(super) const LINE_NS: u32 = 150;

/// The emulated medium of the runs in real time.
pub(super) fn pcm(size: u64) -> RegionOptions {
    let emulation = Emulation { waits: true, line_ns: LINE_NS, ..Emulation::default() };
    RegionOptions {
        domain: DomainRequest::Flush,
        emulation: Some(emulation),
        size_max: size,
        ..RegionOptions::default()
    }
}

fn on(region: Region, geometry: Geometry) -> Result<Host, Error> {
    let (machine, _) = Machine::open(&Arc::new(region), geometry, RecoveryRule::Participants)?;
    Ok(Host::new(machine, Parameters::moneta()))
}

/// A host of an array of so many bytes, in memory.
pub(super) fn host(size: u64) -> Result<Host, Error> {
    let geometry = Geometry::moneta(size);
    let size_max = geometry.region_size();
    let options = RegionOptions { size_max, ..RegionOptions::default() };
    on(Region::volatile(size_max, &options)?, geometry)
}

/// The same on emulated PCM, in a file.
pub(super) fn host_on_pcm(path: &Path, size: u64) -> Result<Host, Error> {
    let geometry = Geometry::moneta(size);
    let size = geometry.region_size().next_multiple_of(4096);
    let fill = |_: &Region| Ok::<(), tembo_pmem::Error>(());
    on(Region::create(path, size, &pcm(size), fill)?, geometry)
}

/// Bytes of an array for so much data, with logs for updates of `bytes` bytes in `parts` parts.
fn sizes(data: u64, bytes: u64, parts: u64) -> (u64, u64) {
    let row = Geometry::moneta(1).row();
    let log_size = (bytes + (parts + 1) * row + 4096).next_multiple_of(row);
    (data + u64::from(ArrayStore::THREADS) * log_size, log_size)
}

/// A store of so many bytes, for such updates.
pub(super) fn array(
    scheme: Scheme,
    data: u64,
    (bytes, parts): (u64, u64),
) -> Result<ArrayStore, Error> {
    let (size, log_size) = sizes(data, bytes, parts);
    Ok(ArrayStore::new(host(size)?, scheme, log_size))
}

/// The same on emulated PCM, in a file.
pub(super) fn array_on_pcm(
    path: &Path,
    scheme: Scheme,
    data: u64,
    (bytes, parts): (u64, u64),
) -> Result<ArrayStore, Error> {
    let (size, log_size) = sizes(data, bytes, parts);
    Ok(ArrayStore::new(host_on_pcm(path, size)?, scheme, log_size))
}

/// A database of ARIES with objects of `payload` bytes, a quarter of them in memory.
pub(super) fn aries_options(payload: u64, objects: u64) -> AriesOptions {
    AriesOptions {
        page_size: payload as usize + 64,
        pages: objects,
        frames: (objects as usize / 4).max(16),
        log_size: (64 * payload).max(8 << 20),
    }
}
