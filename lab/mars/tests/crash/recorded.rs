//! A run that was written down, and what a crash in it may show.

use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use tembo_pmem::{Observer, Region, RegionOptions};
use tembo_sim::{Bounds, Broken, Cache, Crash, Event, Explorer, History, Oracle, Reader, Recorder};

const BOUNDS: Bounds = Bounds { all: 64, corners: 16, chance: 8, seed: 1 };

/// Recovers an image, and says what it shows.
pub(crate) type Judge = Box<dyn Fn(&[u8], &Arc<Reader>) -> Result<u64, String>>;

/// What may be shown by a crash during an operation, and by one behind it.
pub(crate) type Accepted = (BTreeSet<u64>, BTreeSet<u64>);

/// A run that was written down.
pub(crate) struct Recorded {
    pub(crate) history: History,
    accepted: Vec<Accepted>,
    judge: Judge,
}

pub(crate) fn digest(data: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    data.hash(&mut hasher);
    hasher.finish()
}

pub(crate) fn region(image: &[u8], observer: Arc<dyn Observer>) -> Arc<Region> {
    let options =
        RegionOptions { observer: Some(observer), size_max: 4 << 20, ..RegionOptions::default() };
    Arc::new(Region::from_image(image, &options).unwrap())
}

/// A run that is being written down: what happens in one operation after the other.
pub(crate) struct Recording {
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) image: Vec<u8>,
    accepted: Vec<Accepted>,
    ends: Vec<usize>,
}

impl Recording {
    /// From here on, on that image.
    pub(crate) fn new(recorder: Arc<Recorder>, image: Vec<u8>) -> Recording {
        recorder.take();
        Recording { recorder, image, accepted: Vec::new(), ends: Vec::new() }
    }

    /// An operation is over.
    pub(crate) fn end(&mut self, accepted: Accepted) {
        self.accepted.push(accepted);
        self.ends.push(self.recorder.len());
        self.recorder.begin_operation();
    }

    pub(crate) fn finish(self, judge: Judge) -> Recorded {
        let events = self.recorder.take();
        let (mut crashes, mut from) = (Vec::new(), 0);
        for (operation, &to) in self.ends.iter().enumerate() {
            let points = (from..to).filter(|&at| events[at].is_crash_point());
            crashes.extend(points.map(|at| Crash { at, operation, after: false }));
            crashes.push(Crash { at: to, operation, after: true });
            from = to;
        }
        let history = History { image: self.image, events, crashes };
        Recorded { history, accepted: self.accepted, judge }
    }
}

impl Recorded {
    pub(crate) fn explore(&self, broken: Option<Broken<'_>>) -> Result<u64, String> {
        let wrong = |wrong: tembo_sim::Wrong| format!("crash {}: {}", wrong.crash, wrong.what);
        Explorer::new(&self.history, Cache::Flush, self).explore(broken, BOUNDS).map_err(wrong)
    }

    pub(crate) fn names(&self) -> BTreeSet<&'static str> {
        self.history.events.iter().filter_map(Event::name).collect()
    }
}

impl Oracle for Recorded {
    fn judge(&self, image: &[u8], reader: &Arc<Reader>) -> Result<u64, String> {
        (self.judge)(image, reader)
    }

    fn accept(&self, crash: &Crash, shown: u64) -> Result<(), String> {
        let (during, after) = &self.accepted[crash.operation];
        let accepted = if crash.after { after } else { during };
        match accepted.contains(&shown) {
            true => Ok(()),
            false => Err(format!("torn or lost in {} (after: {})", crash.operation, crash.after)),
        }
    }

    fn judged(&self, _: u64, _: Option<&[u8]>, _: u64) -> bool {
        true
    }
}
