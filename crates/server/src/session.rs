//! The state of one client: what it has said about itself, its database, MULTI, WATCH.

use std::collections::HashMap;

use crate::args::Kept;

/// The commands queued since MULTI.
#[derive(Default)]
pub(crate) struct Multi {
    /// The commands, in order.
    pub(crate) queue: Vec<Kept>,
    /// Bytes of memory that they take.
    pub(crate) size: usize,
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

/// The state of one client.
pub(crate) struct Session {
    /// The client's number.
    pub(crate) id: u64,
    /// The chosen database.
    pub(crate) db: usize,
    /// Whether it has given the password, or none is asked for.
    pub(crate) authenticated: bool,
    /// CLIENT SETNAME.
    pub(crate) name: Vec<u8>,
    /// CLIENT SETINFO LIB-NAME.
    pub(crate) lib_name: Vec<u8>,
    /// CLIENT SETINFO LIB-VER.
    pub(crate) lib_version: Vec<u8>,
    /// The client's address.
    pub(crate) peer: String,
    /// The server's address of the connection.
    pub(crate) local: String,
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
    /// The last command executed, by its full name.
    pub(crate) last_command: Option<&'static str>,
}

impl Session {
    /// A client that has just connected.
    pub(crate) fn new(id: u64, peer: String, local: String, now_ms: u64) -> Session {
        Session {
            id,
            db: 0,
            authenticated: false,
            name: Vec::new(),
            lib_name: Vec::new(),
            lib_version: Vec::new(),
            peer,
            local,
            since_ms: now_ms,
            active_ms: now_ms,
            multi: None,
            executing: false,
            watched: HashMap::new(),
            replies: Replies::On,
            no_evict: false,
            resp3: false,
            closing: false,
            changed: false,
            last_command: None,
        }
    }

    /// The line of CLIENT LIST.
    pub(crate) fn describe(&self, now_ms: u64, waiting: usize) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let flags = if self.multi.is_some() { "x" } else { "N" };
        let queued = self.multi.as_ref().map_or(-1, |multi| multi.queue.len() as i64);
        format!(
            "id={} addr={} laddr={} fd=-1 name={} age={} idle={} flags={}{} db={} sub=0 psub=0 ssub=0 \
             multi={} qbuf=0 qbuf-free=0 argv-mem=0 multi-mem={} rbs=0 rbp=0 obl=0 oll=0 omem={} \
             tot-mem=0 events=r cmd={} user=default redir=-1 resp={} lib-name={} lib-ver={}",
            self.id,
            self.peer,
            self.local,
            text(&self.name),
            now_ms.saturating_sub(self.since_ms) / 1000,
            now_ms.saturating_sub(self.active_ms) / 1000,
            flags,
            if self.no_evict { "e" } else { "" },
            self.db,
            queued,
            self.multi.as_ref().map_or(0, |multi| multi.size),
            waiting,
            self.last_command.unwrap_or("NULL"),
            if self.resp3 { 3 } else { 2 },
            text(&self.lib_name),
            text(&self.lib_version),
        )
    }
}
