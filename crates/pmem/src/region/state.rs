//! What a region says about itself.

use super::Region;
use crate::Domain;
use crate::backend::Backend;
use crate::choice::domain_of;
use crate::format::FLAG_EMULATED;
use crate::report::Report;

impl Region {
    /// The domain in force.
    pub fn domain(&self) -> Domain {
        self.backend.domain()
    }

    /// Whether a file that is only memory stands for persistent memory.
    pub fn is_emulated(&self) -> bool {
        self.emulated
    }

    /// Whether what is stored stays in memory and never reaches the file.
    #[inline]
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Whether copies of pages are dropped once the pool file has their lines
    /// ([`private_max`](crate::RegionOptions::private_max)). Then a store is flushed before its
    /// [`Section`](crate::Section) ends: a copy with a store that was not is lost with it.
    #[inline]
    pub fn gives_pages_back(&self) -> bool {
        matches!(&self.backend, Backend::Logged(logged) if logged.gives_pages_back())
    }

    /// Whether this process is a child of the one that opened the region, and so may not use its file. The lock of the file is the
    /// parent's, and ends when that one drops the region.
    pub fn is_forked(&self) -> bool {
        self.check_process().is_err()
    }

    /// What the region can say about itself.
    pub fn report(&self) -> Report {
        // What was locked when a child was forked stays locked in it.
        let file = self.file.as_ref().filter(|_| !self.is_forked());
        let mut report = Report::new(self.domain(), self.sync_policy);
        if let Some(file) = file {
            let header = *file.header().get();
            (report.identity, report.generation) = (header.identity(), header.generation.get());
            if self.read_only {
                report.file_domain = domain_of(header.domain.get());
                report.emulated = header.has(FLAG_EMULATED);
            }
        }
        report.emulated |= self.emulated;
        (report.size, report.size_max) = (self.size(), self.mapping.reserved());
        (report.replayed_groups, report.replayed_bytes) = self.replayed;
        report.waiting_bytes = self.pending.as_ref().map_or(0, |pending| pending.waiting_bytes());
        report.recovery = self.recovery;
        report.protection_calls = self.mapping.protection_calls();
        if let Backend::Logged(logged) = &self.backend
            && file.is_some()
        {
            logged.report(&mut report);
        }
        report
    }
}
