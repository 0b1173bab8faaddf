//! What there is before the threads begin.

use std::sync::Arc;

use tembo_pmem::{Observer, Region, RegionOptions};
use tembo_sim::{Recorder, newest};

use super::fixture;
use super::plan::Plan;
use crate::tree::{Map, Write};

/// The first serial number of values that are there before; those of calls are below.
const SERIAL: u64 = 128;

/// What there is before the threads begin.
#[derive(Clone)]
pub struct Start {
    pub(super) image: Arc<Vec<u8>>,
    pub(super) map: Arc<Map>,
}

impl Start {
    /// Of a plan.
    ///
    /// # Errors
    /// A text: not even one thread alone succeeds.
    pub fn of(plan: &Plan) -> Result<Start, String> {
        let recorder = Recorder::new();
        let nothing = vec![0; fixture::size(plan.cast) as usize];
        let keys: Vec<Write> = (0..plan.keys).map(|n| (2 * n, Some(8))).collect();
        let map = fixture::make(plan.cast, region(&nothing, recorder.clone())?, &keys, SERIAL)?;
        let image = newest(&nothing, &recorder.take());
        Ok(Start { image: Arc::new(image), map: Arc::new(map) })
    }
}

/// A region of these bytes, watched.
pub(super) fn region(image: &[u8], observer: Arc<dyn Observer>) -> Result<Region, String> {
    let (observer, size_max) = (Some(observer), image.len() as u64);
    let options = RegionOptions { observer, size_max, ..RegionOptions::default() };
    Region::from_image(image, &options).map_err(|error| error.to_string())
}
