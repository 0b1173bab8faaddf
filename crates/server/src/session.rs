//! The state of one client: what it has said about itself, its database, MULTI, WATCH.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::os::fd::RawFd;

use crate::args::Kept;
use crate::buffer::Buffer;
use crate::goal::Goal;
use crate::put_off::{Again, PutOffCommand};
use crate::token::Token;
use crate::tracking::Tracked;
use crate::waiting::Wait;

/// The commands queued since MULTI.
#[derive(Default)]
pub(crate) struct Multi {
    /// The commands, in order.
    pub(crate) queue: Vec<Kept>,
    /// Bytes of memory that they take.
    pub(crate) size: usize,
    /// The flags that one of them has, or several: EXEC is refused as they would be.
    pub(crate) flags: u32,
    /// CLIENT PAUSE WRITE holds one of them.
    pub(crate) is_held: bool,
    /// A command could not be queued, so that EXEC will refuse.
    pub(crate) failed: bool,
}

/// Whether replies are sent: CLIENT REPLY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replies {
    /// To all commands.
    On,
    /// To no command.
    Off,
    /// Not to the command that is executed, which was CLIENT REPLY SKIP.
    SkipNext,
    /// Not to the command that is executed.
    Skip,
}

impl Replies {
    /// What holds for the next command.
    pub(crate) fn after_command(self) -> Replies {
        match self {
            Replies::On | Replies::Skip => Replies::On,
            Replies::Off => Replies::Off,
            Replies::SkipNext => Replies::Skip,
        }
    }
}

/// What a client can subscribe to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    /// A channel.
    Channel,
    /// All channels that match a pattern.
    Pattern,
    /// A channel of a shard.
    Shard,
}

impl Topic {
    /// All of them.
    pub(crate) const ALL: [Topic; 3] = [Topic::Channel, Topic::Pattern, Topic::Shard];
}

/// Bytes of memory that keep a name beside its own: an entry of a tree here, and one of a table for all clients.
const NAME_SIZE: usize = 160;

/// What a client subscribes to.
#[derive(Default)]
pub(crate) struct Subscriptions {
    names: [BTreeSet<Vec<u8>>; 3],
    /// Bytes of memory that they take.
    size: usize,
}

impl Subscriptions {
    /// The names of one topic.
    pub(crate) fn of(&self, topic: Topic) -> &BTreeSet<Vec<u8>> {
        &self.names[topic as usize]
    }

    /// Adds a name; false if it is there.
    pub(crate) fn insert(&mut self, topic: Topic, name: &[u8]) -> bool {
        let is_new = self.names[topic as usize].insert(name.to_vec());
        if is_new {
            // Here and among those of all clients.
            self.size += NAME_SIZE + 2 * name.len();
        }
        is_new
    }

    /// Removes a name; false if it is not there.
    pub(crate) fn remove(&mut self, topic: Topic, name: &[u8]) -> bool {
        let was_there = self.names[topic as usize].remove(name);
        if was_there {
            self.size = self.size.saturating_sub(NAME_SIZE + 2 * name.len());
        }
        was_there
    }

    /// How many names of the topic there are.
    pub(crate) fn count(&self, topic: Topic) -> usize {
        self.names[topic as usize].len()
    }

    /// How many there are of the topic and of those that Redis counts with it: channels and patterns together.
    pub(crate) fn count_with(&self, topic: Topic) -> usize {
        match topic {
            Topic::Shard => self.count(Topic::Shard),
            Topic::Channel | Topic::Pattern => {
                self.count(Topic::Channel) + self.count(Topic::Pattern)
            }
        }
    }

    /// Whether there is one.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.names.iter().any(|names| !names.is_empty())
    }
}

/// The state of one client.
pub(crate) struct Session {
    /// Its connection.
    pub(crate) token: Token,
    /// The connection's buffer of input when it was last read.
    pub(crate) input: Buffer,
    /// What it subscribes to.
    pub(crate) subscriptions: Subscriptions,
    /// MONITOR.
    pub(crate) monitors: bool,
    /// The client's number.
    pub(crate) id: u64,
    /// The chosen database.
    pub(crate) db: usize,
    /// Its user.
    pub(crate) user: Vec<u8>,
    /// Whether it has given a password, or none is asked for.
    pub(crate) authenticated: bool,
    /// It is authenticated, and its user may do everything.
    pub(crate) unrestricted: bool,
    /// Its AUTH is delayed.
    pub(crate) is_delayed: bool,
    /// CLIENT SETNAME.
    pub(crate) name: Vec<u8>,
    /// CLIENT SETINFO LIB-NAME.
    pub(crate) lib_name: Vec<u8>,
    /// CLIENT SETINFO LIB-VER.
    pub(crate) lib_version: Vec<u8>,
    /// The client's address.
    pub(crate) peer: String,
    /// Its IP address; none if it came through a Unix socket.
    pub(crate) ip: Option<IpAddr>,
    /// The server's address of the connection.
    pub(crate) local: String,
    /// The file descriptor of its socket; -1 without one.
    pub(crate) descriptor: RawFd,
    /// When it connected, by the server's clock.
    pub(crate) since_ms: u64,
    /// When it last sent something.
    pub(crate) active_ms: u64,
    /// Commands queued, after MULTI.
    pub(crate) multi: Option<Box<Multi>>,
    /// EXEC is running.
    pub(crate) executing: bool,
    /// Keys watched, by database and key, and when each expires; `u64::MAX` if it does not or was not
    /// there.
    pub(crate) watched: HashMap<(usize, Vec<u8>), u64>,
    /// Bytes of memory that they take.
    watched_size: usize,
    /// Whether a command may wait for a key.
    pub(crate) may_wait: bool,
    /// A command waits for a key; those behind it are not executed.
    pub(crate) waits_for: Option<Box<Wait>>,
    /// CLIENT TRACKING.
    pub(crate) tracked: Option<Box<Tracked>>,
    /// A command that CLIENT PAUSE holds; those behind it are not executed.
    pub(crate) postponed: Option<Box<Kept>>,
    /// The command that is executed has waited for this key.
    pub(crate) served: Option<Vec<u8>>,
    /// Whether replies are sent.
    pub(crate) replies: Replies,
    /// CLIENT NO-EVICT.
    pub(crate) no_evict: bool,
    /// RESP3 is spoken.
    pub(crate) resp3: bool,
    /// The connection is closed as soon as the turn's replies are sent.
    pub(crate) closing: bool,
    /// A reply that the client must not miss was given in this turn: its state here changed.
    pub(crate) changed: bool,
    /// Replies of this turn may show what it has written, or one before.
    pub(crate) shows_data: bool,
    /// The last command executed, by its full name.
    pub(crate) last_command: Option<&'static str>,
    /// Where a replica says that it listens.
    pub(crate) replica_ip: Option<String>,
    /// See `replica_ip`.
    pub(crate) replica_port: u16,
    /// A replica takes a file whose size is not known before: REPLCONF CAPA EOF.
    pub(crate) takes_unsized: bool,
    /// What WAIT waits for.
    pub(crate) wait_goal: Goal,
    /// It is a replica.
    pub(crate) is_replica: bool,
    /// Whether a command may go on in later turns.
    pub(crate) can_wait: bool,
    /// A command that is under way: its reply comes before that of any other command.
    pub(crate) put_off: Option<Box<PutOffCommand>>,
    /// The command that is executed has gone on in later turns.
    pub(crate) again: Option<Box<Again>>,
}

impl Session {
    /// A client that has just connected.
    pub(crate) fn new(id: u64, peer: String, local: String, now_ms: u64) -> Session {
        Session {
            token: Token::NONE,
            input: Buffer::default(),
            subscriptions: Subscriptions::default(),
            monitors: false,
            id,
            db: 0,
            user: Vec::new(),
            authenticated: false,
            unrestricted: false,
            is_delayed: false,
            name: Vec::new(),
            lib_name: Vec::new(),
            lib_version: Vec::new(),
            peer,
            ip: None,
            local,
            descriptor: -1,
            since_ms: now_ms,
            active_ms: now_ms,
            multi: None,
            executing: false,
            watched: HashMap::new(),
            watched_size: 0,
            may_wait: true,
            waits_for: None,
            tracked: None,
            postponed: None,
            served: None,
            replies: Replies::On,
            no_evict: false,
            resp3: false,
            closing: false,
            changed: false,
            shows_data: false,
            last_command: None,
            replica_ip: None,
            replica_port: 0,
            takes_unsized: false,
            wait_goal: Goal::default(),
            is_replica: false,
            can_wait: false,
            put_off: None,
            again: None,
        }
    }

    /// Whether the reply to a command may come in a later turn.
    pub(crate) fn may_put_off(&self) -> bool {
        let may_again = self.again.as_ref().is_none_or(|again| again.may_put_off);
        self.can_wait && !self.executing && self.replies == Replies::On && may_again
    }

    /// Whether what keys hold may be shown in a later turn. Not to a client that gets messages of changes: one would come
    /// before it is shown the state that this one ended, and would keep that.
    pub(crate) fn may_list_later(&self) -> bool {
        self.may_put_off() && self.tracked.is_none()
    }

    /// The client watches a key, which expires then.
    pub(crate) fn watch(&mut self, place: (usize, Vec<u8>), expiry_ms: u64) {
        // Here and among those of all clients.
        self.watched_size += NAME_SIZE + 2 * place.1.len();
        self.watched.insert(place, expiry_ms);
    }

    /// The keys that it watched: it watches none any more.
    pub(crate) fn take_watched(&mut self) -> HashMap<(usize, Vec<u8>), u64> {
        self.watched_size = 0;
        std::mem::take(&mut self.watched)
    }

    /// Bytes of memory that are held for it beside its buffers: commands that are queued, wait or are held, keys that it
    /// watches, names that it subscribes to.
    pub(crate) fn memory(&self) -> usize {
        let queued = self.multi.as_ref().map_or(0, |multi| multi.size);
        let waits = self.waits_for.as_ref().map_or(0, |wait| wait.size());
        let held = self.postponed.as_ref().map_or(0, |command| command.size());
        let put_off = self.put_off.as_ref().map_or(0, |put_off| put_off.memory());
        queued + waits + held + put_off + self.watched_size + self.subscriptions.size
    }

    /// Whether its next command cannot be executed: one waits for a key, or CLIENT PAUSE holds it.
    #[inline]
    pub(crate) fn has_to_wait(&self) -> bool {
        self.waits_for.is_some() || self.postponed.is_some()
    }

    /// Whether it can become a replica's: whatever else it was sent would be taken for a part of the stream.
    pub(crate) fn can_be_fed(&self) -> bool {
        let is_sent_more = self.monitors || self.tracked.is_some() || self.subscriptions.is_any();
        self.can_wait && !self.is_replica && !is_sent_more && self.replies == Replies::On
    }

    /// It is a replica's from here on: it gets no replies, and no messages that another client has sent here.
    pub(crate) fn become_replica(&mut self) {
        self.is_replica = true;
        self.replies = Replies::Off;
        self.resp3 = false;
    }

    /// The client that gets the messages of CLIENT TRACKING: 0 this one, -1 none.
    pub(crate) fn redirect(&self) -> i64 {
        match &self.tracked {
            Some(tracked) => tracked.redirect.map_or(0, |(id, _)| id as i64),
            None => -1,
        }
    }

    /// The line of CLIENT LIST, with the buffers of the connection.
    pub(crate) fn describe(&self, now_ms: u64, (input, output): (Buffer, Buffer)) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let flags: String = [
            (self.monitors, 'O'),
            (self.is_replica, 'S'),
            (self.subscriptions.is_any(), 'P'),
            (self.multi.is_some(), 'x'),
            (self.has_to_wait(), 'b'),
            (self.tracked.is_some(), 't'),
            (self.tracked.as_ref().is_some_and(|tracked| tracked.is_broken), 'R'),
            (self.tracked.as_ref().is_some_and(|tracked| tracked.broadcast), 'B'),
            (self.closing, 'c'),
            (self.ip.is_none() && !self.peer.is_empty(), 'U'),
            (self.no_evict, 'e'),
        ]
        .iter()
        .filter_map(|(holds, flag)| holds.then_some(*flag))
        .collect();
        let flags = if flags.is_empty() { "N" } else { &flags };
        let queued = self.multi.as_ref().map_or(-1, |multi| multi.queue.len() as i64);
        let queued_size = self.multi.as_ref().map_or(0, |multi| multi.size);
        let output_size = output.used + output.free;
        format!(
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub={} psub={} ssub={} \
             multi={} qbuf={} qbuf-free={} argv-mem=0 multi-mem={} rbs={} rbp={} obl=0 oll=0 omem={} \
             tot-mem={} events=r cmd={} user={} redir={} resp={} lib-name={} lib-ver={}",
            self.id,
            self.peer,
            self.local,
            self.descriptor,
            text(&self.name),
            now_ms.saturating_sub(self.since_ms) / 1000,
            now_ms.saturating_sub(self.active_ms) / 1000,
            flags,
            self.db,
            self.subscriptions.count(Topic::Channel),
            self.subscriptions.count(Topic::Pattern),
            self.subscriptions.count(Topic::Shard),
            queued,
            input.used,
            input.free,
            queued_size,
            output_size,
            output_size,
            output.used,
            size_of::<Session>() + input.used + input.free + output_size + self.memory(),
            self.last_command.unwrap_or("NULL"),
            text(&self.user),
            self.redirect(),
            if self.resp3 { 3 } else { 2 },
            text(&self.lib_name),
            text(&self.lib_version),
        )
    }
}
