//! Values by number, to which some are added and from which none goes: they are read without a lock.

use std::sync::OnceLock;

/// Parts, of which each has room for twice as many values as the one before: a value stays where it is.
const PARTS: usize = 16;

/// The values.
pub(crate) struct Appended<T> {
    parts: [OnceLock<Box<[OnceLock<T>]>>; PARTS],
}

impl<T> Default for Appended<T> {
    fn default() -> Self {
        Appended { parts: std::array::from_fn(|_| OnceLock::new()) }
    }
}

/// The part of a number, and the place in it.
fn place(number: usize) -> (usize, usize) {
    let number = number.saturating_add(1);
    let part = number.ilog2() as usize;
    (part, number - (1 << part))
}

impl<T> Appended<T> {
    /// The value of a number, if there is one.
    #[inline]
    pub(crate) fn get(&self, number: usize) -> Option<&T> {
        let (part, at) = place(number);
        self.parts.get(part)?.get()?.get(at)?.get()
    }

    /// Adds a value, unless there is one of that number, or no room for it; whether it did.
    pub(crate) fn add(&self, number: usize, value: T) -> bool {
        let (part, at) = place(number);
        let Some(values) = self.parts.get(part) else { return false };
        let values = values.get_or_init(|| (0..1 << part).map(|_| OnceLock::new()).collect());
        values[at].set(value).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_by_its_number_and_stays() {
        let values = Appended::default();
        assert_eq!(values.get(0), None);
        assert!((0..1000).all(|number| values.add(number, 7 * number)));
        let first: &usize = values.get(0).unwrap();
        assert!(!values.add(5, 0), "there is one");
        assert!((0..1000).all(|number| values.get(number) == Some(&(7 * number))));
        assert_eq!((values.get(1000), *first), (None, 0));
        assert!(values.add((1 << PARTS) - 2, 1), "the last for which there is room");
        assert!(!values.add((1 << PARTS) - 1, 1) && !values.add(usize::MAX, 1));
        assert_eq!(values.get(usize::MAX), None);
    }
}
