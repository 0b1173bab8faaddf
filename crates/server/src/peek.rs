//! The keys of commands that have arrived and are not executed yet, so that the store can prefetch all of
//! them at once.
//!
//! A guess: the second word of a command is most often a key, but for scripts. Input in another form than that of an array
//! of bulks ends the search, and is left to the [parser](crate::parse).

/// Commands of more words end the search.
const WORDS_MAX: usize = 16;

/// Words of a command that are looked at: its name, a key, and an element behind it or behind a score. Scripts have a count and two
/// keys there.
const WORDS_SEEN: usize = 5;

/// What a command that has arrived will likely use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LikelyKeys<'i> {
    /// Its key.
    pub(crate) key: &'i [u8],
    /// A second one; empty: none.
    pub(crate) second_key: &'i [u8],
    /// An element of the collection under the key; empty: none.
    pub(crate) element: &'i [u8],
    /// The score that the element gets; empty: none.
    pub(crate) score: &'i [u8],
    /// The string that the key gets, without an expiry or a condition; empty: none.
    pub(crate) string: &'i [u8],
}

/// Commands whose third word is an element, and those whose fourth is one, behind a score.
const OF_ELEMENT: [&[u8]; 17] = [
    b"hset",
    b"hget",
    b"hdel",
    b"hmget",
    b"hmset",
    b"hsetnx",
    b"hexists",
    b"hincrby",
    b"sadd",
    b"srem",
    b"sismember",
    b"smismember",
    b"zscore",
    b"zmscore",
    b"zrank",
    b"zrevrank",
    b"zrem",
];
const OF_SCORE_AND_ELEMENT: [&[u8]; 2] = [b"zadd", b"zincrby"];

impl<'i> LikelyKeys<'i> {
    /// Of a command that begins with these words; empty ones are not there.
    #[inline]
    fn new([name, key, third, fourth, fifth]: Words<'i>) -> LikelyKeys<'i> {
        let is_of = |names: &[&[u8]]| names.iter().any(|one| name.eq_ignore_ascii_case(one));
        let likely = LikelyKeys { key, ..LikelyKeys::default() };
        match name.first().map(u8::to_ascii_lowercase) {
            // GET and SET, which come most often, have shorter names than all of these.
            Some(b'h' | b's' | b'z') if name.len() > 3 && is_of(&OF_ELEMENT) => {
                LikelyKeys { element: third, ..likely }
            }
            Some(b'z') if is_of(&OF_SCORE_AND_ELEMENT) => {
                // An increment is not the score.
                let score = if name.len() == 4 { third } else { &[] };
                LikelyKeys { element: fourth, score, ..likely }
            }
            Some(b'e' | b'f') if is_of(&[b"eval", b"evalsha", b"fcall"]) => match third {
                b"0" => LikelyKeys::default(),
                b"1" => LikelyKeys { key: fourth, ..likely },
                _ => LikelyKeys { key: fourth, second_key: fifth, ..likely },
            },
            Some(b's') if fourth.is_empty() && name.eq_ignore_ascii_case(b"set") => {
                LikelyKeys { string: third, ..likely }
            }
            _ => likely,
        }
    }
}

/// What the commands in an input will likely use, in order; nothing of a command of one word.
pub(crate) struct Peek<'i> {
    input: &'i [u8],
    /// Commands passed.
    pub(crate) commands: usize,
}

impl<'i> Peek<'i> {
    /// Looks into an input that begins with a command.
    pub(crate) fn new(input: &'i [u8]) -> Peek<'i> {
        Peek { input, commands: 0 }
    }
}

impl<'i> Iterator for Peek<'i> {
    type Item = LikelyKeys<'i>;

    /// Passes one command that has a key, and those without before it.
    #[inline]
    fn next(&mut self) -> Option<LikelyKeys<'i>> {
        loop {
            let (words, count, rest) = command(self.input)?;
            self.input = rest;
            self.commands += 1;
            if count > 1 {
                return Some(LikelyKeys::new(words));
            }
        }
    }
}

/// The first words of a command.
type Words<'i> = [&'i [u8]; WORDS_SEEN];

/// Of the first command its first words, how many it has, and what follows it.
#[inline]
fn command(input: &[u8]) -> Option<(Words<'_>, usize, &[u8])> {
    let (count, mut rest) = number(input, b'*')?;
    let mut words: Words<'_> = [&[]; WORDS_SEEN];
    if count > WORDS_MAX {
        return None;
    }
    for index in 0..count {
        let (size, from) = number(rest, b'$')?;
        let word = from.get(..size)?;
        if let Some(place) = words.get_mut(index) {
            *place = word;
        }
        rest = from.get(size + 2..)?;
    }
    Some((words, count, rest))
}

/// The number in a line of that kind, and what follows the line.
#[inline]
fn number(input: &[u8], kind: u8) -> Option<(usize, &[u8])> {
    let (&first, mut rest) = input.split_first()?;
    if first != kind {
        return None;
    }
    let mut number = 0;
    // Commands in a small input have no longer ones.
    for _ in 0..6 {
        let (&byte, after) = rest.split_first()?;
        if byte == b'\r' {
            return Some((number, rest.get(2..)?));
        }
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + usize::from(digit);
        rest = after;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(input: &[u8]) -> (Vec<&[u8]>, usize) {
        let mut peek = Peek::new(input);
        (peek.by_ref().map(|likely| likely.key).collect(), peek.commands)
    }

    #[test]
    fn keys_of_whole_commands_are_seen() {
        let input = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n$4\r\nPING\r\n*3\r\n$3\r\nSET\r\n$2\r\nbc\r\n$1\r\nv\r\n";
        assert_eq!(keys(input), (vec![b"a".as_slice(), b"bc"], 3));
        for end in 0..input.len() {
            let (seen, commands) = keys(&input[..end]);
            assert!(commands < 3 && seen.len() < 2, "{end}");
        }
    }

    #[test]
    fn keys_of_scripts_are_seen() {
        let input = b"*6\r\n$4\r\nEVAL\r\n$1\r\ns\r\n$1\r\n2\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n";
        let likely = Peek::new(input).next().unwrap();
        assert_eq!((likely.key, likely.second_key), (&b"a"[..], &b"b"[..]));
        let input = b"*5\r\n$7\r\nevalsha\r\n$1\r\ns\r\n$1\r\n1\r\n$1\r\na\r\n$1\r\nb\r\n";
        let likely = Peek::new(input).next().unwrap();
        assert_eq!((likely.key, likely.second_key), (&b"a"[..], &b""[..]));
        let input = b"*3\r\n$4\r\nEVAL\r\n$1\r\ns\r\n$1\r\n0\r\n";
        assert_eq!(Peek::new(input).next(), Some(LikelyKeys::default()));
    }

    #[test]
    fn elements_are_seen_behind_the_key_or_a_score() {
        let seen = |words: &str| {
            let words: Vec<&str> = words.split(' ').collect();
            let mut input = format!("*{}\r\n", words.len());
            words.iter().for_each(|word| input += &format!("${}\r\n{word}\r\n", word.len()));
            let likely = Peek::new(input.as_bytes()).next().unwrap();
            [likely.key, likely.element, likely.score]
                .map(|seen| String::from_utf8_lossy(seen).into_owned())
        };
        assert_eq!(seen("HSET h f v"), ["h", "f", ""]);
        assert_eq!(seen("sismember s m"), ["s", "m", ""]);
        assert_eq!(seen("ZADD z 1.5 m"), ["z", "m", "1.5"]);
        assert_eq!(seen("zincrby z 2 m"), ["z", "m", ""]);
        assert_eq!(seen("SET k v"), ["k", "", ""]);
        assert_eq!(seen("HGETALL h"), ["h", "", ""]);
    }

    #[test]
    fn strings_are_seen_that_are_set_without_options() {
        let input = b"*3\r\n$3\r\nsEt\r\n$1\r\nk\r\n$2\r\nvw\r\n";
        let likely = Peek::new(input).next().unwrap();
        assert_eq!((likely.key, likely.string), (&b"k"[..], &b"vw"[..]));
        let input = b"*4\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nvw\r\n$2\r\nNX\r\n";
        assert_eq!(Peek::new(input).next().unwrap().string, b"");
        let input = b"*3\r\n$4\r\nSADD\r\n$1\r\nk\r\n$2\r\nvw\r\n";
        assert_eq!(Peek::new(input).next().unwrap().string, b"");
    }

    #[test]
    fn another_form_ends_the_search() {
        let inputs: [&[u8]; 7] = [
            b"GET a\r\n",
            b"*-1\r\n",
            b"*2\r\n+GET\r\n",
            b"*2\r\n$99999999999999999999\r\n",
            b"*999999\r\n$1\r\na\r\n",
            b"*2\r\n$3\r\nGET\r\n$-1\r\n",
            b"*2\r\n$3\r\nGET\r\n:1\r\n",
        ];
        for input in inputs {
            assert_eq!(keys(input), (vec![], 0), "{input:?}");
        }
    }
}
