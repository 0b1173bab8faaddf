//! Counts, and how they differ from those that are kept.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// The cost of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Count {
    /// Instructions an operation; `None`: there was no valgrind.
    pub instructions: Option<f64>,
    /// Fences an operation.
    pub fences: f64,
    /// Lines flushed an operation.
    pub lines: f64,
}

/// Costs by case.
pub type Counts = BTreeMap<String, Count>;

/// How much a count may differ: instructions by inlining that follows changes elsewhere.
const INSTRUCTIONS_TOLERANCE: f64 = 0.05;
const LINES_TOLERANCE: f64 = 0.005;

impl Change {
    /// Whether less is spent than was, which is no reason to stop.
    pub fn is_better(&self) -> bool {
        self.stored.zip(self.counted).is_some_and(|(stored, counted)| counted < stored)
    }
}

/// A count that is not what is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The case.
    pub case: String,
    /// Instructions, fences or lines.
    pub what: &'static str,
    /// The stored value. `None`: the case is not known.
    pub stored: Option<f64>,
    /// The counted value. `None`: the case does not exist any more.
    pub counted: Option<f64>,
}

/// What differs by more than the tolerance, for the better too. Instructions are compared where both
/// have them.
pub fn changes(stored: &Counts, counted: &Counts) -> Vec<Change> {
    let mut changes = Vec::new();
    let names: BTreeSet<&String> = stored.keys().chain(counted.keys()).collect();
    for case in names {
        let (stored, counted) = (stored.get(case), counted.get(case));
        let mut compare = |what, tolerance: f64, of: fn(&Count) -> Option<f64>| {
            let (stored, counted) = (stored.and_then(of), counted.and_then(of));
            let same = match (stored, counted) {
                (Some(stored), Some(counted)) => {
                    (stored - counted).abs() <= tolerance * stored.max(1.0)
                }
                (None, None) => true,
                // Without valgrind on one side instructions say nothing.
                _ => what == "instructions",
            };
            if !same {
                changes.push(Change { case: case.clone(), what, stored, counted });
            }
        };
        compare("instructions", INSTRUCTIONS_TOLERANCE, |count| count.instructions);
        compare("fences", LINES_TOLERANCE, |count| Some(count.fences));
        compare("lines", LINES_TOLERANCE, |count| Some(count.lines));
    }
    changes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn more_and_less_are_changes_and_noise_is_not() {
        let count = Count { instructions: Some(1000.0), fences: 1.0, lines: 1.4 };
        let stored = Counts::from([("a".into(), count), ("b".into(), count)]);
        let mut counted = stored.clone();
        counted.get_mut("a").unwrap().instructions = Some(1020.0);
        assert_eq!(changes(&stored, &counted), []);
        counted.get_mut("a").unwrap().instructions = None;
        assert_eq!(changes(&stored, &counted), []);
        counted.get_mut("a").unwrap().instructions = Some(1060.0);
        counted.get_mut("b").unwrap().fences = 1.01;
        let changed = changes(&stored, &counted);
        let names: Vec<_> = changed.iter().map(|change| (&change.case[..], change.what)).collect();
        assert_eq!(names, [("a", "instructions"), ("b", "fences")]);
        counted.remove("a");
        assert!(changes(&stored, &counted).iter().any(|change| change.counted.is_none()));
    }
}
