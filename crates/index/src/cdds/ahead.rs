//! Looking ahead: the ways to several keys walked side by side, one level at a time, so that what
//! each would wait for in memory comes for all of them at once.
//!
//! Only a hint. Nothing is kept of what is found here, and whatever is met half-way, a change by the
//! writer or damage, ends the walk of that key: who looks for it then will see for himself.

use tembo_pmem::{LINE, prefetch};
use tembo_pool::Object;

use super::Cdds;
use super::node::Node;
use crate::{Error, View};

/// Keys whose ways are walked side by side. Processors wait for about so many lines at once.
const ABREAST: usize = 16;
/// Lines of a record that are asked for; of those that follow the processor thinks itself.
const RECORD_LINES: usize = 4;

/// How far the walk to a key is.
struct Walk<'k, 'f> {
    key: &'k [u8],
    node: Node<'f>,
    /// The head to look for in `node`, and the first position in its order that may have it.
    wanted: u64,
    first: usize,
}

impl Cdds {
    pub(crate) fn look_ahead(&self, keys: &[&[u8]], view: View<'_>) {
        for keys in keys.chunks(ABREAST) {
            // Of errors tells whoever reads the key itself.
            let _ = self.walk_abreast(keys, view);
        }
    }

    fn walk_abreast(&self, keys: &[&[u8]], view: View<'_>) -> Result<(), Error> {
        let node = self.root(view)?;
        let begin = |key| Walk { key, node, wanted: 0, first: 0 };
        let mut walks: Vec<_> = keys.iter().copied().map(begin).collect();
        for _ in 0..node.order()?.0.level {
            walks.retain_mut(|walk| walk.find_entry().is_ok());
            walks.retain_mut(|walk| walk.descend(view).unwrap_or(false));
        }
        walks.retain_mut(|walk| walk.find_entry().is_ok());
        walks.iter().try_for_each(|walk| walk.find_record(view))
    }
}

impl Walk<'_, '_> {
    /// Finds the entry in the node, and asks for it.
    #[inline]
    fn find_entry(&mut self) -> Result<(), Error> {
        let (order, _) = self.node.order()?;
        (self.wanted, _) = self.node.wanted(&order, self.key)?;
        self.first = self.node.lower_bound(self.wanted);
        let live = (self.first..order.len()).find(|&at| !order.is_over(order.slot(at), u64::MAX));
        if let Some(position) = live {
            prefetch(self.node.entry(order.slot(position))?);
        }
        if order.level == 0 {
            prefetch(self.node.entry(order.next_slot(self.node.capacity()))?);
        }
        Ok(())
    }

    /// Goes on to the child, and asks for its side-car; false if there is none.
    #[inline]
    fn descend(&mut self, view: View<'_>) -> Result<bool, Error> {
        let (order, sequence) = self.node.order()?;
        let sought = (Some(self.key), self.wanted);
        let found = self.node.child_from(self.first, (&order, sequence), sought, view)?;
        let Some(position) = found else { return Ok(false) };
        let child = Object::from_bits(self.node.seen(order.slot(position))?.target);
        self.node = Node::new(self.node.forest, child)?;
        self.node.side.prefetch();
        Ok(true)
    }

    /// Asks for the record of the entry.
    #[inline]
    fn find_record(&self, view: View<'_>) -> Result<(), Error> {
        let (order, _) = self.node.order()?;
        for slot in (self.first..order.len()).map(|position| order.slot(position)) {
            if self.node.side.head(slot) != self.wanted {
                return Ok(());
            }
            if order.is_over(slot, view.version) {
                continue;
            }
            let record = Object::from_bits(self.node.seen(slot)?.target);
            let bytes = self.node.forest.region().bytes(record.offset(), record.size())?;
            bytes.chunks(LINE as usize).take(RECORD_LINES).for_each(|line| prefetch(&line[0]));
        }
        Ok(())
    }
}
