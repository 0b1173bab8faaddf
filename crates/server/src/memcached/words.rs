//! The words of a text command.

use crate::number::parse_unsigned;

/// Most words of a command that are kept; a `get` may have more keys.
pub(super) const WORDS_MAX: usize = 24;

/// The words of a line.
pub(super) struct Words<'l> {
    words: [&'l [u8]; WORDS_MAX],
    count: usize,
    line: &'l [u8],
}

impl<'l> Words<'l> {
    /// Splits a line at its spaces.
    pub(super) fn new(line: &'l [u8]) -> Words<'l> {
        let (mut words, mut count) = ([&[][..]; WORDS_MAX], 0);
        for (place, word) in words.iter_mut().zip(split(line)) {
            *place = word;
            count += 1;
        }
        Words { words, count, line }
    }

    /// How many there are, as far as they are kept.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// A word; empty behind the last one.
    pub(super) fn at(&self, index: usize) -> &'l [u8] {
        self.words.get(index).copied().unwrap_or_default()
    }

    /// All words from one on, any number of them.
    pub(super) fn from(&self, index: usize) -> impl Iterator<Item = &'l [u8]> + Clone + use<'l> {
        split(self.line).skip(index)
    }

    /// The last word that is kept.
    pub(super) fn last(&self) -> &'l [u8] {
        self.count.checked_sub(1).map_or(&[], |last| self.words[last])
    }
}

fn split(line: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    line.split(|&byte| byte == b' ').filter(|word| !word.is_empty())
}

/// A number with a sign.
pub(super) fn signed(word: &[u8]) -> Option<i64> {
    let (sign, digits) = match word {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] => (1, digits),
        digits => (1, digits),
    };
    Some(sign * i64::try_from(parse_unsigned(digits)?).ok()?)
}

/// A number without a sign of 32 bits.
pub(super) fn unsigned_32(word: &[u8]) -> Option<u32> {
    parse_unsigned(word).and_then(|number| u32::try_from(number).ok())
}

/// A number without a sign of 64 bits.
pub(super) fn unsigned_64(word: &[u8]) -> Option<u64> {
    parse_unsigned(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_split_at_spaces() {
        let words = Words::new(b" get  a b ");
        assert_eq!((words.count(), words.at(1), words.at(3)), (3, &b"a"[..], &b""[..]));
        assert_eq!((words.last(), words.from(1).count()), (&b"b"[..], 2));
        let many = [&b"get"[..], &b" k".repeat(100)].concat();
        let words = Words::new(&many);
        assert_eq!((words.count(), words.from(1).count()), (WORDS_MAX, 100));
    }
}
