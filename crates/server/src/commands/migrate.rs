//! MIGRATE: keys go to another server, of Redis or of Tembo, and are removed here when they are there.
//!
//! As in Redis, other clients wait meanwhile: so no key changes between its copy and its removal. Before anything is sent, what
//! was written is made durable: nothing that a crash could take back leaves the process.

use std::io;
use std::time::Duration;

use crate::args::Args;
use crate::client::{Answer, Client};
use crate::command::{Command, Context, NO_MULTI, WRITE};
use crate::commands::argument::integer;
use crate::dump;
use crate::effects::send_as;
use crate::event_class::Classes;
use crate::failure::{DISK_FULL, Failure, Outcome, SYNTAX};
use crate::notify::notify;
use crate::rdb;
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] =
    &[Command::keyed("migrate", -6, WRITE | NO_MULTI, (3, 3, 1), migrate)];

/// The patience where none is given.
const TIMEOUT_MS: u64 = 1000;

/// What is asked for.
struct Options<'a> {
    copies: bool,
    replaces: bool,
    auth: Vec<&'a [u8]>,
    keys: Vec<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse(args: Args<'a>) -> Result<Options<'a>, Failure> {
        let mut options =
            Options { copies: false, replaces: false, auth: Vec::new(), keys: vec![args.at(3)] };
        let mut at = 6;
        while at < args.count() {
            let left = args.count() - at - 1;
            if args.is(at, "COPY") {
                options.copies = true;
            } else if args.is(at, "REPLACE") {
                options.replaces = true;
            } else if args.is(at, "AUTH") && left >= 1 {
                options.auth = vec![args.at(at + 1)];
                at += 1;
            } else if args.is(at, "AUTH2") && left >= 2 {
                options.auth = vec![args.at(at + 1), args.at(at + 2)];
                at += 2;
            } else if args.is(at, "KEYS") {
                if !args.at(3).is_empty() {
                    return Err(
                        "ERR When using MIGRATE KEYS option, the key argument must be set to the \
                                empty string"
                            .into(),
                    );
                }
                options.keys = args.from(at + 1).collect();
                break;
            } else {
                return Err(SYNTAX.into());
            }
            at += 1;
        }
        Ok(options)
    }
}

/// A value that is sent: its key, when it expires, and what DUMP would give.
struct Sent<'a> {
    key: &'a [u8],
    expiry_ms: Option<u64>,
    value: Vec<u8>,
}

fn migrate(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let options = Options::parse(args)?;
    let (db, timeout_ms) = (integer(args.at(4))?, integer(args.at(5))?);
    let timeout_ms = u64::try_from(timeout_ms).ok().filter(|&ms| ms > 0).unwrap_or(TIMEOUT_MS);
    if context.session.executing || context.shared.scripts.running.is_some() {
        return Err("ERR MIGRATE is not possible within a script or a transaction".into());
    }
    let mut all = Vec::new();
    let own = context.session.db;
    for &key in &options.keys {
        let expiry_ms = context.data.find(own, key)?.map(|value| value.expiry_ms);
        let Some(expiry_ms) = expiry_ms else { continue };
        if let Some(mut value) = dump::read(context.data, (own, key))? {
            rdb::seal(&mut value);
            all.push(Sent { key, expiry_ms, value });
        }
    }
    if all.is_empty() {
        reply.simple("NOKEY");
        return Ok(());
    }
    let store = context.commit_early()?;
    store.sync().map_err(|error| match error {
        // It is visible, and the turn is synced when there is room.
        tembo_kv::Error::NotDurable(_) => DISK_FULL.into(),
        _ => Failure::Turn(tembo_kv::Error::Poisoned),
    })?;
    let host = String::from_utf8_lossy(args.at(1)).into_owned();
    let port = u16::try_from(integer(args.at(2))?).map_err(|_| "ERR Invalid port")?;
    let patience = Duration::from_millis(timeout_ms);
    let mut target = Client::connect((host.as_str(), port), patience)
        .map_err(|_| "IOERR error or timeout connecting to the client")?;
    let mut refusal = greet(&mut target, &options.auth, db)?;
    if refusal.is_none() {
        for sent in &all {
            match restore(&mut target, sent, options.replaces, context.data.now_ms())? {
                None if options.copies => {}
                None => {
                    if context.data.remove(own, sent.key)? {
                        send_as(context, &[b"DEL", sent.key]);
                        notify(context, Classes::GENERIC, "del", sent.key);
                    }
                }
                Some(text) => refusal = Some(text),
            }
        }
    }
    match refusal {
        None => {
            reply.ok();
            Ok(())
        }
        Some(text) => Err(format!("ERR Target instance replied with error: {text}").into()),
    }
}

/// Chooses user and database; why that was refused, if it was.
fn greet(target: &mut Client, auth: &[&[u8]], db: i64) -> Result<Option<String>, Failure> {
    if !auth.is_empty() {
        let words: Vec<&[u8]> =
            [b"AUTH".as_slice()].into_iter().chain(auth.iter().copied()).collect();
        if let Some(text) = refusal(target.call(&words))? {
            return Ok(Some(text));
        }
    }
    refusal(target.call(&[b"SELECT", db.to_string().as_bytes()]))
}

/// Puts a value there; why that was refused, if it was.
fn restore(
    target: &mut Client,
    sent: &Sent<'_>,
    replaces: bool,
    now_ms: u64,
) -> Result<Option<String>, Failure> {
    let ttl_ms = sent.expiry_ms.map_or(0, |expiry_ms| expiry_ms.saturating_sub(now_ms).max(1));
    let ttl = ttl_ms.to_string();
    let mut words = vec![b"RESTORE".as_slice(), sent.key, ttl.as_bytes(), &sent.value];
    words.extend(replaces.then_some(b"REPLACE".as_slice()));
    refusal(target.call(&words))
}

fn refusal(answered: io::Result<Answer>) -> Result<Option<String>, Failure> {
    match answered {
        Ok(Answer::Error(text)) => Ok(Some(text)),
        Ok(_) => Ok(None),
        Err(_) => Err("IOERR error or timeout reading from target instance".into()),
    }
}
