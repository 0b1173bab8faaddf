//! What the collections look at by [views](crate::view), beside what programs do.

use std::cmp::Ordering;

use tembo_pool::Object as Space;

use crate::Error;
use crate::field::Place;
use crate::format::BODY;
use crate::layer::Layer;
use crate::persist::{Expected, Persist};
use crate::slice::{Bytes, Slice};
use crate::view::{Ref, Seen, View};

impl<'v, 'h, L: Layer> View<'v, 'h, L> {
    /// Looks once at what is at a place, which keeps its object.
    #[inline]
    pub(crate) fn look_at<'s, F: Persist<'h>>(
        &'s mut self,
        place: &'v Place<'h, F>,
    ) -> Result<Seen<'s, 'v, 'h, F, L>, Error> {
        let (bits, expected, at) = place.parts();
        self.access.check_whole(bits)?;
        self.load(bits, expected, (at.saturating_add(BODY as u64), F::WORDS), None)?;
        Ok(Seen::of(self))
    }

    /// Cells of a slice.
    #[inline]
    pub(crate) fn len<T: Persist<'h>>(
        &mut self,
        slice: Ref<'v, 'h, Slice<T>>,
    ) -> Result<u64, Error> {
        self.check_own(slice.of)?;
        self.word(slice.bits, Expected::of::<Slice<T>>(), 0, None)
    }

    /// How bytes stand to others in their order.
    pub(crate) fn compare(
        &mut self,
        bytes: Ref<'v, 'h, Bytes>,
        others: &[u8],
    ) -> Result<Ordering, Error> {
        self.check_own(bytes.of)?;
        let of_others = 1 + others.len().div_ceil(8) as u64;
        let count = of_others.min(self.words_of_bytes(bytes.bits)?);
        self.load(bytes.bits, Expected::of::<Bytes>(), (BODY as u64, count), None)?;
        let damaged = || Error::Damaged { what: "the length of bytes", offset: bytes.offset() };
        let (len, words) = self.access.notes.seen.split_first().ok_or_else(damaged)?;
        let len = usize::try_from(*len).unwrap_or(usize::MAX);
        let (shared, _) = others.split_at_checked(len).unwrap_or((others, &[]));
        if words.len() < shared.len().div_ceil(8) {
            return Err(damaged());
        }
        for (word, chunk) in words.iter().zip(shared.chunks(8)) {
            let order = word.to_le_bytes()[..chunk.len()].cmp(chunk);
            if order.is_ne() {
                return Ok(order);
            }
        }
        Ok(len.cmp(&others.len()))
    }

    /// How many bytes there are.
    pub(crate) fn len_of_bytes(&mut self, bytes: Ref<'v, 'h, Bytes>) -> Result<u64, Error> {
        self.check_own(bytes.of)?;
        let len = self.word(bytes.bits, Expected::of::<Bytes>(), 0, None)?;
        if len > Space::from_bits(bytes.bits).size() {
            let offset = bytes.offset();
            return Err(Error::Damaged { what: "the length of bytes", offset });
        }
        Ok(len)
    }

    /// A copy of the bytes.
    pub(crate) fn bytes(&mut self, bytes: Ref<'v, 'h, Bytes>) -> Result<Vec<u8>, Error> {
        let (len, expected) = (self.len_of_bytes(bytes)?, Expected::of::<Bytes>());
        self.load(bytes.bits, expected, (BODY as u64 + 1, len.div_ceil(8)), None)?;
        let words = self.access.notes.seen.iter();
        let mut copy: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
        copy.truncate(len as usize);
        Ok(copy)
    }

    /// Words of an object of bytes: its length, and what there may be of others.
    fn words_of_bytes(&mut self, bits: u64) -> Result<u64, Error> {
        if self.access.notes.change.has_touched(bits) {
            // One that the transaction has made has no more than it needs.
            let len = self.word(bits, Expected::of::<Bytes>(), 0, None)?;
            return Ok(len.div_ceil(8).saturating_add(1));
        }
        Ok((Space::from_bits(bits).size() / 8).saturating_sub(BODY as u64))
    }
}
