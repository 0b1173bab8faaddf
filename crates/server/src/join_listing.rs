//! SINTER, SINTERCARD, SUNION and SDIFF of many members, ZINTER, ZINTERCARD, ZUNION and ZDIFF, and those that store: what a
//! [join](crate::set_join) finds is shown, counted or kept, or sorted by score before it is shown.
//!
//! What is shown waits for the last member, because its count comes before it. It waits in a reply of its own with the limit of the
//! client's: one that outgrows `client-output-buffer-limit` ends the client as if it had been made in its own turn. It is not copied
//! when its header is put before it, and with what was read it counts for `maxmemory-clients`.

use crate::element_listing::{BYTES_AT_ONCE, READ_AT_ONCE, Shown};
use crate::failure::Failure;
use crate::reply::Reply;
use crate::set_join::SetJoin;
use crate::sort_run::{Merge, Order, Run, Weight};

/// What becomes of the members that are found.
pub(crate) enum JoinUse {
    /// They are counted, up to so many.
    Counted(usize),
    /// They are shown in this reply, so.
    Shown(Reply, Shown),
    /// They are shown in this reply, so, in the order of their scores.
    Sorted(Reply, Shown),
    /// They are kept, to be stored.
    Kept(Run),
    /// They are kept with their scores and in the order of these, in which they are stored fastest.
    KeptSorted(Run),
}

/// Members in the order of their scores, some of which are sorted at a time.
struct ByScore {
    run: Run,
    merge: Merge,
}

impl ByScore {
    fn add(&mut self, member: &[u8], score: f64) {
        self.run.push(member, Weight::Number(score));
        if self.run.len() == READ_AT_ONCE {
            self.merge.add(std::mem::take(&mut self.run));
        }
    }

    fn begin(&mut self) {
        self.merge.add(std::mem::take(&mut self.run));
        self.merge.begin();
    }
}

/// A join under way.
pub(crate) struct JoinListing {
    join: SetJoin,
    used: JoinUse,
    sorted: ByScore,
    count: usize,
}

impl JoinListing {
    /// Of what is found by this join.
    pub(crate) fn new(join: SetJoin, used: JoinUse) -> JoinListing {
        let sorted = ByScore { run: Run::default(), merge: Merge::new(Order::Ascending) };
        JoinListing { join, used, sorted, count: 0 }
    }

    /// Goes on with some more members; true: it has come to its end.
    ///
    /// # Errors
    /// Damage; what another server has written.
    pub(crate) fn advance(&mut self) -> Result<bool, Failure> {
        let JoinListing { join, used, sorted, count } = self;
        if sorted.merge.has_begun() {
            return Ok(self.show());
        }
        let has_ended = join.advance(&mut |member, score| {
            *count += 1;
            match used {
                JoinUse::Counted(most) => *count < *most,
                JoinUse::Shown(found, shown) => {
                    shown.member(member, score, found);
                    !found.is_overflown()
                }
                JoinUse::Sorted(..) | JoinUse::KeptSorted(_) => {
                    sorted.add(member, score);
                    true
                }
                JoinUse::Kept(kept) => {
                    kept.push(member, Weight::Own);
                    true
                }
            }
        })?;
        if has_ended && matches!(used, JoinUse::Sorted(..) | JoinUse::KeptSorted(_)) {
            sorted.begin();
            return Ok(false);
        }
        Ok(has_ended)
    }

    /// Shows or keeps the next members in the order of their scores; true: it has come to its end.
    fn show(&mut self) -> bool {
        let mut bytes = 0;
        for _ in 0..READ_AT_ONCE {
            let Some((run, at)) = self.sorted.merge.next() else { return true };
            let (member, score) = (run.element(at), run.number(at));
            match &mut self.used {
                JoinUse::Sorted(found, shown) => shown.member(member, score, found),
                JoinUse::KeptSorted(kept) => kept.push(member, Weight::Number(score)),
                _ => return true,
            }
            bytes += member.len();
            self.sorted.merge.pass();
            if bytes >= BYTES_AT_ONCE {
                break;
            }
        }
        matches!(&self.used, JoinUse::Sorted(found, _) if found.is_overflown())
    }

    /// What is to be stored.
    pub(crate) fn into_kept(self) -> Option<Run> {
        match self.used {
            JoinUse::Kept(kept) | JoinUse::KeptSorted(kept) => Some(kept),
            _ => None,
        }
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        let found = match &self.used {
            JoinUse::Counted(_) => 0,
            JoinUse::Kept(kept) | JoinUse::KeptSorted(kept) => kept.memory(),
            JoinUse::Shown(found, _) | JoinUse::Sorted(found, _) => found.memory(),
        };
        self.join.memory() + self.sorted.run.memory() + self.sorted.merge.memory() + found
    }

    /// Replies with what was found.
    pub(crate) fn reply(self, reply: &mut Reply) {
        match self.used {
            JoinUse::Counted(_) | JoinUse::Kept(_) | JoinUse::KeptSorted(_) => {
                reply.integer(self.count as i64);
            }
            JoinUse::Shown(found, shown) | JoinUse::Sorted(found, shown) => {
                reply.headed(found, |header| shown.begin(self.count, header));
            }
        }
    }
}
