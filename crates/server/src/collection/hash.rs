//! Hashes.

use std::ops::{Bound, Range};

use tembo_kv::{Direction, Value};

use crate::collection::opened::{Body, Collection, Family};
use crate::failure::Failure;
use crate::format::{Kind, Packed, Part, UnknownLayout, entry_size, push_entry};

/// What stands before the value of a field that does not expire.
const PLAIN: [u8; 1] = [0];

/// Hashes, as a type of collection.
pub(crate) enum Hashes {}

/// A hash that a command works on.
pub(crate) type Hash<'d, 's> = Collection<'d, 's, Hashes>;

/// Where a field and its value are among packed entries.
struct Found {
    whole: Range<usize>,
    value: Range<usize>,
}

impl Family for Hashes {
    const KIND: Kind = Kind::Hash;
    const WIDTH: usize = 2;
    const EXTRA_SIZE: usize = 0;
}

impl Hash<'_, '_> {
    /// A random field.
    pub(crate) fn random(
        &mut self,
        random: &mut dyn FnMut() -> u64,
    ) -> Result<Option<Vec<u8>>, Failure> {
        self.random_name(random)
    }

    /// The value of a field.
    pub(crate) fn get(&mut self, field: &[u8]) -> Result<Option<Value<'_>>, Failure> {
        if matches!(self.0.body, Body::Spread(_)) {
            return match self.0.element(Part::Main, &[field])? {
                Some(value) => Ok(Some(behind_flags(value)?)),
                None => Ok(None),
            };
        }
        let Body::Packed(bytes) = &self.0.body else { return Ok(None) };
        Ok(find(bytes, field).and_then(|found| bytes.get(found.value)).map(Value::from))
    }

    /// Sets the value of a field; true if the field is added.
    pub(crate) fn set(&mut self, field: &[u8], value: &[u8]) -> Result<bool, Failure> {
        let is_added = self.set_there(field, value)?;
        let longest = field.len().max(value.len());
        if !self.0.is_wide {
            let (entries, size) = self.0.encodings().hash;
            self.0.is_wide = longest as u64 > size || is_added && self.count() > entries;
        }
        if let Some(bytes) = self.0.outgrown()? {
            let mut entries = Packed::trusted(&bytes);
            while let (Some(field), Some(value)) = (entries.next(), entries.next()) {
                self.set_there(field, value)?;
            }
        }
        Ok(is_added)
    }

    fn set_there(&mut self, field: &[u8], value: &[u8]) -> Result<bool, Failure> {
        let Some(bytes) = self.0.change_packed() else {
            let is_added = !self.0.put_element(Part::Main, &[field], &[&PLAIN, value])?;
            if is_added {
                self.0.count_added();
            }
            return Ok(is_added);
        };
        if let Some(found) = find(bytes, field) {
            let mut entry = Vec::with_capacity(entry_size(value.len()));
            push_entry(&mut entry, value);
            // The value's size stands before it.
            let from = found.whole.start + entry_size(field.len());
            bytes.splice(from..found.whole.end, entry);
            return Ok(false);
        }
        bytes.reserve(entry_size(field.len()) + entry_size(value.len()));
        push_entry(bytes, field);
        push_entry(bytes, value);
        Ok(true)
    }

    /// Removes a field; false if it was not there.
    pub(crate) fn remove(&mut self, field: &[u8]) -> Result<bool, Failure> {
        match &mut self.0.body {
            Body::Packed(bytes) => {
                let Some(found) = find(bytes, field) else { return Ok(false) };
                bytes.drain(found.whole);
                self.0.touch();
                Ok(true)
            }
            Body::Spread(_) => {
                let was_there = self.0.remove_element(Part::Main, &[field])?;
                if was_there {
                    self.0.count_removed();
                }
                Ok(was_there)
            }
        }
    }

    /// Calls `visit` with the fields behind one and their values, until it returns false. A small hash is visited whole.
    pub(crate) fn visit(
        &mut self,
        behind: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], Value<'_>) -> bool,
    ) -> Result<(), Failure> {
        if let Body::Packed(bytes) = &self.0.body {
            let mut entries = Packed::trusted(bytes);
            while let (Some(field), Some(value)) = (entries.next(), entries.next()) {
                if !visit(field, value.into()) {
                    break;
                }
            }
            return Ok(());
        }
        let mut seen = Ok(());
        let from = behind.map_or(Bound::Unbounded, Bound::Excluded);
        let ends = (from, Bound::Unbounded);
        self.0.visit(
            Part::Main,
            ends,
            Direction::Forward,
            &mut |field, value| match behind_flags(value) {
                Ok(value) => visit(field, value),
                Err(unknown) => {
                    seen = Err(unknown.into());
                    false
                }
            },
        )?;
        seen
    }
}

/// What stands behind the flags of a field.
fn behind_flags(value: Value<'_>) -> Result<Value<'_>, UnknownLayout> {
    match value.array(0) {
        Some(PLAIN) => value.slice(PLAIN.len()..value.len()).ok_or(UnknownLayout),
        _ => Err(UnknownLayout),
    }
}

/// Where a field is among packed entries.
fn find(bytes: &[u8], field: &[u8]) -> Option<Found> {
    let mut entries = Packed::trusted(bytes);
    loop {
        let start = bytes.len() - entries.left();
        let (other, value) = (entries.next()?, entries.next()?);
        if other == field {
            let end = bytes.len() - entries.left();
            return Some(Found { whole: start..end, value: end - value.len()..end });
        }
    }
}
