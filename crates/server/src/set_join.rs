//! SINTER, SINTERCARD, SUNION and SDIFF of many members: read some a turn in a snapshot, as the
//! [elements](crate::element_listing) of one collection are.
//!
//! ```text
//!   SUNION          all sets are merged: the least member of all comes next
//!   SINTER, SDIFF   the first set is read, and each other looks for its members, or reads on to them
//! ```
//! Each set gives its members in their order, so of each only those few are in memory that come next, whatever it has. One that
//! has far more members than the first is not read, but searched for each member of the first.
//!
//! What is shown waits for the last member, because its count comes before it. It waits in a reply of its own with the limit of the
//! client's: one that outgrows `client-output-buffer-limit` ends the client as if it had been made in its own turn. It is not copied
//! when its header is put before it, and with what was read it counts for `maxmemory-clients`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Bound;

use tembo_kv::{Direction, Keyspace, Snapshot};

use crate::element_listing::{BYTES_AT_ONCE, READ_AT_ONCE};
use crate::failure::Failure;
use crate::format::{ELEMENT_PREFIX_SIZE, Part, element_prefix};
use crate::reply::Reply;

/// Members of one set that are read together.
const TOGETHER_MAX: usize = 64;

/// Bytes, after which no further member is read with others.
const TOGETHER_BYTES_MAX: usize = 64 << 10;

/// Bytes of memory that hold a member beside its own.
const MEMBER_SIZE: usize = 40;

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
    fn read(&mut self, id: u64, from: &[u8]) -> Result<(Vec<Vec<u8>>, bool), Failure> {
        let prefix = element_prefix(id, Part::Main);
        let mut to = prefix;
        to[ELEMENT_PREFIX_SIZE - 1] += 1;
        let from = [&prefix[..], from].concat();
        let range = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        let (mut read, mut bytes, mut has_more) = (Vec::new(), 0, false);
        let direction = Direction::Forward;
        self.snapshot.range_with::<[u8]>(self.space, range, direction, &mut |key, _| {
            let member = key.get(ELEMENT_PREFIX_SIZE..).unwrap_or_default().to_vec();
            bytes += member.len();
            read.push(member);
            has_more = read.len() == TOGETHER_MAX || bytes >= TOGETHER_BYTES_MAX;
            !has_more
        })?;
        self.spend(read.len().max(1));
        self.bytes += bytes;
        Ok((read, has_more))
    }

    fn has(&self, id: u64, member: &[u8]) -> Result<bool, Failure> {
        let key = [&element_prefix(id, Part::Main)[..], member].concat();
        Ok(self.snapshot.get(self.space, &key)?.is_some())
    }
}

/// The members of a set, in their order.
pub(crate) struct Members {
    /// Those that were read and come next.
    next: std::vec::IntoIter<Vec<u8>>,
    /// Bytes of memory that those take which were read last.
    held: usize,
    /// Those that are still to be read: the id of the set, and where they begin.
    rest: Option<(u64, Vec<u8>)>,
    /// It is searched, and not read.
    is_searched: bool,
}

impl Members {
    /// Those of a small set.
    pub(crate) fn small(mut members: Vec<Vec<u8>>) -> Members {
        members.sort_unstable();
        let held = size_of_all(&members);
        Members { next: members.into_iter(), held, rest: None, is_searched: false }
    }

    /// Those of a large set with an id, which is searched if it has far more members than the first.
    pub(crate) fn large(id: u64, is_searched: bool) -> Members {
        let (next, rest) = (Vec::new().into_iter(), Some((id, Vec::new())));
        Members { next, held: 0, rest, is_searched }
    }

    /// Reads some more, if none are left of those that were read.
    fn read_on(&mut self, reader: &mut Reader) -> Result<(), Failure> {
        if !self.next.as_slice().is_empty() {
            return Ok(());
        }
        let Some((id, from)) = &mut self.rest else { return Ok(()) };
        let (members, has_more) = reader.read(*id, from)?;
        match members.last() {
            Some(last) if has_more => {
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

    /// The next one.
    fn take(&mut self, reader: &mut Reader) -> Result<Option<Vec<u8>>, Failure> {
        self.read_on(reader)?;
        Ok(self.next.next())
    }

    /// Whether this one is there. It is greater than all that it was asked for before.
    fn has(&mut self, member: &[u8], reader: &mut Reader) -> Result<bool, Failure> {
        reader.spend(1);
        if let Some((id, _)) = self.rest.as_ref().filter(|_| self.is_searched) {
            return reader.has(*id, member);
        }
        while self.next.as_slice().first().is_some_and(|next| next[..] < *member) {
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
        Ok(self.next.as_slice().first().is_some_and(|next| next[..] == *member))
    }
}

/// How the members are found.
enum Way {
    /// All sets are read together.
    Merged {
        /// The next member of each set, with its number.
        next: BinaryHeap<Reverse<(Vec<u8>, usize)>>,
        /// The sets whose next member is not known yet.
        unknown: Vec<usize>,
        last: Option<Vec<u8>>,
    },
    /// Members of the first set are shown that each other has, or else that no other has.
    Filtered { have: bool },
}

/// A join under way.
pub(crate) struct SetJoin {
    reader: Reader,
    sets: Vec<Members>,
    way: Way,
    /// The members are only counted, up to so many.
    counts_to: Option<usize>,
    found: Reply,
    count: usize,
}

impl SetJoin {
    /// Of sets whose elements are in a keyspace. `found` takes the members, or they are only counted, up to so many. No set is
    /// there twice.
    pub(crate) fn new(
        (snapshot, space): (Snapshot, Keyspace),
        (join, sets): (Join, Vec<Members>),
        counts_to: Option<usize>,
        found: Reply,
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
        SetJoin { reader, sets, way, counts_to, found, count: 0 }
    }

    /// Looks for some more members; true: it has come to its end.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn advance(&mut self) -> Result<bool, Failure> {
        self.reader.begin_turn();
        while !self.reader.is_spent() {
            let has_ended = self.step()?;
            if has_ended || self.counts_to == Some(self.count) || self.found.is_overflown() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Looks at one member; true: there are no more.
    fn step(&mut self) -> Result<bool, Failure> {
        let SetJoin { reader, sets, way, .. } = self;
        match way {
            Way::Merged { next, unknown, last } => {
                if let Some(at) = unknown.pop() {
                    let set = sets.get_mut(at).map(|set| set.take(reader));
                    if let Some(member) = set.transpose()?.flatten() {
                        next.push(Reverse((member, at)));
                    }
                    return Ok(false);
                }
                let Some(Reverse((member, at))) = next.pop() else { return Ok(true) };
                reader.spend(1);
                unknown.push(at);
                if last.as_ref() != Some(&member) {
                    let member = last.insert(member);
                    show(member, self.counts_to.is_some(), &mut self.found, &mut self.count);
                }
            }
            Way::Filtered { have } => {
                let Some((first, others)) = sets.split_first_mut() else { return Ok(true) };
                let Some(member) = first.take(reader)? else { return Ok(true) };
                for other in others {
                    if other.has(&member, reader)? != *have {
                        return Ok(false);
                    }
                }
                show(&member, self.counts_to.is_some(), &mut self.found, &mut self.count);
            }
        }
        Ok(false)
    }

    /// What was found so far.
    pub(crate) fn found(&self) -> &Reply {
        &self.found
    }

    /// Bytes of memory that it holds beside what was found.
    pub(crate) fn held(&self) -> usize {
        self.reader.held + self.sets.len() * size_of::<Members>()
    }

    /// Replies with what was found.
    pub(crate) fn reply(self, reply: &mut Reply) {
        match self.counts_to {
            Some(_) => reply.integer(self.count as i64),
            None => reply.headed(self.found, |header| header.set(self.count)),
        }
    }
}

fn show(member: &[u8], is_counted: bool, found: &mut Reply, count: &mut usize) {
    *count += 1;
    if !is_counted {
        found.bulk(member);
    }
}

fn size_of_all(members: &[Vec<u8>]) -> usize {
    members.iter().map(|member| member.len() + MEMBER_SIZE).sum()
}
