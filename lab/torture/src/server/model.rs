//! What the commands do, in a map.

use std::collections::BTreeMap;

use tembo_sim::Random;

use super::collection::{Collection, Edit};
use super::stream::{Change, Stream};

/// What a key holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Content {
    String(Vec<u8>),
    Stream(Stream),
    Collection(Collection),
}

/// Values and when they expire, in milliseconds.
pub(crate) type Database = BTreeMap<Vec<u8>, (Content, Option<u64>)>;

/// A command of the server.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    /// Key, bytes, and in how many turns it expires.
    Set(u8, usize, Option<u64>),
    Delete(Vec<u8>),
    Increment(u8),
    Append(u8, usize),
    /// In so many turns.
    Expire(u8, u64),
    Persist(u8),
    Rename(u8, u8),
    Clear,
    /// Names the database as it is before the turn; alone in its turn.
    Save,
    Exec(Vec<Command>),
    Stream(u8, Change),
    Edit(u8, Edit),
}

/// Something that is done to a server.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Turn(Vec<Command>),
    Step,
    Maintain,
}

/// All that a client can see.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) now: Database,
    pub(crate) saved: Option<Database>,
}

fn clock(serial: u64) -> u64 {
    1_000_000 + serial
}

/// The time of a turn. SAVE commits what came before it by itself: so that this is nothing, no time
/// has gone by.
pub(crate) fn time(commands: &[Command], serial: u64) -> u64 {
    let saves = commands.iter().any(|command| matches!(command, Command::Save));
    if saves { 0 } else { clock(serial) }
}

fn due(serial: u64, turns: u64) -> u64 {
    clock(serial + turns * 8)
}

fn key(n: u8) -> Vec<u8> {
    if n % 3 == 2 { format!("key:{n:04}").into_bytes() } else { vec![b'k', b'a' + n] }
}

fn value(serial: u64, n: u8, len: usize) -> Vec<u8> {
    (0..len).map(|at| b'a' + ((serial as usize + at + usize::from(n)) % 26) as u8).collect()
}

impl Command {
    /// The requests that a client sends.
    pub(crate) fn requests(&self, serial: u64) -> Vec<Vec<Vec<u8>>> {
        let words =
            |name: &str, rest: Vec<Vec<u8>>| vec![[vec![name.as_bytes().to_vec()], rest].concat()];
        let number = |n: u64| n.to_string().into_bytes();
        match self {
            Command::Set(n, len, None) => words("SET", vec![key(*n), value(serial, *n, *len)]),
            Command::Set(n, len, Some(turns)) => {
                let at = number(due(serial, *turns));
                words("SET", vec![key(*n), value(serial, *n, *len), b"PXAT".to_vec(), at])
            }
            Command::Delete(keys) => words("DEL", keys.iter().map(|&n| key(n)).collect()),
            Command::Increment(n) => words("INCR", vec![key(*n)]),
            Command::Append(n, len) => words("APPEND", vec![key(*n), value(serial, *n, *len)]),
            Command::Expire(n, turns) => {
                words("PEXPIREAT", vec![key(*n), number(due(serial, *turns))])
            }
            Command::Persist(n) => words("PERSIST", vec![key(*n)]),
            Command::Rename(from, to) => words("RENAME", vec![key(*from), key(*to)]),
            Command::Clear => words("FLUSHDB", vec![]),
            Command::Save => words("SAVE", vec![]),
            Command::Stream(n, change) => {
                vec![change.request(key(*n), |turns| clock(serial.saturating_sub(turns)))]
            }
            Command::Edit(n, edit) => {
                vec![edit.request(key(*n), |len| value(serial, *n, len))]
            }
            Command::Exec(commands) => {
                let mut list = words("MULTI", vec![]);
                list.extend(commands.iter().flat_map(|command| command.requests(serial)));
                list.extend(words("EXEC", vec![]));
                list
            }
        }
    }

    /// Does it; how many of its replies are errors.
    fn execute(&self, database: &mut Database, serial: u64) -> usize {
        match self {
            Command::Set(n, len, turns) => {
                let expiry = turns.map(|turns| due(serial, turns));
                let content = Content::String(value(serial, *n, *len));
                database.insert(key(*n), (content, expiry));
            }
            Command::Delete(keys) => keys.iter().for_each(|&n| drop(database.remove(&key(n)))),
            Command::Increment(n) => {
                let zero = || (Content::String(b"0".to_vec()), None);
                let entry = database.entry(key(*n)).or_insert_with(zero);
                let Content::String(bytes) = &mut entry.0 else { return 1 };
                let text = std::str::from_utf8(bytes).ok();
                let Some(number) = text.and_then(|text| text.parse::<i64>().ok()) else { return 1 };
                *bytes = (number + 1).to_string().into_bytes();
            }
            Command::Append(n, len) => {
                let nothing = || (Content::String(Vec::new()), None);
                let entry = database.entry(key(*n)).or_insert_with(nothing);
                let Content::String(bytes) = &mut entry.0 else { return 1 };
                bytes.extend(value(serial, *n, *len));
            }
            Command::Expire(n, turns) => {
                if let Some(entry) = database.get_mut(&key(*n)) {
                    entry.1 = Some(due(serial, *turns));
                }
            }
            Command::Persist(n) => {
                if let Some(entry) = database.get_mut(&key(*n)) {
                    entry.1 = None;
                }
            }
            Command::Rename(from, to) => {
                let Some(entry) = database.remove(&key(*from)) else { return 1 };
                database.insert(key(*to), entry);
            }
            Command::Clear => database.clear(),
            Command::Save => {}
            Command::Stream(n, change) => {
                let (mut stream, expiry) = match database.get(&key(*n)) {
                    None => (None, None),
                    Some((Content::Stream(stream), expiry)) => (Some(stream.clone()), *expiry),
                    Some(_) => return 1,
                };
                let at = |turns| clock(serial.saturating_sub(turns));
                let is_done = change.execute(&mut stream, at);
                let content = stream.map(Content::Stream);
                database.extend(content.map(|content| (key(*n), (content, expiry))));
                return usize::from(!is_done);
            }
            Command::Edit(n, edit) => return edited(database, (*n, edit), serial),
            Command::Exec(commands) => {
                return commands.iter().map(|command| command.execute(database, serial)).sum();
            }
        }
        0
    }
}

/// Changes a collection; how many replies are errors.
fn edited(database: &mut Database, (n, edit): (u8, &Edit), serial: u64) -> usize {
    let (mut collection, expiry) = match database.get(&key(n)) {
        None => (None, None),
        Some((Content::Collection(collection), expiry)) => (Some(collection.clone()), *expiry),
        Some(_) => return 1,
    };
    let is_done = edit.execute(&mut collection, |len| value(serial, n, len));
    match collection {
        Some(collection) => {
            database.insert(key(n), (Content::Collection(collection), expiry));
        }
        None => drop(database.remove(&key(n))),
    }
    usize::from(!is_done)
}

impl State {
    /// What a turn makes of it, and how many replies are errors.
    pub(crate) fn after(&self, commands: &[Command], serial: u64) -> (State, usize) {
        let mut state = self.clone();
        let now_ms = time(commands, serial);
        state.now.retain(|_, (_, expiry)| expiry.is_none_or(|expiry| expiry >= now_ms));
        let errors = commands.iter().map(|command| command.execute(&mut state.now, serial)).sum();
        if commands.iter().any(|command| matches!(command, Command::Save)) {
            state.saved = Some(state.now.clone());
        }
        (state, errors)
    }
}

/// Any operation.
pub(crate) fn random_op(random: &mut Random) -> Op {
    match random.below(20) {
        0 => return Op::Step,
        1 => return Op::Maintain,
        2 => return Op::Turn(vec![Command::Save]),
        _ => {}
    }
    let count = 1 + random.below(4);
    Op::Turn((0..count).map(|_| random_command(random, true)).collect())
}

fn random_command(random: &mut Random, nested: bool) -> Command {
    let n = random.below(12) as u8;
    match random.below(3) {
        0 => return random_stream_command(random),
        1 => return random_edit(random),
        _ => {}
    }
    match random.below(14) {
        0..=3 => Command::Set(n, [1, 8, 60, 150][random.below(4)], None),
        4..=5 => Command::Set(n, 9, Some(1 + random.below(6) as u64)),
        6 => Command::Delete((0..=random.below(3)).map(|at| n + at as u8).collect()),
        7 => Command::Increment(20 + n % 3),
        8 => Command::Append(n, 5),
        9 => Command::Expire(n, 1 + random.below(5) as u64),
        10 => Command::Persist(n),
        11 => Command::Rename(n, random.below(12) as u8),
        12 if random.below(3) == 0 => Command::Clear,
        13 if nested => {
            Command::Exec((0..=random.below(3)).map(|_| random_command(random, false)).collect())
        }
        _ => Command::Set(n, 20, None),
    }
}

fn random_stream_command(random: &mut Random) -> Command {
    let (n, consumer) = (30 + random.below(2) as u8, random.below(3) as u8);
    let turns = random.below(6) as u64;
    let change = match random.below(20) {
        0..=5 => Change::Add(None),
        6 => Change::Add(Some(random.below(5) as u64)),
        7 => Change::Remove(turns),
        8 => Change::Trim(random.below(5) as u64),
        9..=10 => Change::CreateGroup,
        11..=13 => Change::Read(consumer, 1 + random.below(3) as u64),
        14..=15 => Change::Acknowledge(turns),
        16 => Change::Claim(consumer),
        17 => Change::RemoveConsumer(consumer),
        18 if random.below(2) == 0 => Change::DestroyGroup,
        18 => return Command::Delete(vec![n]),
        _ => {
            return match random.below(4) {
                0 => Command::Rename(30, 31),
                1 => Command::Set(n, 20, None),
                2 => Command::Append(n, 3),
                _ => Command::Expire(n, 1 + random.below(5) as u64),
            };
        }
    };
    Command::Stream(n, change)
}

fn random_edit(random: &mut Random) -> Command {
    let (kind, second) = (random.below(4) as u8, random.below(2) as u8);
    let (key, n) = (40 + kind * 2 + second, random.below(8) as u8);
    let len = if random.below(8) == 0 { 1100 } else { 1 + random.below(20) };
    let is_first = random.below(2) == 0;
    let edit = match (random.below(16), kind) {
        (0, _) => return Command::Delete(vec![key]),
        (1, _) => return Command::Rename(key, 40 + kind * 2 + (1 - second)),
        (2, _) => return Command::Expire(key, 1 + random.below(5) as u64),
        (3, _) => return Command::Set(key, 6, None),
        (4..=9, 0) if is_first => Edit::PushLeft(len),
        (4..=9, 0) => Edit::PushRight(len),
        (_, 0) if is_first => Edit::PopLeft,
        (_, 0) => Edit::PopRight,
        (4..=11, 1) => Edit::SetField(n, len),
        (_, 1) => Edit::RemoveField(n),
        (4..=11, 2) => Edit::Add(n),
        (_, 2) => Edit::RemoveMember(n),
        (4..=11, _) => Edit::Score(n, random.below(7) as i8),
        (_, _) if is_first => Edit::PopMin,
        (_, _) => Edit::RemoveScored(n),
    };
    Command::Edit(key, edit)
}
