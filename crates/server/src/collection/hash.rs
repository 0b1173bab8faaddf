//! Hashes.

use std::ops::{Bound, Range};

use tembo_kv::{Direction, Value};

use crate::collection::opened::{Body, Collection, Family};
use crate::failure::Failure;
use crate::format::{FieldHeader, Kind, Packed, Part, decode_field, entry_size, push_entry};

/// So often another random field is drawn in the place of one that has expired.
const DRAWS_MAX: usize = 64;

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
        for _ in 0..DRAWS_MAX {
            let Some(field) = self.random_name(random)? else { return Ok(None) };
            if !self.0.expires_fields || self.get(&field)?.is_some() {
                return Ok(Some(field));
            }
        }
        let mut first = None;
        self.visit(None, &mut |field, _| {
            first = Some(field.to_vec());
            false
        })?;
        Ok(first)
    }

    /// Fields that have not expired.
    pub(crate) fn count_there(&mut self) -> Result<u64, Failure> {
        let count = self.count();
        if !self.0.expires_fields {
            return Ok(count);
        }
        let mut expired = 0;
        let to = self.0.now_ms().to_be_bytes();
        let due = (Bound::Unbounded, Bound::Excluded(&to[..]));
        self.0.visit(Part::Expiry, due, Direction::Forward, &mut |_, _| {
            expired += 1;
            true
        })?;
        Ok(count.saturating_sub(expired))
    }

    /// When a field expires; `None`: it is not there; `Some(None)`: it does not expire.
    pub(crate) fn expiry(&mut self, field: &[u8]) -> Result<Option<Option<u64>>, Failure> {
        if let Body::Packed(bytes) = &self.0.body {
            return Ok(find(bytes, field).map(|_| None));
        }
        let now_ms = self.0.now_ms();
        let Some(element) = self.0.element(Part::Main, &[field])? else { return Ok(None) };
        let (expiry_ms, _) = decode_field(element)?;
        Ok(if is_past(expiry_ms, now_ms) { None } else { Some(expiry_ms) })
    }

    /// Sets when a field that is there expires, or that it does not. The hash becomes a large one.
    pub(crate) fn set_expiry(
        &mut self,
        field: &[u8],
        expiry_ms: Option<u64>,
    ) -> Result<(), Failure> {
        if let Some(bytes) = self.0.spread_out()? {
            self.fill(&bytes)?;
        }
        let Some(element) = self.0.element(Part::Main, &[field])? else { return Ok(()) };
        let value = decode_field(element)?.1.to_vec();
        self.forget_expiry(field)?;
        let header = FieldHeader::new(expiry_ms);
        self.0.put_element(Part::Main, &[field], &[header.as_bytes(), &value])?;
        if let Some(expiry_ms) = expiry_ms {
            self.0.put_element(Part::Expiry, &[&expiry_ms.to_be_bytes(), field], &[])?;
            self.0.expires_fields = true;
            self.0.expect_expiry(expiry_ms)?;
        }
        self.0.touch();
        Ok(())
    }

    /// A field of a large hash expires no more: it is removed, or gets another value. Whether it had expired.
    fn forget_expiry(&mut self, field: &[u8]) -> Result<bool, Failure> {
        if !self.0.expires_fields {
            return Ok(false);
        }
        let now_ms = self.0.now_ms();
        let Some(element) = self.0.element(Part::Main, &[field])? else { return Ok(false) };
        let Some(expiry_ms) = decode_field(element)?.0 else { return Ok(false) };
        self.0.remove_element(Part::Expiry, &[&expiry_ms.to_be_bytes(), field])?;
        Ok(expiry_ms < now_ms)
    }

    /// The value of a field.
    pub(crate) fn get(&mut self, field: &[u8]) -> Result<Option<Value<'_>>, Failure> {
        if matches!(self.0.body, Body::Spread(_)) {
            let now_ms = self.0.now_ms();
            return match self.0.element(Part::Main, &[field])? {
                Some(element) => {
                    let (expiry_ms, value) = decode_field(element)?;
                    Ok(if is_past(expiry_ms, now_ms) { None } else { Some(value) })
                }
                None => Ok(None),
            };
        }
        let Body::Packed(bytes) = &self.0.body else { return Ok(None) };
        Ok(find(bytes, field).and_then(|found| bytes.get(found.value)).map(Value::from))
    }

    /// As `set`, but the field expires when it did before.
    pub(crate) fn set_and_keep_expiry(
        &mut self,
        field: &[u8],
        value: &[u8],
    ) -> Result<bool, Failure> {
        let kept = if self.0.expires_fields { self.expiry(field)?.flatten() } else { None };
        let is_added = self.set(field, value)?;
        if kept.is_some() {
            self.set_expiry(field, kept)?;
        }
        Ok(is_added)
    }

    /// Sets the value of a field, which does not expire; true if the field is added.
    pub(crate) fn set(&mut self, field: &[u8], value: &[u8]) -> Result<bool, Failure> {
        let is_added = self.set_there(field, value)?;
        let longest = field.len().max(value.len());
        if !self.0.is_wide {
            let (entries, size) = self.0.encodings().hash;
            self.0.is_wide = longest as u64 > size || is_added && self.count() > entries;
        }
        if let Some(bytes) = self.0.outgrown()? {
            self.fill(&bytes)?;
        }
        Ok(is_added)
    }

    /// Puts what a small hash had into the large one that it has become.
    fn fill(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let mut entries = Packed::trusted(bytes);
        while let (Some(field), Some(value)) = (entries.next(), entries.next()) {
            self.set_there(field, value)?;
        }
        Ok(())
    }

    fn set_there(&mut self, field: &[u8], value: &[u8]) -> Result<bool, Failure> {
        let Some(bytes) = self.0.change_packed() else {
            let had_expired = self.forget_expiry(field)?;
            let header = FieldHeader::new(None);
            let existed = self.0.put_element(Part::Main, &[field], &[header.as_bytes(), value])?;
            if !existed {
                self.0.count_added();
            }
            return Ok(!existed || had_expired);
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
                let had_expired = self.forget_expiry(field)?;
                let was_there = self.0.remove_element(Part::Main, &[field])?;
                if was_there {
                    self.0.count_removed();
                }
                Ok(was_there && !had_expired)
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
        let (mut seen, now_ms) = (Ok(()), self.0.now_ms());
        let from = behind.map_or(Bound::Unbounded, Bound::Excluded);
        let ends = (from, Bound::Unbounded);
        self.0.visit(
            Part::Main,
            ends,
            Direction::Forward,
            &mut |field, element| match decode_field(element) {
                Ok((expiry_ms, _)) if is_past(expiry_ms, now_ms) => true,
                Ok((_, value)) => visit(field, value),
                Err(unknown) => {
                    seen = Err(unknown.into());
                    false
                }
            },
        )?;
        seen
    }
}

fn is_past(expiry_ms: Option<u64>, now_ms: u64) -> bool {
    expiry_ms.is_some_and(|expiry_ms| expiry_ms < now_ms)
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
