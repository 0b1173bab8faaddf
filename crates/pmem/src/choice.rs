//! Which domain a file gets: probed, never assumed.

use std::path::Path;

use crate::backend::Backend;
use crate::emulation::SlowMedium;
use crate::flush::FlushInstruction;
use crate::format::{FLAG_CLEAN, FLAG_EMULATED, MediaHeader};
use crate::mapping::{Backing, is_persistent_memory};
use crate::{DiskFile, Domain, DomainRequest, Error, RegionOptions};

/// A domain, and whether the medium really is what the domain wants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    pub(crate) domain: Domain,
    pub(crate) emulated: bool,
}

impl Choice {
    /// Whether the region is a copy of the file, in memory.
    pub(crate) fn is_private(&self) -> bool {
        matches!(self.domain, Domain::Logged | Domain::Volatile)
    }

    /// The number that stands for the domain in the header.
    pub(crate) fn domain_on_media(&self) -> u32 {
        match self.domain {
            Domain::Volatile => 0,
            Domain::Flush => 1,
            Domain::Eadr => 2,
            Domain::Logged => 3,
        }
    }

    /// How the file is mapped in the domains that store into it.
    pub(crate) fn backing<'f>(&self, file: &'f dyn DiskFile) -> Backing<'f> {
        match (file.descriptor(), self.emulated) {
            (Some(fd), false) => Backing::Synchronous(fd),
            (Some(fd), true) => Backing::Shared(fd),
            (None, _) => Backing::Anonymous,
        }
    }

    /// What flushes, in the domains that store into the file.
    pub(crate) fn backend(&self, options: &RegionOptions) -> Result<Backend, Error> {
        let asked = options.emulation.and_then(|emulation| emulation.flush);
        if asked.is_some_and(|instruction| !instruction.is_supported()) {
            let what = "this processor does not have the flush instruction asked for: use another";
            return Err(Error::Unsupported { path: "".into(), what });
        }
        match (self.domain, FlushInstruction::detect()) {
            (Domain::Flush, Some(instruction)) => Ok(match options.emulation {
                None => Backend::Flush(instruction),
                Some(emulation) => Backend::Slow(SlowMedium::new(emulation, instruction)),
            }),
            (Domain::Eadr, Some(_)) => Ok(Backend::Eadr),
            _ => Err(Error::Unsupported {
                path: "".into(),
                what: "this processor has no flush instruction: use the domain `logged`",
            }),
        }
    }
}

/// The domain that a number in the header stands for.
pub(crate) fn domain_of(number: u32) -> Domain {
    match number {
        1 => Domain::Flush,
        2 => Domain::Eadr,
        3 => Domain::Logged,
        _ => Domain::Volatile,
    }
}

/// The domain of a pool, new or, with its header, old. Probed, never assumed.
pub(crate) fn choose(
    file: &dyn DiskFile,
    path: &Path,
    options: &RegionOptions,
    header: Option<&MediaHeader>,
) -> Result<Choice, Error> {
    let unsupported = |what| Err(Error::Unsupported { path: path.to_owned(), what });
    let mappable = file.descriptor().is_some() && FlushInstruction::detect().is_some();
    let persistent = mappable && file.descriptor().is_some_and(is_persistent_memory);
    let emulated = !persistent;
    if options.read_only {
        match header {
            Some(header) if options.domain == DomainRequest::Auto => {
                check_boot(header, path, options)?
            }
            _ => {}
        }
        return Ok(Choice { domain: Domain::Volatile, emulated: false });
    }
    match options.domain {
        DomainRequest::Volatile => {
            unsupported("a file is not volatile: use another domain, or a region without a file")
        }
        DomainRequest::Logged => Ok(Choice { domain: Domain::Logged, emulated: false }),
        DomainRequest::Flush | DomainRequest::Eadr if !mappable => unsupported(
            "the file cannot be mapped, or this processor cannot flush: use the domain `logged`",
        ),
        DomainRequest::Flush => Ok(Choice { domain: Domain::Flush, emulated }),
        DomainRequest::Eadr => Ok(Choice { domain: Domain::Eadr, emulated }),
        DomainRequest::Auto if persistent => {
            let domain = if caches_are_persistent() { Domain::Eadr } else { Domain::Flush };
            Ok(Choice { domain, emulated: false })
        }
        DomainRequest::Auto => match header {
            Some(header) if header.has(FLAG_EMULATED) => {
                check_boot(header, path, options)?;
                let domain = if header.domain.get() == 2 { Domain::Eadr } else { Domain::Flush };
                Ok(Choice { domain, emulated: true })
            }
            _ => Ok(Choice { domain: Domain::Logged, emulated: false }),
        },
    }
}

/// An emulation that was not closed is good only in the boot in which it was used.
fn check_boot(header: &MediaHeader, path: &Path, options: &RegionOptions) -> Result<(), Error> {
    let is_lost = header.has(FLAG_EMULATED)
        && header.boot.get() != options.disk.boot()
        && !header.has(FLAG_CLEAN);
    if is_lost { Err(Error::EmulationLost { path: path.to_owned() }) } else { Ok(()) }
}

/// Whether the platform says of every persistent memory that its caches survive too.
fn caches_are_persistent() -> bool {
    let Ok(devices) = std::fs::read_dir("/sys/bus/nd/devices") else {
        return false;
    };
    let mut domains = devices
        .flatten()
        .filter(|device| device.file_name().to_string_lossy().starts_with("region"))
        .map(|device| std::fs::read_to_string(device.path().join("persistence_domain")))
        .peekable();
    domains.peek().is_some()
        && domains.all(|domain| domain.is_ok_and(|domain| domain.trim() == "cpu_cache"))
}
