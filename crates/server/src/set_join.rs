//! What several sets or sorted sets make: their members are read some a turn in a snapshot, as the
//! [elements](crate::element_listing) of one collection are.
//!
//! ```text
//!   union                      all sets are merged: the least member of all comes next
//!   intersection, difference   the first set is read, and each other looks for its members, or reads on to them
//! ```
//! Each set gives its members in their order, so of each only those few are in memory that come next, whatever it has. One that
//! has far more members than the first is not read, but searched for each member of the first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Bound;

use tembo_kv::{Direction, Keyspace, Snapshot, Value};

use crate::element_listing::{BYTES_AT_ONCE, READ_AT_ONCE};
use crate::failure::Failure;
use crate::format::{
    ELEMENT_PREFIX_SIZE, Kind, Part, UnknownLayout, element_prefix, score_from_order,
};

/// Members of one set that are read together.
const TOGETHER_MAX: usize = 64;

/// Bytes, after which no further member is read with others.
const TOGETHER_BYTES_MAX: usize = 64 << 10;

/// Bytes of memory that hold a member beside its own.
const MEMBER_SIZE: usize = 48;

/// How several sets make one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    /// What all have.
    Intersection,
    /// What one has.
    Union,
    /// What the first has, and no other.
    Difference,
}

/// What the score of a member is that several sets have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aggregate {
    /// The sum.
    Sum,
    /// The least one.
    Min,
    /// The greatest one.
    Max,
}

impl Aggregate {
    /// What two scores make.
    pub(crate) fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Aggregate::Sum if (a + b).is_nan() => 0.0,
            Aggregate::Sum => a + b,
            Aggregate::Min => a.min(b),
            Aggregate::Max => a.max(b),
        }
    }
}

/// A score in a set with that weight.
pub(crate) fn weighted(score: f64, weight: f64) -> f64 {
    let weighted = score * weight;
    if weighted.is_nan() { 0.0 } else { weighted }
}

/// A member, and its score: that of a sorted set, or 1.
pub(crate) type Scored = (Vec<u8>, f64);

/// The id of a large set or sorted set, and which it is.
type Large = (u64, Kind);

/// Reads elements in a snapshot, so many in a turn.
struct Reader {
    snapshot: Snapshot,
    space: Keyspace,
    /// What may be read, looked for or shown in this turn.
    left: usize,
    /// Bytes that were read in this turn.
    bytes: usize,
    /// Bytes of memory that members take which were read.
    held: usize,
}

impl Reader {
    fn begin_turn(&mut self) {
        (self.left, self.bytes) = (READ_AT_ONCE, 0);
    }

    fn spend(&mut self, members: usize) {
        self.left = self.left.saturating_sub(members);
    }

    fn is_spent(&self) -> bool {
        self.left == 0 || self.bytes >= BYTES_AT_ONCE
    }

    /// The members of a large set from one on, some of them, and whether there may be more.
    fn read(&mut self, (id, kind): Large, from: &[u8]) -> Result<(Vec<Scored>, bool), Failure> {
        let prefix = element_prefix(id, Part::Main);
        let mut to = prefix;
        to[ELEMENT_PREFIX_SIZE - 1] += 1;
        let from = [&prefix[..], from].concat();
        let range = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        let (mut read, mut bytes, mut has_more, mut is_sound) = (Vec::new(), 0, false, true);
        let direction = Direction::Forward;
        self.snapshot.range_with::<[u8]>(self.space, range, direction, &mut |key, value| {
            let member = key.get(ELEMENT_PREFIX_SIZE..).unwrap_or_default().to_vec();
            bytes += member.len();
            let score = score(kind, value);
            is_sound = score.is_ok();
            read.push((member, score.unwrap_or_default()));
            has_more = read.len() == TOGETHER_MAX || bytes >= TOGETHER_BYTES_MAX;
            !has_more && is_sound
        })?;
        if !is_sound {
            return Err(Failure::UnknownLayout);
        }
        self.spend(read.len().max(1));
        self.bytes += bytes;
        Ok((read, has_more))
    }

    fn look_for(&self, (id, kind): Large, member: &[u8]) -> Result<Option<f64>, Failure> {
        let key = [&element_prefix(id, Part::Main)[..], member].concat();
        let found = self.snapshot.get(self.space, &key)?;
        Ok(found.map(|value| score(kind, value)).transpose()?)
    }
}

/// The score that the element of a member has.
fn score(kind: Kind, element: Value<'_>) -> Result<f64, UnknownLayout> {
    match kind {
        Kind::SortedSet => element.array(0).map(score_from_order).ok_or(UnknownLayout),
        _ => Ok(1.0),
    }
}

/// The members of a set, in their order.
pub(crate) struct Members {
    /// Those that were read and come next.
    next: std::vec::IntoIter<Scored>,
    /// Bytes of memory that those take which were read last.
    held: usize,
    /// Those that are still to be read, and where they begin.
    rest: Option<(Large, Vec<u8>)>,
    /// It is searched, and not read.
    is_searched: bool,
    /// Which one it is of those that the command names: scores are added up in their order.
    place: usize,
    weight: f64,
}

impl Members {
    /// Those of a small set.
    pub(crate) fn small(mut members: Vec<Scored>) -> Members {
        members.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let held = size_of_all(&members);
        let next = members.into_iter();
        Members { next, held, rest: None, is_searched: false, place: 0, weight: 1.0 }
    }

    /// Those of a large set with an id, which is searched if it has far more members than the first.
    pub(crate) fn large(set: (u64, Kind), is_searched: bool) -> Members {
        let rest = Some((set, Vec::new()));
        Members { rest, is_searched, ..Members::small(Vec::new()) }
    }

    /// The same, in that place among all sets, with a weight.
    pub(crate) fn weighing(self, place: usize, weight: f64) -> Members {
        Members { place, weight, ..self }
    }

    /// Reads some more, if none are left of those that were read.
    fn read_on(&mut self, reader: &mut Reader) -> Result<(), Failure> {
        if !self.next.as_slice().is_empty() {
            return Ok(());
        }
        let Some((set, from)) = &mut self.rest else { return Ok(()) };
        let (members, has_more) = reader.read(*set, from)?;
        match members.last() {
            Some((last, _)) if has_more => {
                from.clone_from(last);
                from.push(0);
            }
            _ => self.rest = None,
        }
        let held = size_of_all(&members);
        reader.held = reader.held - self.held + held;
        (self.next, self.held) = (members.into_iter(), held);
        Ok(())
    }

    /// The next one, with its weighted score.
    fn take(&mut self, reader: &mut Reader) -> Result<Option<Scored>, Failure> {
        self.read_on(reader)?;
        let weight = self.weight;
        Ok(self.next.next().map(|(member, score)| (member, weighted(score, weight))))
    }

    /// The weighted score of this one, if it is there. It is greater than all that were looked for before.
    fn look_for(&mut self, member: &[u8], reader: &mut Reader) -> Result<Option<f64>, Failure> {
        let weight = self.weight;
        Ok(self.find(member, reader)?.map(|score| weighted(score, weight)))
    }

    fn find(&mut self, member: &[u8], reader: &mut Reader) -> Result<Option<f64>, Failure> {
        reader.spend(1);
        if let Some((set, _)) = self.rest.as_ref().filter(|_| self.is_searched) {
            return reader.look_for(*set, member);
        }
        while self.next.as_slice().first().is_some_and(|next| next.0[..] < *member) {
            self.next.next();
        }
        // What lies between is left out: of a set with a gap in its members that is filled here it can be any number.
        if let Some((_, from)) = &mut self.rest
            && from[..] < *member
        {
            from.clear();
            from.extend_from_slice(member);
        }
        self.read_on(reader)?;
        let next = self.next.as_slice().first();
        Ok(next.filter(|next| next.0[..] == *member).map(|next| next.1))
    }
}

/// How the members are found.
enum Way {
    /// All sets are read together.
    Merged {
        /// The next member of each set, with the set's number and the bits of the member's score.
        next: BinaryHeap<Reverse<(Vec<u8>, usize, u64)>>,
        /// The sets whose next member is not known yet.
        unknown: Vec<usize>,
        /// The member that was met last, which other sets may have, too.
        last: Option<Scored>,
    },
    /// Members of the first set are found that each other has, or else that no other has.
    Filtered { have: bool },
}

/// What looking at one member has found.
enum Step {
    /// Nothing yet.
    Nothing,
    /// A member of the result.
    Found(Scored),
    /// That there are no more.
    End,
}

/// A join under way.
pub(crate) struct SetJoin {
    reader: Reader,
    sets: Vec<Members>,
    way: Way,
    aggregate: Aggregate,
}

impl SetJoin {
    /// Of sets whose elements are in a keyspace.
    pub(crate) fn new(
        (snapshot, space): (Snapshot, Keyspace),
        (join, sets): (Join, Vec<Members>),
        aggregate: Aggregate,
    ) -> SetJoin {
        let held = sets.iter().map(|set| set.held).sum();
        let reader = Reader { snapshot, space, left: 0, bytes: 0, held };
        let way = match join {
            Join::Intersection => Way::Filtered { have: true },
            Join::Difference => Way::Filtered { have: false },
            Join::Union => Way::Merged {
                next: BinaryHeap::with_capacity(sets.len()),
                unknown: (0..sets.len()).collect(),
                last: None,
            },
        };
        SetJoin { reader, sets, way, aggregate }
    }

    /// Looks for some more members, which `found` takes, until it returns false; true: there are no more.
    ///
    /// # Errors
    /// Damage; what another server has written.
    pub(crate) fn advance(
        &mut self,
        found: &mut dyn FnMut(&[u8], f64) -> bool,
    ) -> Result<bool, Failure> {
        self.reader.begin_turn();
        while !self.reader.is_spent() {
            match self.step()? {
                Step::Nothing => {}
                Step::Found((member, score)) if found(&member, score) => {}
                Step::Found(_) | Step::End => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Looks at one member.
    fn step(&mut self) -> Result<Step, Failure> {
        let SetJoin { reader, sets, way, aggregate } = self;
        match way {
            Way::Merged { next, unknown, last } => {
                if let Some(at) = unknown.pop() {
                    let set = sets.get_mut(at).map(|set| set.take(reader));
                    if let Some((member, score)) = set.transpose()?.flatten() {
                        next.push(Reverse((member, at, score.to_bits())));
                    }
                    return Ok(Step::Nothing);
                }
                let Some(Reverse((member, at, bits))) = next.pop() else {
                    return Ok(last.take().map_or(Step::End, Step::Found));
                };
                reader.spend(1);
                unknown.push(at);
                let score = f64::from_bits(bits);
                if let Some((_, sum)) = last.as_mut().filter(|(last, _)| *last == member) {
                    *sum = aggregate.of(*sum, score);
                    return Ok(Step::Nothing);
                }
                Ok(last.replace((member, score)).map_or(Step::Nothing, Step::Found))
            }
            Way::Filtered { have } => filter(reader, sets, *have, *aggregate),
        }
    }

    /// Bytes of memory that it holds.
    pub(crate) fn memory(&self) -> usize {
        self.reader.held + self.sets.len() * size_of::<Members>()
    }
}

/// Takes a member of the first set, and looks for it in the others.
fn filter(
    reader: &mut Reader,
    sets: &mut [Members],
    have: bool,
    aggregate: Aggregate,
) -> Result<Step, Failure> {
    let Some((first, others)) = sets.split_first_mut() else { return Ok(Step::End) };
    let Some((member, score)) = first.take(reader)? else { return Ok(Step::End) };
    let mut scores = vec![(first.place, score)];
    for other in others {
        let found = other.look_for(&member, reader)?;
        if found.is_some() != have {
            return Ok(Step::Nothing);
        }
        scores.extend(found.map(|score| (other.place, score)));
    }
    scores.sort_unstable_by_key(|(place, _)| *place);
    let scores = scores.into_iter().map(|(_, score)| score);
    let score = scores.reduce(|sum, score| aggregate.of(sum, score)).unwrap_or(score);
    Ok(Step::Found((member, score)))
}

fn size_of_all(members: &[Scored]) -> usize {
    members.iter().map(|(member, _)| member.len() + MEMBER_SIZE).sum()
}
