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
const KINDS: usize = 16;

/// The numbers of the types that were looked at last, by their [marks](crate::persist::Expected). They stay, as long as the heap is the same.
#[derive(Default)]
pub(crate) struct Kinds([(u64, u16); KINDS]);

impl Kinds {
    #[inline]
    pub(crate) fn get(&self, mark: u64) -> Option<u16> {
        let (found, number) = self.0[mark as usize % KINDS];
        // The numbers of types begin above 0.
        (found == mark && number != 0).then_some(number)
    }

    pub(crate) fn put(&mut self, mark: u64, number: u16) {
        self.0[mark as usize % KINDS] = (mark, number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_at_hand_until_another_type_has_its_place() {
        let mut kinds = Kinds::default();
        assert_eq!((kinds.get(0), kinds.get(5)), (None, None));
        kinds.put(5, 16);
        assert_eq!((kinds.get(5), kinds.get(5 + KINDS as u64)), (Some(16), None));
        kinds.put(5 + KINDS as u64, 17);
        assert_eq!((kinds.get(5), kinds.get(5 + KINDS as u64)), (None, Some(17)));
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
