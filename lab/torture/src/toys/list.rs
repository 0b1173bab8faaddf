//! The list: what it has on media, and the operations on it.
//!
//! ```text
//! root    head, tail, count, label, doomed (nodes that are being taken apart), the label once more, kept
//! node    next, previous, name, value
//! value   count of the nodes that have it, word
//! kept    one of two contents, at both ends
//! ```

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tembo_pmem::Word;
use tembo_pool::{Committed, Error, Marker, Object, Operation, Pool, TenantEntry};

use crate::judge::{expect, text};

/// Words in each.
pub(super) const ROOT: usize = 8;
const NODE: usize = 4;
const VALUE: usize = 2;
const KEPT_WORDS: usize = 16;

const HEAD: usize = 0;
const TAIL: usize = 1;
const COUNT: usize = 2;
const LABEL: usize = 3;
const DOOMED: usize = 4;
const LABEL_AGAIN: usize = 5;
const KEPT: usize = 6;

const NEXT: usize = 0;
const PREVIOUS: usize = 1;
const NAME: usize = 2;
const SHARED: usize = 3;

/// Intents.
const TAKE_APART: u32 = 1;
const STORE_LABEL: u32 = 2;

/// The contents that a kept object has by turns: first the first.
pub(super) const CONTENTS: [u64; 2] = [0x1111_1111, 0x2222_2222];

/// How long a sweep may take to notice that there is a gap.
const GAP: Duration = Duration::from_millis(1);

/// Bytes and lines that an operation may need.
const BYTES: u64 = 256;
const LINES: u64 = 12;

/// All that a list shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Content {
    /// The names of the nodes, and the number of the value that each has.
    pub(crate) nodes: Vec<(u64, usize)>,
    /// The words of the values, numbered as they come first in the list.
    pub(crate) values: Vec<u64>,
    pub(crate) label: u64,
    /// The content of the kept object, if there is one.
    pub(crate) kept: Option<u64>,
}

impl Content {
    /// How many objects there are: the root, each node, each value once, and the kept one.
    pub(crate) fn objects(&self) -> u64 {
        1 + self.nodes.len() as u64 + self.values.len() as u64 + u64::from(self.kept.is_some())
    }
}

/// The content that a kept object has after one of them.
pub(super) fn other(content: u64) -> u64 {
    CONTENTS[usize::from(content == CONTENTS[0])]
}

/// A list, open.
pub(crate) struct List {
    pub(super) pool: Arc<Pool>,
    pub(super) entry: TenantEntry,
    busy: Mutex<()>,
    /// A sweep wants a gap between two operations.
    is_wanted: AtomicBool,
}

/// What an operation comes to: that it was done, or that there was no room.
fn done(made: Result<(), Error>) -> Result<bool, String> {
    match made {
        Ok(()) => Ok(true),
        Err(Error::PoolFull { .. }) => Ok(false),
        Err(error) => Err(text(error)),
    }
}

impl List {
    /// Does what is not finished, and opens.
    pub(super) fn open(pool: &Arc<Pool>, entry: &TenantEntry) -> Result<Arc<List>, Error> {
        let list = List {
            pool: pool.clone(),
            entry: entry.clone(),
            busy: Mutex::new(()),
            is_wanted: AtomicBool::new(false),
        };
        for unfinished in pool.unfinished(entry.id)? {
            list.finish(unfinished)?;
        }
        Ok(Arc::new(list))
    }

    pub(super) fn make_way(&self) {
        self.is_wanted.store(true, Ordering::Relaxed);
    }

    pub(super) fn hold(&self) -> MutexGuard<'_, ()> {
        if self.is_wanted.swap(false, Ordering::Relaxed) {
            std::thread::sleep(GAP);
        }
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn try_hold(&self) -> Option<MutexGuard<'_, ()>> {
        self.busy.try_lock().ok()
    }

    fn root(&self) -> Result<&[Word], Error> {
        Ok(self.pool.region().words(self.entry.root.offset(), ROOT)?)
    }

    fn words(&self, bits: u64, count: usize) -> Result<&[Word], Error> {
        let object = Object::from_bits(bits);
        self.pool.valid(object)?;
        Ok(self.pool.region().words(object.offset(), count)?)
    }

    fn node(&self, bits: u64) -> Result<&[Word], Error> {
        self.words(bits, NODE)
    }

    fn value(&self, bits: u64) -> Result<&[Word], Error> {
        self.words(bits, VALUE)
    }

    /// The node of that index.
    fn nth(&self, index: usize) -> Result<u64, Error> {
        let mut bits = self.root()?[HEAD].load();
        for _ in 0..index {
            bits = self.node(bits)?[NEXT].load();
        }
        Ok(bits)
    }

    fn operation(&self) -> Result<Operation<'_>, Error> {
        self.pool.operation(self.entry.id, 0, LINES)
    }

    /// One that allocates.
    fn making(&self) -> Result<Operation<'_>, Error> {
        self.pool.operation(self.entry.id, BYTES, LINES)
    }

    /// Words for a new object, written and flushed.
    fn make(&self, operation: &mut Operation<'_>, words: &[u64]) -> Result<Object, Error> {
        let object = operation.alloc(words.len() as u64 * 8)?;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.pool.region().write("torture.toys.make", object.offset(), &[&bytes])?;
        Ok(object)
    }

    /// Commits, and does what was intended.
    fn commit(&self, operation: Operation<'_>) -> Result<(), Error> {
        self.finish(operation.commit()?)
    }

    /// Does what an operation has intended, or goes on with it.
    fn finish(&self, committed: Committed<'_>) -> Result<(), Error> {
        for intent in committed.intents() {
            match intent.code {
                TAKE_APART => while self.take_one_apart()? {},
                _ => {
                    let mut operation = self.operation()?;
                    for field in [LABEL, LABEL_AGAIN] {
                        operation.redo(&self.root()?[field], intent.args[0])?;
                    }
                    operation.commit()?.done()?;
                }
            }
        }
        committed.done()
    }

    /// Frees the first of the nodes that are doomed; whether there was one.
    fn take_one_apart(&self) -> Result<bool, Error> {
        let doomed = &self.root()?[DOOMED];
        let bits = doomed.load();
        if bits == 0 {
            return Ok(false);
        }
        let node = self.node(bits)?;
        let mut operation = self.operation()?;
        operation.redo(doomed, node[NEXT].load())?;
        self.let_go(&mut operation, node[SHARED].load())?;
        operation.free(Object::from_bits(bits));
        operation.commit()?.done()?;
        Ok(true)
    }

    /// One node fewer has a value.
    fn let_go(&self, operation: &mut Operation<'_>, bits: u64) -> Result<(), Error> {
        let value = self.value(bits)?;
        let count = value[0].load();
        if count == 1 {
            operation.free(Object::from_bits(bits));
        } else {
            operation.redo(&value[0], count - 1)?;
        }
        Ok(())
    }

    pub(super) fn push(&self, is_front: bool, serial: u64) -> Result<bool, String> {
        let _busy = self.hold();
        done(self.try_push(is_front, serial))
    }

    fn try_push(&self, is_front: bool, serial: u64) -> Result<(), Error> {
        let root = self.root()?;
        let (end, there, back) =
            if is_front { (HEAD, NEXT, PREVIOUS) } else { (TAIL, PREVIOUS, NEXT) };
        let beside = root[end].load();
        let mut operation = self.making()?;
        let value = self.make(&mut operation, &[1, serial])?;
        let mut words = [0, 0, serial, value.to_bits()];
        words[there] = beside;
        let node = self.make(&mut operation, &words)?.to_bits();
        operation.set(&root[end], node)?;
        if beside == 0 {
            operation.set(&root[HEAD + TAIL - end], node)?;
        } else {
            operation.set(&self.node(beside)?[back], node)?;
        }
        operation.set(&root[COUNT], root[COUNT].load() + 1)?;
        self.commit(operation)
    }

    pub(super) fn remove(&self, index: usize) -> Result<bool, String> {
        let _busy = self.hold();
        let remove = || {
            let (root, bits) = (self.root()?, self.nth(index)?);
            let node = self.node(bits)?;
            let (next, previous) = (node[NEXT].load(), node[PREVIOUS].load());
            let mut operation = self.operation()?;
            let before = if previous == 0 { &root[HEAD] } else { &self.node(previous)?[NEXT] };
            let behind = if next == 0 { &root[TAIL] } else { &self.node(next)?[PREVIOUS] };
            operation.redo(before, next)?;
            operation.redo(behind, previous)?;
            operation.redo(&root[COUNT], root[COUNT].load() - 1)?;
            self.let_go(&mut operation, node[SHARED].load())?;
            operation.free(Object::from_bits(bits));
            self.commit(operation)
        };
        done(remove())
    }

    /// Unlinks a node that has its value alone, and sweeps.
    pub(super) fn lose(&self, index: usize, serial: u64) -> Result<bool, String> {
        let lose = || {
            let _busy = self.hold();
            let (root, node) = (self.root()?, self.node(self.nth(index)?)?);
            let (next, previous) = (node[NEXT].load(), node[PREVIOUS].load());
            let before = if previous == 0 { &root[HEAD] } else { &self.node(previous)?[NEXT] };
            let behind = if next == 0 { &root[TAIL] } else { &self.node(next)?[PREVIOUS] };
            let count = (&root[COUNT], root[COUNT].load() - 1);
            let own = [(&node[NEXT], 0), (&node[NAME], serial)];
            let words = [(before, next), (behind, previous), count].into_iter().chain(own);
            let region = self.pool.region();
            let words: Vec<[u64; 2]> =
                words.map(|(word, new)| [region.offset_of(word), new]).collect();
            self.operation()?.commit_words(&words, &[])
        };
        let is_done = done(lose())?;
        self.sweep()?;
        Ok(is_done)
    }

    pub(super) fn share(&self, to: usize, from: usize) -> Result<bool, String> {
        let _busy = self.hold();
        let share = || {
            let (to, from) = (self.node(self.nth(to)?)?, self.node(self.nth(from)?)?);
            let (old, new) = (to[SHARED].load(), from[SHARED].load());
            if old == new {
                return Ok(());
            }
            let mut operation = self.operation()?;
            let count = &self.value(new)?[0];
            operation.redo(count, count.load() + 1)?;
            self.let_go(&mut operation, old)?;
            operation.redo(&to[SHARED], new)?;
            self.commit(operation)
        };
        done(share())
    }

    /// Two nodes get each other's names.
    pub(super) fn swap(&self, one: usize, two: usize) -> Result<bool, String> {
        let _busy = self.hold();
        let swap = || {
            let mut operation = self.operation()?;
            self.swap_names(&mut operation, one, two)?;
            self.commit(operation)
        };
        done(swap())
    }

    fn swap_names(
        &self,
        operation: &mut Operation<'_>,
        one: usize,
        two: usize,
    ) -> Result<(), Error> {
        let (one, two) = (&self.node(self.nth(one)?)?[NAME], &self.node(self.nth(two)?)?[NAME]);
        let (first, second) = (one.load(), two.load());
        operation.undo(&[one, two])?;
        for (word, name) in [(one, second), (two, first)] {
            self.pool.region().store(word, name);
            let at = self.pool.region().offset_of(word);
            self.pool.region().flush("torture.toys.swap", at, 8);
        }
        Ok(())
    }

    /// The same, and the value of the first gets another word.
    pub(super) fn swap_and_set(&self, one: usize, two: usize, serial: u64) -> Result<bool, String> {
        let _busy = self.hold();
        let swap = || {
            let mut operation = self.operation()?;
            self.swap_names(&mut operation, one, two)?;
            let shared = self.node(self.nth(one)?)?[SHARED].load();
            operation.redo(&self.value(shared)?[1], serial)?;
            self.commit(operation)
        };
        done(swap())
    }

    pub(super) fn clear(&self) -> Result<bool, String> {
        let _busy = self.hold();
        let clear = || {
            let root = self.root()?;
            let mut operation = self.operation()?;
            operation.redo(&root[DOOMED], root[HEAD].load())?;
            for field in [HEAD, TAIL, COUNT] {
                operation.redo(&root[field], 0)?;
            }
            operation.intend(TAKE_APART, &[])?;
            self.commit(operation)
        };
        done(clear())
    }

    pub(super) fn label(&self, serial: u64) -> Result<bool, String> {
        let _busy = self.hold();
        let label = || {
            let mut operation = self.operation()?;
            for field in [LABEL, LABEL_AGAIN] {
                operation.redo(&self.root()?[field], serial)?;
            }
            self.commit(operation)
        };
        done(label())
    }

    pub(super) fn label_by_words(&self, serial: u64) -> Result<bool, String> {
        let _busy = self.hold();
        let label = || self.operation()?.commit_words(&self.labelled(serial, [])?, &[]);
        done(label())
    }

    /// Words for a commit: these of the list, behind those of its label.
    fn labelled<const N: usize>(
        &self,
        serial: u64,
        words: [(&Word, u64); N],
    ) -> Result<Vec<[u64; 2]>, Error> {
        let root = self.root()?;
        let labels = [LABEL, LABEL_AGAIN].map(|field| (&root[field], serial));
        let all = labels.into_iter().chain(words);
        Ok(all.map(|(word, new)| [self.pool.region().offset_of(word), new]).collect())
    }

    /// Makes the kept object, whose content is durable by the checksum that an entry has of it.
    pub(super) fn keep(&self, serial: u64) -> Result<bool, String> {
        let _busy = self.hold();
        let keep = || {
            let mut words = [0; KEPT_WORDS];
            (words[0], words[KEPT_WORDS - 1]) = (CONTENTS[0], CONTENTS[0]);
            let bytes = words.map(u64::to_le_bytes);
            let mut operation = self.making()?;
            let kept = self.make(&mut operation, &words)?;
            let contents = [operation.content(kept.offset(), bytes.as_flattened())];
            let words = self.labelled(serial, [(&self.root()?[KEPT], kept.to_bits())])?;
            operation.commit_words(&words, &contents)
        };
        done(keep())
    }

    /// Gives the kept object its other content.
    pub(super) fn alter(&self, serial: u64) -> Result<bool, String> {
        let _busy = self.hold();
        let alter = || {
            let kept = self.words(self.root()?[KEPT].load(), KEPT_WORDS)?;
            let new = other(kept[0].load());
            let ends = [(&kept[0], new), (&kept[KEPT_WORDS - 1], new)];
            self.operation()?.commit_words(&self.labelled(serial, ends)?, &[])
        };
        done(alter())
    }

    /// Unlinks the kept object; its space is another's at once.
    pub(super) fn discard(&self, serial: u64) -> Result<bool, String> {
        let _busy = self.hold();
        let discard = || {
            let link = &self.root()?[KEPT];
            let kept = Object::from_bits(link.load());
            let words = self.labelled(serial, [(link, 0)])?;
            self.operation()?.commit_words_settled(&words, &[])?;
            self.pool.free(kept);
            Ok(())
        };
        done(discard())
    }

    pub(super) fn label_later(&self, serial: u64) -> Result<bool, String> {
        let _busy = self.hold();
        let label = || {
            let mut operation = self.operation()?;
            operation.intend(STORE_LABEL, &[serial])?;
            self.commit(operation)
        };
        done(label())
    }

    pub(super) fn abort(&self, index: usize) -> Result<(), String> {
        let _busy = self.hold();
        let abort = || {
            let root = self.root()?;
            let mut operation = self.making()?;
            let made = self.make(&mut operation, &[7; VALUE])?;
            operation.set(&root[HEAD], made.to_bits())?;
            operation.set(&root[LABEL], index as u64)?;
            operation.set(&root[HEAD], 0)?;
            operation.redo(&root[COUNT], 99)?;
            operation.intend(STORE_LABEL, &[99])?;
            operation.abort();
            Ok(())
        };
        done(abort()).map(drop)
    }

    pub(super) fn nested(&self) -> Result<(), String> {
        let _busy = self.hold();
        let nested = || {
            let root = self.root()?;
            let (mut one, mut two) = (self.operation()?, self.operation()?);
            one.set(&root[COUNT], 99)?;
            two.set(&root[LABEL], 99)?;
            self.pool.region().fence("torture.toys.nested");
            two.abort();
            one.abort();
            Ok(())
        };
        done(nested()).map(drop)
    }

    pub(super) fn nothing(&self) -> Result<(), String> {
        let _busy = self.hold();
        done(self.operation().map(Operation::abort)).map(drop)
    }

    /// Drives a sweep of the pool, unless another tenant is at it.
    pub(crate) fn sweep(&self) -> Result<(), String> {
        let _busy = self.hold();
        let _tenants = self.pool.open_tenants().map_err(text)?;
        let mut sweep = match self.pool.begin_sweep_by(self.entry.id) {
            Err(Error::SweepRunning | Error::TenantBusy { .. }) => return Ok(()),
            begun => begun.map_err(text)?,
        };
        self.mark(&mut sweep)?;
        sweep.mark_others(&|| true).map_err(text)?;
        while !sweep.settle_others().map_err(text)? {}
        let report = sweep.finish([]).map_err(text)?;
        expect(report.refused == 0, "a sweep refused something")
    }

    /// All objects: the root, the kept one, the nodes and the values; how many.
    pub(super) fn mark(&self, marker: &mut dyn Marker) -> Result<u64, String> {
        let root = self.root().map_err(text)?;
        let mut count = u64::from(marker.mark(self.entry.root).map_err(text)?);
        let kept = Object::from_bits(root[KEPT].load());
        if !kept.is_none() {
            count += u64::from(marker.mark(kept).map_err(text)?);
        }
        for first in [HEAD, DOOMED] {
            let mut bits = root[first].load();
            while bits != 0 {
                expect(
                    marker.mark(Object::from_bits(bits)).map_err(text)?,
                    "a node is there twice",
                )?;
                let node = self.node(bits).map_err(text)?;
                let value = Object::from_bits(node[SHARED].load());
                count += 1 + u64::from(marker.mark(value).map_err(text)?);
                bits = node[NEXT].load();
            }
        }
        Ok(count)
    }

    fn kept_content(&self, bits: u64) -> Result<Option<u64>, String> {
        if bits == 0 {
            return Ok(None);
        }
        let words = self.words(bits, KEPT_WORDS).map_err(text)?;
        let content = words[0].load();
        let is_whole = words[KEPT_WORDS - 1].load() == content && CONTENTS.contains(&content);
        expect(is_whole, "half a content")?;
        Ok(Some(content))
    }

    /// What it shows; that it is linked both ways and counts right.
    pub(crate) fn content(&self) -> Result<Content, String> {
        let root = self.root().map_err(text)?;
        expect(root[DOOMED].load() == 0, "nodes that were not taken apart")?;
        expect(root[LABEL].load() == root[LABEL_AGAIN].load(), "half a label")?;
        let kept = self.kept_content(root[KEPT].load())?;
        let mut content = Content { label: root[LABEL].load(), kept, ..Content::default() };
        let (mut bits, mut previous) = (root[HEAD].load(), 0);
        let mut values: BTreeMap<u64, (usize, u64)> = BTreeMap::new();
        while bits != 0 {
            let node = self.node(bits).map_err(text)?;
            expect(node[PREVIOUS].load() == previous, "a node is not linked back")?;
            let shared = node[SHARED].load();
            let number = values.len();
            let (number, count) = values.entry(shared).or_insert((number, 0));
            if *count == 0 {
                content.values.push(self.value(shared).map_err(text)?[1].load());
            }
            *count += 1;
            content.nodes.push((node[NAME].load(), *number));
            expect(content.nodes.len() < 1000, "a list without end")?;
            (previous, bits) = (bits, node[NEXT].load());
        }
        expect(root[TAIL].load() == previous, "the list does not end at its tail")?;
        expect(root[COUNT].load() == content.nodes.len() as u64, "the list's count is wrong")?;
        for (bits, (_, count)) in values {
            let found = self.value(bits).map_err(text)?[0].load();
            expect(found == count, "a value's count is wrong")?;
        }
        Ok(content)
    }
}
