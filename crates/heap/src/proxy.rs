//! An object and its proxy: each knows the other by a word.

use crate::Error;
use crate::arena::Arena;
use crate::change::Change;
use crate::format::{HEAD, PROXY, PROXY_TARGET, TYPE_PROXY, kind_of};

/// The proxy of an object, or the object of a proxy, and the word by which that one knows the first. `None`: there is none.
///
/// What the word on media names is looked at before anything is stored there: it is of the other kind, and knows the first.
///
/// # Errors
/// [`Error::Damaged`]: they do not know each other.
pub(crate) fn other(
    arena: &Arena,
    change: &Change,
    bits: u64,
    kind: u16,
) -> Result<Option<(u64, usize)>, Error> {
    let is_proxy = kind == TYPE_PROXY;
    let (place, back, what) = match is_proxy {
        true => (PROXY_TARGET, PROXY, "a proxy"),
        false => (PROXY, PROXY_TARGET, "an object's proxy"),
    };
    let other = change.get(arena, bits, place)?;
    if other == 0 {
        return Ok(None);
    }
    let found = kind_of(change.get(arena, other, HEAD)?);
    if (found == TYPE_PROXY) == is_proxy || change.get(arena, other, back)? != bits {
        let offset = tembo_pool::Object::from_bits(bits).offset();
        return Err(Error::Damaged { what, offset });
    }
    Ok(Some((other, back)))
}
