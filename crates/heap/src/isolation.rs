//! What keeps transactions apart that run side by side: each sees one state of the heap, and owns what it changes.

use tembo_pool::Object;

use crate::Error;
use crate::access::{Access, Company};
use crate::handles::Released;
use crate::layer::Layer;
use crate::ownership::Ownership;

impl<L: Layer> Access<'_, L> {
    /// Before words of an object are read: the version that they have.
    #[inline]
    pub(crate) fn look(&mut self, bits: u64) -> Result<Option<u64>, Error> {
        if self.company == Company::Alone {
            return Ok(None);
        }
        let index = Ownership::index(bits);
        if self.notes.owned.contains(index) {
            // Another one may have made the object since: one of its records, and not what this one has changed.
            if self.arena.ownership.version_of_own(index) > self.start {
                self.extend()?;
            }
            return Ok(None);
        }
        if self.notes.change.is_fresh(bits) {
            return Ok(None);
        }
        let Some(version) = self.arena.ownership.version(index) else { return self.conflict() };
        if version > self.start {
            self.extend()?;
        }
        Ok(Some(version))
    }

    /// After they were read.
    #[inline]
    pub(crate) fn look_again(&mut self, bits: u64, version: Option<u64>) -> Result<(), Error> {
        let Some(version) = version else { return Ok(()) };
        let index = Ownership::index(bits);
        if !self.arena.ownership.is_still(index, version) {
            return self.conflict();
        }
        self.notes.read.insert(index, version);
        Ok(())
    }

    /// The transaction sees a newer version of the heap, in which all that it has read is the same.
    pub(crate) fn extend(&mut self) -> Result<(), Error> {
        let now = self.arena.ownership.now();
        self.validate()?;
        self.start = now;
        // In the space of what it has seen and dropped there may be objects of another version of their type.
        self.notes.known.clear();
        Ok(())
    }

    /// What it has read is the same.
    pub(crate) fn validate(&mut self) -> Result<(), Error> {
        let (read, owned) = (&self.notes.read, &self.notes.owned);
        // A record that it owns had a version then that the transaction could see: so it was the one that was read.
        let is_valid = read
            .iter()
            .filter(|(index, _)| !owned.contains(*index))
            .all(|(index, version)| self.arena.ownership.version(index) == Some(version));
        if is_valid { Ok(()) } else { self.conflict() }
    }

    /// Validates, if another has committed since the transaction began, or since it did so last. The caller has locked the ledger, so
    /// that none does. Then the clock says that this one begins: see [`view`](crate::view).
    pub(crate) fn validate_last(&mut self) -> Result<(), Error> {
        if self.arena.ownership.now() != self.start {
            self.validate()?;
        }
        self.arena.ownership.next();
        Ok(())
    }

    /// Owns an object that it will change, and keeps it.
    pub(crate) fn own(&mut self, bits: u64) -> Result<(), Error> {
        self.check_whole(bits)?;
        if self.notes.change.is_fresh(bits) {
            return Ok(());
        }
        if bits != self.arena.root() {
            self.keep(bits);
        }
        let index = Ownership::index(bits);
        if self.company == Company::Alone || self.notes.owned.contains(index) {
            return Ok(());
        }
        let Some(version) = self.arena.ownership.version(index) else { return self.conflict() };
        if version > self.start {
            self.extend()?;
        }
        if !self.arena.ownership.take(index, version) {
            return self.conflict();
        }
        self.notes.owned.insert(index, version);
        Ok(())
    }

    /// Nothing destroys an object before the commit.
    pub(crate) fn keep(&mut self, bits: u64) {
        // One that it makes is kept by that.
        if !L::COUNTS || self.notes.change.is_fresh(bits) {
            return;
        }
        if self.notes.kept.insert(bits, ()).is_none() && !self.arena.handles.acquire(bits) {
            self.notes.kept.remove(bits);
        }
    }

    pub(crate) fn release_kept(&mut self) {
        let arena = self.arena;
        self.notes.kept.iter().for_each(|(bits, ())| arena.release(bits));
        self.notes.kept.clear();
    }

    /// Nothing of what it would change is made.
    pub(crate) fn take_back(&mut self) {
        self.release_kept();
        for (index, _) in self.notes.owned.iter() {
            self.arena.ownership.give_back(index);
        }
        self.notes.owned.clear();
        let mut made = std::mem::take(&mut self.notes.made);
        if L::COUNTS {
            for &bits in &made {
                if self.arena.handles.settle(bits, false) == Released::Void {
                    self.arena.pool.free_unused(Object::from_bits(bits));
                }
            }
        } else {
            self.hand.take_back(&made);
        }
        made.clear();
        self.notes.made = made;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Heap, HeapFile, Persist, PoolOptions, Ptr};

    #[derive(Persist)]
    struct Node<'h> {
        value: u64,
        next: Option<Ptr<'h, Node<'h>>>,
    }

    /// What an attempt has seen of the root, and of the object that another thread has made meanwhile, with the number of attempts.
    fn seen<'h>(heap: Heap<'h>, owned: Option<&Ptr<'h, Node<'h>>>) -> (u64, u64, u32) {
        let root = heap.root_or::<_, Error>(|_| Ok(Node { value: 0, next: None })).unwrap();
        let wanted = owned.map(|owned| Ownership::index(owned.anchor().bits()));
        assert_ne!(wanted, Some(Ownership::index(root.anchor().bits())), "other commits go on");
        // Commits, as another thread, a new object, of that record if there is one, and a change of the root.
        let make = || {
            let made = heap.atomic(|tx| {
                let (mut made, mut others) = (tx.alloc(Node { value: 1, next: None })?, Vec::new());
                while wanted.is_some_and(|wanted| Ownership::index(made.anchor().bits()) != wanted)
                {
                    others.push(std::mem::replace(
                        &mut made,
                        tx.alloc(Node { value: 1, next: None })?,
                    ));
                }
                tx.set(&root, Node::VALUE, 1)?;
                tx.set(&root, Node::NEXT, Some(made.clone()))?;
                Ok::<_, Error>(made)
            });
            made.unwrap()
        };
        let (mut attempts, mut made) = (0, None);
        let values = heap.atomic(|tx| {
            attempts += 1;
            let count = tx.get(&root, Node::VALUE)?;
            if let Some(owned) = owned {
                // It is owned, and nothing is changed.
                let value = tx.get(owned, Node::VALUE)?;
                tx.set(owned, Node::VALUE, value)?;
            }
            let made = made.get_or_insert_with(|| {
                std::thread::scope(|scope| scope.spawn(make).join()).unwrap()
            });
            Ok::<_, Error>((count, tx.get(made, Node::VALUE)?))
        });
        let (count, value) = values.unwrap();
        (count, value, attempts)
    }

    fn file() -> HeapFile {
        HeapFile::volatile(&PoolOptions { size: 4 << 20, ..PoolOptions::default() }).unwrap()
    }

    #[test]
    fn a_new_object_of_another_thread_is_seen_with_the_state_that_has_it() {
        file().enter(|heap| assert_eq!(seen(heap, None), (1, 1, 2)));
    }

    #[test]
    #[cfg_attr(miri, ignore = "makes thousands of objects")]
    fn a_new_object_of_a_record_that_is_owned_is_seen_with_the_state_that_has_it() {
        file().enter(|heap| {
            let owned = heap.atomic(|tx| tx.alloc(Node { value: 0, next: None })).unwrap();
            assert_eq!(seen(heap, Some(&owned)), (1, 1, 2));
        });
    }

    #[test]
    fn a_record_keeps_the_version_of_what_was_made_while_it_was_owned() {
        let ownership = Ownership::new();
        assert!(ownership.take(5, 0) && !ownership.take(5, 0));
        ownership.raise(5, 3);
        assert_eq!((ownership.version(5), ownership.version_of_own(5)), (None, 3));
        ownership.give_back(5);
        assert_eq!((ownership.version(5), ownership.is_still(5, 0)), (Some(3), false));
        assert!(ownership.take(5, 3));
        ownership.give(5, 4);
        assert_eq!(ownership.version(5), Some(4));
    }
}
