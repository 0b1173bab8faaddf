//! JSON read into values of Lua, as `cjson` reads it.

use mlua::{Lua, Result, Value};

use crate::lua::number::parse_prefix;
use crate::lua::raised::located;

/// What stands next in the text.
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Colon,
    Comma,
    Text(Vec<u8>),
    Number(f64),
    Flag(bool),
    Null,
    End,
    /// Nothing that is known, and what is wrong with it.
    Wrong(&'static str),
}

impl Token {
    /// As an error calls it.
    fn name(&self) -> &'static str {
        match self {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::Text(_) => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Flag(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::End => "T_END",
            Token::Wrong(reason) => reason,
        }
    }
}

/// Reads one text.
pub(super) struct Decoder<'a> {
    lua: &'a Lua,
    text: &'a [u8],
    at: usize,
    /// Where the last token began; where it is wrong, if it is.
    token_at: usize,
    depth: i64,
    depth_max: i64,
    takes_invalid: bool,
}

impl Decoder<'_> {
    /// The value that the text is.
    ///
    /// # Errors
    /// It is none; or more deeply nested than allowed.
    pub(super) fn decode(
        lua: &Lua,
        text: &[u8],
        depth_max: i64,
        takes_invalid: bool,
    ) -> Result<Value> {
        if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
            return Err(located(lua, "JSON parser does not support UTF-16 or UTF-32"));
        }
        let mut decoder =
            Decoder { lua, text, at: 0, token_at: 0, depth: 0, depth_max, takes_invalid };
        let token = decoder.next();
        let value = decoder.value(token)?;
        match decoder.next() {
            Token::End => Ok(value),
            other => Err(decoder.unexpected("the end", &other)),
        }
    }

    fn unexpected(&self, wanted: &str, found: &Token) -> mlua::Error {
        let (found, at) = (found.name(), self.token_at + 1);
        located(self.lua, &format!("Expected {wanted} but found {found} at character {at}"))
    }

    fn wrong(&mut self, reason: &'static str) -> Token {
        self.token_at = self.at;
        Token::Wrong(reason)
    }

    /// The byte so many after the next; 0 at the end.
    fn peek(&self, offset: usize) -> u8 {
        self.text.get(self.at + offset).copied().unwrap_or(0)
    }

    fn next(&mut self) -> Token {
        while matches!(self.peek(0), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        self.token_at = self.at;
        let single = match self.peek(0) {
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b':' => Token::Colon,
            b',' => Token::Comma,
            0 => return Token::End,
            b'"' => return self.string(),
            b'-' | b'0'..=b'9' => {
                if !self.takes_invalid && self.is_invalid_number() {
                    return self.wrong("invalid number");
                }
                return self.number();
            }
            b'f' | b'i' | b'I' | b'n' | b'N' | b't' | b'+' => return self.word(),
            _ => return self.wrong("invalid token"),
        };
        self.at += 1;
        single
    }

    fn word(&mut self) -> Token {
        let rest = &self.text[self.at..];
        for (word, token) in
            [("true", Token::Flag(true)), ("false", Token::Flag(false)), ("null", Token::Null)]
        {
            if rest.starts_with(word.as_bytes()) {
                self.at += word.len();
                return token;
            }
        }
        if self.takes_invalid && self.is_invalid_number() {
            return self.number();
        }
        self.wrong("invalid token")
    }

    /// Whether a number is there that C reads and JSON does not know.
    fn is_invalid_number(&self) -> bool {
        let rest = &self.text[self.at..];
        let unsigned = match rest {
            [b'+', ..] => return true,
            [b'-', unsigned @ ..] => unsigned,
            _ => rest,
        };
        match unsigned {
            [b'0', b'x' | b'X' | b'0'..=b'9', ..] => true,
            [first, ..] if *first <= b'9' => false,
            _ => [b"inf", b"nan"].iter().any(|word| {
                unsigned.len() >= 3 && unsigned[..3].eq_ignore_ascii_case(word.as_slice())
            }),
        }
    }

    fn number(&mut self) -> Token {
        match parse_prefix(&self.text[self.at..]) {
            Some((number, rest)) => {
                self.at = self.text.len() - rest.len();
                Token::Number(number)
            }
            None => self.wrong("invalid number"),
        }
    }

    fn string(&mut self) -> Token {
        self.at += 1;
        let mut text = Vec::new();
        loop {
            let byte = self.peek(0);
            let plain = match byte {
                b'"' => break,
                0 => return self.wrong("unexpected end of string"),
                b'\\' => {
                    let escaped = match self.peek(1) {
                        byte @ (b'"' | b'\\' | b'/') => byte,
                        b'b' => 8,
                        b't' => 9,
                        b'n' => 10,
                        b'f' => 12,
                        b'r' => 13,
                        b'u' => {
                            if !self.code_point(&mut text) {
                                return self.wrong("invalid unicode escape code");
                            }
                            continue;
                        }
                        _ => return self.wrong("invalid escape code"),
                    };
                    self.at += 1;
                    escaped
                }
                other => other,
            };
            text.push(plain);
            self.at += 1;
        }
        self.at += 1;
        Token::Text(text)
    }

    /// The four hexadecimal digits so many bytes on.
    fn unit(&self, from: usize) -> Option<u32> {
        let digits = self.text.get(self.at + from..self.at + from + 4)?;
        digits.iter().try_fold(0, |sum, digit| Some(sum * 16 + char::from(*digit).to_digit(16)?))
    }

    /// Takes `\uXXXX`, or two of them; false if it is no character.
    fn code_point(&mut self, text: &mut Vec<u8>) -> bool {
        let Some(mut code) = self.unit(2) else { return false };
        let mut size = 6;
        if code & 0xf800 == 0xd800 {
            let is_pair = code & 0x400 == 0 && self.peek(6) == b'\\' && self.peek(7) == b'u';
            let Some(low) = self.unit(8).filter(|low| is_pair && low & 0xfc00 == 0xdc00) else {
                return false;
            };
            code = ((code & 0x3ff) << 10) + (low & 0x3ff) + 0x10000;
            size = 12;
        }
        let Some(character) = char::from_u32(code) else { return false };
        text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        self.at += size;
        true
    }

    fn value(&mut self, token: Token) -> Result<Value> {
        Ok(match token {
            Token::Text(text) => Value::String(self.lua.create_string(text)?),
            Token::Number(number) => Value::Number(number),
            Token::Flag(flag) => Value::Boolean(flag),
            Token::ObjectBegin => self.object()?,
            Token::ArrayBegin => self.array()?,
            Token::Null => Value::NULL,
            other => return Err(self.unexpected("value", &other)),
        })
    }

    fn descend(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth <= self.depth_max {
            return Ok(());
        }
        let (depth, at) = (self.depth, self.at);
        let text = format!("Found too many nested data structures ({depth}) at character {at}");
        Err(located(self.lua, &text))
    }

    fn object(&mut self) -> Result<Value> {
        self.descend()?;
        let table = self.lua.create_table()?;
        let mut token = self.next();
        if !matches!(token, Token::ObjectEnd) {
            loop {
                let Token::Text(key) = token else {
                    return Err(self.unexpected("object key string", &token));
                };
                match self.next() {
                    Token::Colon => {}
                    other => return Err(self.unexpected("colon", &other)),
                }
                let value = self.next();
                let value = self.value(value)?;
                table.raw_set(self.lua.create_string(key)?, value)?;
                match self.next() {
                    Token::ObjectEnd => break,
                    Token::Comma => token = self.next(),
                    other => return Err(self.unexpected("comma or object end", &other)),
                }
            }
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }

    fn array(&mut self) -> Result<Value> {
        self.descend()?;
        let table = self.lua.create_table()?;
        let mut token = self.next();
        if !matches!(token, Token::ArrayEnd) {
            for index in 1.. {
                let value = self.value(token)?;
                table.raw_seti(index, value)?;
                match self.next() {
                    Token::ArrayEnd => break,
                    Token::Comma => token = self.next(),
                    other => return Err(self.unexpected("comma or array end", &other)),
                }
            }
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }
}
