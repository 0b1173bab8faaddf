//! Lists.
//!
//! The elements of a large one lie in strips. In one that an earlier release has made large each has an element of the
//! store for itself, and it stays so.

mod end;
mod strips;

pub(crate) use end::End;

use std::ops::{Bound, Range};

use tembo_kv::{Direction, Value};

use crate::collection::opened::{Body, Collection, Family};
use crate::failure::Failure;
use crate::format::{Kind, Packed, Part, Spread, position_order, push_entry};

/// Lists, as a type of collection.
pub(crate) enum Lists {}

/// A list that a command works on.
pub(crate) type List<'d, 's> = Collection<'d, 's, Lists>;

impl Family for Lists {
    const KIND: Kind = Kind::List;
    const WIDTH: usize = 1;
    const EXTRA_SIZE: usize = 0;
}

impl List<'_, '_> {
    /// The key of the element at an index of a large list without strips.
    fn key(&self, index: u64) -> [u8; 8] {
        let first = match &self.0.body {
            Body::Packed(_) => 0,
            Body::Spread(spread) => spread.first,
        };
        position_order(first.wrapping_add(index as i64))
    }

    /// The head of a large list, and whether its elements lie in strips.
    pub(crate) fn head(&self) -> Option<(Spread, bool)> {
        match &self.0.body {
            Body::Packed(_) => None,
            Body::Spread(spread) => Some((*spread, self.0.in_strips)),
        }
    }

    /// The element at an index.
    pub(crate) fn get(&mut self, index: u64) -> Result<Option<Vec<u8>>, Failure> {
        if self.0.in_strips {
            return strips::get(&mut self.0, index);
        }
        if matches!(self.0.body, Body::Spread(_)) {
            let key = self.key(index);
            return if index < self.count() {
                Ok(self.0.element(Part::Main, &[&key])?.map(|element| element.to_vec()))
            } else {
                Ok(None)
            };
        }
        let Body::Packed(bytes) = &self.0.body else { return Ok(None) };
        Ok(Packed::trusted(bytes).nth(index as usize).map(<[u8]>::to_vec))
    }

    /// Adds an element at an end.
    pub(crate) fn push(&mut self, end: End, element: &[u8]) -> Result<(), Failure> {
        if self.0.in_strips {
            return strips::push(&mut self.0, end, element);
        }
        if let Some(bytes) = self.0.change_packed() {
            match end {
                End::Right => push_entry(bytes, element),
                End::Left => {
                    let mut entry = Vec::with_capacity(element.len() + 3);
                    push_entry(&mut entry, element);
                    bytes.splice(0..0, entry);
                }
            }
            return self.grow();
        }
        if let Some(spread) = self.0.change_spread() {
            spread.count += 1;
            spread.first = spread.first.wrapping_sub(i64::from(end == End::Left));
        }
        let index = if end == End::Left { 0 } else { self.count() - 1 };
        let key = self.key(index);
        self.0.put_element(Part::Main, &[&key], &[element])?;
        Ok(())
    }

    /// Makes a small list that has outgrown its bounds a large one.
    fn grow(&mut self) -> Result<(), Failure> {
        if let Some(bytes) = self.0.outgrown()? {
            for element in Packed::trusted(&bytes) {
                self.push(End::Right, element)?;
            }
        }
        Ok(())
    }

    /// Removes the element at an end.
    pub(crate) fn pop(&mut self, end: End) -> Result<Option<Vec<u8>>, Failure> {
        if self.0.in_strips {
            return strips::pop(&mut self.0, end);
        }
        let count = self.count();
        let Some(index) = (if end == End::Left { Some(0) } else { count.checked_sub(1) }) else {
            return Ok(None);
        };
        let Some(element) = self.get(index)? else { return Ok(None) };
        self.drop_ends(u64::from(end == End::Left), u64::from(end == End::Right))?;
        Ok(Some(element))
    }

    /// Removes so many elements at each end, of which it has as many.
    pub(crate) fn drop_ends(&mut self, left: u64, right: u64) -> Result<(), Failure> {
        let count = self.count();
        if left + right == 0 {
            return Ok(());
        }
        if self.0.in_strips {
            return strips::drop_ends(&mut self.0, left, right);
        }
        if let Some(bytes) = self.0.change_packed() {
            let (from, to) = (left as usize, (count - right) as usize);
            let range = span(bytes, from..to);
            bytes.truncate(range.end);
            bytes.drain(..range.start);
            return Ok(());
        }
        let ends = [(0, left), (count - right, right)];
        for (index, dropped) in ends {
            if dropped == 1 {
                let key = self.key(index);
                self.0.remove_element(Part::Main, &[&key])?;
            }
            if dropped <= 1 {
                continue;
            }
            let (from, to) = (self.key(index), self.key(index + dropped));
            self.0.remove_elements(Part::Main, (&from, &to), dropped)?;
        }
        if let Some(spread) = self.0.change_spread() {
            spread.count -= left + right;
            spread.first = spread.first.wrapping_add(left as i64);
        }
        Ok(())
    }

    /// Puts another element in the place of the one at an index, which is there.
    pub(crate) fn set(&mut self, index: u64, element: &[u8]) -> Result<(), Failure> {
        if self.0.in_strips {
            return strips::set(&mut self.0, index, element);
        }
        let key = self.key(index);
        let Some(bytes) = self.0.change_packed() else {
            self.0.put_element(Part::Main, &[&key], &[element])?;
            return Ok(());
        };
        let mut entry = Vec::with_capacity(element.len() + 3);
        push_entry(&mut entry, element);
        let range = span(bytes, index as usize..index as usize + 1);
        bytes.splice(range, entry);
        self.grow()
    }

    /// Inserts an element before an index. The shorter side moves.
    pub(crate) fn insert(&mut self, index: u64, element: &[u8]) -> Result<(), Failure> {
        if let Some(bytes) = self.0.change_packed() {
            let mut entry = Vec::with_capacity(element.len() + 3);
            push_entry(&mut entry, element);
            let at = span(bytes, index as usize..index as usize).start;
            bytes.splice(at..at, entry);
            return self.grow();
        }
        let count = self.count();
        if index <= count / 2 {
            let moved = self.elements(0..index)?;
            self.push(End::Left, element)?;
            for (at, one) in moved.iter().enumerate() {
                self.set(at as u64, one)?;
            }
        } else {
            let moved = self.elements(index..count)?;
            self.push(End::Right, element)?;
            for (at, one) in moved.iter().enumerate() {
                self.set(index + 1 + at as u64, one)?;
            }
        }
        self.set(index, element)
    }

    /// Removes the elements at these indices, which rise. The shorter side moves.
    pub(crate) fn remove(&mut self, indices: &[u64]) -> Result<(), Failure> {
        let (Some(&first), Some(&last)) = (indices.first(), indices.last()) else { return Ok(()) };
        if let Some(bytes) = self.0.change_packed() {
            for &index in indices.iter().rev() {
                let range = span(bytes, index as usize..index as usize + 1);
                bytes.drain(range);
            }
            return Ok(());
        }
        let (count, removed) = (self.count(), indices.len() as u64);
        let from_left = last < count - first;
        let range = if from_left { 0..last + 1 } else { first..count };
        let mut kept = Vec::new();
        for (index, element) in range.clone().zip(self.elements(range.clone())?) {
            if indices.binary_search(&index).is_err() {
                kept.push(element);
            }
        }
        let begin = if from_left { removed } else { first };
        for (at, element) in kept.iter().enumerate() {
            self.set(begin + at as u64, element)?;
        }
        if from_left { self.drop_ends(removed, 0) } else { self.drop_ends(0, removed) }
    }

    /// Copies of the elements in a range of indices.
    pub(crate) fn elements(&mut self, range: Range<u64>) -> Result<Vec<Vec<u8>>, Failure> {
        let mut elements = Vec::new();
        self.visit(range, Direction::Forward, &mut |_, element| {
            elements.push(element.to_vec());
            true
        })?;
        Ok(elements)
    }

    /// Calls `visit` with the indices and elements in a range of indices, until it returns false.
    pub(crate) fn visit(
        &mut self,
        range: Range<u64>,
        direction: Direction,
        visit: &mut dyn FnMut(u64, Value<'_>) -> bool,
    ) -> Result<(), Failure> {
        let range = range.start..range.end.min(self.count());
        if range.is_empty() {
            return Ok(());
        }
        if let Body::Packed(bytes) = &self.0.body {
            let mut elements: Vec<(u64, &[u8])> = (0..)
                .zip(Packed::trusted(bytes))
                .skip(range.start as usize)
                .take((range.end - range.start) as usize)
                .collect();
            if direction == Direction::Backward {
                elements.reverse();
            }
            elements.into_iter().all(|(index, element)| visit(index, element.into()));
            return Ok(());
        }
        if self.0.in_strips {
            return strips::visit(&mut self.0, range, direction, visit);
        }
        let (from, to) = (self.key(range.start), self.key(range.end));
        let ends = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        let is_forward = direction == Direction::Forward;
        let mut index = if is_forward { range.start } else { range.end - 1 };
        self.0.visit(Part::Main, ends, direction, &mut |_, element| {
            let goes_on = visit(index, element);
            index = if is_forward { index + 1 } else { index.saturating_sub(1) };
            goes_on
        })
    }
}

/// Where a range of entries is among packed ones.
fn span(bytes: &[u8], range: Range<usize>) -> Range<usize> {
    let mut entries = Packed::trusted(bytes);
    let mut skip = |count: usize| {
        for _ in 0..count {
            entries.next();
        }
        bytes.len() - entries.left()
    };
    let start = skip(range.start);
    start..skip(range.end.saturating_sub(range.start))
}
