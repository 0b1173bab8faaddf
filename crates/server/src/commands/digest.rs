//! The digests of DEBUG DIGEST and DEBUG DIGEST-VALUE: those that Redis gives of the same data.
//!
//! What has an order is mixed into a digest, one behind the other; what has none is made a digest of its own, and these are
//! combined by exclusive or.

use std::ops::Bound;

use sha1::{Digest as _, Sha1};
use tembo_kv::Direction;

use crate::collection::{Hash, List, Set, SortedSet, Span, Stream};
use crate::dataset::Dataset;
use crate::failure::{Failure, Outcome};
use crate::float::double_text;
use crate::format::{Kind, Packed, StreamId, UnknownLayout};

/// Keys that are looked up at once.
const KEYS_AT_ONCE: usize = 1024;

/// A digest, which is nothing but zeros at first.
#[derive(Clone, Copy, Default)]
pub(super) struct Digest([u8; 20]);

impl Digest {
    /// Adds bytes whose order among the others has no meaning.
    fn combine(&mut self, bytes: &[u8]) {
        let added = Sha1::digest(bytes);
        self.0.iter_mut().zip(added).for_each(|(byte, added)| *byte ^= added);
    }

    /// Adds bytes that come behind the others.
    fn mix(&mut self, bytes: &[u8]) {
        self.combine(bytes);
        self.0 = Sha1::digest(self.0).into();
    }

    /// Adds a pair whose order among the others has no meaning.
    fn combine_pair(&mut self, one: &[u8], other: &[u8]) {
        let mut pair = Digest::default();
        pair.mix(one);
        pair.mix(other);
        self.combine(&pair.0);
    }

    /// Its hexadecimal digits.
    pub(super) fn text(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The digest of all databases.
pub(super) fn of_databases(data: &mut Dataset<'_>) -> Result<Digest, Failure> {
    let mut all = Digest::default();
    for db in 0..data.databases() {
        let mut keys = keys_behind(data, db, Bound::Unbounded)?;
        if !keys.is_empty() {
            all.mix(&(db as u32).to_be_bytes());
        }
        while let Some(last) = keys.last() {
            for key in &keys {
                let mut digest = Digest::default();
                digest.mix(key);
                mix_value(data, (db, key), &mut digest)?;
                all.combine(&digest.0);
            }
            keys = keys_behind(data, db, Bound::Excluded(last))?;
        }
    }
    Ok(all)
}

/// The digest of the value under a key; of nothing it is zero.
pub(super) fn of_value(data: &mut Dataset<'_>, place: (usize, &[u8])) -> Result<Digest, Failure> {
    let mut digest = Digest::default();
    mix_value(data, place, &mut digest)?;
    Ok(digest)
}

fn keys_behind(
    data: &mut Dataset<'_>,
    db: usize,
    from: Bound<&[u8]>,
) -> Result<Vec<Vec<u8>>, Failure> {
    let mut keys = Vec::new();
    data.scan(db, from, Direction::Forward, &mut |key, _| {
        keys.push(key.to_vec());
        keys.len() < KEYS_AT_ONCE
    })?;
    Ok(keys)
}

/// Adds the type of a value, what is in it, and whether it expires.
fn mix_value(data: &mut Dataset<'_>, place: (usize, &[u8]), digest: &mut Digest) -> Outcome {
    let Some(value) = data.find(place.0, place.1)? else { return Ok(()) };
    let (kind, expires) = (value.of.kind, value.expiry_ms.is_some());
    digest.mix(&number(kind).to_be_bytes());
    match kind {
        Kind::String => {
            if let Some(value) = data.get(place.0, place.1)? {
                value.payload.with(|bytes| digest.mix(bytes));
            }
        }
        Kind::List => {
            let mut list = List::open(data, place)?;
            let count = list.count();
            list.visit(0..count, Direction::Forward, &mut |_, element| {
                element.with(|bytes| digest.mix(bytes));
                true
            })?;
        }
        Kind::Set => Set::open(data, place)?.visit(Bound::Unbounded, &mut |member| {
            digest.combine(member);
            true
        })?,
        Kind::SortedSet => {
            let mut set = SortedSet::open(data, place)?;
            set.visit(&Span::ALL, Direction::Forward, &mut |member, score| {
                digest.combine_pair(member, double_text(score).as_bytes());
                true
            })?;
        }
        Kind::Hash => Hash::open(data, place)?.visit(None, &mut |field, value| {
            value.with(|bytes| digest.combine_pair(field, bytes));
            true
        })?,
        Kind::Stream => mix_stream(data, place, digest)?,
    }
    if expires {
        digest.combine(b"!!expire!!");
    }
    Ok(())
}

/// Adds the entries of a stream; its groups have no part in it.
fn mix_stream(data: &mut Dataset<'_>, place: (usize, &[u8]), digest: &mut Digest) -> Outcome {
    let mut stream = Stream::open(data, place)?.ok_or(UnknownLayout)?;
    let all = (StreamId::MIN, StreamId::MAX);
    stream.visit(all, Direction::Forward, &mut |id, packed| {
        digest.mix(format!("{}.{}", id.ms, id.seq).as_bytes());
        packed.with(|bytes| Packed::trusted(bytes).for_each(|word| digest.mix(word)));
        true
    })
}

/// The number that Redis has for a type.
fn number(kind: Kind) -> u32 {
    match kind {
        Kind::String => 0,
        Kind::List => 1,
        Kind::Set => 2,
        Kind::SortedSet => 3,
        Kind::Hash => 4,
        Kind::Stream => 6,
    }
}
