//! Sorted sets.

mod levels;

use std::ops::Bound;

use tembo_kv::Direction;

use crate::collection::opened::{Body, Collection, Family};
use crate::dataset::{TOGETHER, TOGETHER_SIZE_MAX, VisitElement};
use crate::failure::Failure;
use crate::format::{
    Kind, Packed, Part, UnknownLayout, member_of, push_entry, score_from_order, score_order,
};

/// A member so near to an end is counted to, not looked for by levels.
const NEAR_MAX: u64 = 64;

/// Sorted sets, as a type of collection.
pub(crate) enum SortedSets {}

/// A sorted set that a command works on.
pub(crate) type SortedSet<'d, 's> = Collection<'d, 's, SortedSets>;

/// Members between two ends of their order, which is that of score and member.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    /// Where it begins: a score's order-preserving form and what follows it.
    from: Vec<u8>,
    /// Behind its end.
    to: Option<Vec<u8>>,
}

impl Span {
    /// All members.
    pub(crate) const ALL: Span = Span { from: Vec::new(), to: None };

    /// Members with scores between two, each of which may be left out.
    pub(crate) fn scores(min: (f64, bool), max: (f64, bool)) -> Span {
        let order = |score: f64, is_behind: bool| {
            let order = u64::from_be_bytes(score_order(score));
            order.saturating_add(u64::from(is_behind)).to_be_bytes().to_vec()
        };
        Span { from: order(min.0, min.1), to: Some(order(max.0, !max.1)) }
    }

    /// Members of one score between two members.
    pub(crate) fn members(score: f64, min: Bound<&[u8]>, max: Bound<&[u8]>) -> Span {
        let key = |member: &[u8]| [&score_order(score)[..], member].concat();
        let from = match min {
            Bound::Included(member) => key(member),
            Bound::Excluded(member) => behind(key(member)),
            Bound::Unbounded => Vec::new(),
        };
        let to = match max {
            Bound::Included(member) => Some(behind(key(member))),
            Bound::Excluded(member) => Some(key(member)),
            Bound::Unbounded => None,
        };
        Span { from, to }
    }

    /// What of it is behind a member in a direction.
    pub(crate) fn behind(self, (member, score): (&[u8], f64), direction: Direction) -> Span {
        let key = [&score_order(score)[..], member].concat();
        match direction {
            Direction::Forward => Span { from: behind(key), to: self.to },
            Direction::Backward => Span { from: self.from, to: Some(key) },
        }
    }

    /// Keys of the order between which its members lie.
    pub(crate) fn keys(&self) -> (&[u8], Option<&[u8]>) {
        (&self.from, self.to.as_deref())
    }

    fn is_empty(&self) -> bool {
        self.to.as_ref().is_some_and(|to| *to <= self.from)
    }

    fn contains(&self, score: &[u8], member: &[u8]) -> bool {
        let key = || score.iter().chain(member);
        key().ge(&self.from) && self.to.as_ref().is_none_or(|to| key().lt(to))
    }
}

/// The first key behind a key.
fn behind(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

impl Family for SortedSets {
    const KIND: Kind = Kind::SortedSet;
    const WIDTH: usize = 2;
    const EXTRA_SIZE: usize = size_of::<f64>();
}

impl SortedSet<'_, '_> {
    /// The score of a member.
    pub(crate) fn score(&mut self, member: &[u8]) -> Result<Option<f64>, Failure> {
        let order = match &self.0.body {
            Body::Packed(bytes) => {
                pairs(bytes).find(|pair| pair.1 == member).map(|pair| pair.0.try_into().ok())
            }
            Body::Spread(_) => self.0.element(Part::Main, &[member])?.map(|value| value.array(0)),
        };
        match order {
            Some(Some(order)) => Ok(Some(score_from_order(order))),
            Some(None) => Err(UnknownLayout.into()),
            None => Ok(None),
        }
    }

    /// Sets the score of a member that has the score `old`, or is not there.
    pub(crate) fn set(
        &mut self,
        member: &[u8],
        old: Option<f64>,
        score: f64,
    ) -> Result<(), Failure> {
        let order = score_order(score);
        if old.map(score_order) == Some(order) {
            return Ok(());
        }
        match old {
            Some(old) if !self.is_small() => return self.move_there(member, old, order),
            Some(old) => self.remove_scored(member, old)?,
            None => {}
        }
        self.add_there(member, order)?;
        if !self.0.is_wide {
            let (entries, size) = self.0.encodings().sorted_set;
            self.0.is_wide = member.len() as u64 > size || self.count() > entries;
        }
        if let Some(bytes) = self.0.outgrown()? {
            for (score, member, _) in pairs(&bytes) {
                self.add_there(member, score.try_into().map_err(|_| UnknownLayout)?)?;
            }
        }
        Ok(())
    }

    /// Adds a member that is not there.
    fn add_there(&mut self, member: &[u8], order: [u8; 8]) -> Result<(), Failure> {
        if let Some(bytes) = self.0.change_packed() {
            let mut at = 0;
            for pair in pairs(bytes) {
                if (pair.0, pair.1) > (&order[..], member) {
                    break;
                }
                at = pair.2;
            }
            let mut entry = Vec::new();
            push_entry(&mut entry, &order);
            push_entry(&mut entry, member);
            bytes.splice(at..at, entry);
            return Ok(());
        }
        let key = [&order[..], member].concat();
        let (count, id) = (self.count(), self.0.set_id());
        self.0.known_ends().added(id, &key);
        levels::add(&mut self.0, &key, count)?;
        self.0.put_element(Part::Main, &[member], &[&order])?;
        self.0.put_element(Part::Order, &[&key], &[])?;
        levels::changed(&mut self.0, &key, true);
        self.0.end_members().added(id, &key);
        self.0.count_added();
        Ok(())
    }

    /// Gives a member of a large sorted set, which has the score `old`, another one.
    fn move_there(&mut self, member: &[u8], old: f64, order: [u8; 8]) -> Result<(), Failure> {
        let (from, to) = ([&score_order(old)[..], member].concat(), [&order[..], member].concat());
        let (count, id) = (self.count(), self.0.set_id());
        // First, since its score was just read.
        self.0.put_element(Part::Main, &[member], &[&order])?;
        self.0.remove_element(Part::Order, &[&from])?;
        levels::remove(&mut self.0, &from)?;
        // What is added next counts members, and finds none of this key.
        levels::changed(&mut self.0, &from, false);
        self.0.known_ends().added(id, &to);
        levels::add(&mut self.0, &to, count.saturating_sub(1))?;
        self.0.put_element(Part::Order, &[&to], &[])?;
        levels::changed(&mut self.0, &to, true);
        self.0.end_members().removed(id, &from);
        self.0.end_members().added(id, &to);
        self.0.touch();
        Ok(())
    }

    /// Removes a member; false if it was not there.
    pub(crate) fn remove(&mut self, member: &[u8]) -> Result<bool, Failure> {
        let Some(score) = self.score(member)? else { return Ok(false) };
        self.remove_scored(member, score)?;
        Ok(true)
    }

    /// Removes a member that is there and has that score.
    fn remove_scored(&mut self, member: &[u8], score: f64) -> Result<(), Failure> {
        if let Some(bytes) = self.0.change_packed() {
            let mut from = 0;
            let mut found = None;
            for pair in pairs(bytes) {
                if pair.1 == member {
                    found = Some(from..pair.2);
                    break;
                }
                from = pair.2;
            }
            drop(found.map(|range| bytes.drain(range)));
            return Ok(());
        }
        let key = [&score_order(score)[..], member].concat();
        self.0.remove_element(Part::Main, &[member])?;
        self.0.remove_element(Part::Order, &[&key])?;
        levels::remove(&mut self.0, &key)?;
        levels::changed(&mut self.0, &key, false);
        let id = self.0.set_id();
        self.0.end_members().removed(id, &key);
        self.0.count_removed();
        Ok(())
    }

    /// Removes members that are there and have these scores.
    pub(crate) fn remove_all(&mut self, members: &[(Vec<u8>, f64)]) -> Result<(), Failure> {
        members.iter().try_for_each(|(member, score)| self.remove_scored(member, *score))
    }

    /// How many members stand before this one, which has that score.
    pub(crate) fn rank(&mut self, member: &[u8], score: f64) -> Result<u64, Failure> {
        self.before(&[&score_order(score)[..], member].concat())
    }

    /// How many members stand before a key of the order.
    fn before(&mut self, key: &[u8]) -> Result<u64, Failure> {
        match &self.0.body {
            Body::Packed(bytes) => {
                let is_before = |pair: &Pair<'_>| pair.0.iter().chain(pair.1).lt(key);
                Ok(pairs(bytes).take_while(is_before).count() as u64)
            }
            Body::Spread(_) => levels::rank(&mut self.0, key),
        }
    }

    /// How many members a span has.
    pub(crate) fn count_in(&mut self, span: &Span) -> Result<u64, Failure> {
        if span.is_empty() {
            return Ok(0);
        }
        let end = match &span.to {
            Some(to) => self.before(to)?,
            None => self.count(),
        };
        Ok(end.saturating_sub(self.before(&span.from)?))
    }

    /// Where in a span one begins that leaves out so many members, in a direction; `None`: it has no more.
    pub(crate) fn skip(
        &mut self,
        span: Span,
        members: u64,
        direction: Direction,
    ) -> Result<Option<Span>, Failure> {
        if members == 0 {
            return Ok(Some(span));
        }
        let rank = match direction {
            Direction::Forward => self.before(&span.from)?.checked_add(members),
            Direction::Backward => {
                let end = match &span.to {
                    Some(to) => self.before(to)?,
                    None => self.count(),
                };
                end.checked_sub(members).and_then(|end| end.checked_sub(1))
            }
        };
        let Some(key) = rank.map(|rank| self.nth(rank)).transpose()?.flatten() else {
            return Ok(None);
        };
        let span = match direction {
            Direction::Forward => Span { from: key, to: span.to },
            Direction::Backward => Span { from: span.from, to: Some(behind(key)) },
        };
        Ok((!span.is_empty()).then_some(span))
    }

    /// The key of the order of the member before which so many stand.
    fn nth(&mut self, nth: u64) -> Result<Option<Vec<u8>>, Failure> {
        if !self.is_small() && nth >= NEAR_MAX {
            return levels::nth(&mut self.0, nth);
        }
        let (mut left, mut found) = (nth, None);
        self.visit(&Span::ALL, Direction::Forward, &mut |member, score| {
            if left == 0 {
                found = Some([&score_order(score)[..], member].concat());
            }
            left = left.saturating_sub(1);
            found.is_none()
        })?;
        Ok(found)
    }

    /// A random member and its score.
    pub(crate) fn random(
        &mut self,
        random: &mut dyn FnMut() -> u64,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let nth = random() % self.count().max(1);
        Ok(self.nth(nth)?.map(|key| member_of(&key).to_vec()))
    }

    /// Calls `visit` with the members of a span and their scores, until it returns false.
    pub(crate) fn visit(
        &mut self,
        span: &Span,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], f64) -> bool,
    ) -> Result<(), Failure> {
        if span.is_empty() {
            return Ok(());
        }
        let score = |order: &[u8]| order.try_into().map(score_from_order);
        if let Body::Packed(bytes) = &self.0.body {
            let mut found: Vec<Pair<'_>> =
                pairs(bytes).filter(|pair| span.contains(pair.0, pair.1)).collect();
            if direction == Direction::Backward {
                found.reverse();
            }
            for (order, member, _) in found {
                if !visit(member, score(order).map_err(|_| UnknownLayout)?) {
                    break;
                }
            }
            return Ok(());
        }
        let mut is_sound = true;
        self.visit_keys(span, direction, &mut |key, _| match key.get(..8).map(score) {
            Some(Ok(score)) => visit(member_of(key), score),
            _ => {
                is_sound = false;
                false
            }
        })?;
        if is_sound { Ok(()) } else { Err(UnknownLayout.into()) }
    }

    /// As `visit`, of a large sorted set, with the keys of the order. What was removed at the ends is not passed.
    fn visit_keys(
        &mut self,
        span: &Span,
        direction: Direction,
        visit: &mut VisitElement<'_>,
    ) -> Result<(), Failure> {
        let id = self.0.set_id();
        let (first, last) = (self.0.first_key(), self.0.known_ends().to(id));
        let is_from_end = match direction {
            Direction::Forward => span.from <= first,
            Direction::Backward => match (&span.to, last) {
                (Some(to), Some(last)) => to[..] >= *last,
                (to, _) => to.is_none(),
            },
        };
        let to = match (span.to.as_deref(), last) {
            (Some(to), Some(last)) => Some(to.min(last).to_vec()),
            (to, last) => to.or(last).map(<[u8]>::to_vec),
        };
        let from = first.max(span.from.clone());
        if to.as_ref().is_some_and(|to| *to <= from) {
            return Ok(());
        }
        let mut met = None;
        let ends =
            (Bound::Included(&from[..]), to.as_deref().map_or(Bound::Unbounded, Bound::Excluded));
        self.0.visit(Part::Order, ends, direction, &mut |key, value| {
            if is_from_end && met.is_none() {
                met = Some(key.to_vec());
            }
            visit(key, value)
        })?;
        match (met, direction) {
            (Some(key), Direction::Forward) => self.0.known_ends().found_first(id, &key),
            (Some(key), Direction::Backward) => self.0.known_ends().found_last(id, &key),
            (None, _) => {}
        }
        Ok(())
    }

    /// Calls `visit` with the members behind one and their scores, until it returns false: in the order of the members; a small
    /// sorted set whole, in its own.
    pub(crate) fn visit_members(
        &mut self,
        after: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], f64) -> bool,
    ) -> Result<(), Failure> {
        if self.is_small() {
            return self.visit(&Span::ALL, Direction::Forward, visit);
        }
        let ends = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let mut is_sound = true;
        self.0.visit(Part::Main, ends, Direction::Forward, &mut |member, value| match value
            .array(0)
            .map(score_from_order)
        {
            Some(score) => visit(member, score),
            None => {
                is_sound = false;
                false
            }
        })?;
        if is_sound { Ok(()) } else { Err(UnknownLayout.into()) }
    }

    /// Up to so many members from the end where a direction begins, and their scores. Those behind them are held for the next
    /// time, if they are few.
    pub(crate) fn at_end(
        &mut self,
        direction: Direction,
        limit: u64,
    ) -> Result<Vec<(Vec<u8>, f64)>, Failure> {
        let count = limit.min(self.count()) as usize;
        if self.is_small() || count > TOGETHER.1 / 4 {
            return self.list(&Span::ALL, direction, limit);
        }
        let id = self.0.set_id();
        if self.0.end_members().held(id, direction, count).is_none() {
            let together = self.0.end_members().together(id, direction);
            let (mut keys, mut bytes) = (Vec::new(), 0);
            self.visit_keys(&Span::ALL, direction, &mut |key, _| {
                bytes += key.len();
                keys.push(key.to_vec());
                keys.len() < count || keys.len() < together && bytes < TOGETHER_SIZE_MAX
            })?;
            self.0.end_members().hold(id, direction, keys);
        }
        self.0.prefetch_end(direction);
        let Some(found) = self.0.end_members().held(id, direction, count) else {
            // There are not so many as the head says.
            return self.list(&Span::ALL, direction, limit);
        };
        let pair = |key: &[u8]| {
            let (order, member) = key.split_first_chunk().ok_or(UnknownLayout)?;
            Ok((member.to_vec(), score_from_order(*order)))
        };
        found.map(pair).collect()
    }

    /// The members of a span and their scores, at most so many.
    pub(crate) fn list(
        &mut self,
        span: &Span,
        direction: Direction,
        limit: u64,
    ) -> Result<Vec<(Vec<u8>, f64)>, Failure> {
        let mut found = Vec::new();
        if limit > 0 {
            self.visit(span, direction, &mut |member, score| {
                found.push((member.to_vec(), score));
                (found.len() as u64) < limit
            })?;
        }
        Ok(found)
    }
}

/// A score in order-preserving form, its member, and where the next pair begins.
type Pair<'a> = (&'a [u8], &'a [u8], usize);

/// The pairs of packed entries.
fn pairs(bytes: &[u8]) -> impl Iterator<Item = Pair<'_>> {
    let mut entries = Packed::trusted(bytes);
    std::iter::from_fn(move || {
        let (score, member) = (entries.next()?, entries.next()?);
        Some((score, member, bytes.len() - entries.left()))
    })
}
