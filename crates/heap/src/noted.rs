//! Numbers that are noted: in the order in which they came, each once, and found in a time that does not depend on how many there are.

use rustc_hash::FxHashSet;

/// So many are compared one by one: most changes note none, or a few.
const FEW: usize = 16;

#[derive(Default)]
pub(crate) struct Noted {
    all: Vec<u64>,
    /// The same, if there are more than a few.
    known: FxHashSet<u64>,
}

impl Noted {
    pub(crate) fn has(&self, number: u64) -> bool {
        if self.known.is_empty() {
            self.all.contains(&number)
        } else {
            self.known.contains(&number)
        }
    }

    pub(crate) fn add(&mut self, number: u64) {
        if self.has(number) {
            return;
        }
        self.all.push(number);
        if !self.known.is_empty() {
            self.known.insert(number);
        } else if self.all.len() > FEW {
            self.known.extend(&self.all);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        self.all.iter().copied()
    }

    /// Takes out those that came behind the first `len`.
    pub(crate) fn split_off(&mut self, len: usize) -> Vec<u64> {
        let since = self.all.split_off(len);
        since.iter().for_each(|number| {
            self.known.remove(number);
        });
        since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_what_was_added_and_not_taken_out() {
        let mut noted = Noted::default();
        for count in 0..100 {
            assert_eq!((noted.len(), noted.is_empty()), (count, count == 0));
            let number = count as u64 * 7;
            assert!(!noted.has(number));
            noted.add(number);
            noted.add(number);
            assert!(noted.has(number) && noted.has(0));
            // No more than a few are ever compared one by one.
            assert_eq!(noted.known.len(), if count < FEW { 0 } else { count + 1 });
        }
        assert!(noted.iter().eq((0..100).map(|count| count * 7)));
        for len in [60, 10, 3] {
            let before = noted.len() as u64;
            assert!(noted.split_off(len).into_iter().eq((len as u64..before).map(|at| at * 7)));
            assert!(!noted.has(7 * len as u64) && noted.has(14));
            noted.add(1);
            assert!(noted.has(1));
            noted.split_off(len);
        }
    }
}
