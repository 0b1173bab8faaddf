//! Regions in memory only.
#![allow(unsafe_code)]

use std::path::Path;
use std::sync::Arc;

use super::{Parts, Region};
use crate::mapping::{Backing, Mapping, PAGE};
use crate::{Error, RegionOptions};

const ZEROS: [u8; PAGE as usize] = [0; PAGE as usize];

impl Region {
    /// A region in memory only. Nothing is durable; nothing is a file.
    ///
    /// # Errors
    /// [`Error::Oversize`]; [`Error::Io`] when the system does not have the address space.
    pub fn volatile(size: u64, options: &RegionOptions) -> Result<Region, Error> {
        Region::in_memory(size, options)?.protected(options)
    }

    fn in_memory(size: u64, options: &RegionOptions) -> Result<Region, Error> {
        options.check_sizes(size)?;
        let mapping = Mapping::reserve(size, options.size_max)
            .and_then(|mapping| mapping.map(Backing::Anonymous, 0, size).map(|()| mapping))
            .map_err(|e| Error::io("map", Path::new("memory"), e))?;
        Ok(Region::new(Parts::in_memory(Arc::new(mapping), size / 8 * 8), options))
    }

    /// A region in memory only that begins with the bytes of `image`.
    ///
    /// # Errors
    /// As of [`volatile`](Region::volatile).
    pub fn from_image(image: &[u8], options: &RegionOptions) -> Result<Region, Error> {
        let region = Region::in_memory((image.len() as u64).next_multiple_of(8), options)?;
        // Fresh memory is zero: pages of zeros need not be touched.
        let pages = image.chunks(PAGE as usize).enumerate();
        for (index, page) in pages.filter(|(_, page)| **page != ZEROS[..page.len()]) {
            let at = region.base.at(index as u64 * PAGE);
            // SAFETY: the region has at least the image's length, and is not shared yet.
            unsafe { std::ptr::copy_nonoverlapping(page.as_ptr(), at, page.len()) };
        }
        region.protected(options)
    }
}
