//! SORT of many elements: read, weighed, sorted and shown some a turn in a snapshot, as the
//! [elements](crate::element_listing) of one collection are.
//!
//! ```text
//!   some elements ──► what they are sorted by ──► a run, sorted     … until all are read
//!   runs, merged ──► what is shown of the next elements ──► reply   … until LIMIT has all
//! ```

use crate::element_listing::{BYTES_AT_ONCE, READ_AT_ONCE};
use crate::element_source::ElementSource;
use crate::failure::Failure;
use crate::reply::Reply;
use crate::snapshot_values::SnapshotValues;
use crate::sort_plan::{LookUp, Plan};
use crate::sort_run::{Merge, Run, Weight};

impl LookUp for SnapshotValues {
    fn string(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        SnapshotValues::string(self, key)
    }

    fn field(&mut self, key: &[u8], field: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        SnapshotValues::field(self, key, field)
    }
}

/// What becomes of what is shown of elements.
pub(crate) enum SortUse {
    /// It is replied with.
    Shown(Reply),
    /// It is kept, to be stored.
    Kept(Run),
}

impl SortUse {
    fn add(&mut self, shown: Option<&[u8]>) {
        match (self, shown) {
            (SortUse::Shown(found), Some(shown)) => found.bulk(shown),
            (SortUse::Shown(found), None) => found.null(),
            (SortUse::Kept(kept), shown) => kept.push(shown.unwrap_or_default(), Weight::Own),
        }
    }

    fn size(&self) -> usize {
        match self {
            SortUse::Shown(found) => found.waiting(),
            SortUse::Kept(kept) => kept.size(),
        }
    }

    fn is_overflown(&self) -> bool {
        matches!(self, SortUse::Shown(found) if found.is_overflown())
    }

    fn memory(&self) -> usize {
        match self {
            SortUse::Shown(found) => found.memory(),
            SortUse::Kept(kept) => kept.memory(),
        }
    }
}

/// A SORT under way.
pub(crate) struct Sorting {
    values: SnapshotValues,
    /// `None`: all are read.
    source: Option<ElementSource>,
    /// Elements come in the opposite order of that in which they are read.
    is_turned: bool,
    plan: Plan,
    /// Elements that are weighed, up to so many.
    run: Run,
    weighed: usize,
    /// Those before them, and in the end all.
    merge: Merge,
    /// Elements that were passed over or shown.
    passed: usize,
    used: SortUse,
    count: usize,
}

impl Sorting {
    /// Of elements in a snapshot, which are turned round before they are sorted, or not. `used` takes what is shown of them.
    pub(crate) fn new(
        values: SnapshotValues,
        (source, is_turned): (ElementSource, bool),
        plan: Plan,
        used: SortUse,
    ) -> Sorting {
        Sorting {
            values,
            source: Some(source),
            is_turned,
            merge: Merge::new(plan.order),
            plan,
            run: Run::default(),
            weighed: 0,
            passed: 0,
            used,
            count: 0,
        }
    }

    /// Goes on with some more elements; true: it has come to its end.
    ///
    /// # Errors
    /// Damage; what another server has written; a weight that is no number.
    pub(crate) fn advance(&mut self) -> Result<bool, Failure> {
        if self.merge.has_begun() {
            return self.show();
        }
        if self.weighed == self.run.len() {
            self.read()?;
        }
        self.weigh()?;
        if self.weighed == self.run.len() {
            self.end_run();
        }
        Ok(false)
    }

    /// Reads the elements of the next run.
    fn read(&mut self) -> Result<(), Failure> {
        let Some(source) = &mut self.source else { return Ok(()) };
        let most = READ_AT_ONCE / (1 + usize::from(self.plan.looks_up_weights()));
        let (run, place) = (&mut self.run, (&self.values.snapshot, self.values.elements));
        let has_ended = source.read(place, &mut |element| {
            run.push(element, Weight::Own);
            run.len() < most && run.size() < BYTES_AT_ONCE
        })?;
        if has_ended {
            self.source = None;
        }
        Ok(())
    }

    /// Weighs elements of the run, until what was looked up is much.
    fn weigh(&mut self) -> Result<(), Failure> {
        let mut bytes = 0;
        while self.weighed < self.run.len() && bytes < BYTES_AT_ONCE {
            bytes += self.plan.weigh((&mut self.run, self.weighed), &mut self.values)?;
            self.weighed += 1;
        }
        Ok(())
    }

    /// All of the run are weighed. Behind the last one runs are merged.
    fn end_run(&mut self) {
        self.merge.add(std::mem::take(&mut self.run));
        self.weighed = 0;
        if self.source.is_none() {
            if self.is_turned {
                self.merge.turn_round();
            }
            self.merge.begin();
        }
    }

    /// Shows the next elements; true: those that are asked for have been shown.
    fn show(&mut self) -> Result<bool, Failure> {
        let Sorting { values, plan, merge, passed, used, count, .. } = self;
        let (mut left, bytes_max) = (READ_AT_ONCE, used.size() + BYTES_AT_ONCE);
        while left > 0 && used.size() < bytes_max {
            if *passed >= plan.range.end || used.is_overflown() {
                return Ok(true);
            }
            let Some((run, at)) = merge.next() else { return Ok(true) };
            if *passed >= plan.range.start {
                plan.show(run.element(at), values, &mut |shown| {
                    used.add(shown);
                    *count += 1;
                })?;
                left = left.saturating_sub(plan.get.len());
            }
            merge.pass();
            *passed += 1;
            left = left.saturating_sub(1);
        }
        Ok(false)
    }

    /// What is to be stored.
    pub(crate) fn into_kept(self) -> Option<Run> {
        match self.used {
            SortUse::Kept(kept) => Some(kept),
            SortUse::Shown(_) => None,
        }
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        self.run.memory() + self.merge.memory() + self.used.memory()
    }

    /// Replies with what was found.
    pub(crate) fn reply(self, reply: &mut Reply) {
        match self.used {
            SortUse::Shown(found) => reply.array_of(self.count, found),
            SortUse::Kept(_) => reply.integer(self.count as i64),
        }
    }
}
