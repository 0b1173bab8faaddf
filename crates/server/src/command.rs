//! What a command is, and how it is found by its name.

use std::sync::atomic::AtomicBool;

use tembo_kv::Store;

use crate::args::Args;
use crate::clients::Clients;
use crate::dataset::Dataset;
use crate::failure::{Failure, Outcome};
use crate::put_off::{PutOff, PutOffCommand};
use crate::reply::Reply;
use crate::session::Session;
use crate::shared::Shared;
use crate::sort_run;
use crate::sources::Sources;

/// What a command works on.
pub(crate) struct Context<'a, 's> {
    /// The databases.
    pub(crate) data: &'a mut Dataset<'s>,
    /// The client that sent the command.
    pub(crate) session: &'a mut Session,
    /// All other clients.
    pub(crate) clients: &'a mut Clients,
    /// What all share.
    pub(crate) shared: &'a mut Shared,
    /// All commands.
    pub(crate) table: &'a Table,
    /// Is set when the server is to stop.
    pub(crate) shutdown: &'a AtomicBool,
}

impl<'s> Context<'_, 's> {
    /// Commits in the middle of a turn, because the command needs the store itself. The replies of the turn so far stay what they
    /// are, also if it fails.
    pub(crate) fn commit_early(&mut self) -> Result<&'s Store, Failure> {
        let store = self.data.commit_early()?;
        self.shared.scripts.libraries.end_turn(true);
        self.shared.replication.commit_turn();
        self.clients.early_commits += 1;
        Ok(store)
    }
}

impl Context<'_, '_> {
    /// The client watches nothing any more.
    pub(crate) fn unwatch_all(&mut self) {
        self.data.watches.remove_all(self.session);
    }

    /// The client's command goes on in later turns.
    pub(crate) fn put_off(&mut self, put_off: PutOff) {
        self.go_on_later(put_off, None);
    }

    /// The client's command goes on in later turns. Then it is executed again, to store what it has found in these keys.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn put_off_store<'k>(
        &mut self,
        put_off: PutOff,
        keys: impl Iterator<Item = &'k [u8]>,
    ) -> Outcome {
        let db = self.session.db;
        let mut sources = Sources::new(self.session.id, db);
        for key in keys {
            sources.add(key, self.data.find(db, key)?.map(|value| value.expiry_ms));
        }
        self.data.watches.hold(&sources);
        self.go_on_later(put_off, Some(sources));
        Ok(())
    }

    fn go_on_later(&mut self, put_off: PutOff, sources: Option<Sources>) {
        let is_second = self.session.again.is_some();
        let command = PutOffCommand::new(put_off, sources, is_second);
        self.session.put_off = Some(Box::new(command));
        self.shared.put_off.add(self.session.token);
    }

    /// What the command has found in later turns, to be stored now.
    pub(crate) fn take_found(&mut self) -> Option<sort_run::Run> {
        self.session.again.as_mut().and_then(|again| again.found.take())
    }
}

/// Executes a command and appends its reply; on failure the reply is the failure's text.
pub(crate) type Run = fn(&mut Context<'_, '_>, Args<'_>, &mut Reply) -> Outcome;

/// The command may change data.
pub(crate) const WRITE: u32 = 1;
/// The command only reads data.
pub(crate) const READ: u32 = 2;
/// The command takes constant time.
pub(crate) const FAST: u32 = 4;
/// The command is for operators.
pub(crate) const ADMIN: u32 = 8;
/// The command is allowed before AUTH.
pub(crate) const NO_AUTH: u32 = 16;
/// The command is refused between MULTI and EXEC.
pub(crate) const NO_MULTI: u32 = 32;
/// The command is executed at once even after MULTI.
pub(crate) const NOT_QUEUED: u32 = 64;
/// The command needs room in the pool.
pub(crate) const DENY_OOM: u32 = 128;
/// The command changes the session, so that its reply must not be lost.
pub(crate) const SESSION: u32 = 256;
/// The command keeps a version in the pool.
pub(crate) const SAVE: u32 = 512;

/// The command does not write, but others could see what it does: CLIENT PAUSE WRITE holds it.
pub(crate) const REPLICATED: u32 = 1 << 13;
/// The command is allowed to a client that subscribes to something and speaks RESP2.
pub(crate) const SUBSCRIBED: u32 = 1 << 12;
/// Where the keys are depends on the arguments.
pub(crate) const MOVABLE_KEYS: u32 = 1 << 10;
/// The command may wait.
pub(crate) const BLOCKING: u32 = 1 << 11;
/// The command is about hashes.
pub(crate) const HASH: u32 = 1 << 16;
/// The command is about sets.
pub(crate) const SET: u32 = 1 << 17;
/// The command is about lists.
pub(crate) const LIST: u32 = 1 << 18;
/// The command is about sorted sets.
pub(crate) const SORTED_SET: u32 = 1 << 19;
/// The command is about streams.
pub(crate) const STREAM: u32 = 1 << 20;

/// One command or subcommand.
pub(crate) struct Command {
    /// Its name in lower case.
    pub(crate) name: &'static str,
    /// For a subcommand `container|name`.
    pub(crate) full_name: &'static str,
    /// Arguments including the name; negative: at least so many.
    pub(crate) arity: i32,
    /// See the constants.
    pub(crate) flags: u32,
    /// First key, last key (negative: from the end), step.
    pub(crate) keys: (i32, i32, i32),
    /// What it does.
    pub(crate) run: Run,
    /// Its subcommands.
    pub(crate) subcommands: &'static [Command],
}

impl Command {
    /// A command without keys.
    pub(crate) const fn new(name: &'static str, arity: i32, flags: u32, run: Run) -> Command {
        Command { name, full_name: name, arity, flags, keys: (0, 0, 0), run, subcommands: &[] }
    }

    /// A command with keys.
    pub(crate) const fn keyed(
        name: &'static str,
        arity: i32,
        flags: u32,
        keys: (i32, i32, i32),
        run: Run,
    ) -> Command {
        Command { name, full_name: name, arity, flags, keys, run, subcommands: &[] }
    }

    /// A subcommand; `full_name` is `container|name`.
    pub(crate) const fn sub(
        full_name: &'static str,
        name: &'static str,
        arity: i32,
        flags: u32,
        run: Run,
    ) -> Command {
        Command { name, full_name, arity, flags, keys: (0, 0, 0), run, subcommands: &[] }
    }

    /// A command that has only subcommands.
    pub(crate) const fn container(
        name: &'static str,
        flags: u32,
        subcommands: &'static [Command],
    ) -> Command {
        let run: Run = without_subcommand;
        Command { name, full_name: name, arity: -2, flags, keys: (0, 0, 0), run, subcommands }
    }

    /// Whether it takes so many arguments, its name included.
    #[inline]
    pub(crate) fn takes(&self, count: usize) -> bool {
        let arity = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { count >= arity } else { count == arity }
    }

    /// Whether it has one of the flags.
    #[inline]
    pub(crate) fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// The subcommand of that name, in any case.
    pub(crate) fn subcommand(&self, name: &[u8]) -> Option<&'static Command> {
        self.subcommands.iter().find(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
    }
}

/// Slots of the table's hash index.
const SLOTS: usize = 1024;

/// Never runs: a container without subcommand has the wrong number of arguments.
fn without_subcommand(_: &mut Context<'_, '_>, _: Args<'_>, _: &mut Reply) -> Outcome {
    Err("ERR missing subcommand".into())
}

/// All commands, by name.
pub(crate) struct Table {
    families: &'static [&'static [Command]],
    /// Each with its number; the subcommands have the next ones.
    slots: Box<[Option<(&'static Command, usize)>; SLOTS]>,
}

impl Table {
    /// The commands of these families.
    pub(crate) fn new(families: &'static [&'static [Command]]) -> Table {
        let mut slots = Box::new([None; SLOTS]);
        for (command, number) in numbered(families) {
            let mut slot = hash(command.name.as_bytes());
            while slots[slot % SLOTS].is_some() {
                slot += 1;
            }
            slots[slot % SLOTS] = Some((command, number));
        }
        Table { families, slots }
    }

    /// The command of that name, in any case.
    #[inline]
    pub(crate) fn find(&self, name: &[u8]) -> Option<&'static Command> {
        self.find_numbered(name).map(|(command, _)| command)
    }

    /// The same with its number; that of its first subcommand is the next one.
    #[inline]
    pub(crate) fn find_numbered(&self, name: &[u8]) -> Option<(&'static Command, usize)> {
        let mut slot = hash(name);
        while let Some((command, number)) = self.slots[slot % SLOTS] {
            if command.name.as_bytes().eq_ignore_ascii_case(name) {
                return Some((command, number));
            }
            slot += 1;
        }
        None
    }

    /// All commands and subcommands with their numbers.
    pub(crate) fn all_numbered(&self) -> impl Iterator<Item = (&'static Command, usize)> + use<> {
        numbered(self.families).flat_map(|(command, number)| {
            std::iter::once((command, number)).chain(command.subcommands.iter().zip(number + 1..))
        })
    }

    /// All commands, family by family.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'static Command> + use<> {
        self.families.iter().copied().flatten()
    }
}

/// All commands with their numbers.
fn numbered(
    families: &'static [&'static [Command]],
) -> impl Iterator<Item = (&'static Command, usize)> {
    let mut next = 0;
    families.iter().copied().flatten().map(move |command| {
        let number = next;
        next += 1 + command.subcommands.len();
        (command, number)
    })
}

/// A hash that ignores the case of letters.
#[inline]
fn hash(name: &[u8]) -> usize {
    let mut hash = name.len() as u32;
    for &byte in name.iter().take(16) {
        hash = (hash ^ u32::from(byte | 0x20)).wrapping_mul(0x0100_0193);
    }
    (hash ^ hash >> 15) as usize
}
