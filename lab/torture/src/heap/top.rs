//! The root, and the types of all that is below it.

use tembo_heap::{
    Access, Error, Layer, PDeque, PHashMap, PList, PMap, PVec, Persist, Ptr, Slice, Weak,
};

/// Words that are changed together.
pub(super) const WIDE: usize = 30;

#[derive(Persist)]
#[persist(name = "torture.top")]
pub(super) struct Top<'h> {
    pub(super) first: Option<Ptr<'h, Item<'h>>>,
    pub(super) label: (u64, u64),
    pub(super) many: Option<Ptr<'h, Slice<Ptr<'h, Value>>>>,
    pub(super) wide: [u64; WIDE],
    pub(super) heavy: Option<Ptr<'h, Slice<Cell<'h>>>>,
    pub(super) library: Option<Ptr<'h, Library<'h>>>,
    pub(super) aged: Option<Ptr<'h, Aged<'h>>>,
}

pub(super) type Cell<'h> = Option<Ptr<'h, Heavy<'h>>>;

#[derive(Persist)]
pub(super) struct Heavy<'h> {
    pub(super) words: [u64; 38],
    /// The one before it, if this is an odd one.
    pub(super) before: Option<Ptr<'h, Heavy<'h>>>,
    pub(super) weak: Option<Weak<'h, Heavy<'h>>>,
}

#[derive(Persist)]
pub(super) struct Item<'h> {
    pub(super) name: u64,
    pub(super) value: Ptr<'h, Value>,
    pub(super) next: Option<Ptr<'h, Item<'h>>>,
    pub(super) back: Option<Weak<'h, Item<'h>>>,
}

#[derive(Persist)]
pub(super) struct Value {
    pub(super) word: u64,
}

/// One of each collection.
#[derive(Persist)]
pub(super) struct Library<'h> {
    pub(super) map: PMap<'h, u64>,
    pub(super) hash: PHashMap<'h, u64>,
    pub(super) vec: PVec<'h, u64>,
    pub(super) deque: PDeque<'h, u64>,
    pub(super) list: PList<'h, u64>,
}

/// As it was.
#[derive(Persist)]
#[persist(name = "torture.aged", version = 1)]
pub(super) struct Old<'h> {
    pub(super) one: u64,
    pub(super) value: Ptr<'h, Value>,
    pub(super) other: Ptr<'h, Value>,
}

/// As it is: it has lost a pointer, and the other has another place.
#[derive(Persist)]
#[persist(name = "torture.aged", version = 2, from = Old<'h>)]
pub(super) struct Aged<'h> {
    pub(super) value: Ptr<'h, Value>,
    pub(super) doubled: u64,
    pub(super) last: u64,
}

impl<'h> From<Old<'h>> for Aged<'h> {
    fn from(old: Old<'h>) -> Self {
        Aged { value: old.value, doubled: 2 * old.one, last: old.one }
    }
}

/// The root, as a program names it that knows the older version only.
#[derive(Persist)]
#[persist(name = "torture.top")]
pub(super) struct OldTop<'h> {
    pub(super) first: Option<Ptr<'h, Item<'h>>>,
    pub(super) label: (u64, u64),
    pub(super) many: Option<Ptr<'h, Slice<Ptr<'h, Value>>>>,
    pub(super) wide: [u64; WIDE],
    pub(super) heavy: Option<Ptr<'h, Slice<Cell<'h>>>>,
    pub(super) library: Option<Ptr<'h, Library<'h>>>,
    pub(super) aged: Option<Ptr<'h, Old<'h>>>,
}

pub(super) fn top<'h, L: Layer>(tx: &mut Access<'h, L>) -> Result<Ptr<'h, Top<'h>>, Error> {
    if let Some(top) = tx.root()? {
        return Ok(top);
    }
    let (first, many, heavy) = (None, None, None);
    let (library, aged) = (None, None);
    let top =
        tx.alloc(Top { first, label: (0, 0), many, wide: [0; WIDE], heavy, library, aged })?;
    tx.set_root(&top)?;
    Ok(top)
}
