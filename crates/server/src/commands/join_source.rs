//! Sets and sorted sets that a command joins.

use std::cmp::Reverse;

use tembo_kv::Direction;

use crate::collection::{Set, SortedSet, Span};
use crate::command::Context;
use crate::commands::listing::{AT_ONCE_MAX, snapshot};
use crate::failure::{Failure, WRONG_TYPE};
use crate::format::Kind;
use crate::set_join::{Aggregate, Join, Members, Scored, SetJoin};

/// A set that has so many times more members than the first is searched for each of these, and not read.
const SEARCHED_FROM: u64 = 8;

/// A set or sorted set that is joined with others.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) key: &'a [u8],
    pub(super) kind: Kind,
    pub(super) count: u64,
    /// The id of a large one.
    id: Option<u64>,
}

impl<'a> Source<'a> {
    /// The set under a key.
    ///
    /// # Errors
    /// Another type is there.
    pub(super) fn set(context: &mut Context<'_, '_>, key: &'a [u8]) -> Result<Source<'a>, Failure> {
        let set = Set::open(context.data, (context.session.db, key))?;
        let id = set.large().map(|(id, _)| id);
        Ok(Source { key, kind: Kind::Set, count: set.count(), id })
    }

    /// The set or sorted set under a key.
    ///
    /// # Errors
    /// Another type is there.
    pub(super) fn any_set(
        context: &mut Context<'_, '_>,
        key: &'a [u8],
    ) -> Result<Source<'a>, Failure> {
        let place = (context.session.db, key);
        match context.data.find(place.0, place.1)?.map(|value| value.of.kind) {
            Some(Kind::SortedSet) => {
                let set = SortedSet::open(context.data, place)?;
                let id = set.large().map(|(id, _)| id);
                Ok(Source { key, kind: Kind::SortedSet, count: set.count(), id })
            }
            None | Some(Kind::Set) => Source::set(context, key),
            Some(_) => Err(WRONG_TYPE.into()),
        }
    }

    /// Its members; those of a set have the score 1.
    ///
    /// # Errors
    /// Damage.
    pub(super) fn scored(self, context: &mut Context<'_, '_>) -> Result<Vec<Scored>, Failure> {
        let place = (context.session.db, self.key);
        if self.kind == Kind::SortedSet {
            let mut set = SortedSet::open(context.data, place)?;
            return set.list(&Span::ALL, Direction::Forward, u64::MAX);
        }
        let members = Set::open(context.data, place)?.members()?;
        Ok(members.into_iter().map(|member| (member, 1.0)).collect())
    }

    /// Its members for later turns. Those of a small one stand in the entry of its key, and are read at once.
    fn members(self, context: &mut Context<'_, '_>, first: u64) -> Result<Members, Failure> {
        match self.id {
            Some(id) => Ok(Members::large((id, self.kind), self.count / SEARCHED_FROM > first)),
            None => Ok(Members::small(self.scored(context)?)),
        }
    }
}

/// Whether many members are to be read or looked for. Of a large set beside a small one only few are.
pub(super) fn are_many(sources: &[Source<'_>], join: Join) -> bool {
    let counts = || sources.iter().map(|source| source.count);
    let most = match join {
        Join::Intersection => counts().min().unwrap_or(0),
        Join::Union => u64::MAX,
        Join::Difference => counts().next().unwrap_or(0),
    };
    counts().fold(0, |sum: u64, count| sum.saturating_add(count.min(most))) > AT_ONCE_MAX
}

/// Joins sets with their weights in later turns.
pub(super) fn join_in_snapshot(
    context: &mut Context<'_, '_>,
    sources: &[(Source<'_>, f64)],
    (join, aggregate): (Join, Aggregate),
) -> Result<SetJoin, Failure> {
    let mut placed: Vec<(usize, Source<'_>, f64)> = sources
        .iter()
        .enumerate()
        .map(|(place, (source, weight))| (place, *source, *weight))
        .collect();
    // First those that most likely spare a look at the others.
    match join {
        Join::Intersection => placed.sort_by_key(|(_, source, _)| source.count),
        Join::Difference => {
            let others = placed.get_mut(1..).unwrap_or_default();
            others.sort_by_key(|(_, source, _)| Reverse(source.count));
        }
        Join::Union => {}
    }
    let first = match join {
        // All are read.
        Join::Union => u64::MAX,
        _ => placed.first().map_or(0, |(_, first, _)| first.count),
    };
    let mut sets = Vec::with_capacity(placed.len());
    for (place, source, weight) in placed {
        sets.push(source.members(context, first)?.weighing(place, weight));
    }
    Ok(SetJoin::new(snapshot(context)?, (join, sets), aggregate))
}
