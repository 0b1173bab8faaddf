//! What a pool should hold: words, and one large record that a word links.

use std::collections::BTreeMap;

use tembo_pmem::{BYPASS_MIN, Error, Fault, HEADER_SIZE, LINE, Region};

/// Bytes of a pool that has not grown.
pub(super) const SIZE: u64 = 128 << 10;
/// Bytes that one growth adds.
pub(super) const GROWTH: u64 = 16 << 10;
/// Growths that a pool takes.
pub(super) const GROWTHS_MAX: u64 = 3;
/// Lines of small words at the pool's start, and far behind them.
const NEAR: u64 = 128;
const FAR: u64 = 16;
/// Where the far lines begin.
const FAR_AT: u64 = 112 << 10;
/// The word that says that the pool was formatted.
pub(super) const FORMATTED: u64 = HEADER_SIZE;
/// The word that links the record.
pub(super) const LINK: u64 = HEADER_SIZE + 8;
/// The record: whole pages, which go beside the log, and some bytes, which go through it.
pub(super) const RECORD: u64 = 16 << 10;
pub(super) const RECORD_LEN: u64 = BYPASS_MIN + 300;

/// The word that links the objects.
pub(super) const OBJECTS_LINK: u64 = HEADER_SIZE + LINE + 8;
/// The objects: records that fill pages together, each in a room of its own.
pub(super) const OBJECTS: u64 = 84 << 10;
pub(super) const OBJECT_ROOM: u64 = 1536;
pub(super) const OBJECT_LEN: u64 = 1400;
pub(super) const OBJECT_COUNT: u64 = 16;
/// As a link: the objects are zero, and were not stored to since their space was a hole.
pub(super) const ZEROES: u64 = 256;

/// The word that links the page, and the page: an object that fills one, and differs from the last one there in one line.
pub(super) const PAGE_LINK: u64 = HEADER_SIZE + 2 * LINE + 8;
pub(super) const PAGE: u64 = 116 << 10;
pub(super) const PAGE_LEN: u64 = 4096;

/// The bytes of the page that is linked as `link`.
pub(super) fn page_of(link: u64) -> Vec<u8> {
    (0..PAGE_LEN).map(|at| (1 + (link + at / LINE) / (PAGE_LEN / LINE)) as u8).collect()
}

/// Where line `index` of a region of `size` bytes lies; every index is some line's.
pub(super) fn line_at(index: u64, size: u64) -> u64 {
    let grown = (size - SIZE) / (4 * LINE);
    let index = index % (NEAR + FAR + grown);
    match index {
        0..NEAR => HEADER_SIZE + index * LINE,
        _ if index < NEAR + FAR => FAR_AT + (index - NEAR) * LINE,
        _ => SIZE + (index - NEAR - FAR) * 4 * LINE,
    }
}

/// The words that are looked at, as ranges of offsets.
fn looked_at(size: u64) -> [(u64, u64); 3] {
    [(HEADER_SIZE, HEADER_SIZE + NEAR * LINE), (FAR_AT, FAR_AT + FAR * LINE), (SIZE, size)]
}

/// Words by offset; those that are not here are zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Model {
    words: BTreeMap<u64, u64>,
    digest: u64,
}

impl Model {
    /// Stores a word.
    pub(super) fn put(&mut self, offset: u64, value: u64) {
        let old = match value {
            0 => self.words.remove(&offset),
            value => self.words.insert(offset, value),
        };
        let old = old.unwrap_or(0);
        self.digest = self.digest.wrapping_sub(digest(offset, old));
        self.digest = self.digest.wrapping_add(digest(offset, value));
    }

    /// A word.
    pub(super) fn get(&self, offset: u64) -> u64 {
        self.words.get(&offset).copied().unwrap_or(0)
    }

    /// Forgets the words from an offset on.
    pub(super) fn cut(&mut self, size: u64) {
        let behind: Vec<u64> = self.words.range(size..).map(|(&offset, _)| offset).collect();
        behind.into_iter().for_each(|offset| self.put(offset, 0));
    }

    /// Stands for all words; zeroes do not count, so that growth does not change it.
    pub(super) fn digest(&self) -> u64 {
        self.digest
    }

    /// The first word that differs: where to look for the cause.
    pub(super) fn difference(&self, other: &Model) -> String {
        let word = |model: &Model, offset: &u64| model.words.get(offset).copied().unwrap_or(0);
        let mut offsets = self.words.keys().chain(other.words.keys());
        match offsets.find(|offset| word(self, offset) != word(other, offset)) {
            Some(at) => format!("{at:#x} is {}, not {}", word(other, at), word(self, at)),
            None => "nothing".to_owned(),
        }
    }

    /// What a region holds. A linked record that is not whole is an error.
    pub(super) fn read(region: &Region) -> Result<Model, String> {
        let text = |fault: Fault| fault.to_string();
        let mut model = Model::default();
        for (start, end) in looked_at(region.size()) {
            let words = region.words(start, ((end - start) / 8) as usize).map_err(text)?;
            for (index, word) in words.iter().enumerate() {
                let value = word.load();
                if value != 0 {
                    model.put(start + index as u64 * 8, value);
                }
            }
        }
        if let Some(link) = model.words.get(&LINK) {
            let record = region.media_bytes(RECORD, RECORD_LEN).map_err(text)?.to_vec();
            if let Some(at) = record.iter().position(|byte| u64::from(*byte) != *link) {
                return Err(format!("the record linked as {link} has {} at {at}", record[at]));
            }
        }
        if let Some(link) = model.words.get(&OBJECTS_LINK) {
            for number in 0..OBJECT_COUNT {
                let at = OBJECTS + number * OBJECT_ROOM;
                let object = region.media_bytes(at, OBJECT_LEN).map_err(text)?.to_vec();
                let wrong = |byte: &u8| u64::from(*byte) != *link % ZEROES;
                if let Some(at) = object.iter().position(wrong) {
                    let found = object[at];
                    return Err(format!("object {number}, linked as {link}, has {found} at {at}"));
                }
            }
        }
        if let Some(link) = model.words.get(&PAGE_LINK) {
            let page = region.media_bytes(PAGE, PAGE_LEN).map_err(text)?.to_vec();
            let expected = page_of(*link);
            if let Some(at) = (0..page.len()).find(|&at| page[at] != expected[at]) {
                return Err(format!("the page linked as {link} has {} at {at}", page[at]));
            }
        }
        Ok(model)
    }
}

const _: () = assert!(OBJECTS >= RECORD + RECORD_LEN.next_multiple_of(4096));
const _: () = assert!(OBJECTS + OBJECT_COUNT * OBJECT_ROOM <= FAR_AT);
const _: () = assert!(PAGE >= FAR_AT + FAR * LINE && PAGE + PAGE_LEN <= SIZE);

fn digest(offset: u64, value: u64) -> u64 {
    if value == 0 {
        return 0;
    }
    let mixed = (offset ^ value.rotate_left(24)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// The first bytes of a pool.
pub(super) fn format(region: &Region) -> Result<(), Error> {
    region.store(&region.words(FORMATTED, 1)?[0], 1);
    // ORDER: the word is in the unfinished file before the file has its name.
    region.flush("torture.format", FORMATTED, 8);
    region.fence("torture.format_fence");
    Ok(())
}
