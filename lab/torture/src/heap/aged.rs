//! An object of an older version of its type, and what becomes of it.

use tembo_heap::{Access, Error, Heap, Layer, Ptr};

use super::top::{Aged, Old, OldTop, Top, Value, top};
use crate::judge::expect;

/// Its number, and the version that it is of; 0 before there is one.
pub(super) type Age = (u64, u64);

/// An object of the older version, in the place of the one before.
pub(super) fn age(heap: Heap<'_>, serial: u64) -> Result<(), Error> {
    heap.atomic(|tx| {
        top(tx)?;
        let top = tx.root::<OldTop<'_>>()?.ok_or(Error::NoRoot)?;
        let (value, other) = (tx.alloc(Value { word: serial })?, tx.alloc(Value { word: serial })?);
        let old = tx.alloc(Old { one: serial, value, other })?;
        tx.set(&top, OldTop::AGED, Some(old))
    })
}

/// A transaction of a program that knows the newer version.
pub(super) fn renew(heap: Heap<'_>) -> Result<(), Error> {
    heap.atomic(|tx| {
        let top = top(tx)?;
        let aged = tx.get(&top, Top::AGED)?;
        aged.map_or(Ok(()), |aged| tx.get(&aged, Aged::LAST).map(drop))
    })
}

/// Objects of that.
pub(super) fn objects((_, version): Age) -> u64 {
    [0, 3, 2][version as usize]
}

/// What there is, without making it another version.
pub(super) fn show<'h, L: Layer>(tx: &mut Access<'h, L>) -> Result<Result<Age, String>, Error> {
    let top = tx.root::<OldTop<'_>>()?.ok_or(Error::NoRoot)?;
    let Some(old) = tx.get(&top, OldTop::AGED)? else { return Ok(Ok((0, 0))) };
    match tx.read(&old) {
        Ok(Old { one, value, other }) => {
            let words = (tx.get(&value, Value::WORD)?, tx.get(&other, Value::WORD)?);
            Ok(expect(words == (one, one), "half of an older version").map(|()| (one, 1)))
        }
        Err(Error::WrongType { .. }) => {
            let top = top_of_today(tx)?;
            let Some(aged) = tx.get(&top, Top::AGED)? else { return Ok(Ok((0, 0))) };
            let Aged { value, doubled, last } = tx.read(&aged)?;
            let is_whole = doubled == 2 * last && tx.get(&value, Value::WORD)? == last;
            Ok(expect(is_whole, "half of a newer version").map(|()| (last, 2)))
        }
        Err(error) => Err(error),
    }
}

fn top_of_today<'h, L: Layer>(tx: &mut Access<'h, L>) -> Result<Ptr<'h, Top<'h>>, Error> {
    tx.root()?.ok_or(Error::NoRoot)
}
