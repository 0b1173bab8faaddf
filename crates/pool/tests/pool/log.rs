//! Operations on the pool's log: whole or not at all, at the cost that is stated.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tembo_pmem::{Counters, Observer, Region, Stored, Word};
use tembo_pool::{Error, Object, Pool, TenantId};

use crate::image;
use crate::tenants::{KNOWN_ROOT, filed_tenant_pool, observed_tenant_pool, tenant_pool};

/// The words of the tenant's root.
fn words(pool: &Pool, root: Object) -> &[Word] {
    pool.region().words(root.offset(), (KNOWN_ROOT / 8) as usize).unwrap()
}

fn values(pool: &Pool, root: Object) -> Vec<u64> {
    words(pool, root)[..4].iter().map(Word::load).collect()
}

fn set(pool: &Pool, word: &Word, value: u64) {
    let region: &Region = pool.region();
    region.store(word, value);
    region.flush("test.set", region.offset_of(word), 8);
}

fn made() -> (Arc<Pool>, TenantId, Object) {
    let (pool, entry) = tenant_pool();
    // The first operation makes the log.
    pool.operation(entry.id, 0, 1).unwrap().abort();
    (pool, entry.id, entry.root)
}

/// What a process would find that opens the pool now.
fn after_a_crash(pool: &Pool) -> Arc<Pool> {
    crate::tenants::reopened_toys(pool).unwrap()
}

fn spent(of: impl FnOnce()) -> (u64, u64) {
    let before = Counters::thread();
    of();
    let spent = Counters::thread() - before;
    (spent.fences, spent.lines)
}

#[test]
fn what_was_changed_in_place_is_taken_back_unless_it_commits() {
    let (pool, id, root) = made();
    let word = words(&pool, root);
    let mut operation = pool.operation(id, 0, 2).unwrap();
    operation.set(&word[0], 1).unwrap();
    operation.undo(&[&word[1], &word[2]]).unwrap();
    set(&pool, &word[1], 2);
    set(&pool, &word[2], 3);
    operation.set(&word[0], 9).unwrap();
    assert_eq!(values(&after_a_crash(&pool), root), [0, 0, 0, 0]);
    operation.abort();
    assert_eq!(values(&pool, root), [0, 0, 0, 0]);
    let mut operation = pool.operation(id, 0, 1).unwrap();
    operation.set(&word[3], 4).unwrap();
    operation.commit().unwrap().done().unwrap();
    assert_eq!(values(&pool, root), [0, 0, 0, 4]);
    let mut dropped = pool.operation(id, 0, 1).unwrap();
    dropped.set(&word[3], 5).unwrap();
    drop(dropped);
    assert_eq!(values(&after_a_crash(&pool), root), [0, 0, 0, 4]);
}

#[test]
fn what_is_collected_is_stored_by_the_commit() {
    let (pool, id, root) = made();
    let word = words(&pool, root);
    let mut operation = pool.operation(id, 0, 1).unwrap();
    operation.redo(&word[0], 1).unwrap();
    operation.redo(&word[1], 2).unwrap();
    operation.redo(&word[0], 3).unwrap();
    assert_eq!(values(&pool, root), [0, 0, 0, 0]);
    operation.commit().unwrap().done().unwrap();
    assert_eq!(values(&pool, root), [3, 2, 0, 0]);
    pool.operation(id, 0, 1).unwrap().redo(&word[2], 7).unwrap();
    assert_eq!(values(&pool, root), [3, 2, 0, 0]);
    // Beside what is changed in place: all of it, or nothing.
    let mut operation = pool.operation(id, 0, 1).unwrap();
    operation.set(&word[2], 8).unwrap();
    operation.redo(&word[3], 9).unwrap();
    assert_eq!(values(&after_a_crash(&pool), root), [3, 2, 0, 0]);
    operation.commit().unwrap().done().unwrap();
    assert_eq!(values(&after_a_crash(&pool), root), [3, 2, 8, 9]);
}

#[test]
fn intents_come_back_until_they_are_done() {
    let (pool, id, root) = made();
    let word = words(&pool, root);
    let mut never = pool.operation(id, 0, 1).unwrap();
    never.intend(9, &[9]).unwrap();
    never.abort();
    let mut operation = pool.operation(id, 0, 1).unwrap();
    operation.set(&word[0], 1).unwrap();
    operation.intend(7, &[1, 2, 3]).unwrap();
    operation.redo(&word[1], 2).unwrap();
    operation.intend(8, &[]).unwrap();
    let committed = operation.commit().unwrap();
    let codes = |committed: &tembo_pool::Committed<'_>| {
        committed.intents().iter().map(|i| (i.code, i.args.len())).collect::<Vec<_>>()
    };
    assert_eq!(codes(&committed), [(7, 3), (8, 0)]);
    assert!(pool.unfinished(id).unwrap().is_empty(), "a thread has them at hand");
    for _ in 0..2 {
        let again = after_a_crash(&pool);
        assert_eq!(values(&again, root), [1, 2, 0, 0]);
        let found = again.unfinished(id).unwrap();
        assert_eq!((found.len(), codes(&found[0])), (1, vec![(7, 3), (8, 0)]));
        assert!(again.unfinished(id).unwrap().is_empty());
        drop(found);
        // Words that were changed since are not changed again by what was committed before.
        set(&pool, &word[1], 2);
        for found in again.unfinished(id).unwrap() {
            let mut other = again.operation(id, 0, 1).unwrap();
            other.set(&words(&again, root)[1], 5).unwrap();
            other.commit().unwrap().done().unwrap();
            assert_eq!(values(&after_a_crash(&again), root), [1, 5, 0, 0]);
            found.done().unwrap();
        }
        assert!(after_a_crash(&again).unfinished(id).unwrap().is_empty());
    }
    drop(committed);
    pool.unfinished(id).unwrap().pop().unwrap().done().unwrap();
    assert!(after_a_crash(&pool).unfinished(id).unwrap().is_empty());
}

#[test]
fn objects_are_given_back_once_by_abort_commit_and_sweep() {
    let (pool, id, root) = made();
    let word = words(&pool, root);
    let objects = pool.usage().objects;
    let mut operation = pool.operation(id, 100, 1).unwrap();
    operation.alloc(100).unwrap();
    operation.abort();
    assert_eq!(pool.usage().objects, objects);
    let mut operation = pool.operation(id, 100, 1).unwrap();
    let object = operation.alloc(100).unwrap();
    operation.set(&word[0], object.to_bits()).unwrap();
    operation.commit().unwrap().done().unwrap();
    assert_eq!(pool.usage().objects, objects + 1);
    let mut operation = pool.operation(id, 100, 1).unwrap();
    operation.set(&word[0], 0).unwrap();
    operation.free(object);
    assert_eq!(pool.usage().objects, objects + 1, "not before the commit");
    operation.abort();
    assert_eq!((pool.usage().objects, word[0].load()), (objects + 1, object.to_bits()));
    let mut operation = pool.operation(id, 100, 1).unwrap();
    operation.redo(&word[0], 0).unwrap();
    operation.free(object);
    operation.commit().unwrap().done().unwrap();
    assert_eq!(pool.usage().objects, objects);
    // The log itself is marked and counted.
    let again = after_a_crash(&pool);
    let _tenants = again.open_tenants().unwrap();
    let mut sweep = again.begin_sweep().unwrap();
    sweep.mark_others(&|| true).unwrap();
    assert!(sweep.settle_others().unwrap());
    assert_eq!(sweep.finish([]).unwrap().objects, objects);
    assert_eq!(again.check().unwrap().account.leaked, 0);
}

#[test]
fn fences_and_lines_are_as_stated() {
    let (pool, id, root) = made();
    let word = words(&pool, root);
    let undo = |count: usize| {
        let mut operation = pool.operation(id, 0, 1).unwrap();
        for word in &word[..count] {
            operation.set(word, 1).unwrap();
        }
        operation.commit().unwrap().done().unwrap();
    };
    // The lane's new number, durable before the first entry: once in a process.
    assert_eq!(spent(|| undo(1)), (4, 4));
    assert_eq!(spent(|| undo(1)), (3, 3));
    assert_eq!(spent(|| undo(2)), (4, 5));
    let redo = || {
        let mut operation = pool.operation(id, 0, 1).unwrap();
        operation.redo(&word[0], 1).unwrap();
        operation.redo(&word[1], 1).unwrap();
        operation.commit().unwrap().done().unwrap();
    };
    assert_eq!(spent(redo), (3, 3));
    let intent = || {
        let mut operation = pool.operation(id, 0, 1).unwrap();
        operation.intend(1, &[2]).unwrap();
        operation.commit().unwrap().done().unwrap();
    };
    assert_eq!(spent(intent), (3, 3));
    let abort = || {
        let mut operation = pool.operation(id, 0, 1).unwrap();
        operation.set(&word[0], 3).unwrap();
        operation.abort();
    };
    assert_eq!(spent(abort), (3, 4));
    let nothing = || {
        let mut operation = pool.operation(id, 0, 1).unwrap();
        operation.redo(&word[0], 1).unwrap();
        operation.abort();
        pool.operation(id, 0, 1).unwrap().commit().unwrap().done().unwrap();
    };
    assert_eq!(spent(nothing), (0, 0));
}

#[test]
fn what_does_not_fit_is_refused_before_it_changes_anything() {
    let (pool, id, root) = made();
    let word = words(&pool, root);
    let mut operation = pool.operation(id, 0, 8).unwrap();
    let refused = operation.intend(1, &[0; 100]).unwrap_err();
    assert!(matches!(refused, Error::OperationTooLarge { words: 102, max: 48 }), "{refused}");
    let mut count = 0;
    while operation.redo(&word[count % 8], count as u64).is_ok() {
        count += 1;
    }
    assert_eq!(count, 23);
    assert!(operation.set(&word[0], 99).is_err());
    operation.commit().unwrap().done().unwrap();
    assert_eq!(words(&pool, root)[6].load(), 22);
    // As many at once as there are lanes.
    let some: Vec<_> = (0..4).map(|_| pool.operation(id, 0, 1).unwrap()).collect();
    assert!(matches!(pool.operation(id, 0, 1), Err(Error::LogBusy { lanes: 4 })));
    drop(some);
    assert!(pool.operation(id, 0, 1).is_ok());
}

#[test]
fn a_flipped_bit_in_the_log_is_reported_or_makes_its_entry_void() {
    let (pool, id, root) = made();
    let word = words(&pool, root);
    let mut operation = pool.operation(id, 0, 1).unwrap();
    operation.redo(&word[0], 1).unwrap();
    operation.redo(&word[1], 2).unwrap();
    let log = {
        let image = image::bytes(&pool);
        let low = u64::from_le_bytes(image[112..120].try_into().unwrap());
        Object::from_bits(low)
    };
    let committed = operation.commit().unwrap();
    let good = image::bytes(&pool);
    let at = log.offset() as usize - 4096;
    let mut damaged = 0;
    for bit in 0..log.size() as usize * 8 {
        let mut bad = good.clone();
        bad[at + bit / 8] ^= 1 << (bit % 8);
        match crate::tenants::opened_toys(&bad) {
            Ok(pool) => assert_eq!(values(&pool, root), [1, 2, 0, 0]),
            Err(Error::Damaged { field: "log" | "lane of the log", .. }) => damaged += 1,
            Err(error) => panic!("bit {bit}: {error}"),
        }
    }
    assert_eq!(damaged, 128 + 4 * 64);
    drop(committed);
}

#[test]
fn threads_have_a_lane_each() {
    let (pool, id, root) = made();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (pool, word) = (&pool, &words(&pool, root)[thread]);
            scope.spawn(move || {
                for round in 1..=200 {
                    let mut operation = pool.operation(id, 0, 1).unwrap();
                    match round % 3 {
                        0 => operation.redo(word, round).unwrap(),
                        _ => operation.set(word, round).unwrap(),
                    }
                    match round % 2 {
                        0 => operation.commit().unwrap().done().unwrap(),
                        _ => operation.abort(),
                    }
                }
            });
        }
    });
    assert_eq!(values(&pool, root), [200, 200, 200, 0]);
}

#[test]
fn words_are_committed_with_one_fence_and_are_there_after_a_crash() {
    let (pool, id, root) = made();
    let at = |index: u64| root.offset() + 8 * index;
    let commit = |value: u64| {
        let operation = pool.operation(id, 0, 1).unwrap();
        operation.commit_words(&[[at(0), value], [at(1), value + 1]], &[]).unwrap();
    };
    (1..20).for_each(commit);
    assert_eq!(spent(|| commit(20)).0, 1);
    assert_eq!(values(&pool, root), [20, 21, 0, 0]);
    let again = after_a_crash(&pool);
    assert_eq!(values(&again, root), [20, 21, 0, 0]);
    // What is changed by an operation of another kind is not changed back.
    let mut operation = pool.operation(id, 0, 1).unwrap();
    operation.set(&words(&pool, root)[0], 7).unwrap();
    operation.commit().unwrap().done().unwrap();
    assert_eq!(values(&after_a_crash(&pool), root), [7, 21, 0, 0]);
    assert_eq!(pool.check().unwrap().account.leaked, 0);
}

#[test]
fn more_words_than_a_lane_holds_are_committed_whole() {
    let (pool, id, root) = made();
    let words: Vec<[u64; 2]> = (0..500).map(|n| [root.offset() + 8 * (n % 4), n]).collect();
    let operation = pool.operation(id, 16 * 500, 300).unwrap();
    operation.commit_words(&words, &[]).unwrap();
    assert_eq!(values(&after_a_crash(&pool), root), [496, 497, 498, 499]);
    assert_eq!(pool.check().unwrap().account.leaked, 0, "the extent is given back");
}

#[test]
fn contents_whose_checksum_an_entry_has_need_no_fence_of_their_own() {
    let (pool, id, root) = made();
    let commit = || {
        let mut operation = pool.operation(id, 64, 2).unwrap();
        let object = operation.alloc(64).unwrap();
        pool.region().write("test.content", object.offset(), &[&[7; 64]]).unwrap();
        let contents = [operation.content(object.offset(), &[7; 64])];
        operation.commit_words(&[[root.offset(), 1]], &contents).unwrap();
        pool.free(object);
    };
    (0..5).for_each(|_| commit());
    assert_eq!(spent(commit).0, 1);
}

/// The words of the last operation are not flushed by it: one that notes what was there has to, before it makes their entries void.
#[test]
fn words_that_were_stored_last_outlast_an_operation_that_notes_others() {
    let (pool, id, root) = made();
    let at = |index: u64| root.offset() + 8 * index;
    pool.operation(id, 0, 1).unwrap().commit_words(&[[at(0), 1]], &[]).unwrap();
    pool.operation(id, 0, 1).unwrap().commit_words(&[[at(1), 2]], &[]).unwrap();
    let spent = spent(|| {
        let mut operation = pool.operation(id, 0, 1).unwrap();
        operation.set(&words(&pool, root)[2], 3).unwrap();
        operation.commit().unwrap().done().unwrap();
    });
    assert_eq!(
        spent.0, 5,
        "one for the words, one for the number of the lane, and three of its own"
    );
    assert_eq!(values(&after_a_crash(&pool), root), [1, 2, 3, 0]);
}

/// A checkpoint between two operations drops the copies of pages that are in the pool file.
#[test]
fn words_that_were_stored_last_outlast_the_copy_of_their_page() {
    let (file, pool, entry) = filed_tenant_pool("given-back");
    let root = entry.root;
    let commit = |index: u64, value: u64| {
        let operation = pool.operation(entry.id, 0, 1).unwrap();
        operation.commit_words(&[[root.offset() + 8 * index, value]], &[]).unwrap();
    };
    commit(0, 1);
    commit(0, 2);
    pool.region().checkpoint().unwrap();
    assert_eq!(pool.region().report().private_bytes, 0, "the pages were given back");
    assert_eq!(values(&pool, root), [2, 0, 0, 0]);
    // The next ones make the entries of the one before void.
    commit(1, 3);
    commit(1, 4);
    pool.region().checkpoint().unwrap();
    assert_eq!(values(&pool, root), [2, 4, 0, 0]);
    drop(pool);
    assert_eq!(values(&file.reopened(), root), [2, 4, 0, 0]);
}

#[test]
fn what_settled_words_have_unlinked_is_not_changed_by_what_was_committed_before() {
    let (pool, id, root) = made();
    let mut operation = pool.operation(id, 64, 2).unwrap();
    let object = operation.alloc(64).unwrap();
    pool.region().write("test.content", object.offset(), &[&[7; 64]]).unwrap();
    let contents = [operation.content(object.offset(), &[7; 64])];
    operation.commit_words(&[[root.offset(), object.to_bits()]], &contents).unwrap();
    let operation = pool.operation(id, 0, 1).unwrap();
    operation.commit_words(&[[object.offset(), 8]], &[]).unwrap();
    let unlink = || {
        let operation = pool.operation(id, 0, 1).unwrap();
        operation.commit_words_settled(&[[root.offset(), 0]], &[]).unwrap();
    };
    assert_eq!(spent(unlink).0, 3, "two, and one for the number of the lane");
    // Another's from here on.
    let _section = pool.reserve(0, 2).unwrap();
    pool.region().write("test.other", object.offset(), &[&[9; 64]]).unwrap();
    pool.region().fence("test.other.fence");
    let again = after_a_crash(&pool);
    let word = again.region().words(object.offset(), 1).unwrap()[0].load();
    assert_eq!(word.to_le_bytes(), [9; 8]);
}

/// Else it would be true again when what it names has that content once more, and be stored over what was committed since.
#[test]
fn an_entry_that_is_void_by_its_content_stays_void() {
    let (pool, id, root) = made();
    let at = |index: u64| root.offset() + 8 * index;
    let commit = |pool: &Pool, words: &[[u64; 2]]| {
        pool.operation(id, 0, 2).unwrap().commit_words(words, &[]).unwrap();
    };
    // The lane that the next process takes first is not that of the next operation.
    commit(&pool, &[[at(2), 1]]);
    let mut operation = pool.operation(id, 64, 3).unwrap();
    let object = operation.alloc(64).unwrap();
    pool.region().write("test.content", object.offset(), &[&[7; 64]]).unwrap();
    let contents = [operation.content(object.offset(), &[7; 64])];
    operation.commit_words(&[[at(0), object.to_bits()], [at(1), 1]], &contents).unwrap();
    commit(&pool, &[[at(1), 2], [object.offset(), 8]]);
    let again = after_a_crash(&pool);
    assert_eq!(words(&again, root)[1].load(), 2);
    commit(&again, &[[at(1), 3], [object.offset(), u64::from_le_bytes([7; 8])]]);
    let last = after_a_crash(&again);
    assert_eq!(words(&last, root)[1].load(), 3);
}

/// A sealed entry that names no word would keep the pool from being opened for good.
#[test]
fn an_operation_on_a_word_that_does_not_exist_is_refused_before_its_seal() {
    let (pool, id, root) = made();
    let at = root.offset();
    let commit = |words: &[[u64; 2]], contents: &[[u64; 3]]| {
        let operation = pool.operation(id, 16 * words.len() as u64, 20).unwrap();
        operation.commit_words(words, contents)
    };
    let size = pool.region().size();
    let usage = pool.usage().objects;
    for bad in [0, 8, at + 1, size, size - 4, u64::MAX - 7, u64::MAX] {
        let many: Vec<[u64; 2]> = (0..100).map(|_| [at, 9]).chain([[bad, 9]]).collect();
        for words in [&[[at, 9], [bad, 9]][..], &many] {
            let refused = commit(words, &[]).unwrap_err();
            assert!(matches!(refused, Error::NoSuchWord { offset } if offset == bad), "{refused}");
        }
    }
    let refused = commit(&[[at, 9]], &[[size, 8, 0]]).unwrap_err();
    assert!(matches!(refused, Error::NoSuchWord { .. }), "{refused}");
    let beside = &pool.region().words(0, 1).unwrap()[0];
    let mut operation = pool.operation(id, 0, 1).unwrap();
    let refused = [operation.redo(beside, 9), operation.set(beside, 9), operation.undo(&[beside])];
    assert!(refused.iter().all(|refused| matches!(refused, Err(Error::NoSuchWord { offset: 0 }))));
    operation.commit().unwrap().done().unwrap();
    assert_eq!(pool.usage().objects, usage);
    assert_eq!(values(&after_a_crash(&pool), root), [0; 4]);
    // The pool goes on, with all of its lanes.
    (0..9).for_each(|value| commit(&[[at, value]], &[]).unwrap());
    assert_eq!(values(&after_a_crash(&pool), root), [8, 0, 0, 0]);
}

/// As an earlier program made it: its magic, and checksums that are CRC-32C alone.
#[test]
fn a_log_of_an_earlier_program_is_gone_on_with() {
    let (pool, id, root) = made();
    let bytes = pool.region().media_bytes(0, pool.region().size()).unwrap().to_vec();
    let at = bytes.windows(8).position(|window| window == b"TembPLg2").unwrap();
    let magic = &pool.region().words(at as u64, 1).unwrap()[0];
    set(&pool, magic, u64::from_le_bytes(*b"TembPLog"));
    pool.region().fence("test.fence");
    let pool = after_a_crash(&pool);
    let mut operation = pool.operation(id, 64, 2).unwrap();
    let object = operation.alloc(64).unwrap();
    pool.region().write("test.content", object.offset(), &[&[7; 64]]).unwrap();
    let contents = [operation.content(object.offset(), &[7; 64])];
    assert_eq!(contents[0][2], tembo_pmem::crc32c(0, &[7; 64]).into());
    operation.commit_words(&[[root.offset(), 1], [root.offset() + 8, 2]], &contents).unwrap();
    let again = after_a_crash(&pool);
    assert_eq!(values(&again, root), [1, 2, 0, 0]);
    assert_eq!(again.region().words(at as u64, 1).unwrap()[0].load().to_le_bytes(), *b"TembPLog");
}

/// Holds the thread of one operation at its seal until the other has ended, or has waited for long enough.
#[derive(Default)]
struct Gate {
    held: Mutex<Option<std::thread::ThreadId>>,
    is_at_seal: AtomicBool,
    has_other_ended: AtomicBool,
    /// What was so when the one that was held went on.
    had_other_ended: AtomicBool,
}

impl Observer for Gate {
    fn load(&self, _: u64, _: u64) {}
    fn store(&self, _: Stored<'_>, perform: &mut dyn FnMut()) {
        perform();
    }
    fn flush(&self, _: &'static str, _: u64, _: u64) {}
    fn fence(&self, name: &'static str) {
        let is_held = *self.held.lock().unwrap() == Some(std::thread::current().id());
        if is_held && name == "pool.log.seal.fence" {
            self.is_at_seal.store(true, Ordering::SeqCst);
            let begin = Instant::now();
            while !self.has_other_ended.load(Ordering::SeqCst)
                && begin.elapsed() < Duration::from_millis(300)
            {
                std::thread::yield_now();
            }
            let ended = self.has_other_ended.load(Ordering::SeqCst);
            self.had_other_ended.store(ended, Ordering::SeqCst);
        }
    }
    fn sync(&self) {}
    fn resize(&self, _: u64) {}
}

/// The entries of an operation that is applied are made void by the next one, which may be another tenant's. Until that is
/// fenced, no operation of its own tenant that builds on it may end: a crash would store its words again.
#[test]
fn no_operation_ends_while_another_voids_what_it_builds_on() {
    let gate = Arc::new(Gate::default());
    let (pool, entry) = observed_tenant_pool(gate.clone());
    let (id, root) = (entry.id, entry.root);
    pool.operation(id, 0, 1).unwrap().abort();
    let commit = |index: u64, value| {
        let operation = pool.operation(id, 0, 1).unwrap();
        operation.commit_words(&[[root.offset() + 8 * index, value]], &[]).unwrap();
    };
    commit(0, 1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            *gate.held.lock().unwrap() = Some(std::thread::current().id());
            commit(1, 1);
        });
        while !gate.is_at_seal.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        commit(0, 2);
        gate.has_other_ended.store(true, Ordering::SeqCst);
    });
    assert!(!gate.had_other_ended.load(Ordering::SeqCst), "it did not wait for the fence");
    assert_eq!(values(&after_a_crash(&pool), root), [2, 1, 0, 0]);
}
