//! Sets.

use std::ops::Bound;

use tembo_kv::Direction;

use crate::collection::opened::{Body, Collection, Family};
use crate::failure::Failure;
use crate::format::{Kind, Packed, Part, push_entry};
use crate::number::parse_integer;

/// So many members that were drawn may have been removed before one is looked for.
const DRAWS_MAX: usize = 64;

/// Sets, as a type of collection.
pub(crate) enum Sets {}

/// A set that a command works on.
pub(crate) type Set<'d, 's> = Collection<'d, 's, Sets>;

impl Family for Sets {
    const KIND: Kind = Kind::Set;
    const WIDTH: usize = 1;
    const EXTRA_SIZE: usize = 0;
}

impl Set<'_, '_> {
    /// A random member.
    pub(crate) fn random(
        &mut self,
        random: &mut dyn FnMut() -> u64,
    ) -> Result<Option<Vec<u8>>, Failure> {
        self.random_name(random)
    }

    /// Removes a random member.
    pub(crate) fn pop(
        &mut self,
        random: &mut dyn FnMut() -> u64,
    ) -> Result<Option<Vec<u8>>, Failure> {
        for _ in 0..DRAWS_MAX {
            let drawn = match self.0.body {
                Body::Packed(_) => self.random_name(random)?,
                Body::Spread(_) => self.0.draw_element(random)?,
            };
            let Some(member) = drawn else { return Ok(None) };
            if self.remove(&member)? {
                return Ok(Some(member));
            }
        }
        let Some(member) = self.random_name(random)? else { return Ok(None) };
        self.remove(&member)?;
        Ok(Some(member))
    }

    /// Whether it has that member.
    pub(crate) fn contains(&mut self, member: &[u8]) -> Result<bool, Failure> {
        match &self.0.body {
            Body::Packed(bytes) => Ok(Packed::trusted(bytes).any(|other| other == member)),
            Body::Spread(_) => Ok(self.0.element(Part::Main, &[member])?.is_some()),
        }
    }

    /// Adds a member; false if it is there already.
    pub(crate) fn add(&mut self, member: &[u8]) -> Result<bool, Failure> {
        if !self.add_there(member)? {
            return Ok(false);
        }
        if !self.0.is_wide {
            let numbers = self.0.encodings().numbers;
            self.0.is_wide = parse_integer(member).is_none() || self.count() > numbers;
        }
        if let Some(bytes) = self.0.outgrown()? {
            for member in Packed::trusted(&bytes) {
                self.add_there(member)?;
            }
        }
        Ok(true)
    }

    fn add_there(&mut self, member: &[u8]) -> Result<bool, Failure> {
        match &mut self.0.body {
            Body::Packed(bytes) => {
                if Packed::trusted(bytes).any(|other| other == member) {
                    return Ok(false);
                }
                match parse_integer(member).filter(|_| !self.0.is_wide) {
                    Some(number) => insert_number(bytes, number, member),
                    None => push_entry(bytes, member),
                }
                self.0.touch();
                Ok(true)
            }
            Body::Spread(_) => {
                // A look first: what is there already need not be written.
                if self.0.element(Part::Main, &[member])?.is_some() {
                    return Ok(false);
                }
                self.0.put_element(Part::Main, &[member], &[])?;
                self.0.count_added();
                Ok(true)
            }
        }
    }

    /// Removes a member; false if it was not there.
    pub(crate) fn remove(&mut self, member: &[u8]) -> Result<bool, Failure> {
        match &mut self.0.body {
            Body::Packed(bytes) => {
                let mut entries = Packed::trusted(bytes);
                let start = loop {
                    let start = bytes.len() - entries.left();
                    match entries.next() {
                        Some(other) if other == member => break start,
                        Some(_) => {}
                        None => return Ok(false),
                    }
                };
                let end = bytes.len() - entries.left();
                bytes.drain(start..end);
                self.0.touch();
                Ok(true)
            }
            Body::Spread(_) => {
                let was_there = self.0.remove_element(Part::Main, &[member])?;
                if was_there {
                    self.0.count_removed();
                }
                Ok(was_there)
            }
        }
    }

    /// Calls `visit` with the members behind one, or from one on, until it returns false. A small set is visited whole.
    pub(crate) fn visit(
        &mut self,
        from: Bound<&[u8]>,
        visit: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), Failure> {
        if let Body::Packed(bytes) = &self.0.body {
            for member in Packed::trusted(bytes) {
                if !visit(member) {
                    break;
                }
            }
            return Ok(());
        }
        let ends = (from, Bound::Unbounded);
        self.0.visit(Part::Main, ends, Direction::Forward, &mut |member, _| visit(member))
    }

    /// All members.
    pub(crate) fn members(&mut self) -> Result<Vec<Vec<u8>>, Failure> {
        let mut members = Vec::new();
        self.visit(Bound::Unbounded, &mut |member| {
            members.push(member.to_vec());
            true
        })?;
        Ok(members)
    }
}

/// Inserts a number among numbers, in their order.
fn insert_number(bytes: &mut Vec<u8>, number: i64, member: &[u8]) {
    let mut entries = Packed::trusted(bytes);
    let mut at = 0;
    while let Some(other) = entries.next() {
        if parse_integer(other).is_none_or(|other| other > number) {
            break;
        }
        at = bytes.len() - entries.left();
    }
    let mut entry = Vec::new();
    push_entry(&mut entry, member);
    bytes.splice(at..at, entry);
}
