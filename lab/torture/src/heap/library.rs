//! Collections of the library.

use std::collections::BTreeMap;

use tembo_heap::{Access, Error, Heap, Layer, PDeque, PHashMap, PList, PMap, PVec, Ptr};

use super::top::{Library, Top, top};
use crate::judge::expect;

/// Keys of the maps.
const KEYS: u64 = 3;

/// What they hold: all the same numbers, the maps by keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Held {
    keys: BTreeMap<u64, u64>,
    row: Vec<u64>,
    /// It is there.
    is_made: bool,
}

impl Held {
    pub(super) fn put(&mut self, serial: u64) {
        self.keys.insert(serial % KEYS, serial);
        self.row.push(serial);
        self.is_made = true;
    }

    pub(super) fn take(&mut self) {
        if self.is_made {
            self.keys.pop_first();
            self.row.drain(..self.row.len().min(1));
        }
    }

    pub(super) fn clear(&mut self) {
        if self.is_made {
            *self = Held { is_made: true, ..Held::default() };
        }
    }

    /// Objects of all of them: nodes, entries and keys of the maps, and nodes of the list.
    pub(super) fn objects(&self) -> u64 {
        let slices = if self.row.is_empty() { 0 } else { 3 };
        u64::from(self.is_made) + slices + (4 * self.keys.len() + self.row.len()) as u64
    }
}

fn library<'h, L: Layer>(tx: &mut Access<'h, L>) -> Result<Ptr<'h, Library<'h>>, Error> {
    let top = top(tx)?;
    if let Some(library) = tx.get(&top, Top::LIBRARY)? {
        return Ok(library);
    }
    let (map, hash, vec) = (PMap::new(), PHashMap::new(), PVec::new());
    let (deque, list) = (PDeque::new(), PList::new());
    let library = tx.alloc(Library { map, hash, vec, deque, list })?;
    tx.set(&top, Top::LIBRARY, Some(library.clone()))?;
    Ok(library)
}

/// An element more in each.
pub(super) fn put(heap: Heap<'_>, serial: u64) -> Result<(), Error> {
    heap.atomic(|tx| {
        let library = library(tx)?;
        let key = [(serial % KEYS) as u8];
        library.field(Library::MAP).insert(tx, key, serial)?;
        library.field(Library::HASH).insert(tx, key, serial)?;
        library.field(Library::VEC).push(tx, serial)?;
        library.field(Library::DEQUE).push_front(tx, serial)?;
        library.field(Library::LIST).push_back(tx, serial)
    })
}

/// A key less in the maps, and the oldest element less in the rest; behind the last one they have no objects.
pub(super) fn take(heap: Heap<'_>) -> Result<(), Error> {
    heap.atomic(|tx| {
        let top = top(tx)?;
        let Some(library) = tx.get(&top, Top::LIBRARY)? else { return Ok(()) };
        if library.field(Library::VEC).len(tx)? < 2 {
            return empty(tx, &library);
        }
        let (map, hash) = (library.field(Library::MAP), library.field(Library::HASH));
        if let Some((key, _)) = map.first(tx)? {
            map.remove(tx, &key)?;
            hash.remove(tx, &key)?;
        }
        library.field(Library::DEQUE).pop_back(tx)?;
        library.field(Library::LIST).pop_front(tx)?;
        let vec = library.field(Library::VEC);
        let all = vec.to_vec(tx)?;
        vec.pop(tx)?;
        for (index, number) in (0..).zip(all.iter().skip(1)) {
            vec.set(tx, index, *number)?;
        }
        Ok(())
    })
}

/// Nothing in any of them.
pub(super) fn clear(heap: Heap<'_>) -> Result<(), Error> {
    heap.atomic(|tx| {
        let top = top(tx)?;
        let Some(library) = tx.get(&top, Top::LIBRARY)? else { return Ok(()) };
        empty(tx, &library)
    })
}

fn empty<'h, L: Layer>(
    tx: &mut Access<'h, L>,
    library: &Ptr<'h, Library<'h>>,
) -> Result<(), Error> {
    library.field(Library::MAP).clear(tx)?;
    library.field(Library::HASH).clear(tx)?;
    library.field(Library::VEC).clear(tx)?;
    library.field(Library::DEQUE).clear(tx)?;
    library.field(Library::LIST).clear(tx)
}

/// What they hold, if all of them hold it.
pub(super) fn show<'h, L: Layer>(
    tx: &mut Access<'h, L>,
    library: &Ptr<'h, Library<'h>>,
) -> Result<Result<Held, String>, Error> {
    let (map, hash) = (library.field(Library::MAP), library.field(Library::HASH));
    let vec = library.field(Library::VEC);
    let keys: BTreeMap<Vec<u8>, u64> = map.iter(tx)?.collect::<Result<_, _>>()?;
    let row: Vec<u64> = vec.iter(tx)?.collect::<Result<_, _>>()?;
    let others = hash.iter(tx)?.collect::<Result<BTreeMap<_, _>, _>>()?;
    let deque: Vec<u64> =
        library.field(Library::DEQUE).iter(tx)?.rev().collect::<Result<_, _>>()?;
    let list = library.field(Library::LIST).to_vec(tx)?;
    let lens = (map.len(tx)?, hash.len(tx)?, vec.len(tx)?);
    let expected = (keys.len() as u64, keys.len() as u64, row.len() as u64);
    let are_same = others == keys && deque == row && list == row && lens == expected;
    let keys = keys.iter().map(|(key, number)| (u64::from(key[0]), *number)).collect();
    let held = Held { keys, row, is_made: true };
    Ok(expect(are_same, "collections that do not hold the same").map(|()| held))
}
