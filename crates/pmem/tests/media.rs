//! What opening makes of a header: other boots, newer programs, damage.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tembo_pmem::{Disk, DiskFile, Domain, DomainRequest, Error, OsDisk, Region, RegionOptions};

/// The system's files, on a machine that boots when the test asks for it.
#[derive(Default)]
struct Machine {
    boots: AtomicU64,
}

impl Disk for Machine {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        OsDisk.open(path)
    }
    fn create(&self, step: &'static str, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        OsDisk.create(step, path)
    }
    fn link(&self, step: &'static str, from: &Path, to: &Path) -> io::Result<()> {
        OsDisk.link(step, from, to)
    }
    fn rename(&self, step: &'static str, from: &Path, to: &Path) -> io::Result<()> {
        OsDisk.rename(step, from, to)
    }
    fn remove(&self, step: &'static str, path: &Path) -> io::Result<()> {
        OsDisk.remove(step, path)
    }
    fn sync_dir(&self, step: &'static str, path: &Path) -> io::Result<()> {
        OsDisk.sync_dir(step, path)
    }
    fn entropy(&self) -> u64 {
        OsDisk.entropy()
    }
    fn boot(&self) -> u64 {
        self.boots.load(Ordering::Relaxed)
    }
}

fn path(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tembo-media-{}-{name}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

fn options(domain: DomainRequest, machine: &Arc<Machine>) -> RegionOptions {
    RegionOptions { domain, log_size: 1 << 20, disk: machine.clone(), ..RegionOptions::default() }
}

#[test]
fn an_emulation_that_lost_its_memory_is_refused_unless_asked_for() {
    let (path, machine) = (path("boot"), Arc::new(Machine::default()));
    let auto = options(DomainRequest::Auto, &machine);
    let flush = options(DomainRequest::Flush, &machine);
    drop(Region::create(&path, 1 << 20, &flush, |_| Ok::<(), Error>(())).unwrap());
    let same_boot = Region::open(&path, &auto).unwrap();
    assert_eq!((same_boot.domain(), same_boot.report().emulated), (Domain::Flush, true));
    drop(same_boot);

    machine.boots.store(1, Ordering::Relaxed);
    assert!(matches!(Region::open(&path, &auto).err(), Some(Error::EmulationLost { .. })));
    Region::open(&path, &flush).unwrap().close().unwrap();

    machine.boots.store(2, Ordering::Relaxed);
    let clean = Region::open(&path, &auto).unwrap();
    assert_eq!(clean.domain(), Domain::Flush);
    clean.close().unwrap();

    let logged = options(DomainRequest::Logged, &machine);
    drop(Region::open(&path, &logged).unwrap());
    machine.boots.store(3, Ordering::Relaxed);
    let region = Region::open(&path, &auto).unwrap();
    assert_eq!((region.domain(), region.report().emulated), (Domain::Logged, false));
    region.close().unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::remove_file(format!("{}.log", path.display())).unwrap();
}

/// Changes both slots of a header, and their checksums if they are to hold.
fn patch(path: &Path, sealed: bool, change: impl Fn(&mut [u8])) {
    let mut bytes = std::fs::read(path).unwrap();
    for slot in [0, 2048] {
        let header = &mut bytes[slot..slot + 512];
        if header.iter().all(|byte| *byte == 0) {
            continue;
        }
        change(header);
        if sealed {
            let crc = crc32c::crc32c(&header[..508]);
            header[508..].copy_from_slice(&crc.to_le_bytes());
        }
    }
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn each_kind_of_bad_header_has_its_own_error() {
    let (path, machine) = (path("bad"), Arc::new(Machine::default()));
    let flush = options(DomainRequest::Flush, &machine);
    let region = Region::create(&path, 1 << 20, &flush, |_| Ok::<(), Error>(())).unwrap();
    region.close().unwrap();
    let good = std::fs::read(&path).unwrap();
    let open = || Region::open(&path, &flush).err();

    patch(&path, true, |header| header[8] = 9);
    assert!(matches!(open(), Some(Error::NewerVersion { found: 9, known: 1, .. })));
    std::fs::write(&path, &good).unwrap();
    patch(&path, true, |header| header[16] = 4);
    assert!(matches!(open(), Some(Error::UnknownFeatures { bits: 4, .. })));
    std::fs::write(&path, &good).unwrap();
    patch(&path, true, |header| header[24] = 4);
    assert!(open().is_none(), "a feature that one may not know");
    std::fs::write(&path, &good).unwrap();
    patch(&path, true, |header| header[64..72].copy_from_slice(&u64::MAX.to_le_bytes()));
    assert!(matches!(open(), Some(Error::Damaged { .. })));
    std::fs::write(&path, &good).unwrap();
    patch(&path, false, |header| header[41] ^= 1);
    assert!(matches!(open(), Some(Error::Damaged { .. })));
    std::fs::write(&path, &good[..100_000]).unwrap();
    assert!(matches!(open(), Some(Error::Truncated { len: 100_000, .. })));
    std::fs::write(&path, vec![0; 1 << 20]).unwrap();
    assert!(matches!(open(), Some(Error::NotAPool { .. })));
    std::fs::write(&path, b"").unwrap();
    assert!(matches!(open(), Some(Error::NotAPool { .. })));
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(open(), Some(Error::Io { .. })));
}
