//! Sets.

use std::ops::Bound;

use tembo_kv::Direction;

use crate::collection::opened::{Body, Opened, Place};
use crate::dataset::Dataset;
use crate::failure::Failure;
use crate::format::{Kind, Packed, Part, push_entry};
use crate::number::parse_integer;

/// Redis's bound of its smaller encoding: members, which are numbers.
const NARROW_MAX: u64 = 512;

/// A set that a command works on.
pub(crate) struct Set<'d, 's>(Opened<'d, 's>);

impl<'d, 's> Set<'d, 's> {
    /// The set under a key; an empty one if nothing is there.
    ///
    /// # Errors
    /// Another type is there.
    pub(crate) fn open(
        data: &'d mut Dataset<'s>,
        place: Place<'d>,
    ) -> Result<Set<'d, 's>, Failure> {
        Ok(Set(Opened::open(data, place, Kind::Set)?))
    }

    /// An empty set that replaces what is under a key when it is saved.
    pub(crate) fn replace(data: &'d mut Dataset<'s>, place: Place<'d>) -> Set<'d, 's> {
        Set(Opened::replace(data, place, Kind::Set))
    }

    /// Changes up to so many members of the set under a key by so many bytes, or none of them.
    ///
    /// # Errors
    /// Another type is there.
    pub(crate) fn change<T>(
        data: &'d mut Dataset<'s>,
        place: Place<'d>,
        (members, size): (usize, usize),
        change: impl FnOnce(&mut Set<'_, 's>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        Opened::change(data, place, Kind::Set, (members, size), |opened| {
            let mut set = Set(opened);
            let changed = change(&mut set)?;
            set.0.save()?;
            Ok(changed)
        })
    }

    /// Saves what was changed.
    pub(crate) fn save(self) -> Result<(), Failure> {
        self.0.save()
    }

    /// Whether the members are all read at once.
    pub(crate) fn is_small(&self) -> bool {
        matches!(self.0.body, Body::Packed(_))
    }

    /// A random member.
    pub(crate) fn random(
        &mut self,
        random: &mut dyn FnMut() -> u64,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let Body::Packed(bytes) = &self.0.body else { return self.0.random_element(random) };
        let count = Packed::trusted(bytes).count();
        Ok(Packed::trusted(bytes).nth(random() as usize % count.max(1)).map(<[u8]>::to_vec))
    }

    /// Members.
    pub(crate) fn count(&self) -> u64 {
        match &self.0.body {
            Body::Packed(bytes) => Packed::trusted(bytes).count() as u64,
            Body::Spread(spread) => spread.count,
        }
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
            self.0.is_wide = parse_integer(member).is_none() || self.count() > NARROW_MAX;
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
                if let Some(spread) = self.0.change_spread() {
                    spread.count += 1;
                }
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
                if was_there && let Some(spread) = self.0.change_spread() {
                    spread.count = spread.count.saturating_sub(1);
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
