//! What no operation has written to the pool's log, under checksums that hold: an opening ends with an error, having read no more than a
//! small multiple of the pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tembo_pmem::{HEADER_SIZE, Observer, OuterChecksum, Stored, Word, crc32c};
use tembo_pool::{Error, OBJECT_SIZE_MAX, Object};

use crate::tenants::{KNOWN_ROOT, tenant_pool, toys_of};
use crate::{image, tenants};

const UNDO: u64 = 1;
const REDO: u64 = 2;
const INTENT: u64 = 3;
const SEAL: u64 = 4;
const EXTENT: u64 = 5;
const CONTENT: u64 = 6;

/// Where objects end that a pool can name.
const REACH: u64 = 16 << 40;

/// Adds up the bytes that a pool looks at.
#[derive(Default)]
struct Asked(AtomicU64);

impl Observer for Asked {
    fn load(&self, _: u64, len: u64) {
        self.0.fetch_add(len, Ordering::Relaxed);
    }
    fn store(&self, _: Stored<'_>, perform: &mut dyn FnMut()) {
        perform();
    }
    fn flush(&self, _: &'static str, _: u64, _: u64) {}
    fn fence(&self, _: &'static str) {}
    fn sync(&self) {}
    fn resize(&self, _: u64) {}
}

/// A pool with a tenant, whose root is zero, and a log that no operation has used, as bytes behind the region's header.
#[derive(Clone)]
struct Forged {
    bytes: Vec<u8>,
    root: Object,
    log: Object,
}

impl Forged {
    fn new() -> Forged {
        let (pool, entry) = tenant_pool();
        pool.operation(entry.id, 0, 1).unwrap().abort();
        let bytes = image::bytes(&pool);
        let log = Object::from_bits(word_at(&bytes, 112));
        Forged { bytes, root: entry.root, log }
    }

    /// Bytes in the region.
    fn size(&self) -> u64 {
        HEADER_SIZE + self.bytes.len() as u64
    }

    fn put(&mut self, offset: u64, word: u64) {
        let at = (offset - HEADER_SIZE) as usize;
        self.bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }

    /// Where a lane of the log begins: it has four.
    fn lane(&self, lane: u64) -> u64 {
        self.log.offset() + 64 + lane * ((self.log.size() - 64) / 4 / 64 * 64)
    }

    /// Forges the entries of a lane: kinds, and the words that follow.
    fn forge(&mut self, lane: u64, entries: &[(u64, Vec<u64>)]) {
        let state = word_at(&self.bytes, (self.lane(lane) - HEADER_SIZE) as usize);
        let number = (state & ((1 << 48) - 1)) >> 1;
        let (mut at, mut before) = (self.lane(lane) + 64, 0);
        for (kind, words) in entries {
            let low = kind | (words.len() as u64) << 8;
            let salt = bytes_of(&[u64::from(before), lane, number, low]);
            before = OuterChecksum::Xxh3.chain(crc32c(0, &salt), &bytes_of(words));
            for word in [u64::from(before) << 32 | low].iter().chain(words) {
                self.put(at, *word);
                at += 8;
            }
        }
    }

    /// A range, and its checksum.
    fn range(&self, offset: u64, len: u64) -> [u64; 3] {
        let at = (offset - HEADER_SIZE) as usize;
        [offset, len, OuterChecksum::Xxh3.of(&self.bytes[at..at + len as usize])]
    }

    /// The end of the pool, which nothing uses.
    fn last(&self, len: u64) -> [u64; 3] {
        self.range(self.size() - len, len)
    }

    /// Opens a copy: the first words of the root, and how many bytes were looked at.
    fn opened(&self) -> (Result<Vec<u64>, Error>, u64) {
        let asked = Arc::new(Asked::default());
        let pool = toys_of(image::observed_region(&self.bytes, Some(asked.clone())));
        let asked = asked.0.load(Ordering::Relaxed);
        let words = pool.map(|pool| {
            let words = pool.region().words(self.root.offset(), (KNOWN_ROOT / 8) as usize).unwrap();
            words.iter().map(Word::load).collect()
        });
        (words, asked)
    }

    /// The field that is damaged.
    fn damaged(&self, context: &str) -> &'static str {
        let (opened, asked) = self.opened();
        assert!(asked <= 4 * self.size(), "{context}: {asked} bytes of {}", self.size());
        match opened {
            Err(Error::Damaged { field, .. }) => field,
            other => panic!("{context}: {other:?}"),
        }
    }

    /// With these entries in its first lane.
    fn with(&self, entries: &[(u64, Vec<u64>)]) -> Forged {
        let mut forged = self.clone();
        forged.forge(0, entries);
        forged
    }

    /// A redo of the root's first word, sealed.
    fn sealed(&self) -> [(u64, Vec<u64>); 2] {
        [(REDO, vec![self.root.offset(), 7]), (SEAL, vec![0])]
    }
}

fn word_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A sealed word of 48 bits.
fn seal_low(field: u8, value: u64) -> u64 {
    let bytes: Vec<u8> = [field].into_iter().chain(value.to_le_bytes()).take(7).collect();
    let crc = crc32c(0, &bytes);
    u64::from(crc >> 16 ^ crc & 0xffff) << 48 | value
}

#[test]
fn a_forged_entry_is_one() {
    let forged = Forged::new();
    let entries = forged.sealed();
    assert_eq!(forged.with(&entries).opened().0.unwrap()[0], 7);
    let content = (CONTENT, forged.last(64).to_vec());
    let opened = forged.with(&[&[content][..], &entries].concat()).opened();
    assert_eq!(opened.0.unwrap()[0], 7);
    // As many contents as an operation writes in one entry, one of them of several pieces.
    let contents = [forged.last(64).repeat(7), forged.last(100_000).to_vec()].concat();
    let opened = forged.with(&[&[(CONTENT, contents)][..], &entries].concat()).opened();
    assert_eq!(opened.0.unwrap()[0], 7);
}

/// Their ranges may be of no bytes, so that they are no more than the pool together.
#[test]
fn an_entry_of_more_contents_than_an_operation_writes_is_damage() {
    let forged = Forged::new();
    for count in [9, 15] {
        for range in [forged.last(0), forged.last(64), [forged.root.offset(); 3]] {
            let entry = (CONTENT, range.repeat(count));
            let context = format!("{count} of {range:?}");
            assert_eq!(forged.with(&[entry]).damaged(&context), "entry of the log");
        }
    }
}

#[test]
fn a_range_that_no_object_has_is_damage() {
    let forged = Forged::new();
    let end = forged.size();
    let far = [u64::MAX, u64::MAX - 7, u64::MAX / 2, OBJECT_SIZE_MAX + 1];
    let lens = far.map(|len| [end - 64, len]);
    let offsets = [u64::MAX, u64::MAX - 7, 1 << 63, REACH, REACH - 56].map(|offset| [offset, 64]);
    for [offset, len] in lens.into_iter().chain(offsets) {
        for kind in [EXTENT, CONTENT] {
            let forged = forged.with(&[(kind, vec![offset, len, 0])]);
            let context = format!("kind {kind}, {len:#x} bytes at {offset:#x}");
            assert_eq!(forged.damaged(&context), "range in the log");
        }
        // Behind others that are true.
        let both = [&forged.last(64)[..], &[offset, len, 0]].concat();
        assert_eq!(forged.with(&[(CONTENT, both)]).damaged("behind another"), "range in the log");
    }
}

/// A pool that was cut when it was closed can have entries that name space behind its end, which was free.
#[test]
fn an_entry_that_names_space_behind_the_end_is_void() {
    let forged = Forged::new();
    for [offset, len] in [[forged.size(), 64], [forged.size() - 64, 128], [REACH - 64, 64]] {
        for kind in [EXTENT, CONTENT] {
            let void = [(kind, vec![offset, len, 0])];
            let entries = [&void[..], &forged.sealed()].concat();
            let (opened, asked) = forged.with(&entries).opened();
            assert_eq!(opened.unwrap()[0], 0, "kind {kind}, {len} bytes at {offset}");
            assert!(asked <= forged.size());
        }
    }
}

#[test]
fn an_extent_that_does_not_hold_pairs_is_damage() {
    let forged = Forged::new();
    for (before, len) in [(60, 16), (64, 24), (64, 8), (63, 32)] {
        let range = forged.range(forged.size() - before, len);
        let forged = forged.with(&[(EXTENT, range.to_vec()), (SEAL, vec![0])]);
        assert_eq!(
            forged.damaged(&format!("{len} bytes, {before} before the end")),
            "range in the log"
        );
    }
}

#[test]
fn an_entry_that_no_operation_writes_is_damage() {
    let forged = Forged::new();
    let counts = [
        (0, 0),
        (7, 0),
        (255, 40),
        (UNDO, 1),
        (UNDO, 47),
        (REDO, 3),
        (INTENT, 0),
        (SEAL, 2),
        (EXTENT, 0),
        (EXTENT, 2),
        (EXTENT, 6),
        (CONTENT, 1),
        (CONTENT, 47),
    ];
    for (kind, count) in counts {
        let words = vec![forged.root.offset(); count];
        let context = format!("kind {kind} of {count} words");
        assert_eq!(forged.with(&[(kind, words)]).damaged(&context), "entry of the log");
    }
}

/// There is no checksum of them to look at: a torn operation can leave such.
#[test]
fn an_entry_of_more_words_than_its_lane_has_is_void() {
    let forged = Forged::new();
    for count in [48, 49, 1 << 16, (1 << 24) - 1] {
        for kind in [UNDO, REDO, INTENT, SEAL, EXTENT, CONTENT] {
            let mut forged = forged.with(&forged.sealed());
            let at = forged.lane(0) + 64;
            forged.put(at, u64::MAX << 32 | count << 8 | kind);
            let (opened, asked) = forged.opened();
            assert_eq!(opened.unwrap()[0], 0, "kind {kind} of {count} words");
            assert!(asked <= forged.size());
        }
    }
}

#[test]
fn ranges_that_together_are_larger_than_the_pool_are_damage() {
    let forged = Forged::new();
    let range = forged.last(64 << 10);
    // Within an entry, and by entries behind each other.
    let entry = (CONTENT, forged.last(forged.size() / 7).repeat(8));
    assert_eq!(forged.with(&[entry]).damaged("one entry"), "range in the log");
    for kind in [CONTENT, EXTENT] {
        let entries = vec![(kind, range.to_vec()); 11];
        assert_eq!(forged.with(&entries).damaged(&format!("kind {kind}")), "range in the log");
    }
}

#[test]
fn words_in_extents_that_together_are_larger_than_the_pool_are_damage() {
    let mut forged = Forged::new();
    let extent = forged.last(64 << 10).to_vec();
    for lane in 0..4 {
        forged.forge(lane, &[(EXTENT, extent.clone()), (SEAL, vec![lane])]);
    }
    assert_eq!(forged.damaged("four lanes"), "words of the log");
}

#[test]
fn a_log_of_an_impossible_shape_is_damage() {
    let forged = Forged::new();
    let at = forged.log.offset() + 8;
    for lanes in [0, 16, 63, 64, 65, 512, u64::from(u32::MAX), (1 << 48) - 1] {
        let mut forged = forged.clone();
        forged.put(at, seal_low(2, lanes));
        assert_eq!(forged.damaged(&format!("{lanes} lanes")), "log");
    }
    let classes = (0..=255_u64).filter(|class| *class << 40 != forged.log.to_bits() >> 40 << 40);
    for class in classes {
        let mut forged = forged.clone();
        let bits = forged.log.to_bits() & ((1 << 40) - 1) | class << 40;
        forged.put(HEADER_SIZE + 112, seal_low(1, bits));
        // Of another size it may lie there, and has other lanes, whose states are not theirs.
        let field = forged.damaged(&format!("class {class}"));
        assert!(["log", "lane of the log"].contains(&field), "class {class}: {field}");
    }
    assert!(tenants::opened_toys(&forged.bytes).is_ok());
}
