//! The keys of commands that have arrived and are not executed yet, so that the store can prefetch all of
//! them at once.
//!
//! A guess: the second word of a command is most often a key. Input in another form than that of an array
//! of bulks ends the search, and is left to the [parser](crate::parse).

/// Commands of more words end the search.
const WORDS_MAX: usize = 16;

/// The likely keys in an input, in order; nothing for a command of one word.
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
    type Item = &'i [u8];

    /// Passes one command that has a key, and those without before it.
    #[inline]
    fn next(&mut self) -> Option<&'i [u8]> {
        loop {
            let (key, rest) = command(self.input)?;
            self.input = rest;
            self.commands += 1;
            if key.is_some() {
                return key;
            }
        }
    }
}

/// The second word of the first command, and what follows the command.
#[inline]
fn command(input: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let (words, mut rest) = number(input, b'*')?;
    let mut key = None;
    if words > WORDS_MAX {
        return None;
    }
    for index in 0..words {
        let (size, from) = number(rest, b'$')?;
        let word = from.get(..size)?;
        if index == 1 {
            key = Some(word);
        }
        rest = from.get(size + 2..)?;
    }
    Some((key, rest))
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
        (peek.by_ref().collect(), peek.commands)
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
