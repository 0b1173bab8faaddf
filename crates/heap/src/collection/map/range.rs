//! The keys of an ordered map, one after another, from both ends.

use std::cmp::Ordering;
use std::ops::{
    Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive,
};

use super::node::{Link, MapNode, NodeRef, deeper, without_key};
use crate::{Error, Field, Layer, Persist, View};

/// A range of keys: `..`, or a range between what stands for bytes, as `"a".."c"` or `from..=to`.
pub trait KeyRange {
    /// Where it begins, and where it ends.
    fn key_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>);
}

impl KeyRange for RangeFull {
    fn key_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

macro_rules! key_range {
    ($($range:ty),*) => {$(
        impl<K: AsRef<[u8]>> KeyRange for $range {
            fn key_bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
                let (from, to) = (RangeBounds::<K>::start_bound(self), RangeBounds::<K>::end_bound(self));
                (from.map(AsRef::as_ref), to.map(AsRef::as_ref))
            }
        }
    )*};
}

key_range!(
    Range<K>,
    RangeFrom<K>,
    RangeInclusive<K>,
    RangeTo<K>,
    RangeToInclusive<K>,
    (Bound<K>, Bound<K>)
);

/// To which end it goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// To greater keys.
    Up,
    /// To lesser ones.
    Down,
}

impl Way {
    /// Below a node: what comes before it on this way, and what comes behind it.
    fn sides<'h, V: Persist<'h>>(self) -> [Field<MapNode<'h, V>, Link<'h, V>>; 2] {
        match self {
            Way::Up => [MapNode::LEFT, MapNode::RIGHT],
            Way::Down => [MapNode::RIGHT, MapNode::LEFT],
        }
    }

    fn back(self) -> Way {
        match self {
            Way::Up => Way::Down,
            Way::Down => Way::Up,
        }
    }

    /// How a key stands to another one on this way, of which that is the order.
    fn of(self, order: Ordering) -> Ordering {
        match self {
            Way::Up => order,
            Way::Down => order.reverse(),
        }
    }
}

/// How far it has come on a way.
struct Progress<'v, 'h, V> {
    /// The nodes that are to come, each with what is behind it, the next one last; `None`: it has not begun.
    path: Option<Vec<NodeRef<'v, 'h, V>>>,
    /// The last one that came.
    last: Option<NodeRef<'v, 'h, V>>,
}

/// Keys of a range with their values.
pub(super) struct Pairs<'v, 'h, V, L: Layer> {
    view: View<'v, 'h, L>,
    root: Option<NodeRef<'v, 'h, V>>,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    up: Progress<'v, 'h, V>,
    down: Progress<'v, 'h, V>,
    /// How many can come: more than the map has, only a damaged one has.
    most: u64,
    is_done: bool,
}

impl<'v, 'h, V: Persist<'h>, L: Layer> Pairs<'v, 'h, V, L> {
    /// Those of the tree below a root, which has `most` keys.
    pub(super) fn new(
        view: View<'v, 'h, L>,
        (root, most): (Option<NodeRef<'v, 'h, V>>, u64),
        (from, to): (Bound<&[u8]>, Bound<&[u8]>),
    ) -> Self {
        let (from, to) = (from.map(<[u8]>::to_vec), to.map(<[u8]>::to_vec));
        let [up, down] = [(); 2].map(|()| Progress { path: None, last: None });
        Pairs { view, root, from, to, up, down, most, is_done: false }
    }

    fn progress(&mut self, way: Way) -> &mut Progress<'v, 'h, V> {
        match way {
            Way::Up => &mut self.up,
            Way::Down => &mut self.down,
        }
    }

    /// The nodes at the start of a way.
    fn begin(&mut self, way: Way) -> Result<Vec<NodeRef<'v, 'h, V>>, Error> {
        let (mut path, mut at, mut depth) = (Vec::new(), self.root, 0);
        let [before, behind] = way.sides();
        while let Some(node) = at {
            depth = deeper(depth, node.offset())?;
            let seen = self.view.look(node)?;
            let (near, far) = (seen.follow(before)?, seen.follow(behind)?);
            let key = seen.follow(MapNode::KEY)?.ok_or_else(|| without_key(node))?;
            let start = if way == Way::Up { &self.from } else { &self.to };
            let has_begun = match start {
                Bound::Unbounded => true,
                Bound::Included(start) => way.of(self.view.compare(key, start)?).is_ge(),
                Bound::Excluded(start) => way.of(self.view.compare(key, start)?).is_gt(),
            };
            if has_begun {
                path.push(node);
            }
            at = if has_begun { near } else { far };
        }
        Ok(path)
    }

    /// Whether a way has come behind its last key.
    fn is_behind(&self, way: Way, key: &[u8]) -> bool {
        let end = if way == Way::Up { &self.to } else { &self.from };
        match end {
            Bound::Unbounded => false,
            Bound::Included(end) => way.of(key.cmp(end)).is_gt(),
            Bound::Excluded(end) => way.of(key.cmp(end)).is_ge(),
        }
    }

    /// The next pair on a way, unless it comes to what the other way has passed, or to its end.
    fn step(&mut self, way: Way) -> Result<Option<(Vec<u8>, V)>, Error> {
        let mut path = match self.progress(way).path.take() {
            Some(path) => path,
            None => self.begin(way)?,
        };
        let Some(node) = path.pop() else { return Ok(None) };
        if self.progress(way.back()).last.is_some_and(|last| last.is(&node)) {
            return Ok(None);
        }
        let damaged = Error::Damaged { what: "the number of keys of a map", offset: node.offset() };
        self.most = self.most.checked_sub(1).ok_or(damaged)?;
        let [before, behind] = way.sides();
        let mut seen = self.view.look(node)?;
        let (key, mut at) = (seen.follow(MapNode::KEY)?, seen.follow(behind)?);
        let value = seen.get(MapNode::VALUE)?;
        let key = self.view.bytes(key.ok_or_else(|| without_key(node))?)?;
        if self.is_behind(way, &key) {
            return Ok(None);
        }
        while let Some(next) = at {
            deeper(path.len() as u32, next.offset())?;
            at = self.view.follow(next, before)?;
            path.push(next);
        }
        *self.progress(way) = Progress { path: Some(path), last: Some(node) };
        Ok(Some((key, value)))
    }

    fn advance(&mut self, way: Way) -> Option<Result<(Vec<u8>, V), Error>> {
        if self.is_done {
            return None;
        }
        let pair = self.step(way).transpose();
        self.is_done = !matches!(pair, Some(Ok(_)));
        pair
    }
}

impl<'h, V: Persist<'h>, L: Layer> Iterator for Pairs<'_, 'h, V, L> {
    type Item = Result<(Vec<u8>, V), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance(Way::Up)
    }
}

impl<'h, V: Persist<'h>, L: Layer> DoubleEndedIterator for Pairs<'_, 'h, V, L> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.advance(Way::Down)
    }
}
