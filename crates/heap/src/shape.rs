//! How the fields of a type are laid out: what destruction, marking and tools know of a type without its program.

use tembo_pool::OBJECT_SIZE_MAX;

/// The layout of a value, in words of eight bytes. It is stored with each type, so that a heap can be marked, checked and shown
/// by programs that do not have the type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A value of so many words that holds no pointer.
    Plain {
        /// Its name.
        name: String,
        /// Its words.
        words: u64,
    },
    /// A counted pointer to an object of the type of that name.
    Pointer(String),
    /// A weak pointer: a counted pointer to the object's proxy.
    Weak(String),
    /// Fields, one behind another.
    Fields(Vec<(String, Shape)>),
    /// A word with the variant's number, then the fields of the variant; as many words as the largest needs.
    Variants(Vec<(String, Shape)>),
    /// So many, one behind another.
    Array(u64, Box<Shape>),
    /// A word with their number, then as many; only as a whole object.
    Slice(Box<Shape>),
    /// A word with their number, then as many bytes; only as a whole object.
    Bytes,
}

impl Shape {
    /// Words of a value. Of a slice or of bytes those of the number.
    pub fn words(&self) -> u64 {
        match self {
            Shape::Plain { words, .. } => *words,
            Shape::Pointer(_) | Shape::Weak(_) | Shape::Slice(_) | Shape::Bytes => 1,
            Shape::Fields(fields) => sum(fields.iter().map(|(_, shape)| shape.words())),
            Shape::Variants(all) => {
                all.iter().map(|(_, s)| s.words()).max().unwrap_or(0).saturating_add(1)
            }
            Shape::Array(count, shape) => count.saturating_mul(shape.words()),
        }
    }

    /// Calls `each` with the place, from `from` on, of each pointer in a value; those of zero are left out. `word` reads a word.
    pub(crate) fn pointers(
        &self,
        from: u64,
        word: &dyn Fn(u64) -> u64,
        each: &mut dyn FnMut(u64, u64),
    ) {
        self.each_pointer(from, word, &mut |at, bits, _| each(at, bits));
    }

    /// Calls `each` with each pointer in a value, whether it is a weak one, and the name of the type that it points to.
    pub(crate) fn named_pointers(
        &self,
        from: u64,
        word: &dyn Fn(u64) -> u64,
        each: &mut dyn FnMut(u64, bool, &str),
    ) {
        self.each_pointer(from, word, &mut |_, bits, shape| match shape {
            Shape::Pointer(name) => each(bits, false, name),
            Shape::Weak(name) => each(bits, true, name),
            _ => {}
        });
    }

    fn each_pointer(
        &self,
        from: u64,
        word: &dyn Fn(u64) -> u64,
        each: &mut dyn FnMut(u64, u64, &Shape),
    ) {
        match self {
            Shape::Plain { .. } | Shape::Bytes => {}
            Shape::Pointer(_) | Shape::Weak(_) => match word(from) {
                0 => {}
                bits => each(from, bits, self),
            },
            Shape::Fields(fields) => {
                let mut at = from;
                for (_, shape) in fields {
                    shape.each_pointer(at, word, each);
                    at += shape.words();
                }
            }
            Shape::Variants(all) => {
                if let Some((_, shape)) = all.get(word(from) as usize) {
                    shape.each_pointer(from + 1, word, each);
                }
            }
            Shape::Array(count, shape) => repeat(*count, shape, from, word, each),
            Shape::Slice(shape) => repeat(word(from), shape, from + 1, word, each),
        }
    }

    /// Whether a pointer, or none, stands at a place of a value that begins at `from`.
    pub(crate) fn has_pointer_at(&self, from: u64, at: u64, word: &dyn Fn(u64) -> u64) -> bool {
        if at < from {
            return false;
        }
        let in_row = |count: u64, shape: &Shape, from: u64| {
            let (words, inside) = (shape.words().max(1), at.saturating_sub(from));
            inside / words < count
                && at >= from
                && shape.has_pointer_at(from + inside / words * words, at, word)
        };
        match self {
            Shape::Plain { .. } | Shape::Bytes => false,
            Shape::Pointer(_) | Shape::Weak(_) => at == from,
            Shape::Fields(fields) => {
                let mut from = from;
                for (_, shape) in fields {
                    let end = from + shape.words();
                    if at < end {
                        return shape.has_pointer_at(from, at, word);
                    }
                    from = end;
                }
                false
            }
            Shape::Variants(all) => {
                let variant = all.get(word(from) as usize);
                variant.is_some_and(|(_, shape)| shape.has_pointer_at(from + 1, at, word))
            }
            Shape::Array(count, shape) => in_row(*count, shape, from),
            Shape::Slice(shape) => in_row(word(from), shape, from + 1),
        }
    }

    /// Whether a value can hold a pointer.
    pub(crate) fn has_pointers(&self) -> bool {
        match self {
            Shape::Plain { .. } | Shape::Bytes => false,
            Shape::Pointer(_) | Shape::Weak(_) => true,
            Shape::Fields(all) | Shape::Variants(all) => all.iter().any(|(_, s)| s.has_pointers()),
            Shape::Array(count, shape) => *count > 0 && shape.has_pointers(),
            Shape::Slice(shape) => shape.has_pointers(),
        }
    }

    /// The bytes that are stored.
    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        match self {
            Shape::Plain { name, words } => {
                to.push(b'w');
                text(name, to);
                to.extend(words.to_le_bytes());
            }
            Shape::Pointer(name) => {
                to.push(b'*');
                text(name, to);
            }
            Shape::Weak(name) => {
                to.push(b'~');
                text(name, to);
            }
            Shape::Fields(all) | Shape::Variants(all) => {
                to.push(if matches!(self, Shape::Fields(_)) { b'{' } else { b'|' });
                to.extend((all.len() as u64).to_le_bytes());
                for (name, shape) in all {
                    text(name, to);
                    shape.encode(to);
                }
            }
            Shape::Array(count, shape) => {
                to.push(b'a');
                to.extend(count.to_le_bytes());
                shape.encode(to);
            }
            Shape::Slice(shape) => {
                to.push(b'[');
                shape.encode(to);
            }
            Shape::Bytes => to.push(b'b'),
        }
    }

    /// What was stored of a whole object, nested no deeper than `depth`; `None`: it is damaged.
    pub(crate) fn decode(from: &mut &[u8], depth: usize) -> Option<Shape> {
        let (&first, rest) = from.split_first()?;
        match first {
            b'[' => {
                *from = rest;
                Some(Shape::Slice(Box::new(Shape::decode_value(from, depth.checked_sub(1)?)?)))
            }
            b'b' => {
                *from = rest;
                Some(Shape::Bytes)
            }
            _ => Shape::decode_value(from, depth),
        }
    }

    /// The same of a value, which may be a part of another one: its length is known.
    fn decode_value(from: &mut &[u8], depth: usize) -> Option<Shape> {
        let (&first, rest) = from.split_first()?;
        *from = rest;
        let depth = depth.checked_sub(1)?;
        let shape = match first {
            b'w' => Shape::Plain { name: text_of(from)?, words: number(from)? },
            b'*' => Shape::Pointer(text_of(from)?),
            b'~' => Shape::Weak(text_of(from)?),
            b'{' | b'|' => {
                let count = number(from)?;
                let mut all = Vec::new();
                for _ in 0..count {
                    all.push((text_of(from)?, Shape::decode_value(from, depth)?));
                }
                if first == b'{' { Shape::Fields(all) } else { Shape::Variants(all) }
            }
            b'a' => Shape::Array(number(from)?, Box::new(Shape::decode_value(from, depth)?)),
            _ => return None,
        };
        (shape.words() <= OBJECT_SIZE_MAX / 8).then_some(shape)
    }
}

fn sum(words: impl Iterator<Item = u64>) -> u64 {
    words.fold(0, u64::saturating_add)
}

fn repeat(
    count: u64,
    shape: &Shape,
    from: u64,
    word: &dyn Fn(u64) -> u64,
    each: &mut dyn FnMut(u64, u64, &Shape),
) {
    if shape.has_pointers() {
        let words = shape.words();
        for index in 0..count {
            shape.each_pointer(from.saturating_add(index.saturating_mul(words)), word, each);
        }
    }
}

fn text(text: &str, to: &mut Vec<u8>) {
    to.extend((text.len() as u64).to_le_bytes());
    to.extend(text.as_bytes());
}

fn number(from: &mut &[u8]) -> Option<u64> {
    let (first, rest) = from.split_first_chunk::<8>()?;
    *from = rest;
    Some(u64::from_le_bytes(*first))
}

fn text_of(from: &mut &[u8]) -> Option<String> {
    let len = usize::try_from(number(from)?).ok()?;
    let (text, rest) = from.split_at_checked(len)?;
    *from = rest;
    String::from_utf8(text.to_vec()).ok()
}

/// A hash for names and layouts, which does not change between programs: FNV-1a, 64 bits.
pub const fn hash(seed: u64, text: &str) -> u64 {
    let (bytes, mut hash, mut at) = (text.as_bytes(), seed ^ 0xcbf2_9ce4_8422_2325, 0);
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}

/// Mixes a hash into another; the order matters.
pub const fn mix(one: u64, two: u64) -> u64 {
    let mixed = (one.rotate_left(5) ^ two).wrapping_mul(0x517c_c1b7_2722_0a95);
    mixed ^ mixed >> 29
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_words(words: u64) -> Shape {
        Shape::Plain { name: "word".into(), words }
    }

    fn slice(cell: Shape) -> Shape {
        Shape::Slice(Box::new(cell))
    }

    fn fields(shape: Shape) -> Shape {
        Shape::Fields(vec![("field".into(), shape)])
    }

    fn decoded(shape: &Shape) -> Option<Shape> {
        let mut bytes = Vec::new();
        shape.encode(&mut bytes);
        Shape::decode(&mut &bytes[..], 64)
    }

    /// A walk of it would follow numbers that no object bounds.
    #[test]
    fn a_slice_or_bytes_within_another_value_are_damage() {
        let pointer = || Shape::Pointer("some".into());
        let whole = [slice(fields(pointer())), Shape::Bytes, fields(pointer()), slice(of_words(0))];
        for shape in whole {
            assert_eq!(decoded(&shape).as_ref(), Some(&shape));
        }
        for part in [slice(pointer()), Shape::Bytes] {
            let around: [fn(Shape) -> Shape; 4] = [
                slice,
                fields,
                |part| Shape::Variants(vec![("one".into(), part)]),
                |part| Shape::Array(2, Box::new(part)),
            ];
            for around in around {
                assert_eq!(decoded(&around(part.clone())), None, "{:?}", around(part));
            }
        }
    }

    #[test]
    fn a_value_of_more_words_than_an_object_is_damage() {
        let most = OBJECT_SIZE_MAX / 8;
        let large = |words| [of_words(words), Shape::Array(words, Box::new(of_words(1)))];
        for shape in large(most) {
            assert_eq!(decoded(&shape), Some(shape));
        }
        for words in [most + 1, u64::MAX - 1, u64::MAX] {
            for shape in large(words) {
                let variants = Shape::Variants(vec![("one".into(), shape.clone())]);
                let both =
                    Shape::Fields(vec![("a".into(), of_words(1)), ("b".into(), shape.clone())]);
                for shape in [variants, both, slice(shape.clone()), shape] {
                    assert_eq!(decoded(&shape), None, "{shape:?}");
                    assert!(shape.words() > most || matches!(shape, Shape::Slice(_)));
                }
            }
        }
    }
}
