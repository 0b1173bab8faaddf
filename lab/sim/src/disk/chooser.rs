//! Decides what a power loss has left: each thing at its first read, so that a search does not branch
//! on what no program reads.

use crate::Random;

/// A thing on a disk of which a power loss leaves one of several states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Site {
    /// What a name stands for, by its place in the order of names.
    Name(usize),
    /// The length of a file.
    Length(usize),
    /// A sector of a file.
    Sector(usize, usize),
}

/// A decision that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// On what.
    pub site: Site,
    /// Of how many states.
    pub count: usize,
    /// Which, the oldest first.
    pub pick: usize,
}

/// What is picked where no script says otherwise.
#[derive(Clone, Debug)]
pub enum Rest {
    /// The oldest state.
    Old,
    /// The last state.
    New,
    /// The oldest of all but one thing.
    OldBut(Site),
    /// The last of all but one thing.
    NewBut(Site),
    /// The last; but a sector begins as in that, and ends as in the oldest one: the power went while it was being written.
    Torn,
    /// Any.
    Random(Random),
}

/// Picks one state of each thing that is read.
#[derive(Clone, Debug)]
pub struct Chooser {
    script: Vec<usize>,
    rest: Rest,
    made: Vec<Decision>,
}

impl Chooser {
    /// Follows a rule.
    pub fn new(rest: Rest) -> Chooser {
        Chooser { script: Vec::new(), rest, made: Vec::new() }
    }

    /// Makes these decisions first.
    pub fn script(script: Vec<usize>) -> Chooser {
        Chooser { script, rest: Rest::Old, made: Vec::new() }
    }

    /// What was decided so far, in order.
    pub fn made(&self) -> &[Decision] {
        &self.made
    }

    /// Whether sectors are torn.
    pub(super) fn tears(&self) -> bool {
        matches!(self.rest, Rest::Torn)
    }

    /// The script after the one that led to `made`, in the order of a search in depth; `None`
    /// behind the last.
    pub fn next_script(made: &[Decision]) -> Option<Vec<usize>> {
        let last = made.iter().rposition(|decision| decision.pick + 1 < decision.count)?;
        let mut script: Vec<usize> = made[..=last].iter().map(|decision| decision.pick).collect();
        script[last] += 1;
        Some(script)
    }

    pub(super) fn choose(&mut self, site: Site, count: usize) -> usize {
        let pick = match (self.script.get(self.made.len()), &mut self.rest) {
            (Some(pick), _) => (*pick).min(count - 1),
            (None, Rest::Old) => 0,
            (None, Rest::New | Rest::Torn) => count - 1,
            (None, Rest::OldBut(but)) if *but == site => count - 1,
            (None, Rest::OldBut(_)) => 0,
            (None, Rest::NewBut(but)) if *but == site => 0,
            (None, Rest::NewBut(_)) => count - 1,
            (None, Rest::Random(random)) => random.below(count),
        };
        self.made.push(Decision { site, count, pick });
        pick
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_reach_every_leaf_of_a_tree_that_depends_on_what_was_picked() {
        let mut leaves = Vec::new();
        let mut script = Some(Vec::new());
        while let Some(next) = script {
            let mut chooser = Chooser::script(next);
            let first = chooser.choose(Site::Name(0), 2);
            // The second thing is looked at only when the first is there.
            let second = if first == 1 { chooser.choose(Site::Length(0), 3) } else { 9 };
            leaves.push((first, second));
            script = Chooser::next_script(chooser.made());
        }
        assert_eq!(leaves, [(0, 9), (1, 0), (1, 1), (1, 2)]);
    }
}
