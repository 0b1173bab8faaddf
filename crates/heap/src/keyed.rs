//! Values by a number, of which a transaction has few: kept from one to the next, and emptied in one step, whatever they were.
//!
//! The values stand in the order in which they came; a table by hashes says where. A place of the table is of one round, and emptying it begins
//! another: so it is not written, as that of a hash map is.

/// A larger table is not kept.
const PLACES_MAX: usize = 1 << 12;

/// Places of the first table; a power of two, as of all.
const FIRST: usize = 32;

/// The values.
#[derive(Clone)]
pub(crate) struct Keyed<V> {
    /// Each behind its number; `None`: it was removed.
    all: Vec<(u64, Option<V>)>,
    /// How many of these are there.
    len: usize,
    /// At most half of them are taken, so that a search ends.
    places: Vec<Place>,
    round: u32,
}

/// Which of the values has its number here, if it is of this round.
#[derive(Clone, Copy, Default)]
struct Place {
    round: u32,
    at: u32,
}

impl<V> Default for Keyed<V> {
    fn default() -> Self {
        Keyed { all: Vec::new(), len: 0, places: Vec::new(), round: 1 }
    }
}

impl<V> Keyed<V> {
    /// Where a number stands among the values.
    #[inline]
    fn find(&self, number: u64) -> Option<usize> {
        let mut place = self.first(number)?;
        loop {
            let Place { round, at } = self.places[place];
            if round != self.round {
                return None;
            }
            if self.all[at as usize].0 == number {
                return Some(at as usize);
            }
            place = (place + 1) & (self.places.len() - 1);
        }
    }

    /// The place at which a search begins; `None`: there is no table.
    #[inline]
    fn first(&self, number: u64) -> Option<usize> {
        let bits = self.places.len().checked_ilog2()?;
        Some((number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize)
    }

    /// Where a number stands among the values, or will: an empty place is made for one that is not there.
    #[inline]
    fn find_or_add(&mut self, number: u64) -> usize {
        if let Some(at) = self.find(number) {
            return at;
        }
        if 2 * self.all.len() >= self.places.len() {
            self.grow();
        }
        let at = self.all.len();
        self.all.push((number, None));
        self.enter(number, at);
        at
    }

    fn enter(&mut self, number: u64, at: usize) {
        let Some(mut place) = self.first(number) else { return };
        while self.places[place].round == self.round {
            place = (place + 1) & (self.places.len() - 1);
        }
        self.places[place] = Place { round: self.round, at: at as u32 };
    }

    #[cold]
    fn grow(&mut self) {
        let larger = (2 * self.places.len()).max(FIRST);
        self.places.clear();
        self.places.resize(larger, Place::default());
        self.round = 1;
        for at in 0..self.all.len() {
            self.enter(self.all[at].0, at);
        }
    }

    #[inline]
    pub(crate) fn get(&self, number: u64) -> Option<&V> {
        self.all[self.find(number)?].1.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut V> {
        let at = self.find(number)?;
        self.all[at].1.as_mut()
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        self.get(number).is_some()
    }

    /// Gives a number a value; the one before.
    #[inline]
    pub(crate) fn insert(&mut self, number: u64, value: V) -> Option<V> {
        let at = self.find_or_add(number);
        let before = self.all[at].1.replace(value);
        self.len += usize::from(before.is_none());
        before
    }

    /// The value of a number, made if there is none.
    #[inline]
    pub(crate) fn or_default(&mut self, number: u64) -> &mut V
    where
        V: Default,
    {
        let at = self.find_or_add(number);
        let place = &mut self.all[at].1;
        self.len += usize::from(place.is_none());
        place.get_or_insert_default()
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<V> {
        let at = self.find(number)?;
        let removed = self.all[at].1.take();
        self.len -= usize::from(removed.is_some());
        removed
    }

    /// Removes all numbers that `stays` does not name.
    pub(crate) fn retain(&mut self, stays: impl Fn(u64) -> bool) {
        for (number, value) in &mut self.all {
            if value.is_some() && !stays(*number) {
                *value = None;
                self.len -= 1;
            }
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// All of them, in the order in which their numbers came.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &V)> {
        self.all.iter().filter_map(|(number, value)| Some((*number, value.as_ref()?)))
    }

    /// No values.
    #[inline]
    pub(crate) fn clear(&mut self) {
        if self.all.is_empty() {
            return;
        }
        self.all.clear();
        self.len = 0;
        if self.places.len() > PLACES_MAX || self.round == u32::MAX {
            *self = Keyed::default();
        } else {
            self.round += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn it_holds_what_a_map_of_the_standard_library_does_round_after_round() {
        let (mut keyed, mut model) = (Keyed::default(), BTreeMap::new());
        let mut state = 7_u64;
        for step in 0..20_000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = (state >> 40) % 300 * 8;
            match (state >> 33) % 100 {
                0..60 => assert_eq!(keyed.insert(number, step), model.insert(number, step)),
                60..75 => {
                    *keyed.or_default(number) += 1;
                    *model.entry(number).or_default() += 1;
                }
                75..98 => assert_eq!(keyed.remove(number), model.remove(&number)),
                98 => {
                    keyed.retain(|number| number % 16 == 0);
                    model.retain(|number, _| number % 16 == 0);
                }
                _ if step % 3 == 0 => {
                    keyed.clear();
                    model.clear();
                }
                _ => {}
            }
            assert_eq!(keyed.get(number), model.get(&number));
            assert_eq!((keyed.len(), keyed.is_empty()), (model.len(), model.is_empty()));
        }
        let mut all: Vec<(u64, u64)> =
            keyed.iter().map(|(number, value)| (number, *value)).collect();
        all.sort_unstable();
        assert_eq!(all, model.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn what_was_emptied_is_forgotten_also_when_rounds_end() {
        let mut keyed = Keyed::default();
        keyed.insert(8, 1);
        keyed.round = u32::MAX;
        keyed.clear();
        assert_eq!((keyed.get(8), keyed.round), (None, 1));
        for number in 0..10_000 {
            keyed.insert(number, number);
        }
        keyed.clear();
        assert!(keyed.places.is_empty(), "a large table is not kept");
    }
}
