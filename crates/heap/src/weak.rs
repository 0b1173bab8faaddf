//! Weak pointers: made, and followed.

use crate::Error;
use crate::access::Access;
use crate::format::{HEAD, PROXY, PROXY_TARGET, PROXY_WORDS, TYPE_PROXY, kind_of};
use crate::layer::Counted;
use crate::persist::Object;
use crate::pointer::{Anchor, Ptr, Weak};

impl<'h, L: Counted> Access<'h, L> {
    /// A weak pointer to an object.
    ///
    /// # Errors
    /// As [`read`](Access::read); [`Error::Pool`]: full.
    pub fn downgrade<T: Object<'h>>(&mut self, object: &Ptr<'h, T>) -> Result<Weak<'h, T>, Error> {
        self.check_type(object)?;
        let bits = object.anchor().bits();
        self.own(bits)?;
        loop {
            let proxy = self.notes.change.get(self.arena, bits, PROXY)?;
            if proxy == 0 {
                break;
            }
            if self.arena.handles.acquire(proxy) {
                let weak = Weak::of(Anchor::counted(self.arena, proxy));
                // The last weak pointer may have gone before this one was counted, and the proxy with it.
                if self.notes.change.get(self.arena, bits, PROXY)? == proxy {
                    return Ok(weak);
                }
            }
            std::thread::yield_now();
        }
        let mut words = vec![0; PROXY_WORDS];
        words[PROXY_TARGET] = bits;
        let proxy = self.make(TYPE_PROXY, words)?;
        self.notes.change.set(bits, PROXY, proxy.bits());
        Ok(Weak::of(proxy))
    }

    /// The object of a weak pointer, if it is there still. What is answered here is not validated at the commit.
    ///
    /// # Errors
    /// [`Error::WrongType`], [`Error::NotCommitted`], [`Error::Damaged`].
    pub fn upgrade<T: Object<'h>>(
        &mut self,
        weak: &Weak<'h, T>,
    ) -> Result<Option<Ptr<'h, T>>, Error> {
        let proxy = weak.anchor().bits();
        self.check_whole(proxy)?;
        if kind_of(self.notes.change.get(self.arena, proxy, HEAD)?) != TYPE_PROXY {
            return Err(Error::Damaged { what: "a weak pointer", offset: proxy });
        }
        let target = loop {
            let target = self.notes.change.get(self.arena, proxy, PROXY_TARGET)?;
            if target == 0 {
                return Ok(None);
            }
            if self.arena.handles.acquire(target) {
                break target;
            }
            // A commit is about to destroy it, and may fail: then it is there still.
            std::thread::yield_now();
        };
        let object: Ptr<'h, T> = Ptr::of(Anchor::counted(self.arena, target));
        if self.notes.change.get(self.arena, proxy, PROXY_TARGET)? != target {
            return Ok(None);
        }
        self.check_type(&object)?;
        Ok(Some(object))
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use tembo_pmem::{Observer, RegionOptions, Stored};

    use crate::{Error, HeapFile, PoolOptions, Ptr, Weak};

    /// Longer than anything takes that ends.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// A commit that fails, as where the pool is full, destroys nothing.
    #[test]
    fn an_object_that_a_failing_commit_was_to_destroy_is_there_for_weak_pointers() {
        let options = PoolOptions { size: 16 << 20, ..PoolOptions::default() };
        HeapFile::volatile(&options)
            .unwrap()
            .enter(|heap| {
                type Root<'h> = (Ptr<'h, u64>, Weak<'h, u64>);
                let root = heap.root_or::<Root<'_>, Error>(|tx| {
                    let object = tx.alloc(7_u64)?;
                    let weak = tx.downgrade(&object)?;
                    Ok((object, weak))
                })?;
                let weak = heap.atomic(|tx| Ok::<_, Error>(tx.read(&root)?.1))?;
                let (begun, ended) = (AtomicBool::new(false), AtomicBool::new(false));
                let (arena, bits) = heap
                    .atomic(|tx| Ok::<_, Error>((tx.arena, tx.read(&root)?.0.anchor().bits())))?;
                assert!(arena.handles.doom(bits), "no pointer of the program is left");
                let value = std::thread::scope(|scope| {
                    let other = scope.spawn(|| {
                        heap.atomic(|tx| {
                            begun.store(true, Ordering::SeqCst);
                            let object = tx.upgrade(&weak)?;
                            ended.store(true, Ordering::SeqCst);
                            object.map(|object| tx.read(&object)).transpose()
                        })
                    });
                    while !begun.load(Ordering::SeqCst) {
                        std::thread::yield_now();
                    }
                    // It waits however long this lasts; each of these gives it the chance not to.
                    for _ in 0..20_000 {
                        std::thread::yield_now();
                    }
                    let had_ended = ended.load(Ordering::SeqCst);
                    arena.handles.end_doom(bits, false);
                    assert!(!had_ended, "what becomes of the object is not known");
                    other.join().unwrap()
                });
                assert_eq!(value?, Some(7));
                Ok::<_, Error>(())
            })
            .unwrap();
    }

    /// Panics, once, where a commit has written a new object.
    #[derive(Default)]
    struct Panics(AtomicBool);

    impl Observer for Panics {
        fn load(&self, _: u64, _: u64) {}

        fn store(&self, _: Stored<'_>, perform: &mut dyn FnMut()) {
            perform();
        }

        fn flush(&self, name: &'static str, _: u64, _: u64) {
            let panics = name == "heap.object.write" && self.0.swap(false, Ordering::SeqCst);
            assert!(!panics, "on purpose");
        }

        fn fence(&self, _: &'static str) {}

        fn sync(&self) {}

        fn resize(&self, _: u64) {}
    }

    /// A commit that panics destroys nothing, and the program may go on.
    #[test]
    fn an_object_that_a_panicking_commit_was_to_destroy_is_there_for_weak_pointers() {
        let panics = Arc::new(Panics::default());
        let region = RegionOptions { observer: Some(panics.clone()), ..RegionOptions::default() };
        let options = PoolOptions { size: 16 << 20, region, ..PoolOptions::default() };
        HeapFile::volatile(&options)
            .unwrap()
            .enter(|heap| {
                type Root<'h> = (Ptr<'h, u64>, Weak<'h, u64>);
                let root = heap.root_or::<Root<'_>, Error>(|tx| {
                    let object = tx.alloc(7_u64)?;
                    let weak = tx.downgrade(&object)?;
                    Ok((object, weak))
                })?;
                let weak = heap.atomic(|tx| Ok::<_, Error>(tx.read(&root)?.1))?;
                let (arena, bits) = heap
                    .atomic(|tx| Ok::<_, Error>((tx.arena, tx.read(&root)?.0.anchor().bits())))?;
                let replace = || {
                    heap.atomic(|tx| {
                        let other = tx.alloc(8_u64)?;
                        let kept = tx.read(&root)?.1;
                        tx.write(&root, (other, kept))
                    })
                };
                panics.0.store(true, Ordering::SeqCst);
                assert!(catch_unwind(AssertUnwindSafe(replace)).is_err(), "nothing was written");
                let ended = AtomicBool::new(false);
                let value = std::thread::scope(|scope| {
                    let other = scope.spawn(|| {
                        let read = heap.atomic(|tx| {
                            let object = tx.upgrade(&weak)?;
                            object.map(|object| tx.read(&object)).transpose()
                        });
                        ended.store(true, Ordering::SeqCst);
                        read
                    });
                    let began = Instant::now();
                    while !ended.load(Ordering::SeqCst) && began.elapsed() < PATIENCE {
                        std::thread::yield_now();
                    }
                    let has_ended = ended.load(Ordering::SeqCst);
                    // So that the other ends in any case.
                    arena.handles.end_doom(bits, false);
                    assert!(has_ended, "what becomes of the object is not known");
                    other.join().unwrap()
                });
                assert_eq!(value?, Some(7));
                // It goes as any other.
                replace()?;
                assert!(heap.atomic(|tx| Ok::<_, Error>(tx.upgrade(&weak)?.is_none()))?);
                Ok::<_, Error>(())
            })
            .unwrap();
    }
}
