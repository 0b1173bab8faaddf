//! memcached's meta commands: mg, ms, md, ma, mn, me, each with flags.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::failure::Failure;
use crate::format::ItemHead;
use crate::memcached::items::{Change, Changed, Counted, Item, Items, KEY_SIZE_MAX, Mode};
use crate::memcached::text::{BAD_CHUNK, BAD_FORMAT, Command, line};
use crate::memcached::words::{WORDS_MAX, Words, signed, unsigned_32, unsigned_64};
use crate::number::Decimal;
use crate::reply::Reply;

/// Longest opaque token, with its flag.
const OPAQUE_SIZE_MAX: usize = 32;
/// Most words of a command.
const COUNT_MAX: usize = 22;
const READ_ONLY: &str = "SERVER_ERROR items cannot be changed here: this server only reads";
const BAD_TOKEN: &str = "CLIENT_ERROR bad token in command line format";

/// The flags of a command.
#[derive(Default)]
struct Flags {
    /// The key, decoded.
    key: Vec<u8>,
    has_binary_key: bool,
    is_quiet: bool,
    wants_value: bool,
    /// The item is not marked as used.
    is_unnoticed: bool,
    sets_stale: bool,
    removes_value: bool,
    mode: Option<u8>,
    flags: u32,
    cas: Option<u64>,
    new_cas: Option<u64>,
    delta: Option<u64>,
    initial: u64,
    /// TTLs: of N, R and T.
    vivify: Option<i64>,
    recache: Option<i64>,
    exptime: Option<i64>,
}

impl Flags {
    /// Reads the flags from a word on.
    fn read(words: &Words<'_>, first: usize) -> Result<Flags, &'static str> {
        let mut flags = Flags { key: words.at(1).to_vec(), ..Flags::default() };
        let mut seen = [false; 128];
        if words.count() > COUNT_MAX.min(WORDS_MAX) {
            return Err("CLIENT_ERROR options flags are too long");
        }
        for at in first..words.count() {
            let Some((&flag, token)) = words.at(at).split_first() else { continue };
            let is_seen = seen.get_mut(usize::from(flag)).map(|seen| std::mem::replace(seen, true));
            if is_seen != Some(false) {
                return Err("CLIENT_ERROR duplicate flag");
            }
            flags.take(flag, token)?;
        }
        if flags.key.len() > KEY_SIZE_MAX || flags.key.is_empty() {
            return Err(BAD_FORMAT);
        }
        Ok(flags)
    }

    fn take(&mut self, flag: u8, token: &[u8]) -> Result<(), &'static str> {
        let number = || signed(token).map(Some).ok_or(BAD_TOKEN);
        let unsigned = || unsigned_64(token).map(Some).ok_or(BAD_TOKEN);
        match flag {
            b'b' => {
                self.key =
                    STANDARD.decode(&self.key).map_err(|_| "CLIENT_ERROR error decoding key")?;
                self.has_binary_key = true;
            }
            b'N' => self.vivify = number()?,
            b'R' => self.recache = number()?,
            b'T' => self.exptime = number()?,
            b'C' => self.cas = unsigned()?,
            b'E' => self.new_cas = unsigned()?,
            b'F' => self.flags = unsigned_32(token).ok_or(BAD_TOKEN)?,
            b'J' => {
                let number = unsigned_64(token);
                self.initial = number.ok_or("CLIENT_ERROR invalid numeric initial value")?;
            }
            b'D' => {
                let number = unsigned_64(token);
                self.delta = Some(number.ok_or("CLIENT_ERROR invalid numeric delta value")?);
            }
            b'M' => match token {
                [mode] => self.mode = Some(*mode),
                _ => return Err("CLIENT_ERROR incorrect length for M token"),
            },
            b'O' if token.len() >= OPAQUE_SIZE_MAX => {
                return Err("CLIENT_ERROR opaque token too long");
            }
            b'v' => self.wants_value = true,
            b'q' => self.is_quiet = true,
            b'u' => self.is_unnoticed = true,
            b'I' => self.sets_stale = true,
            b'x' => self.removes_value = true,
            b'O' | b'P' | b'L' | b'k' | b's' | b't' | b'c' | b'f' | b'h' | b'l' => {}
            _ => return Err("CLIENT_ERROR invalid flag"),
        }
        Ok(())
    }
}

/// Executes a command and appends its reply.
pub(super) fn execute(
    items: &mut Items<'_, '_>,
    command: &Command<'_>,
    reply: &mut Reply,
) -> Result<(), Failure> {
    let words = &command.words;
    let run = match words.at(0) {
        b"mn" => return line(reply, "MN"),
        b"me" => return debug(items, words, reply),
        b"mg" => get,
        b"ms" => set,
        b"md" => delete,
        b"ma" => count,
        _ => return line(reply, "ERROR"),
    };
    items.stats().meta += 1;
    if words.count() < 2 {
        return line(reply, "ERROR");
    }
    let is_set = words.at(0) == b"ms";
    if is_set && words.count() < 3 {
        return line(reply, BAD_FORMAT);
    }
    let flags = match Flags::read(words, if is_set { 3 } else { 2 }) {
        Ok(flags) => flags,
        Err(text) => return line(reply, text),
    };
    if !items.may_write()
        && (words.at(0) != b"mg" || flags.vivify.is_some() || flags.exptime.is_some())
    {
        return line(reply, READ_ONLY);
    }
    let mark = reply.mark();
    let is_nominal = run(items, command, &flags, reply)?;
    if is_nominal && flags.is_quiet {
        reply.truncate(mark);
    }
    Ok(())
}

/// The flags that ask for something back, in the order in which they came; a function says what that is.
fn echo(
    words: &Words<'_>,
    flags: &Flags,
    reply: &mut Reply,
    value: impl Fn(u8) -> Option<Decimal>,
) {
    for at in 2..words.count() {
        let word = words.at(at);
        match word.first() {
            Some(b'O') => {
                reply.raw(b" ");
                reply.raw(word);
            }
            Some(b'k') => {
                reply.raw(b" k");
                reply.raw(words.at(1));
                if flags.has_binary_key {
                    reply.raw(b" b");
                }
            }
            Some(&flag) => {
                if let Some(number) = value(flag) {
                    reply.raw(&[b' ', flag]);
                    reply.raw(number.as_bytes());
                }
            }
            None => {}
        }
    }
}

fn ttl(items: &Items<'_, '_>, expiry_ms: Option<u64>) -> Decimal {
    items.ttl(expiry_ms).map_or(Decimal::signed(-1), Decimal::unsigned)
}

/// `mg`; true: a miss.
fn get(
    items: &mut Items<'_, '_>,
    command: &Command<'_>,
    flags: &Flags,
    reply: &mut Reply,
) -> Result<bool, Failure> {
    let words = &command.words;
    let found = items.get(&flags.key)?;
    let is_hit = found.is_some();
    items.stats().get.count(is_hit);
    let (mut item, is_made) = match found {
        Some(item) => (item, false),
        None => {
            let Some(exptime) = flags.vivify else {
                reply.raw(b"EN");
                echo(words, flags, reply, |_| None);
                reply.raw(b"\r\n");
                return Ok(true);
            };
            items.check_room()?;
            (vivify(items, flags, (exptime, b""))?, true)
        }
    };
    let usage = items.usage(&flags.key);
    let has_changed = touch_and_win(items, flags, (&mut item, is_made))?;
    let has_value = flags.wants_value && flags.cas.is_none_or(|cas| cas != item.head.cas);
    if has_value {
        reply.raw(b"VA ");
        reply.raw(Decimal::unsigned(item.data.len() as u64).as_bytes());
    } else {
        reply.raw(b"HD");
    }
    let until = ttl(items, item.expiry_ms);
    echo(words, flags, reply, |flag| {
        Some(match flag {
            b's' => Decimal::unsigned(item.data.len() as u64),
            b't' => Decimal::signed(std::str::from_utf8(until.as_bytes()).ok()?.parse().ok()?),
            b'c' => Decimal::unsigned(item.head.cas),
            b'f' => Decimal::unsigned(u64::from(item.head.flags)),
            b'l' => Decimal::unsigned(if is_made { 0 } else { usage.idle_ms / 1000 }),
            b'h' => Decimal::unsigned(u64::from(usage.is_fetched && !is_made)),
            _ => return None,
        })
    });
    let Outcome { has_won, was_won, is_stale } = has_changed;
    for (holds, flag) in [(was_won, b" Z"), (is_stale, b" X"), (has_won, b" W")] {
        if holds {
            reply.raw(flag);
        }
    }
    reply.raw(b"\r\n");
    if has_value {
        reply.raw(&item.data);
        reply.raw(b"\r\n");
    }
    if !flags.is_unnoticed {
        items.note(&flags.key, true);
    }
    Ok(false)
}

/// What `mg` reports of an item that is to be made anew.
struct Outcome {
    /// This client is to do it.
    has_won: bool,
    /// Another one is.
    was_won: bool,
    is_stale: bool,
}

/// Gives the item the expiry of T, and finds which client is to make it anew.
fn touch_and_win(
    items: &mut Items<'_, '_>,
    flags: &Flags,
    (item, is_made): (&mut Item, bool),
) -> Result<Outcome, Failure> {
    let before = (item.head, item.expiry_ms);
    if let Some(exptime) = flags.exptime {
        item.expiry_ms = items.expiry(exptime);
        items.stats().touch.count(true);
    }
    let was_won = item.head.is_won && !is_made;
    let is_due = flags
        .recache
        .is_some_and(|limit| items.ttl(item.expiry_ms).is_some_and(|ttl| (ttl as i64) < limit));
    let has_won =
        is_made || !item.head.is_won && items.may_write() && (item.head.is_stale || is_due);
    item.head.is_won |= has_won;
    if (item.head, item.expiry_ms) != before {
        items.put(&flags.key, item.head, &[&item.data], item.expiry_ms)?;
    }
    Ok(Outcome { has_won, was_won, is_stale: item.head.is_stale })
}

/// Makes an item that was not there.
fn vivify(
    items: &mut Items<'_, '_>,
    flags: &Flags,
    (exptime, data): (i64, &[u8]),
) -> Result<Item, Failure> {
    let mut change = Change::new(Mode::Set, &flags.key, data);
    change.expiry_ms = items.expiry(exptime);
    (change.new_cas, change.has_binary_key) = (flags.new_cas, flags.has_binary_key);
    let cas = match items.store(&change)? {
        Changed::Done { cas, .. } => cas,
        _ => 0,
    };
    let head = ItemHead { cas, has_binary_key: flags.has_binary_key, ..ItemHead::default() };
    Ok(Item { head, expiry_ms: change.expiry_ms, data: data.to_vec() })
}

/// The two letters that a change is answered with.
fn code(changed: Changed) -> &'static [u8] {
    match changed {
        Changed::Done { .. } => b"HD",
        Changed::NotStored => b"NS",
        Changed::Exists => b"EX",
        Changed::NotFound => b"NF",
    }
}

/// `ms`; true: it was stored.
fn set(
    items: &mut Items<'_, '_>,
    command: &Command<'_>,
    flags: &Flags,
    reply: &mut Reply,
) -> Result<bool, Failure> {
    let words = &command.words;
    if command.data.is_none() {
        line(reply, BAD_FORMAT)?;
        return Ok(false);
    }
    let mode = match flags.mode {
        None | Some(b'S' | b's') if flags.cas.is_some() => Mode::Cas,
        None | Some(b'S' | b's') => Mode::Set,
        Some(b'E' | b'e') => Mode::Add,
        Some(b'A' | b'a') => Mode::Append,
        Some(b'P' | b'p') => Mode::Prepend,
        Some(b'R' | b'r') if flags.cas.is_some() => Mode::Cas,
        Some(b'R' | b'r') => Mode::Replace,
        Some(_) => {
            line(reply, "CLIENT_ERROR invalid mode for ms M token")?;
            return Ok(false);
        }
    };
    let Some(data) = command.data() else {
        line(reply, BAD_CHUNK)?;
        return Ok(false);
    };
    items.check_room()?;
    let mut change = Change::new(mode, &flags.key, data);
    (change.flags, change.cas) = (flags.flags, flags.cas.unwrap_or(0));
    change.expiry_ms = flags.exptime.and_then(|exptime| items.expiry(exptime));
    (change.new_cas, change.invalidates) = (flags.new_cas, flags.sets_stale);
    change.has_binary_key = flags.has_binary_key;
    change.vivify = flags.vivify.map(|exptime| items.expiry(exptime));
    let changed = items.store(&change)?;
    let (cas, size) = match changed {
        Changed::Done { cas, size } => (cas, Some(size)),
        _ => (0, None),
    };
    reply.raw(code(changed));
    echo(words, flags, reply, |flag| match flag {
        b'c' => Some(Decimal::unsigned(cas)),
        b's' => size.map(|size| Decimal::unsigned(size as u64)),
        _ => None,
    });
    reply.raw(b"\r\n");
    Ok(size.is_some())
}

/// `md`; true: it was removed or marked.
fn delete(
    items: &mut Items<'_, '_>,
    command: &Command<'_>,
    flags: &Flags,
    reply: &mut Reply,
) -> Result<bool, Failure> {
    let changed = if flags.sets_stale || flags.removes_value {
        mark(items, flags)?
    } else {
        items.delete(&flags.key, flags.cas.unwrap_or(0))?
    };
    reply.raw(code(changed));
    echo(&command.words, flags, reply, |_| None);
    reply.raw(b"\r\n");
    Ok(matches!(changed, Changed::Done { .. }))
}

/// Marks an item as stale, or removes its data, or both.
fn mark(items: &mut Items<'_, '_>, flags: &Flags) -> Result<Changed, Failure> {
    let Some(mut item) = items.get(&flags.key)? else {
        items.stats().delete.count(false);
        return Ok(Changed::NotFound);
    };
    if flags.cas.is_some_and(|cas| cas != item.head.cas) {
        items.stats().delete.count(false);
        return Ok(Changed::Exists);
    }
    if flags.removes_value {
        item.data.clear();
        item.head.flags = 0;
    }
    if flags.sets_stale {
        (item.head.is_stale, item.head.is_won) = (true, false);
        if let Some(exptime) = flags.exptime {
            item.expiry_ms = items.expiry(exptime);
        }
    }
    item.head.cas = items.next_cas(flags.new_cas);
    items.put(&flags.key, item.head, &[&item.data], item.expiry_ms)?;
    Ok(Changed::Done { cas: item.head.cas, size: item.data.len() })
}

/// `ma`; true: it was counted.
fn count(
    items: &mut Items<'_, '_>,
    command: &Command<'_>,
    flags: &Flags,
    reply: &mut Reply,
) -> Result<bool, Failure> {
    let is_incr = match flags.mode {
        None | Some(b'I' | b'i' | b'+') => true,
        Some(b'D' | b'd' | b'-') => false,
        Some(_) => {
            line(reply, "CLIENT_ERROR invalid mode for ma M token")?;
            return Ok(false);
        }
    };
    let delta = (is_incr, flags.delta.unwrap_or(1));
    let counted = items.count(&flags.key, delta, (flags.cas.unwrap_or(0), flags.new_cas))?;
    let (number, item) = match counted {
        Counted::Done(number, mut item) => {
            if let Some(exptime) = flags.exptime {
                item.expiry_ms = items.expiry(exptime);
                items.put(&flags.key, item.head, &[&item.data], item.expiry_ms)?;
            }
            (number, item)
        }
        Counted::NotFound if flags.vivify.is_some() => {
            items.check_room()?;
            let text = flags.initial.to_string();
            let exptime = flags.vivify.unwrap_or(0);
            (flags.initial, vivify(items, flags, (exptime, text.as_bytes()))?)
        }
        Counted::NotNumeric => {
            line(reply, "CLIENT_ERROR cannot increment or decrement non-numeric value")?;
            return Ok(false);
        }
        Counted::Exists | Counted::NotFound => {
            let is_there = matches!(counted, Counted::Exists);
            reply.raw(if is_there { b"EX" } else { b"NF" });
            echo(&command.words, flags, reply, |_| None);
            reply.raw(b"\r\n");
            return Ok(false);
        }
    };
    answer_count(items, command, flags, (number, &item), reply);
    Ok(true)
}

fn answer_count(
    items: &Items<'_, '_>,
    command: &Command<'_>,
    flags: &Flags,
    (number, item): (u64, &Item),
    reply: &mut Reply,
) {
    let text = Decimal::unsigned(number);
    if flags.wants_value {
        reply.raw(b"VA ");
        reply.raw(Decimal::unsigned(text.as_bytes().len() as u64).as_bytes());
    } else {
        reply.raw(b"HD");
    }
    echo(&command.words, flags, reply, |flag| match flag {
        b'c' => Some(Decimal::unsigned(item.head.cas)),
        b't' => Some(ttl(items, item.expiry_ms)),
        _ => None,
    });
    reply.raw(b"\r\n");
    if flags.wants_value {
        reply.raw(text.as_bytes());
        reply.raw(b"\r\n");
    }
}

/// `me`: what is known of an item, for a person.
fn debug(items: &mut Items<'_, '_>, words: &Words<'_>, reply: &mut Reply) -> Result<(), Failure> {
    let given = words.at(1);
    let key = match words.at(2) {
        b"b" => STANDARD.decode(given).ok(),
        _ => Some(given.to_vec()),
    };
    let Some(key) = key.filter(|key| (1..=KEY_SIZE_MAX).contains(&key.len())) else {
        return line(reply, BAD_FORMAT);
    };
    items.stats().meta += 1;
    let Some(item) = items.get(&key)? else { return line(reply, "EN") };
    let usage = items.usage(&key);
    let exp = items.ttl(item.expiry_ms).map_or(-1, |ttl| ttl as i64);
    reply.raw(b"ME ");
    reply.raw(given);
    let (la, fetch) = (usage.idle_ms / 1000, if usage.is_fetched { "yes" } else { "no" });
    let size = key.len() + item.data.len();
    line(
        reply,
        &format!(" exp={exp} la={la} cas={} fetch={fetch} cls=1 size={size}", item.head.cas),
    )
}
