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
        let target = self.notes.change.get(self.arena, proxy, PROXY_TARGET)?;
        if target == 0 || !self.arena.handles.acquire(target) {
            return Ok(None);
        }
        let object: Ptr<'h, T> = Ptr::of(Anchor::counted(self.arena, target));
        if self.notes.change.get(self.arena, proxy, PROXY_TARGET)? != target {
            return Ok(None);
        }
        self.check_type(&object)?;
        Ok(Some(object))
    }
}
