//! The keys of an operation, in a file that every contender reads.
//!
//! Of numbers: 8 bytes a key, little-endian. Of strings: 48 bytes a key: its number, its length, and 32 bytes of which the
//! length says how many count.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use super::candidate::Shape;
use crate::Error;
use crate::Operation;
use crate::keys::{Keys, Zipf};
use crate::operation::SCAN_LEN;

/// Bytes of the longest string.
const NAME_MAX: usize = 32;

/// Digits that a string begins with: all of its number, so that no string begins with another one and strings are in the order
/// of their numbers.
const DIGITS: usize = 16;

/// A key of 16 to 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) number: u64,
    length: usize,
    bytes: [u8; NAME_MAX],
}

impl Name {
    pub(super) fn of(number: u64) -> Name {
        let mut bytes = [0; NAME_MAX];
        for (place, byte) in bytes.iter_mut().enumerate() {
            *byte = match place {
                0..DIGITS => {
                    let digit = (number >> (60 - 4 * place)) as usize & 15;
                    b"0123456789abcdef"[digit]
                }
                _ => b'a' + place as u8,
            };
        }
        let length = DIGITS + (number % (NAME_MAX - DIGITS + 1) as u64) as usize;
        bytes[length..].fill(0);
        Name { number, length, bytes }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Keys in a file, and how many right answers there are to the operation with them.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) path: PathBuf,
    pub(super) count: u64,
    pub(super) expected: u64,
}

/// Keys of a table, which plans are made of.
pub(super) struct Source<'f> {
    keys: Keys,
    zipf: Zipf,
    shape: Shape,
    folder: &'f Path,
}

impl<'f> Source<'f> {
    pub(super) fn new(keys: Keys, shape: Shape, folder: &'f Path) -> Source<'f> {
        Source { keys, zipf: Zipf::new(keys.count, crate::operation::THETA), shape, folder }
    }

    pub(super) fn keys(&self) -> u64 {
        self.keys.count
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// The keys of an operation in a round.
    pub(super) fn plan(&self, operation: Operation, round: u32) -> Result<Plan, Error> {
        let mut numbers = operation.plan(self.keys, &self.zipf, round);
        let expected = operation.expected(self.keys, &numbers);
        if operation != Operation::SequentialInsert {
            numbers.iter_mut().for_each(|number| *number >>= 1);
        }
        self.written(operation.word(), &numbers, expected)
    }

    /// What [`scan_sum`](super::process::Process::scan_sum) has to reply to the scans of a round: the sum of all
    /// words ([`word`]) of the keys that they visit.
    pub(super) fn scan_sum(&self, round: u32) -> u64 {
        let mut sorted: Vec<u64> = self.keys.shuffled(0).iter().map(|key| key >> 1).collect();
        sorted.sort_unstable();
        let of_scan = |key: u64| {
            let from = sorted.partition_point(|other| *other < key >> 1);
            let visited = &sorted[from..sorted.len().min(from + SCAN_LEN)];
            visited.iter().fold(0, |sum: u64, key| sum.wrapping_add(word(self.shape, *key)))
        };
        let plan = Operation::Scan.plan(self.keys, &self.zipf, round);
        plan.into_iter().fold(0, |sum: u64, key| sum.wrapping_add(of_scan(key)))
    }

    /// All keys in two parts, one for each of two threads.
    pub(super) fn pair(&self, operation: Operation, round: u32) -> Result<[Plan; 2], Error> {
        let [mut one, mut other] = self.keys.halves(u64::from(round) << 8 | operation as u64);
        one.iter_mut().chain(&mut other).for_each(|number| *number >>= 1);
        Ok([
            self.written("one", &one, one.len() as u64)?,
            self.written("other", &other, other.len() as u64)?,
        ])
    }

    fn written(&self, name: &str, numbers: &[u64], expected: u64) -> Result<Plan, Error> {
        let path = self.folder.join(format!("keys-{name}"));
        let write = || -> std::io::Result<()> {
            let mut file = BufWriter::new(File::create(&path)?);
            for &number in numbers {
                match self.shape {
                    Shape::Numbers => file.write_all(&number.to_le_bytes())?,
                    Shape::Strings => {
                        let Name { number, length, bytes } = Name::of(number);
                        file.write_all(&number.to_le_bytes())?;
                        file.write_all(&(length as u64).to_le_bytes())?;
                        file.write_all(&bytes)?;
                    }
                }
            }
            file.flush()
        };
        write().map_err(|source| Error::Folder { path: path.clone(), source })?;
        Ok(Plan { path, count: numbers.len() as u64, expected })
    }
}

/// What a scan shows of a key: a number itself; of a string eight bytes, which have the lower half of its number.
fn word(shape: Shape, number: u64) -> u64 {
    match shape {
        Shape::Numbers => number,
        Shape::Strings => word_of(Name::of(number).bytes()),
    }
}

/// [`word`] of a string.
pub(super) fn word_of(name: &[u8]) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|byte| name.get(8 + byte).copied().unwrap_or_default()))
}

/// The numbers of a plan.
pub(super) fn numbers(path: &Path) -> Result<Vec<u64>, Error> {
    records(path, |bytes: [u8; 8]| u64::from_le_bytes(bytes))
}

/// The strings of a plan.
pub(super) fn names(path: &Path) -> Result<Vec<Name>, Error> {
    records(path, |record: [u8; 48]| {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| record[at + byte]));
        let bytes = std::array::from_fn(|byte| record[16 + byte]);
        Name { number: word(0), length: (word(8) as usize).min(NAME_MAX), bytes }
    })
}

fn records<const SIZE: usize, T>(
    path: &Path,
    record: impl Fn([u8; SIZE]) -> T,
) -> Result<Vec<T>, Error> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
    read.map_err(|source| Error::Folder { path: path.to_owned(), source })?;
    Ok(bytes.as_chunks().0.iter().map(|bytes| record(*bytes)).collect())
}

/// A sum over keys and their order, as a driver computes it (FNV-1a by words: Fowler, Noll, Vo).
#[cfg(test)]
pub(super) fn sum(words: impl IntoIterator<Item = u64>) -> u64 {
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x100_0000_01b3);
    words.into_iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn strings_are_in_the_order_of_their_numbers_and_none_begins_with_another() {
        let mut numbers = Keys { count: 1000, seed: 3 }.shuffled(0);
        numbers.sort_unstable();
        let names: Vec<Name> = numbers.iter().map(|number| Name::of(*number)).collect();
        assert!(names.windows(2).all(|pair| pair[0].bytes() < pair[1].bytes()
            && !pair[1].bytes().starts_with(pair[0].bytes())));
        let lengths = || names.iter().map(|name| name.bytes().len());
        assert_eq!((lengths().min(), lengths().max()), (Some(16), Some(32)));
    }

    /// All of them below 2^63, and as many as there are keys.
    #[test]
    fn a_plan_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let keys = Keys { count: 1000, seed: 3 };
        let of =
            |shape, operation| Source::new(keys, shape, folder.path()).plan(operation, 2).unwrap();
        for operation in Operation::ALL {
            let plan = of(Shape::Numbers, operation);
            let read = numbers(&plan.path).unwrap();
            assert_eq!(read.len() as u64, plan.count);
            assert!(read.iter().all(|number| *number < 1 << 63));
            let plan = of(Shape::Strings, operation);
            let all: Vec<Name> = read.iter().map(|number| Name::of(*number)).collect();
            assert_eq!(names(&plan.path).unwrap(), all);
        }
    }
}
