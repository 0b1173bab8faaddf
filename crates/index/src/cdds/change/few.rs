//! At most two values, without an allocation. One operation changes no more entries of one node.

/// None, one or two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Few<T>([Option<T>; 2]);

impl<T: Copy> Few<T> {
    /// None.
    pub(crate) const fn none() -> Few<T> {
        Few([None, None])
    }

    /// One.
    pub(crate) const fn one(only: T) -> Few<T> {
        Few([Some(only), None])
    }

    /// The first, and the second if there is one.
    pub(crate) const fn and(first: T, second: Option<T>) -> Few<T> {
        Few([Some(first), second])
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.iter().count()
    }

    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = T> + use<T> {
        self.0.into_iter().flatten()
    }

    /// The one, if there is one only.
    #[inline]
    pub(crate) fn only(&self) -> Option<T> {
        match self.0 {
            [Some(only), None] => Some(only),
            _ => None,
        }
    }
}
