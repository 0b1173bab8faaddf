//! Space that holds nothing goes back to the file system.

use super::Region;
use crate::backend::Backend;
use crate::mapping::PAGE;
use crate::{Error, HEADER_SIZE};

impl Region {
    /// Whether [`punch`](Region::punch) may have a use: in the `logged` domain, where the file system has not refused it, and
    /// nothing observes the region.
    pub fn can_punch(&self) -> bool {
        match &self.backend {
            Backend::Logged(logged) => logged.can_punch() && self.observer.is_none(),
            _ => false,
        }
    }

    /// Gives `len` bytes at `offset`, whole pages, back to the file system: they take no room on the disk, and are zero from
    /// then on. They hold nothing, and the caller has them for itself until this returns. When the space was freed, that
    /// was [noted](crate::Frees::note). Durable when it returns.
    ///
    /// `false`: nothing has changed, because the file system or the domain cannot do that, or because the log may still need
    /// the range. A [`checkpoint`](Region::checkpoint) ends that.
    ///
    /// # Errors
    /// [`Error::Fault`] of a range that is not in the region, or not of whole pages; [`Error::Forked`];
    /// [`Error::Poisoned`], also if it cannot be made durable; [`Error::DiskFull`], [`Error::Io`]: what the range holds is undefined.
    pub fn punch(&self, offset: u64, len: u64) -> Result<bool, Error> {
        self.check_process()?;
        self.range(offset, len)?;
        let is_whole = offset.is_multiple_of(PAGE) && len.is_multiple_of(PAGE);
        if !is_whole || offset < HEADER_SIZE || len == 0 {
            return Err(self.fault(offset, len).into());
        }
        match &self.backend {
            Backend::Logged(logged) if self.can_punch() => logged.punch(offset, len),
            _ => Ok(false),
        }
    }
}
