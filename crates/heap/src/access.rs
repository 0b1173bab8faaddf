//! What reads objects, and what it would change: in a [transaction](crate::Transaction), or between two
//! [checkpoints](Access::checkpoint).
//!
//! It keeps what it changes in memory (redo), so that it costs a fence or two however many objects it changes, and a rollback nothing:
//! an error, a panic or a conflict drops it. Its commit is one operation of the pool's log, with all that follows
//! ([`commit`](crate::commit), [`settlement`](crate::settlement)). The four layers have that in common ([`layer`](crate::layer)).

use std::marker::PhantomData;

use tembo_pmem::thread::lock;

use crate::Error;
use crate::arena::{Arena, Ledger};
use crate::change::Change;
use crate::field::{Field, Place};
use crate::format::{BODY, HEAD, ROOT_ROOT, ROOT_TYPES, TYPE_PROXY, head, kind_of};
use crate::hand::Hand;
use crate::layer::{Atomic, Layer};
use crate::notes::Notes;
use crate::persist::{Expected, Object, Persist, Pointers, Reader, Writer};
use crate::pointer::{Anchor, Ptr};
use crate::settlement::Settlement;
use crate::slice::{Bytes, Slice};
use crate::types::{Described, TypeInfo};

/// How a transaction stands to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    /// Others run beside it (C-TX).
    Others,
    /// It runs alone (TX): nothing is noted of what it reads.
    Alone,
}

/// What a program reads and changes objects with, in the layer `L`. What it changes is in memory until the [transaction](crate::Transaction)
/// ends or a [checkpoint](Access::checkpoint) is taken. All of it happens, or nothing.
pub struct Access<'h, L: Layer> {
    pub(crate) arena: &'h Arena,
    pub(crate) company: Company,
    pub(crate) notes: Box<Notes>,
    /// The version of the heap that it sees.
    pub(crate) start: u64,
    /// It cannot commit.
    pub(crate) is_broken: bool,
    pub(crate) has_conflict: bool,
    pub(crate) is_full: bool,
    /// It changes something by what the program asks for.
    pub(crate) has_changed: bool,
    /// What is freed by hand.
    pub(crate) hand: Hand,
    _layer: PhantomData<fn(L) -> L>,
}

/// What a closure of [`Heap::atomic`](crate::Heap::atomic) works with.
pub type Transaction<'h> = Access<'h, Atomic>;

impl<'h, L: Layer> Access<'h, L> {
    /// Lets `body` read and change; what it has not committed is taken back, also if it panics.
    pub(crate) fn within<R>(
        arena: &'h Arena,
        company: Company,
        body: impl FnOnce(&mut Access<'h, L>) -> R,
    ) -> R {
        let mut access = Access {
            arena,
            company,
            notes: Notes::take(arena.number),
            start: arena.ownership.now(),
            is_broken: false,
            has_conflict: false,
            is_full: false,
            has_changed: false,
            hand: Hand::default(),
            _layer: PhantomData,
        };
        let ending = Ending(&mut access);
        let result = body(&mut *ending.0);
        drop(ending);
        access.notes.give();
        result
    }

    /// Makes an object of a value. Nothing refers to it but the pointer that is returned: link it, or it is freed when the last
    /// pointer is dropped.
    ///
    /// # Errors
    /// [`Error::Pool`]: full. [`Error::WrongLayout`], [`Error::NotCommitted`].
    pub fn alloc<T: Persist<'h>>(&mut self, value: T) -> Result<Ptr<'h, T>, Error> {
        let info = <T as Object<'h>>::info();
        let mut words = Vec::with_capacity(BODY + T::WORDS as usize);
        words.extend([0, 0]);
        value.write(&mut Writer::new(&mut words));
        let number = self.register(&info)?;
        self.check_counted(&words[BODY..], Pointers::of::<T>())?;
        let mut children = std::mem::take(&mut self.notes.scratch);
        children.clear();
        T::pointers(&words[BODY..], &mut |bits| children.push(bits));
        let made = self.make(number, words);
        if made.is_ok() {
            // Counted last: after an error the program may go on, and commit.
            children.iter().for_each(|bits| self.count(*bits, 1));
        }
        self.notes.scratch = children;
        made.map(Ptr::of)
    }

    /// Makes a slice of empty cells.
    ///
    /// # Errors
    /// As [`alloc`](Access::alloc).
    pub fn alloc_slice<T: Persist<'h>>(&mut self, len: u64) -> Result<Ptr<'h, Slice<T>>, Error> {
        let number = self.register(&Slice::<T>::info())?;
        let count = len.saturating_mul(T::WORDS).saturating_add(BODY as u64 + 1);
        self.check_size(count)?;
        let mut words = vec![0; count as usize];
        words[BODY] = len;
        Ok(Ptr::of(self.make(number, words)?))
    }

    /// Makes an object of bytes.
    ///
    /// # Errors
    /// As [`alloc`](Access::alloc).
    pub fn alloc_bytes(&mut self, bytes: &[u8]) -> Result<Ptr<'h, Bytes>, Error> {
        let number = self.register(&Bytes::info())?;
        self.check_size(bytes.len() as u64 / 8)?;
        let mut words = vec![0, 0, bytes.len() as u64];
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            words.push(u64::from_le_bytes(word));
        }
        Ok(Ptr::of(self.make(number, words)?))
    }

    fn check_size(&self, words: u64) -> Result<(), Error> {
        let (size, max) = (words.saturating_mul(8), tembo_pool::OBJECT_SIZE_MAX);
        if size > max {
            return Err(tembo_pool::Error::TooLarge { size, max }.into());
        }
        Ok(())
    }

    pub(crate) fn make(&mut self, number: u16, mut words: Vec<u64>) -> Result<Anchor<'h>, Error> {
        self.has_changed = true;
        let object = match self.hand.take(words.len() as u64) {
            Some(spare) => spare,
            None => match self.arena.take(words.len() as u64) {
                Err(Error::Pool(tembo_pool::Error::PoolFull { .. })) => {
                    let arena = self.arena;
                    self.take_cleared(&mut lock(&arena.ledger), words.len() as u64)?
                }
                taken => taken?,
            },
        };
        let bits = object.to_bits();
        words[HEAD] = head(number, 0);
        if L::COUNTS {
            self.arena.handles.make(bits);
        }
        self.notes.change.make(bits, words);
        self.notes.made.push(bits);
        Ok(self.anchor(bits))
    }

    /// Space for an object, for which what is dead makes room if there is none.
    fn take_cleared(
        &mut self,
        ledger: &mut Ledger,
        words: u64,
    ) -> Result<tembo_pool::Object, Error> {
        let is_full = |taken: &Result<_, Error>| {
            matches!(taken, Err(Error::Pool(tembo_pool::Error::PoolFull { .. })))
        };
        let mut taken = self.arena.take(words);
        if is_full(&taken) && self.arena.has_dead()? {
            // What cannot be destroyed makes no room: the pool is full, and that is said.
            let _ = crate::upkeep::all(self.arena, ledger);
            // In the space of what it has seen and dropped there may be other objects from here on.
            self.notes.known.clear();
            taken = self.arena.take(words);
        }
        self.is_full |= is_full(&taken);
        taken
    }

    /// A pointer to an object, which is counted already if the layer counts.
    pub(crate) fn anchor(&self, bits: u64) -> Anchor<'h> {
        if L::COUNTS { Anchor::counted(self.arena, bits) } else { Anchor::bare(self.arena, bits) }
    }

    /// The value of an object.
    ///
    /// # Errors
    /// [`Error::Conflict`], [`Error::WrongType`], [`Error::NotCommitted`], [`Error::Damaged`].
    pub fn read<T: Persist<'h>>(&mut self, object: &Ptr<'h, T>) -> Result<T, Error> {
        self.load_of(object.anchor().bits(), Expected::of::<T>(), 0)
    }

    /// Gives an object another value.
    ///
    /// # Errors
    /// As [`read`](Access::read).
    pub fn write<T: Persist<'h>>(&mut self, object: &Ptr<'h, T>, value: T) -> Result<(), Error> {
        self.store_of(object.anchor().bits(), Expected::of::<T>(), 0, &value)
    }

    /// The value of a field.
    ///
    /// # Errors
    /// As [`read`](Access::read).
    pub fn get<T: Persist<'h>, F: Persist<'h>>(
        &mut self,
        object: &Ptr<'h, T>,
        field: Field<T, F>,
    ) -> Result<F, Error> {
        self.load_of(object.anchor().bits(), Expected::of::<T>(), field.word())
    }

    /// Gives a field another value.
    ///
    /// # Errors
    /// As [`read`](Access::read).
    pub fn set<T: Persist<'h>, F: Persist<'h>>(
        &mut self,
        object: &Ptr<'h, T>,
        field: Field<T, F>,
        value: F,
    ) -> Result<(), Error> {
        self.store_of(object.anchor().bits(), Expected::of::<T>(), field.word(), &value)
    }

    /// The value at a place.
    ///
    /// # Errors
    /// As [`read`](Access::read).
    pub fn at<F: Persist<'h>>(&mut self, place: &Place<'h, F>) -> Result<F, Error> {
        let (bits, expected, at) = place.parts();
        self.load_of(bits, expected, at)
    }

    /// Gives a place another value.
    ///
    /// # Errors
    /// As [`read`](Access::read).
    pub fn put<F: Persist<'h>>(&mut self, place: &Place<'h, F>, value: F) -> Result<(), Error> {
        self.put_ref(place, &value)
    }

    pub(crate) fn put_ref<F: Persist<'h>>(
        &mut self,
        place: &Place<'h, F>,
        value: &F,
    ) -> Result<(), Error> {
        let (bits, expected, at) = place.parts();
        self.store_of(bits, expected, at, value)
    }

    /// Cells of a slice.
    ///
    /// # Errors
    /// As [`read`](Access::read).
    pub fn slice_len<T: Persist<'h>>(&mut self, slice: &Ptr<'h, Slice<T>>) -> Result<u64, Error> {
        let bits = slice.anchor().bits();
        if let Some(len) = self.load_plain(bits, Slice::<T>::MARK, 0) {
            return len;
        }
        self.check_type(slice)?;
        self.load(bits, BODY as u64)
    }

    /// The value in a cell of a slice, which is not empty.
    ///
    /// # Errors
    /// As [`read`](Access::read); [`Error::NoSuchElement`]; [`Error::Damaged`] if the cell is empty and zeroes are no `T`.
    pub fn cell<T: Persist<'h>>(
        &mut self,
        slice: &Ptr<'h, Slice<T>>,
        index: u64,
    ) -> Result<T, Error> {
        match self.cell_plain(slice.anchor().bits(), Slice::<T>::MARK, index) {
            Some(value) => value,
            None => self.cell_closely(slice, index),
        }
    }

    #[inline(never)]
    fn cell_closely<T: Persist<'h>>(
        &mut self,
        slice: &Ptr<'h, Slice<T>>,
        index: u64,
    ) -> Result<T, Error> {
        self.check_type(slice)?;
        let bits = slice.anchor().bits();
        let version = self.look(bits)?;
        let len = self.notes.change.get_inside(self.arena, bits, BODY)?;
        if index >= len {
            self.look_again(bits, version)?;
            return Err(Error::NoSuchElement { index, len });
        }
        self.load_seen(bits, cell_place::<T>(index), version)
    }

    /// Puts a value into a cell.
    ///
    /// # Errors
    /// As [`cell`](Access::cell).
    pub fn set_cell<T: Persist<'h>>(
        &mut self,
        slice: &Ptr<'h, Slice<T>>,
        index: u64,
        value: T,
    ) -> Result<(), Error> {
        let at = self.own_cell(slice, index)?;
        self.store_owned(slice.anchor().bits(), at, &value)
    }

    /// Empties a cell.
    ///
    /// # Errors
    /// As [`cell`](Access::cell).
    pub fn clear_cell<T: Persist<'h>>(
        &mut self,
        slice: &Ptr<'h, Slice<T>>,
        index: u64,
    ) -> Result<(), Error> {
        let at = self.own_cell(slice, index)?;
        let words = vec![0; T::WORDS as usize];
        self.store_words(slice.anchor().bits(), at, &words, Pointers::of::<T>())
    }

    /// Owns a slice, of which a cell will be changed: the word at which the cell begins.
    fn own_cell<T: Persist<'h>>(
        &mut self,
        slice: &Ptr<'h, Slice<T>>,
        index: u64,
    ) -> Result<u64, Error> {
        self.check_type(slice)?;
        let bits = slice.anchor().bits();
        self.own(bits)?;
        let len = self.notes.change.get_inside(self.arena, bits, BODY)?;
        if index >= len {
            return Err(Error::NoSuchElement { index, len });
        }
        Ok(cell_place::<T>(index))
    }

    /// A copy of the bytes.
    ///
    /// # Errors
    /// As [`read`](Access::read).
    pub fn bytes(&mut self, object: &Ptr<'h, Bytes>) -> Result<Vec<u8>, Error> {
        self.check_type(object)?;
        let bits = object.anchor().bits();
        let len: u64 = self.load(bits, BODY as u64)?;
        let mut words = Vec::new();
        let version = self.look(bits)?;
        let count = usize::try_from(len.div_ceil(8)).unwrap_or(usize::MAX);
        self.arena.words(bits, 0, 1)?;
        if len > tembo_pool::Object::from_bits(bits).size() {
            return Err(Error::Damaged { what: "the length of bytes", offset: object.offset() });
        }
        self.notes.change.read(self.arena, bits, BODY + 1, count, &mut words)?;
        self.look_again(bits, version)?;
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate(len as usize);
        Ok(bytes)
    }

    /// The root of the heap; `None` before there is one.
    ///
    /// # Errors
    /// [`Error::WrongType`]: it is of another type than `T`; [`Error::WrongLayout`].
    pub fn root<T: Persist<'h>>(&mut self) -> Result<Option<Ptr<'h, T>>, Error> {
        let root = self.arena.root();
        let version = self.look(root)?;
        let bits = self.notes.change.get(self.arena, root, ROOT_ROOT)?;
        if bits == 0 {
            self.look_again(root, version)?;
            return Ok(None);
        }
        if L::COUNTS && !self.arena.handles.acquire(bits) {
            return self.conflict();
        }
        let object = Ptr::of(self.anchor(bits));
        self.look_again(root, version)?;
        self.check_type(&object)?;
        Ok(Some(object))
    }

    /// Makes an object the root of the heap, in the place of the one before.
    ///
    /// # Errors
    /// As [`read`](Access::read).
    pub fn set_root<T: Persist<'h>>(&mut self, object: &Ptr<'h, T>) -> Result<(), Error> {
        self.check_type(object)?;
        let (root, bits) = (self.arena.root(), object.anchor().bits());
        self.own(root)?;
        self.has_changed = true;
        let before = self.notes.change.get(self.arena, root, ROOT_ROOT)?;
        self.count(bits, 1);
        if before != 0 {
            self.count(before, -1);
        }
        self.notes.change.set(root, ROOT_ROOT, bits);
        Ok(())
    }

    pub(crate) fn conflict<R>(&mut self) -> Result<R, Error> {
        self.has_conflict = true;
        Err(Error::Conflict)
    }

    pub(crate) fn has_conflict(&self) -> bool {
        self.has_conflict
    }

    /// Whether the pool had no room for an object.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    pub(crate) fn count(&mut self, bits: u64, by: i64) {
        if by > 0 {
            self.keep(bits);
        }
        *self.notes.deltas.or_default(bits) += by;
    }

    /// The number of a type, which the heap gets to know.
    fn register(&mut self, info: &TypeInfo) -> Result<u16, Error> {
        if let Some(number) = self.number(info)? {
            return Ok(number);
        }
        let arena = self.arena;
        let described = Described::of(info)?;
        let mut ledger = lock(&arena.ledger);
        if let Some(number) = arena.types.number(info)? {
            return Ok(number);
        }
        let (words, entry) = arena.types.next(&described, arena.root_word(ROOT_TYPES)?)?;
        let object = self.take_cleared(&mut ledger, words.len() as u64)?;
        let mut change = Change::default();
        change.make(object.to_bits(), words);
        change.set(arena.root(), ROOT_TYPES, object.to_bits());
        if let Err(error) = Settlement::new(arena, &mut ledger, &mut change).make() {
            arena.pool.free_unused(object);
            return Err(error);
        }
        let number = entry.number;
        arena.types.add(entry, object);
        Ok(number)
    }

    pub(crate) fn number(&mut self, info: &TypeInfo) -> Result<Option<u16>, Error> {
        let mark = info.mark();
        if let Some(&number) = self.notes.numbers.get(&mark) {
            return Ok(Some(number));
        }
        let number = self.arena.types.number(info)?;
        if let Some(number) = number {
            self.notes.numbers.insert(mark, number);
        }
        Ok(number)
    }

    /// The object is one of the heap, or of this transaction.
    ///
    /// A pointer may have been read from what another transaction has changed since, and its object destroyed, and its place made
    /// anew: then what was read no longer holds, and that is a conflict.
    pub(crate) fn check_whole(&mut self, bits: u64) -> Result<(), Error> {
        if !L::COUNTS {
            return if self.hand.is_gone(bits) { Err(Error::Freed) } else { Ok(()) };
        }
        let (handles, notes) = (&self.arena.handles, &self.notes);
        if handles.are_whole_but(notes.made.len())
            || handles.is_settled(bits)
            || handles.is_whole(bits, notes.change.is_fresh(bits))
        {
            return Ok(());
        }
        self.validate()?;
        Err(Error::NotCommitted)
    }

    /// The object is a `T`; one of an older version becomes one of this.
    pub(crate) fn check_type<T: Object<'h>>(&mut self, object: &Ptr<'h, T>) -> Result<(), Error> {
        self.check(object.anchor().bits(), Expected::of::<T>()).map(drop)
    }

    /// The number of the object's type, which is the one that is expected.
    pub(crate) fn check(&mut self, bits: u64, expected: Expected<'h>) -> Result<u16, Error> {
        self.check_whole(bits)?;
        match self.notes.known.get(bits, expected.mark) {
            Some(number) => {
                // Another type may have taken its place since: reads by one look would not find it again.
                self.notes.kinds.put(expected.mark, number);
                Ok(number)
            }
            None => self.check_unknown(bits, expected),
        }
    }

    fn check_unknown(&mut self, bits: u64, expected: Expected<'h>) -> Result<u16, Error> {
        let found = self.kind(bits)?;
        let notes = &mut *self.notes;
        let is_it = notes.kinds.get(expected.mark) == Some(found)
            || notes.numbers.get(&expected.mark) == Some(&found);
        if notes.renewed.is_empty() && is_it {
            notes.known.put(bits, expected.mark, found);
            notes.kinds.put(expected.mark, found);
            return Ok(found);
        }
        self.check_named(bits, expected)
    }

    fn check_named(&mut self, bits: u64, expected: Expected<'h>) -> Result<u16, Error> {
        let info = (expected.info)();
        let found = match self.notes.renewed.get(&bits) {
            Some((identity, number)) if *identity == info.identity() => return Ok(*number),
            _ => self.kind(bits)?,
        };
        if self.number(&info)? == Some(found) {
            self.notes.known.put(bits, expected.mark, found);
            self.notes.kinds.put(expected.mark, found);
            return Ok(found);
        }
        if let Some(number) = self.renew(bits, found, &info, expected)? {
            return Ok(number);
        }
        let found = self.arena.types.name(found);
        Err(Error::WrongType { expected: (info.name)(), found })
    }

    pub(crate) fn kind(&self, bits: u64) -> Result<u16, Error> {
        match self.notes.renewed.get(&bits) {
            Some((_, number)) => Ok(*number),
            None => Ok(kind_of(self.notes.change.get(self.arena, bits, HEAD)?)),
        }
    }

    /// No other transaction has given the object a newer version of its type since that was looked at.
    pub(crate) fn check_still(&mut self, bits: u64, kind: u16) -> Result<(), Error> {
        if self.arena.types.are_renewed() && self.kind(bits)? != kind {
            return self.conflict();
        }
        Ok(())
    }

    /// Gives an object of an older version the value that follows from it; the type's number. `None`: it is of another type.
    fn renew(
        &mut self,
        bits: u64,
        found: u16,
        info: &TypeInfo,
        expected: Expected<'h>,
    ) -> Result<Option<u16>, Error> {
        let Some(entry) = self.arena.types.entry(found) else { return Ok(None) };
        let is_older = entry.name_hash == info.name_hash && entry.version < info.version;
        if !is_older || self.notes.change.is_fresh(bits) {
            return Ok(None);
        }
        self.arena.types.note_renewed();
        self.own(bits)?;
        if self.kind(bits)? != found {
            return self.conflict();
        }
        let (mut old, arena) = (Vec::new(), self.arena);
        self.notes.change.read(arena, bits, BODY, entry.words as usize, &mut old)?;
        let mut reader = Reader::new(&old, arena, L::COUNTS);
        let Some(words) = (expected.renew)(entry.version, entry.layout, &mut reader)? else {
            return Ok(None);
        };
        // Where nothing can be stored only this transaction sees it so.
        let is_kept = !arena.pool.region().is_read_only();
        let number = if is_kept { self.register(info)? } else { 0 };
        let room = tembo_pool::Object::from_bits(bits).size();
        let size = 8 * (BODY + words.len()) as u64;
        if is_kept && size > room {
            return Err(Error::NoRoom { room, size });
        }
        let of = |words: &[u64], at: u64| words.get(at as usize).copied().unwrap_or_default();
        (info.shape)().pointers(0, &|at| of(&words, at), &mut |_, bits| self.count(bits, 1));
        entry.shape.pointers(0, &|at| of(&old, at), &mut |_, bits| self.count(bits, -1));
        if is_kept {
            for (index, word) in words.iter().enumerate() {
                self.notes.change.set(bits, BODY + index, *word);
            }
        } else {
            let mut shown = Vec::with_capacity(BODY + words.len());
            self.notes.change.read(arena, bits, 0, BODY, &mut shown)?;
            shown.extend(words);
            self.notes.change.show(bits, shown);
        }
        self.notes.known.clear();
        self.notes.change.touch(bits);
        self.notes.renewed.insert(bits, (info.identity(), number));
        Ok(Some(number))
    }

    #[inline]
    fn load_of<F: Persist<'h>>(
        &mut self,
        bits: u64,
        expected: Expected<'h>,
        at: u64,
    ) -> Result<F, Error> {
        match self.load_plain(bits, expected.mark, at) {
            Some(value) => value,
            None => self.load_closely(bits, expected, at),
        }
    }

    #[inline(never)]
    fn load_closely<F: Persist<'h>>(
        &mut self,
        bits: u64,
        expected: Expected<'h>,
        at: u64,
    ) -> Result<F, Error> {
        let kind = self.check(bits, expected)?;
        let value = self.load(bits, at.saturating_add(BODY as u64));
        // What was read as of one version, and is of another, may be no value.
        self.check_still(bits, kind)?;
        value
    }

    fn store_of<F: Persist<'h>>(
        &mut self,
        bits: u64,
        expected: Expected<'h>,
        at: u64,
        value: &F,
    ) -> Result<(), Error> {
        let kind = self.check(bits, expected)?;
        self.own(bits)?;
        self.store_owned(bits, at.saturating_add(BODY as u64), value)?;
        self.check_still(bits, kind)
    }

    fn load<F: Persist<'h>>(&mut self, bits: u64, at: u64) -> Result<F, Error> {
        let version = self.look(bits)?;
        self.load_seen(bits, at, version)
    }

    /// Loads words that are of a version, or whatever this transaction has made of them.
    fn load_seen<F: Persist<'h>>(
        &mut self,
        bits: u64,
        at: u64,
        version: Option<u64>,
    ) -> Result<F, Error> {
        let mut words = std::mem::take(&mut self.notes.scratch);
        words.clear();
        let count = F::WORDS as usize;
        let read = self.notes.change.read(self.arena, bits, at as usize, count, &mut words);
        let value = read.and_then(|()| F::read(&mut Reader::new(&words, self.arena, L::COUNTS)));
        self.notes.scratch = words;
        self.look_again(bits, version)?;
        if matches!(value, Err(Error::Conflict)) {
            return self.conflict();
        }
        value
    }

    fn store_owned<F: Persist<'h>>(&mut self, bits: u64, at: u64, value: &F) -> Result<(), Error> {
        let mut words = std::mem::take(&mut self.notes.stored.0);
        words.clear();
        value.write(&mut Writer::new(&mut words));
        let stored = self.store_words(bits, at, &words, Pointers::of::<F>());
        self.notes.stored.0 = words;
        stored
    }

    fn store_words(
        &mut self,
        bits: u64,
        at: u64,
        words: &[u64],
        pointers: Pointers,
    ) -> Result<(), Error> {
        self.has_changed = true;
        self.check_counted(words, pointers)?;
        let mut old = std::mem::take(&mut self.notes.stored.1);
        old.clear();
        let read = self.notes.change.read(self.arena, bits, at as usize, words.len(), &mut old);
        if read.is_ok() {
            self.replace(bits, at as usize, (&old, words), pointers.each);
        }
        self.notes.stored.1 = old;
        read
    }

    fn replace(
        &mut self,
        bits: u64,
        at: usize,
        (old, words): (&[u64], &[u64]),
        pointers: fn(&[u64], &mut dyn FnMut(u64)),
    ) {
        if old == words {
            return;
        }
        pointers(words, &mut |bits| self.count(bits, 1));
        pointers(old, &mut |bits| self.count(bits, -1));
        if self.notes.change.is_fresh(bits) {
            let (change, rings) = (&self.notes.change, &mut self.notes.rings);
            pointers(words, &mut |bits| rings.extend(change.is_fresh(bits).then_some(bits)));
        }
        for (index, (word, old)) in words.iter().zip(old).enumerate() {
            if word != old {
                self.notes.change.set(bits, at + index, *word);
            }
        }
    }

    /// The pointers in these words may be stored.
    pub(crate) fn check_counted(&mut self, words: &[u64], pointers: Pointers) -> Result<(), Error> {
        let mut result = Ok(());
        (pointers.each)(words, &mut |bits| {
            if result.is_ok() {
                result = self.check_whole(bits);
            }
        });
        result?;
        if L::COUNTS || !self.hand.has_reused() {
            return Ok(());
        }
        // A pointer that was left may name what was made in the place of its object.
        let (shape, mut all) = ((pointers.shape)(), Vec::new());
        let word = |at: u64| words.get(at as usize).copied().unwrap_or_default();
        shape.named_pointers(0, &word, &mut |bits, is_weak, name| {
            all.push((bits, is_weak, name.to_owned()));
        });
        for (bits, is_weak, expected) in all {
            let kind = self.kind(bits)?;
            let found = self.arena.types.name_of(kind);
            if is_weak != (kind == TYPE_PROXY) || (!is_weak && found.as_ref() != Some(&expected)) {
                let found = self.arena.types.name(kind);
                return Err(Error::WrongType { expected, found });
            }
        }
        Ok(())
    }
}

/// What is not committed is taken back.
struct Ending<'a, 'h, L: Layer>(&'a mut Access<'h, L>);

impl<L: Layer> Drop for Ending<'_, '_, L> {
    fn drop(&mut self) {
        self.0.take_back();
        self.0.hand.give_back(self.0.arena);
    }
}

/// The word of an object at which a cell of a slice begins.
fn cell_place<'h, T: Persist<'h>>(index: u64) -> u64 {
    index.saturating_mul(T::WORDS).saturating_add(BODY as u64 + 1)
}
