//! The objects that a compaction has looked into, and where the pointers to those stand that are to be moved. In memory only.
//!
//! It is made beside transactions, so that a place may be wrong when it is used: it is looked at again then. What it must know by itself is
//! which objects are gone, because their space is another's.

use rustc_hash::FxHashMap;

/// No place.
const NONE: u32 = u32::MAX;

/// A pointer to an object that is to be moved.
struct Place {
    /// Another one to the same object.
    next: u32,
    /// The number of the object in which it stands, and its word there.
    from: u32,
    at: u32,
}

/// The index.
#[derive(Default)]
pub(crate) struct Index {
    /// The objects' bits by number; 0: it is gone.
    objects: Vec<u64>,
    numbers: FxHashMap<u64, u32>,
    /// Numbers of objects that are to be looked into.
    gray: Vec<u32>,
    places: Vec<Place>,
    /// The last place of each object that is to be moved.
    last: FxHashMap<u32, u32>,
    /// These objects, in the order in which they were found.
    leaving: Vec<u32>,
}

impl Index {
    /// An object that is reachable; its number. `None`: there are more than can be numbered.
    pub(crate) fn meet(&mut self, bits: u64, leaves: bool) -> Option<u32> {
        if let Some(&number) = self.numbers.get(&bits) {
            return Some(number);
        }
        let number = u32::try_from(self.objects.len()).ok().filter(|number| *number != NONE)?;
        self.objects.push(bits);
        self.numbers.insert(bits, number);
        self.gray.push(number);
        if leaves {
            self.last.insert(number, NONE);
            self.leaving.push(number);
        }
        Some(number)
    }

    /// An object that is to be looked into, and is so by the caller: its number, and its bits.
    pub(crate) fn next(&mut self) -> Option<(u32, u64)> {
        loop {
            let number = self.gray.pop()?;
            let bits = self.objects[number as usize];
            if bits != 0 {
                return Some((number, bits));
            }
        }
    }

    /// A pointer to an object stands there. Nothing is noted of one that is not to be moved.
    pub(crate) fn refer(&mut self, from: u32, at: u64, to: u32) {
        let (Some(last), Ok(at)) = (self.last.get_mut(&to), u32::try_from(at)) else { return };
        let Ok(place) = u32::try_from(self.places.len()) else { return };
        self.places.push(Place { next: std::mem::replace(last, place), from, at });
    }

    /// Another object that is to be moved, and is by the caller: its number, and its bits.
    pub(crate) fn pop_leaving(&mut self) -> Option<(u32, u64)> {
        loop {
            let number = self.leaving.pop()?;
            let bits = self.objects[number as usize];
            if bits != 0 {
                return Some((number, bits));
            }
        }
    }

    /// Places of an object that is to be moved: the objects in which they stand, as they are called now, and the words.
    pub(crate) fn places(&self, number: u32) -> impl Iterator<Item = (u64, usize)> {
        let mut at = self.last.get(&number).copied().unwrap_or(NONE);
        std::iter::from_fn(move || {
            loop {
                let place = self.places.get(at as usize)?;
                at = place.next;
                let bits = self.objects[place.from as usize];
                if bits != 0 {
                    return Some((bits, place.at as usize));
                }
            }
        })
    }

    /// An object has moved.
    pub(crate) fn moved(&mut self, number: u32, to: u64) {
        let before = std::mem::replace(&mut self.objects[number as usize], to);
        self.numbers.remove(&before);
        self.numbers.insert(to, number);
    }

    /// An object is destroyed.
    pub(crate) fn remove(&mut self, bits: u64) {
        if let Some(number) = self.numbers.remove(&bits) {
            self.objects[number as usize] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_follow_their_objects_and_go_with_them() {
        let mut index = Index::default();
        let numbers: Vec<u32> =
            [10, 20, 30].iter().map(|bits| index.meet(*bits, *bits == 20).unwrap()).collect();
        index.refer(numbers[0], 2, numbers[1]);
        index.refer(numbers[2], 3, numbers[1]);
        index.refer(numbers[2], 4, numbers[0]);
        let places = |index: &Index| index.places(numbers[1]).collect::<Vec<_>>();
        assert_eq!(places(&index), [(30, 3), (10, 2)]);
        index.moved(numbers[0], 11);
        assert_eq!(places(&index), [(30, 3), (11, 2)]);
        // What is made in the place of another is another, and is looked into for itself.
        index.remove(30);
        let again = index.meet(30, false).unwrap();
        assert!(again != numbers[2]);
        assert_eq!(places(&index), [(11, 2)]);
        let gray: Vec<(u32, u64)> = std::iter::from_fn(|| index.next()).collect();
        assert_eq!(gray, [(again, 30), (numbers[1], 20), (numbers[0], 11)]);
        index.remove(20);
        assert_eq!(index.pop_leaving(), None);
    }
}
