//! Objects of which a transaction knows the type.

/// Places; an object has one of them.
const PLACES: usize = 64;

/// What was found out, for the objects that were looked at last.
#[derive(Default)]
pub(crate) struct Known {
    /// Empty until there is something.
    places: Vec<Place>,
    /// Counts how often all was forgotten.
    age: u64,
}

#[derive(Clone, Copy, Default)]
struct Place {
    bits: u64,
    /// See [`Expected`](crate::persist::Expected).
    mark: u64,
    age: u64,
    number: u16,
}

fn place(bits: u64) -> usize {
    (bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize % PLACES
}

impl Known {
    /// The number of an object's type, if it was found to be that of a program's type.
    #[inline]
    pub(crate) fn get(&self, bits: u64, mark: u64) -> Option<u16> {
        let found = self.places.get(place(bits))?;
        let is_it = found.bits == bits && found.mark == mark && found.age == self.age;
        is_it.then_some(found.number)
    }

    pub(crate) fn put(&mut self, bits: u64, mark: u64, number: u16) {
        if self.places.is_empty() {
            self.age += 1;
            self.places.resize(PLACES, Place::default());
        }
        self.places[place(bits)] = Place { bits, mark, age: self.age, number };
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.age += 1;
    }
}

/// Types for which numbers are at hand.
const KINDS: usize = 32;

/// Places in which a type is looked for, one behind the other.
const PROBES: usize = 4;

/// The numbers of types that were looked at, by their [marks](crate::persist::Expected). They stay, as long as the heap is the same.
/// Few programs have more types than there are places; where two marks want one place, both have one.
#[derive(Default)]
pub(crate) struct Kinds([(u64, u16); KINDS]);

impl Kinds {
    #[inline]
    pub(crate) fn get(&self, mark: u64) -> Option<u16> {
        // The numbers of types begin above 0.
        let is_it = |&(found, number): &(u64, u16)| found == mark && number != 0;
        let found = places(mark).map(|at| self.0[at]).find(is_it);
        found.map(|(_, number)| number)
    }

    pub(crate) fn put(&mut self, mark: u64, number: u16) {
        let is_its = |at: &usize| self.0[*at].1 == 0 || self.0[*at].0 == mark;
        let at = places(mark).find(is_its).unwrap_or(mark as usize % KINDS);
        self.0[at] = (mark, number);
    }
}

/// The places of a mark.
#[inline]
fn places(mark: u64) -> impl Iterator<Item = usize> {
    (0..PROBES).map(move |probe| (mark as usize).wrapping_add(probe) % KINDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_types_whose_marks_want_one_place_are_all_at_hand() {
        let mut kinds = Kinds::default();
        assert_eq!((kinds.get(0), kinds.get(5)), (None, None));
        let marks = (0..PROBES as u64).map(|number| 5 + number * KINDS as u64);
        for (number, mark) in marks.clone().enumerate() {
            assert_eq!(kinds.get(mark), None);
            kinds.put(mark, 16 + number as u16);
            kinds.put(mark, 16 + number as u16);
        }
        for (number, mark) in marks.enumerate() {
            assert_eq!(kinds.get(mark), Some(16 + number as u16));
        }
        // One more takes a place, and the others stay.
        let more = 5 + (PROBES * KINDS) as u64;
        kinds.put(more, 99);
        assert_eq!((kinds.get(more), kinds.get(5)), (Some(99), None));
        assert_eq!(kinds.get(5 + KINDS as u64), Some(17));
    }

    #[test]
    fn what_is_known_is_of_one_object_and_one_type_until_it_is_forgotten() {
        let mut known = Known::default();
        assert_eq!(known.get(0, 0), None);
        known.put(7, 1, 16);
        assert_eq!((known.get(7, 1), known.get(7, 2), known.get(8, 1)), (Some(16), None, None));
        known.clear();
        assert_eq!(known.get(7, 1), None);
    }
}
