//! Every crash of a workload, as far as that is possible, and every crash of its recovery.

use std::collections::{BTreeSet, HashSet};

use tembo_sim::{Chooser, Decision, Point, Random, Rest, SimDisk, Site};

use super::judge::{Crash, go_on, look};
use super::life::{Past, Promise, Setup};
use crate::Effort;
use crate::judge::quietly;

/// One recovery in so many is cut off at each of its steps.
const DEEP: u64 = 16;

/// Why an exploration ended.
pub(super) enum Stop {
    /// There are images enough.
    Enough,
    /// Something is wrong.
    Wrong(String),
}

/// How many images there are of a point.
#[derive(Clone, Copy)]
struct Width {
    /// Up to so many, all.
    all: usize,
    /// Else things of which one alone is old, or new.
    ones: usize,
    /// And what chance picks.
    random: usize,
}

/// What a wide exploration looks at, of a workload and of a recovery.
const WIDE: [Width; 2] =
    [Width { all: 64, ones: 24, random: 8 }, Width { all: 16, ones: 8, random: 1 }];

/// What a first look looks at.
const NARROW: [Width; 2] =
    [Width { all: 4, ones: 3, random: 0 }, Width { all: 4, ones: 2, random: 0 }];

/// An exploration under way.
pub(super) struct Explorer<'e> {
    pub(super) effort: &'e Effort<'e>,
    random: Random,
    pub(super) images: u64,
    /// Hashes of what was read.
    pub(super) seen: HashSet<u64>,
    judged: HashSet<u64>,
    pub(super) steps: BTreeSet<&'static str>,
    /// Cut off every recovery, not one in [`DEEP`].
    pub(super) is_deep: bool,
    /// Look at few images of each point.
    pub(super) is_narrow: bool,
}

impl<'e> Explorer<'e> {
    pub(super) fn new(effort: &'e Effort<'e>) -> Explorer<'e> {
        Explorer {
            effort,
            random: Random::new(effort.seed),
            images: 0,
            seen: HashSet::new(),
            judged: HashSet::new(),
            steps: BTreeSet::new(),
            is_deep: false,
            is_narrow: false,
        }
    }

    /// Crashes a workload at each of these points.
    pub(super) fn crash(
        &mut self,
        setup: &Setup,
        past: &Past,
        points: &[Point],
    ) -> Result<(), Stop> {
        for (index, point) in points.iter().enumerate() {
            let promise = past.promises[point.mark as usize];
            let crashed = self.crash_at(setup, past, promise, point, 1);
            crashed.map_err(|stop| stop.at(&format!("crash before {} ({index})", point.step)))?;
        }
        Ok(())
    }

    fn crash_at(
        &mut self,
        setup: &Setup,
        past: &Past,
        promise: Promise,
        point: &Point,
        depth: u32,
    ) -> Result<(), Stop> {
        let is_narrow = self.is_narrow;
        let widths = if is_narrow { NARROW } else { WIDE };
        let width = widths[depth as usize - 1];
        let killed = point.snapshot.after_kill();
        let pending = point.snapshot.pending();
        self.judge(setup, past, promise, (Crash::Kill, pending), &killed, depth)?;
        let lose = |this: &mut Self, chooser: Chooser| {
            let disk = point.snapshot.after_power_loss(chooser);
            this.judge(setup, past, promise, (Crash::Power, 0), &disk, depth)?;
            Ok::<Vec<Decision>, Stop>(disk.decisions())
        };
        let newest = lose(self, Chooser::new(Rest::New))?;
        let is_sector = |decision: &Decision| matches!(decision.site, Site::Sector(..));
        if !is_narrow && newest.iter().any(is_sector) {
            lose(self, Chooser::new(Rest::Torn))?;
        }
        let product = newest
            .iter()
            .try_fold(1_usize, |product, decision| product.checked_mul(decision.count));
        if product.is_some_and(|product| product <= width.all) {
            let mut script = Some(Vec::new());
            let mut left = width.all;
            while let Some(next) = script.filter(|_| left > 0) {
                left -= 1;
                script = Chooser::next_script(&lose(self, Chooser::script(next))?);
            }
            return Ok(());
        }
        lose(self, Chooser::new(Rest::Old))?;
        let step = newest.len().div_ceil(width.ones.max(1)).max(1);
        let first = self.random.below(step);
        for decision in newest.iter().skip(first).step_by(step) {
            lose(self, Chooser::new(Rest::NewBut(decision.site)))?;
            lose(self, Chooser::new(Rest::OldBut(decision.site)))?;
        }
        for _ in 0..width.random {
            let seed = self.random.number();
            lose(self, Chooser::new(Rest::Random(Random::new(seed))))?;
        }
        Ok(())
    }

    /// Judges one image.
    fn judge(
        &mut self,
        setup: &Setup,
        past: &Past,
        promise: Promise,
        (crash, pending): (Crash, u64),
        disk: &SimDisk,
        depth: u32,
    ) -> Result<(), Stop> {
        self.count()?;
        let wrong = |what: String| Stop::Wrong(format!("{crash:?}: {what}"));
        let mut found = quietly(|| look(setup, disk, past, promise, crash)).map_err(wrong)?;
        let read = disk.read_hash();
        self.seen.insert(read);
        // What is to come of it depends on what was read, and on what may yet be lost.
        let is_new = self.judged.insert(read ^ pending.rotate_left(32));
        if is_new && depth < 2 && (self.is_deep || read.is_multiple_of(DEEP)) {
            let points = std::mem::take(&mut found.points);
            // What a power loss may take does not come back.
            let kill = if crash == Crash::Power { promise.power } else { promise.kill };
            let promise = Promise { kill, ..promise };
            self.crash_recovery(setup, past, promise, &points, found.state, depth)
                .map_err(|stop| stop.at(&format!("{crash:?}")))?;
        }
        // Where there is no pool, an opening has read next to nothing.
        if is_new || found.is_absent() {
            quietly(|| go_on(setup, disk.clone(), found, read)).map_err(wrong)?;
        }
        self.steps.extend(disk.steps());
        Ok(())
    }

    fn crash_recovery(
        &mut self,
        setup: &Setup,
        past: &Past,
        promise: Promise,
        points: &[Point],
        state: usize,
        depth: u32,
    ) -> Result<(), Stop> {
        for (index, point) in points.iter().enumerate() {
            // What an opening has shown to its caller stays.
            let is_open = index + 1 == points.len();
            let promise = match is_open {
                true => Promise { exists: true, kill: state, power: state, ..promise },
                false => promise,
            };
            self.crash_at(setup, past, promise, point, depth + 1)
                .map_err(|stop| stop.at(&format!("recovery, before {} ({index})", point.step)))?;
        }
        Ok(())
    }

    fn count(&mut self) -> Result<(), Stop> {
        self.images += 1;
        let enough = self.images.is_multiple_of(1000) && !(self.effort.progress)(self.images);
        if enough || self.images > self.effort.images_max {
            self.images -= 1;
            return Err(Stop::Enough);
        }
        Ok(())
    }
}

impl Stop {
    /// Says where.
    pub(super) fn at(self, place: &str) -> Stop {
        match self {
            Stop::Enough => Stop::Enough,
            Stop::Wrong(what) => Stop::Wrong(format!("{place}: {what}")),
        }
    }
}
