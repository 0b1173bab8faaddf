//! What is left of the pool is compared with what the process has reported.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tembo_heap::HeapFile;
use tembo_kv::{DomainRequest, Keyspace, Store};
use tembo_pool::{Pool, PoolCheck, TenantCheck};

use super::{HEAPS, Sweeper, find, heap, open, start, store};
use crate::judge::{expect, text};
use crate::kv::maintain;
use crate::pooled::expect_accounted;

/// Changes that each part makes after the sweep: they take what the sweep has freed.
const CHANGES: u64 = 200;

/// Objects that a part of a compaction or of the collection of cycles looks into.
const BUDGET: usize = 64;

/// Follows the pool of a process that is killed again and again.
#[derive(Default)]
pub struct Audit {
    store: store::Content,
    heaps: [heap::Content; 2],
}

/// What was found in the pool; a heap that was not added before the process was killed is missing.
struct Live {
    pool: Arc<Pool>,
    store: Store,
    space: Keyspace,
    heaps: [Option<HeapFile>; 2],
}

impl Live {
    fn open(path: &Path, domain: DomainRequest, sweeper: Sweeper) -> Result<Live, String> {
        let pool = open(path, domain)?;
        let store = start(&pool, domain, false)?;
        if sweeper == Sweeper::StoreAlone {
            maintain(&store)?;
        }
        let space = store.keyspace("x").map_err(text)?;
        let heaps = [find(&pool, HEAPS[0])?, find(&pool, HEAPS[1])?];
        Ok(Live { pool, store, space, heaps })
    }

    /// Finds out what is free.
    fn sweep(&self, sweeper: Sweeper) -> Result<(), String> {
        if let Sweeper::Heap(which) = sweeper
            && let Some(file) = &self.heaps[which]
        {
            let is_swept = file.enter(|heap| heap.sweep()).map_err(text)?;
            expect(is_swept, "a heap has not swept, and nothing else does")?;
            expect(
                !self.pool.usage().recovering,
                "a heap has swept, and it is not known what is free",
            )?;
        }
        maintain(&self.store)?;
        expect(!self.pool.usage().recovering, "it is not known what is free")
    }

    /// Nothing is left to be freed.
    fn tidy(&self) -> Result<(), String> {
        for file in self.heaps.iter().flatten() {
            let ended = file.enter(|heap| {
                while !heap.collect_cycles(BUDGET)? {}
                while !heap.compact(BUDGET)?.is_done {}
                heap.settle()
            });
            ended.map_err(text)?;
        }
        maintain(&self.store)
    }
}

impl Audit {
    /// Opens what is left and compares it with what was `reported`: `store` and the heaps' names, each with the number of its last change.
    /// Sweeps, lets each part change more, and verifies all of it again. `seed` decides what begins the sweep. Returns how many
    /// changes the process has made.
    ///
    /// # Errors
    /// What is wrong.
    pub fn follow(
        &mut self,
        path: &Path,
        domain: DomainRequest,
        seed: u64,
        reported: &BTreeMap<String, u64>,
    ) -> Result<u64, String> {
        if !path.exists() {
            expect(reported.is_empty() && self.total() == 0, "the pool is gone")?;
            return Ok(0);
        }
        let (sweeper, before) = (Sweeper::of(seed), self.total());
        let live = Live::open(path, domain, sweeper)?;
        let of = |name: &str, known: u64| reported.get(name).copied().unwrap_or(0).max(known);
        let store = store::show(&live.store, live.space)?.number;
        expect_next("store", store, of("store", self.store.number))?;
        self.store.follow(store);
        for (which, file) in live.heaps.iter().enumerate() {
            let (name, model) = (HEAPS[which], &mut self.heaps[which]);
            let shown = file
                .as_ref()
                .map_or(Ok(heap::Content::default()), |file| file.enter(heap::show))?;
            expect_next(name, shown.number, of(name, model.number))?;
            model.follow(which, shown.number);
        }
        let made = self.total() - before;
        self.compare(&live, "after the kill")?;
        check(&live)?;
        live.sweep(sweeper)?;
        self.compare(&live, "after the sweep")?;
        self.change(&live)?;
        self.compare(&live, "after changes that followed the sweep")?;
        live.tidy()?;
        self.compare(&live, "after a compaction")?;
        let checked = check(&live)?;
        expect(!checked.account.recovering, "it is not known what is free, after a sweep")?;
        self.count(&live, &checked)?;
        Ok(made)
    }

    fn total(&self) -> u64 {
        self.store.number + self.heaps.iter().map(|heap| heap.number).sum::<u64>()
    }

    /// All that is there is what the changes have made.
    fn compare(&self, live: &Live, when: &str) -> Result<(), String> {
        let shown = store::show(&live.store, live.space)?;
        let wrong = |what: String| Err(format!("{when}, {what}"));
        if shown != self.store {
            return wrong(format!("the store shows {shown:?}, and not {:?}", self.store));
        }
        for ((file, model), name) in live.heaps.iter().zip(&self.heaps).zip(HEAPS) {
            let Some(file) = file else { continue };
            let shown = file.enter(heap::show).map_err(|what| format!("{when}, {name}: {what}"))?;
            if shown != *model {
                return wrong(format!("{name} shows {shown:?}, and not {model:?}"));
            }
        }
        Ok(())
    }

    /// Each part changes; there is room, whatever the process has left.
    fn change(&mut self, live: &Live) -> Result<(), String> {
        for _ in 0..CHANGES {
            let number = self.store.number + 1;
            store::change(&live.store, live.space, number).map_err(text)?;
            self.store.follow(number);
            live.store.maintain(1).map_err(text)?;
            for (which, file) in live.heaps.iter().enumerate() {
                let (Some(file), model) = (file, &mut self.heaps[which]) else { continue };
                let number = model.number + 1;
                file.enter(|heap| heap::change(heap, which, number)).map_err(text)?;
                model.follow(which, number);
            }
        }
        Ok(())
    }

    /// A heap has the objects that its changes have made, and no other.
    fn count(&self, live: &Live, checked: &PoolCheck) -> Result<(), String> {
        for ((file, model), name) in live.heaps.iter().zip(&self.heaps).zip(HEAPS) {
            let found = checked.tenants.iter().find(|(found, _)| found == name);
            let (Some(_), Some((_, found))) = (file, found) else {
                expect(file.is_none() && found.is_none(), "a heap is not checked")?;
                continue;
            };
            let (objects, over, wanted) = (found.counts[0].1, found.counts[2].1, model.objects());
            expect(objects == wanted, &format!("{name}: {objects} objects, and not {wanted}"))?;
            expect(over == 0, &format!("{name}: counts are larger than the pointers"))?;
            expect(found.pending == 0, &format!("{name}: objects that were not destroyed"))?;
        }
        Ok(())
    }
}

/// Every byte is accounted for, and every object is one tenant's.
fn check(live: &Live) -> Result<PoolCheck, String> {
    let check = live.pool.check().map_err(text)?;
    let account = check.account;
    expect_accounted(&account, live.pool.region().size())?;
    let lost = (account.leaked, account.dangling);
    expect(lost == (0, 0), &format!("leaked or dangling objects: {account:?}"))?;
    let sum = |of: fn(&TenantCheck) -> u64| check.tenants.iter().map(|(_, found)| of(found)).sum();
    let (found, pending): (u64, u64) = (sum(|found| found.objects), sum(|found| found.pending));
    // Beside the tenants' there is only the log; what waits to be freed is in part reachable still.
    let is_all = (found..=found + pending + 1).contains(&account.objects);
    expect(is_all, &format!("objects that are no tenant's, or two tenants': {check:?}"))?;
    Ok(check)
}

/// A part is at the change that it has reported last, or at the next.
fn expect_next(name: &str, number: u64, reported: u64) -> Result<(), String> {
    let is_next = number == reported || number == reported + 1;
    expect(is_next, &format!("{name} is at {number}, and has reported {reported}"))
}
