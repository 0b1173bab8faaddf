//! Inline commands: a line of words, as typed into a terminal, with Redis's quoting.

/// Splits a line into words; None if its quotes are unbalanced.
///
/// `"…"` knows `\xHH`, `\n`, `\r`, `\t`, `\b`, `\a` and `\c` for any other `c`; `'…'` knows only `\'`.
/// A closing quote is followed by a space or the end of the line.
pub(crate) fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        while let [first, tail @ ..] = rest
            && is_space(*first)
        {
            rest = tail;
        }
        if rest.is_empty() {
            return Some(words);
        }
        let (word, tail) = take_word(rest)?;
        words.push(word);
        rest = tail;
    }
}

/// Takes one word off the front of a line that begins with none of its spaces.
fn take_word(mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::new();
    loop {
        match rest {
            [] => return Some((word, rest)),
            [b'"', tail @ ..] => {
                rest = take_double_quoted(tail, &mut word)?;
                return Some((word, rest));
            }
            [b'\'', tail @ ..] => {
                rest = take_single_quoted(tail, &mut word)?;
                return Some((word, rest));
            }
            [byte, tail @ ..] => {
                rest = tail;
                if is_space(*byte) || *byte == 0 {
                    return Some((word, rest));
                }
                word.push(*byte);
            }
        }
    }
}

fn take_double_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] => return None,
            [b'\\', b'x', high, low, tail @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                word.push(hex(*high) << 4 | hex(*low));
                rest = tail;
            }
            [b'\\', escaped, tail @ ..] => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                rest = tail;
            }
            [b'"', tail @ ..] => return closed(tail),
            [byte, tail @ ..] => {
                word.push(*byte);
                rest = tail;
            }
        }
    }
}

fn take_single_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] => return None,
            [b'\\', b'\'', tail @ ..] => {
                word.push(b'\'');
                rest = tail;
            }
            [b'\'', tail @ ..] => return closed(tail),
            [byte, tail @ ..] => {
                word.push(*byte);
                rest = tail;
            }
        }
    }
}

/// What follows a closing quote, if it may.
fn closed(tail: &[u8]) -> Option<&[u8]> {
    match tail {
        [next, ..] if !is_space(*next) => None,
        _ => Some(tail),
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Option<Vec<String>> {
        let words = split(line.as_bytes())?;
        Some(words.into_iter().map(|word| String::from_utf8(word).unwrap()).collect())
    }

    #[test]
    fn quoting() {
        assert_eq!(words("").unwrap(), Vec::<String>::new());
        assert_eq!(words("  SET  a b ").unwrap(), ["SET", "a", "b"]);
        assert_eq!(words(r#"SET "a b" 'c d'"#).unwrap(), ["SET", "a b", "c d"]);
        assert_eq!(words(r#""\x41\n" '\''"#).unwrap(), ["A\n", "'"]);
        assert_eq!(words(r#""""#).unwrap(), [""]);
        assert_eq!(words(r#"a"b c""#).unwrap(), ["ab c"]);
        for unbalanced in [r#""a"#, "'a", r#""a"b"#, r#""a\"#] {
            assert_eq!(words(unbalanced), None, "{unbalanced}");
        }
    }
}
