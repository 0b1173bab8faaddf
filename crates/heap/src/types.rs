//! The types that a heap holds: read at the opening, and added to.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use rustc_hash::FxHashMap;
use tembo_pmem::MediaBytes;
use tembo_pool::{Object, Pool};

use crate::Error;
use crate::appended::Appended;
use crate::format::{
    BODY, KIND_BEFORE, KIND_LAYOUT, KIND_NAME_HASH, KIND_NUMBER, KIND_SIZES, KIND_TEXT, KIND_WORDS,
    PROXY_WORDS, TYPE_FIRST, TYPE_PROXY, TYPES_MAX,
};
use crate::shape::{Shape, mix};

/// How deep a shape can be nested.
const DEPTH_MAX: usize = 64;

/// Bytes that the name and the shape of a type have at most.
const TEXT_MAX: usize = 1 << 20;

/// What a program says of a type.
#[derive(Clone, Copy)]
pub struct TypeInfo {
    /// The hash of its name.
    pub name_hash: u64,
    /// The version of its layout.
    pub version: u32,
    /// The hash of its layout.
    pub layout: u64,
    /// Words of its fields.
    pub words: u64,
    /// Its name.
    pub name: fn() -> String,
    /// Its layout.
    pub shape: fn() -> Shape,
}

impl TypeInfo {
    pub(crate) fn identity(&self) -> u64 {
        mix(self.name_hash, self.version.into())
    }

    pub(crate) fn mark(&self) -> u64 {
        mark(self.identity(), self.layout, self.words)
    }
}

/// Stands for what a program says of a type, but for its text.
pub(crate) const fn mark(identity: u64, layout: u64, words: u64) -> u64 {
    mix(mix(identity, layout), words)
}

/// What a program says of a type, asked once, before anything is changed: the program may say something else the next time, or panic.
pub(crate) struct Described {
    info: TypeInfo,
    name: String,
    shape: Shape,
    /// The name, and behind it the shape, as they are stored.
    text: Vec<u8>,
}

impl Described {
    /// # Errors
    /// [`Error::NoLayout`]: an opening would not understand what would be stored.
    pub(crate) fn of(info: &TypeInfo) -> Result<Described, Error> {
        let (name, shape) = ((info.name)(), (info.shape)());
        let mut text = name.clone().into_bytes();
        shape.encode(&mut text);
        let read = text.get(name.len()..).and_then(|mut from| Shape::decode(&mut from, DEPTH_MAX));
        let is_short = text.len() <= TEXT_MAX;
        if !is_short || read.is_none_or(|read| read != shape) || shape.words() != info.words {
            return Err(Error::NoLayout { name });
        }
        Ok(Described { info: *info, name, shape, text })
    }
}

/// A type that a heap holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeEntry {
    /// Its name.
    pub name: String,
    /// The version of its layout.
    pub version: u32,
    /// How its fields are laid out.
    pub shape: Shape,
    pub(crate) number: u16,
    pub(crate) name_hash: u64,
    pub(crate) layout: u64,
    pub(crate) words: u64,
    pub(crate) object: Object,
}

/// All of them, by number from [`TYPE_FIRST`] on.
#[derive(Default)]
pub(crate) struct Types {
    all: Appended<Arc<TypeEntry>>,
    numbers: RwLock<Numbers>,
    /// A transaction has given, or is about to give, an object a newer version of its type.
    are_renewed: AtomicBool,
}

/// How many types there are, and their numbers.
#[derive(Default)]
struct Numbers {
    count: usize,
    by_identity: FxHashMap<u64, u16>,
}

impl Types {
    /// Reads the chain that begins with an object.
    pub(crate) fn read(pool: &Pool, newest: u64) -> Result<Types, Error> {
        let (mut found, mut bits) = (Vec::new(), newest);
        while bits != 0 {
            let (entry, before) = read_one(pool, Object::from_bits(bits))?;
            // Each number is one less than the one before, so that a ring of types is met at once.
            let newer = found.last().map(|newer: &TypeEntry| newer.number);
            let follows = newer.is_none_or(|newer| entry.number.checked_add(1) == Some(newer));
            let is_one = usize::from(entry.number) < usize::from(TYPE_FIRST) + TYPES_MAX;
            if entry.number < TYPE_FIRST || !is_one || !follows {
                return Err(damaged("the number of a type", entry.object));
            }
            found.push(entry);
            bits = before;
        }
        found.reverse();
        let types = Types::default();
        for (index, entry) in found.into_iter().enumerate() {
            if usize::from(entry.number) != index + usize::from(TYPE_FIRST) {
                return Err(damaged("the number of a type", entry.object));
            }
            let object = entry.object;
            types.add(entry, object);
        }
        Ok(types)
    }

    pub(crate) fn note_renewed(&self) {
        self.are_renewed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn are_renewed(&self) -> bool {
        self.are_renewed.load(Ordering::Relaxed)
    }

    fn numbers(&self) -> RwLockReadGuard<'_, Numbers> {
        self.numbers.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a type; `None`: the heap does not have it.
    pub(crate) fn number(&self, info: &TypeInfo) -> Result<Option<u16>, Error> {
        let number = self.numbers().by_identity.get(&info.identity()).copied();
        let Some((number, entry)) = number.and_then(|number| Some((number, self.entry(number)?)))
        else {
            return Ok(None);
        };
        if entry.layout != info.layout || entry.words != info.words {
            return Err(Error::WrongLayout { name: entry.name.clone() });
        }
        Ok(Some(number))
    }

    /// The type of that number.
    #[inline]
    pub(crate) fn entry(&self, number: u16) -> Option<&TypeEntry> {
        let index = number.checked_sub(TYPE_FIRST)?;
        self.all.get(usize::from(index)).map(|entry| &**entry)
    }

    pub(crate) fn all(&self) -> Vec<Arc<TypeEntry>> {
        (0..self.count()).filter_map(|index| self.all.get(index).cloned()).collect()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.numbers().count
    }

    /// The name of a type that a program has registered.
    pub(crate) fn name_of(&self, number: u16) -> Option<String> {
        Some(self.entry(number)?.name.clone())
    }

    /// A name for a person.
    pub(crate) fn name(&self, number: u16) -> String {
        match self.entry(number) {
            Some(entry) if entry.version == 0 => entry.name.clone(),
            Some(entry) => format!("{} version {}", entry.name, entry.version),
            None if number == TYPE_PROXY => "(proxy)".to_owned(),
            None => format!("(type {number})"),
        }
    }

    /// The content of the object that says what the next type is, and its entry.
    pub(crate) fn next(
        &self,
        info: &Described,
        before: u64,
    ) -> Result<(Vec<u64>, TypeEntry), Error> {
        let count = self.count();
        if count >= TYPES_MAX {
            return Err(Error::TooManyTypes { max: TYPES_MAX });
        }
        let number = TYPE_FIRST + count as u16;
        let Described { info, name, shape, text } = info;
        let mut words = vec![0; KIND_TEXT];
        words[KIND_BEFORE] = before;
        words[KIND_NUMBER] = u64::from(number) | u64::from(info.version) << 32;
        words[KIND_NAME_HASH] = info.name_hash;
        words[KIND_LAYOUT] = info.layout;
        words[KIND_WORDS] = info.words;
        words[KIND_SIZES] = name.len() as u64 | ((text.len() - name.len()) as u64) << 32;
        for chunk in text.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            words.push(u64::from_le_bytes(word));
        }
        let entry = TypeEntry {
            name: name.clone(),
            version: info.version,
            shape: shape.clone(),
            number,
            name_hash: info.name_hash,
            layout: info.layout,
            words: info.words,
            object: Object::NONE,
        };
        Ok((words, entry))
    }

    /// The type is on media.
    pub(crate) fn add(&self, entry: TypeEntry, object: Object) {
        let mut numbers = self.numbers.write().unwrap_or_else(PoisonError::into_inner);
        let (number, identity) = (entry.number, mix(entry.name_hash, entry.version.into()));
        if self.all.add(numbers.count, Arc::new(TypeEntry { object, ..entry })) {
            numbers.count += 1;
            numbers.by_identity.insert(identity, number);
        }
    }

    /// Calls `each` with the place of each pointer of an object, counted from its head.
    pub(crate) fn pointers(
        &self,
        number: u16,
        word: &dyn Fn(u64) -> u64,
        each: &mut dyn FnMut(u64, u64),
    ) {
        if let Some(entry) = self.entry(number) {
            entry.shape.pointers(BODY as u64, word, each);
        }
    }

    /// Words of an object without what a slice or bytes hold, head included; `None`: there is no such type.
    pub(crate) fn words(&self, number: u16) -> Option<u64> {
        if number == TYPE_PROXY {
            return Some(PROXY_WORDS as u64);
        }
        Some(self.entry(number)?.words.saturating_add(BODY as u64))
    }
}

fn damaged(what: &'static str, object: Object) -> Error {
    Error::Damaged { what, offset: object.offset() }
}

fn read_one(pool: &Pool, object: Object) -> Result<(TypeEntry, u64), Error> {
    pool.valid(object)?;
    let words = pool.region().words(object.offset(), KIND_TEXT)?;
    let word = |index: usize| words[index].load();
    let (name, shape) = (word(KIND_SIZES) as u32, (word(KIND_SIZES) >> 32) as u32);
    let at = object.offset() + 8 * KIND_TEXT as u64;
    let size = u64::from(name) + u64::from(shape);
    if size > TEXT_MAX as u64 || 8 * KIND_TEXT as u64 + size > object.size() {
        return Err(damaged("the size of a type", object));
    }
    let text = pool.region().media_bytes(at, size);
    let text = text.as_ref().map(MediaBytes::to_vec).unwrap_or_default();
    let (name, mut shape) = text.split_at_checked(name as usize).unwrap_or((&[], &[]));
    let name = String::from_utf8(name.to_vec());
    let name = name.map_err(|_| damaged("the name of a type", object))?;
    let shape = Shape::decode(&mut shape, DEPTH_MAX);
    let shape = shape.ok_or_else(|| damaged("the shape of a type", object))?;
    let entry = TypeEntry {
        version: (word(KIND_NUMBER) >> 32) as u32,
        number: word(KIND_NUMBER) as u16,
        name_hash: word(KIND_NAME_HASH),
        layout: word(KIND_LAYOUT),
        words: word(KIND_WORDS),
        name,
        shape,
        object,
    };
    if entry.shape.words() != entry.words
        || entry.words.saturating_mul(8) > tembo_pool::OBJECT_SIZE_MAX
    {
        return Err(damaged("a type", object));
    }
    Ok((entry, word(KIND_BEFORE)))
}
