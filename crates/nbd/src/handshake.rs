//! The handshake: which export a client wants, and which extensions.

use std::io::{self, Read, Write};

use crate::export::{Export, Exports};
use crate::replies::ALLOCATION;
use crate::stream::Until;
use crate::wire::{
    FIXED_NEWSTYLE, GREETING, HAVE_OPTIONS, NO_ZEROES, OPTION_REPLY, PAYLOAD_MAX, answer, info,
    option,
};

/// Most bytes of an option. Names have fewer than 4 KiB.
const OPTION_SIZE_MAX: u32 = 64 << 10;

/// Options of one client, so that it comes to an end.
const OPTIONS_MAX: usize = 1024;

/// The metadata context that there is.
const CONTEXT: &str = "base:allocation";

/// What was agreed on.
pub(crate) struct Agreed {
    pub(crate) export: Export,
    pub(crate) is_structured: bool,
    /// BLOCK_STATUS may be asked for.
    pub(crate) has_context: bool,
}

struct Handshake<'s, 'c> {
    stream: &'s mut Until<'c>,
    exports: &'s Exports,
    has_zeroes: bool,
    is_structured: bool,
    /// The export for which the context was asked for.
    context: Option<String>,
}

/// A part of an option.
struct Words<'b>(&'b [u8]);

impl<'b> Words<'b> {
    fn take(&mut self, len: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn half(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn word(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    /// A text after its length.
    fn text(&mut self) -> Option<&'b str> {
        let len = self.word()?;
        std::str::from_utf8(self.take(len as usize)?).ok()
    }
}

fn word(stream: &mut Until<'_>) -> io::Result<u32> {
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes)?;
    Ok(u32::from_be_bytes(bytes))
}

fn damaged(error: tembo_array::Error) -> io::Error {
    io::Error::other(error)
}

/// Agrees with a client. `None`: it wants nothing more, or speaks something else.
pub(crate) fn agree(stream: &mut Until<'_>, exports: &Exports) -> io::Result<Option<Agreed>> {
    let mut greeting = Vec::with_capacity(18);
    greeting.extend(GREETING.to_be_bytes());
    greeting.extend(HAVE_OPTIONS.to_be_bytes());
    greeting.extend((FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes());
    stream.write_all(&greeting)?;
    let flags = word(stream)?;
    if flags & !u32::from(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
        return Ok(None);
    }
    let has_zeroes = flags & u32::from(NO_ZEROES) == 0;
    let mut handshake =
        Handshake { stream, exports, has_zeroes, is_structured: false, context: None };
    for _ in 0..OPTIONS_MAX {
        let mut head = [0; 16];
        handshake.stream.read_exact(&mut head)?;
        let mut head = Words(&head);
        let (magic, number, len) = (head.take(8), head.word(), head.word());
        let (Some(number), Some(len)) = (number, len) else { return Ok(None) };
        if magic != Some(&HAVE_OPTIONS.to_be_bytes()[..]) {
            return Ok(None);
        }
        if len > OPTION_SIZE_MAX {
            io::copy(&mut (&mut *handshake.stream).take(len.into()), &mut io::sink())?;
            handshake.answer(number, answer::TOO_BIG, &[])?;
            continue;
        }
        let mut data = vec![0; len as usize];
        handshake.stream.read_exact(&mut data)?;
        match number {
            option::EXPORT_NAME => return handshake.export_name(&data),
            option::ABORT => {
                handshake.answer(number, answer::ACK, &[])?;
                return Ok(None);
            }
            option::GO | option::INFO => {
                if let Some(agreed) = handshake.go(number, &data)? {
                    return Ok(Some(agreed));
                }
            }
            _ => handshake.other(number, &data)?,
        }
    }
    Ok(None)
}

impl Handshake<'_, '_> {
    fn answer(&mut self, option: u32, kind: u32, data: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(20 + data.len());
        bytes.extend(OPTION_REPLY.to_be_bytes());
        bytes.extend(option.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        self.stream.write_all(&bytes)
    }

    /// The end of an option: an acknowledgement, or that it was malformed.
    fn end(&mut self, option: u32, is_sound: bool) -> io::Result<()> {
        self.answer(option, if is_sound { answer::ACK } else { answer::INVALID }, &[])
    }

    fn agreed(&self, name: &str, export: Export) -> Agreed {
        let has_context = self.context.as_deref() == Some(name);
        Agreed { export, is_structured: self.is_structured, has_context }
    }

    /// The way of old clients: there is no answer but the export.
    fn export_name(&mut self, data: &[u8]) -> io::Result<Option<Agreed>> {
        let Ok(name) = std::str::from_utf8(data) else { return Ok(None) };
        let Some(export) = self.exports.named(name).map_err(damaged)? else { return Ok(None) };
        let mut bytes = export.len.to_be_bytes().to_vec();
        bytes.extend(export.flags().to_be_bytes());
        if self.has_zeroes {
            bytes.extend([0; 124]);
        }
        self.stream.write_all(&bytes)?;
        Ok(Some(self.agreed(name, export)))
    }

    /// GO and INFO.
    fn go(&mut self, option: u32, data: &[u8]) -> io::Result<Option<Agreed>> {
        let mut words = Words(data);
        let name = words.text();
        let count = words.half().map(usize::from);
        let (Some(name), Some(count)) = (name, count) else {
            return self.end(option, false).map(|()| None);
        };
        if words.0.len() != 2 * count {
            return self.end(option, false).map(|()| None);
        }
        let Some(export) = self.exports.named(name).map_err(damaged)? else {
            return self.answer(option, answer::UNKNOWN, b"no such export").map(|()| None);
        };
        let mut about = info::EXPORT.to_be_bytes().to_vec();
        about.extend(export.len.to_be_bytes());
        about.extend(export.flags().to_be_bytes());
        self.answer(option, answer::INFO, &about)?;
        while let Some(wanted) = words.half() {
            let mut about = wanted.to_be_bytes().to_vec();
            match wanted {
                info::NAME => about.extend(name.as_bytes()),
                info::BLOCK_SIZE => {
                    let preferred = (export.block_size as u32).max(4096);
                    [1, preferred, PAYLOAD_MAX].iter().for_each(|n| about.extend(n.to_be_bytes()));
                }
                _ => continue,
            }
            self.answer(option, answer::INFO, &about)?;
        }
        self.end(option, true)?;
        Ok((option == option::GO).then(|| self.agreed(name, export)))
    }

    fn other(&mut self, option: u32, data: &[u8]) -> io::Result<()> {
        match option {
            option::STRUCTURED_REPLY => {
                self.is_structured |= data.is_empty();
                self.end(option, data.is_empty())
            }
            option::LIST if data.is_empty() => {
                for name in self.exports.names().map_err(damaged)? {
                    let mut about = (name.len() as u32).to_be_bytes().to_vec();
                    about.extend(name.as_bytes());
                    self.answer(option, answer::SERVER, &about)?;
                }
                self.end(option, true)
            }
            option::LIST => self.end(option, false),
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                self.contexts(option, &mut Words(data))
            }
            _ => self.answer(option, answer::UNSUPPORTED, &[]),
        }
    }

    fn contexts(&mut self, option: u32, words: &mut Words<'_>) -> io::Result<()> {
        let sets = option == option::SET_META_CONTEXT;
        if sets {
            self.context = None;
        }
        let queries = (|| {
            let (name, count) = (words.text()?, words.word()?);
            let mut queries = Vec::new();
            for _ in 0..count {
                queries.push(words.text()?);
            }
            words.0.is_empty().then_some((name, queries))
        })();
        let Some((name, queries)) = queries.filter(|_| self.is_structured || !sets) else {
            return self.end(option, false);
        };
        if self.exports.named(name).map_err(damaged)?.is_none() {
            return self.answer(option, answer::UNKNOWN, b"no such export");
        }
        let lists_all = !sets && queries.is_empty();
        let is_ours = |query: &&str| *query == CONTEXT || !sets && *query == "base:";
        if lists_all || queries.iter().any(is_ours) {
            let mut about = ALLOCATION.to_be_bytes().to_vec();
            about.extend(CONTEXT.as_bytes());
            self.answer(option, answer::META_CONTEXT, &about)?;
            if sets {
                self.context = Some(name.to_owned());
            }
        }
        self.end(option, true)
    }
}
