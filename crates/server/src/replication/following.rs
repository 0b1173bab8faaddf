//! A store that follows a primary: what the event loop does with what the link reads.
//!
//! Changes are applied in turns, as clients' writes are, but for this: each commit also notes which version of the
//! primary it reaches (`Place`), so that a crash at any moment leaves a store that knows where it is. What
//! belongs together in the primary is applied in one turn. If that is more than a turn takes, as a full
//! synchronisation is, the store is *incomplete* for some turns, which is noted too, and clients are not served from it.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustls::ClientConfig;
use tembo_kv::{Error, Keyspace, Store};

use crate::access::Access;
use crate::dataset::Dataset;
use crate::format::data_keyspace;
use crate::replication::base::Base;
use crate::replication::feed::Gap;
use crate::replication::format::{
    Action, Content, Entries, Entry, FrameKind, Malformed, PLACE_KEY, Place,
};
use crate::replication::history::place_of;
use crate::replication::link::{Link, Message, Request};
use crate::replication::mark::Mark;

/// Bytes that are applied in one turn, if nothing is whole before.
const APPLIED_MAX: usize = 8 << 20;
/// Messages that are taken in one turn.
const MESSAGES_MAX: usize = 8;
/// After a failure of the store it is tried again so much later.
const RETRY_MS: u64 = 1000;
/// The primary hears at least so often how far the store is.
const ACKNOWLEDGE_MS: u64 = 1000;

/// How far the link is, as ROLE names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Not connected.
    Connect,
    /// Going through the greetings.
    Connecting,
    /// A full synchronisation is under way.
    Sync,
    /// Changes arrive as they happen.
    Connected,
}

impl Stage {
    /// The name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Stage::Connect => "connect",
            Stage::Connecting => "connecting",
            Stage::Sync => "sync",
            Stage::Connected => "connected",
        }
    }
}

/// What the link needs to know of the server.
pub(crate) struct Greeting {
    pub(crate) password: Vec<u8>,
    pub(crate) port: u16,
    pub(crate) patience_ms: u64,
    /// What an encrypted connection needs; none: it is not encrypted.
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

/// A store that follows a primary.
pub(crate) struct Following {
    /// Host and port of the primary.
    pub(crate) primary: (String, u16),
    pub(crate) stage: Stage,
    /// When the primary was last heard of.
    pub(crate) heard_ms: u64,
    /// Since when the link is down.
    pub(crate) down_ms: u64,
    /// The primary is a replica as yet, and is asked to be none: until it has answered.
    pub(crate) promotes: bool,
    /// Why it was last lost.
    pub(crate) lost: Option<String>,
    /// Full synchronisations that have begun.
    pub(crate) full_syncs: u64,
    place: Place,
    /// While the store is not whole: the version of the primary that it goes back to; 0: there is none.
    whole: u64,
    /// What [`Following::version`] was when all of it was last durable: what clients see.
    shown: u64,
    /// The version of the last change, behind which there may be some without one: a primary that is opened again does not know
    /// of those.
    noted: Mark,
    base: Base,
    /// The history that the link gives.
    upstream: String,
    link: Link,
    wake: Arc<OwnedFd>,
    own: Keyspace,
    spaces: HashMap<String, Target>,
    /// Frames that are not applied: of something that is not whole yet.
    waiting: VecDeque<Vec<u8>>,
    waiting_size: usize,
    /// The version to be acknowledged when it is durable, and when one last was.
    acknowledge: bool,
    acknowledged_ms: u64,
    /// Nothing is applied before.
    retry_ms: u64,
    more: bool,
    gap: Arc<Gap>,
}

/// A keyspace, and if it holds the values of a database the number in its name.
#[derive(Clone, Copy)]
struct Target {
    space: Keyspace,
    db: Option<usize>,
}

/// Which version a store holds.
fn mark_of(place: &Place) -> Mark {
    Mark { id: place.source.clone(), version: place.version }
}

/// The keyspaces by their names.
fn targets(store: &Store, databases: usize) -> HashMap<String, Target> {
    let target = |(name, space): (String, Keyspace)| {
        let db = (0..databases).find(|&db| data_keyspace(db) == name);
        (name, Target { space, db })
    };
    store.keyspaces().into_iter().map(target).collect()
}

impl Following {
    /// Begins to follow.
    pub(crate) fn start(
        (store, own, databases): (&Store, Keyspace, usize),
        place: Place,
        (wake, gap): (&Arc<OwnedFd>, &Arc<Gap>),
        now_ms: u64,
    ) -> std::io::Result<Following> {
        let primary = place.primary.clone().unwrap_or_default();
        let base = Base::find(store, &place);
        if place.content == Content::Incomplete {
            gap.open(base.first_torn());
        }
        let mut following = Following {
            link: Link::start(primary.clone(), wake)?,
            primary,
            stage: Stage::Connect,
            heard_ms: now_ms,
            down_ms: now_ms,
            promotes: false,
            lost: None,
            full_syncs: 0,
            noted: mark_of(&place),
            whole: base.held(own, &place.source).unwrap_or(0),
            shown: 0,
            base,
            place,
            upstream: String::new(),
            wake: wake.clone(),
            own,
            spaces: targets(store, databases),
            waiting: VecDeque::new(),
            waiting_size: 0,
            acknowledge: false,
            acknowledged_ms: 0,
            retry_ms: 0,
            more: true,
            gap: gap.clone(),
        };
        following.shown = following.version();
        Ok(following)
    }

    /// Takes over the way back of what was followed before: it has no name if all were in use.
    pub(crate) fn take_over(&mut self, before: &mut Following) {
        if self.is_torn() && !self.base.is_there() {
            (self.base, self.whole) = (before.base.take(), before.whole);
            self.shown = before.shown;
        }
    }

    /// Where the store stands.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Whether clients may be served from the store.
    pub(crate) fn access(&self) -> Access {
        if self.is_torn() { Access::Loading } else { Access::Replica }
    }

    /// What was applied in the place's version and after it is not whole.
    fn is_torn(&self) -> bool {
        self.place.content == Content::Incomplete
    }

    /// Whether the next turn is to come at once.
    pub(crate) fn has_more(&self) -> bool {
        self.more
    }

    /// Takes what the link has read, and applies it. No transaction may be open.
    ///
    /// # Errors
    /// The store is poisoned.
    pub(crate) fn advance(
        &mut self,
        data: &mut Dataset<'_>,
        greeting: &dyn Fn() -> Greeting,
        now_ms: u64,
    ) -> Result<(), Error> {
        self.more = false;
        for _ in 0..MESSAGES_MAX {
            if now_ms < self.retry_ms {
                return Ok(());
            }
            let Some(message) = self.link.next() else { return Ok(()) };
            match self.take(data, message, greeting, now_ms) {
                Ok(()) => {}
                Err(Fault::Store(Error::Poisoned)) => return Err(Error::Poisoned),
                Err(fault) => {
                    data.abandon();
                    // What is given up may have been made ready by an earlier message, which is committed.
                    (0..data.databases()).for_each(|db| data.waiting.touch_all(db));
                    // It may have been about to be torn.
                    if !self.is_torn() {
                        self.mend(data);
                    }
                    return self.begin_again(fault.reason(), now_ms);
                }
            }
        }
        self.more = true;
        Ok(())
    }

    /// A change was refused, most likely because the pool is full: the link is made anew, and goes on behind what was
    /// committed.
    fn begin_again(&mut self, reason: String, now_ms: u64) -> Result<(), Error> {
        self.retry_ms = now_ms + RETRY_MS;
        self.lose(reason, now_ms);
        self.link = Link::start(self.primary.clone(), &self.wake).map_err(Error::Descriptor)?;
        Ok(())
    }

    fn lose(&mut self, reason: String, now_ms: u64) {
        self.waiting.clear();
        self.waiting_size = 0;
        self.link.reset();
        if self.stage == Stage::Connected || self.lost.is_none() {
            self.down_ms = now_ms;
        }
        self.stage = Stage::Connect;
        self.lost = Some(reason);
    }

    fn take(
        &mut self,
        data: &mut Dataset<'_>,
        message: Message,
        greeting: &dyn Fn() -> Greeting,
        now_ms: u64,
    ) -> Result<(), Fault> {
        match message {
            Message::Ask => {
                let Greeting { password, port, patience_ms, tls } = greeting();
                let patience = std::time::Duration::from_millis(patience_ms.max(1000));
                let held = self.held();
                let promotes = self.promotes;
                self.link.answer(Request { held, password, port, patience, tls, promotes });
            }
            Message::Connected => self.stage = Stage::Connecting,
            Message::Lost(reason) => self.lose(reason, now_ms),
            Message::Begin { is_full, mark } => {
                self.heard_ms = now_ms;
                self.promotes = false;
                self.begin(data, (is_full, mark), now_ms)?;
            }
            Message::Frame(kind, version, entries) => {
                self.heard_ms = now_ms;
                self.waiting_size += entries.len();
                if !entries.is_empty() {
                    self.waiting.push_back(entries);
                }
                match kind {
                    FrameKind::Part if self.waiting_size < APPLIED_MAX && !self.is_torn() => {}
                    FrameKind::Part => self.apply_part(data)?,
                    FrameKind::Whole => self.apply_whole(data, version, Content::Whole)?,
                    FrameKind::Incomplete => {
                        self.apply_whole(data, version, Content::Incomplete)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The primary has answered.
    fn begin(
        &mut self,
        data: &mut Dataset<'_>,
        (is_full, mark): (bool, Mark),
        now_ms: u64,
    ) -> Result<(), Fault> {
        if is_full {
            self.upstream = mark.id;
            self.stage = Stage::Sync;
            self.full_syncs += 1;
            return self.clear(data);
        }
        if self.is_torn() && mark.id != self.place.source {
            return self.leave(data, now_ms);
        }
        self.connected();
        let is_other = mark.id != self.place.source;
        let Mark { id: source, version } = mark;
        self.upstream.clone_from(&source);
        let place = Place { source, version, ..self.place.clone() };
        if is_other {
            // The same content, by the name that others ask for after a failover.
            return self.commit(data, place);
        }
        self.place = place;
        Ok(())
    }

    /// The change of which the store has a part is in no other history: goes back to before it, or begins anew.
    fn leave(&mut self, data: &mut Dataset<'_>, now_ms: u64) -> Result<(), Fault> {
        match self.go_back(data, now_ms) {
            // Which primary is followed was taken back too.
            Ok(true) => self.commit(data, self.place.clone()),
            Ok(false) | Err(Error::VersionInUse { .. }) => {
                self.place.source.clear();
                Ok(self.begin_again("it holds a part of another history".to_owned(), now_ms)?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Goes back to the version before the change of which the store has a part; false: there is none. Durable when it
    /// returns. No transaction may be open.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn go_back(&mut self, data: &mut Dataset<'_>, now_ms: u64) -> Result<bool, Error> {
        if !self.base.go_back(data.store())? {
            return Ok(false);
        }
        let Place { primary, asked, .. } = self.place.clone();
        self.place = Place { primary, asked, ..place_of(data.store())? };
        self.noted = mark_of(&self.place);
        // It has gone back for good: a start finds out whether there is room for what is missing.
        data.reopen().map_err(|_| Error::Poisoned)?;
        self.spaces = targets(data.store(), data.databases());
        touch_all(data);
        self.mend(data);
        self.begin_again("it has gone back to before a change".to_owned(), now_ms)?;
        Ok(true)
    }

    fn connected(&mut self) {
        self.stage = Stage::Connected;
        self.lost = None;
        self.acknowledge = true;
    }

    /// The versions that the store holds. Of one that is not whole: the version behind which all changes make it so.
    fn held(&self) -> Vec<Mark> {
        if self.place.source.is_empty() {
            return Vec::new();
        }
        let reached = mark_of(&self.place);
        let is_other = self.noted != reached && self.noted.id == reached.id;
        let noted = is_other.then(|| self.noted.clone());
        [reached].into_iter().chain(noted).collect()
    }

    /// A full synchronisation begins: everything goes, and nothing can go on from here.
    fn clear(&mut self, data: &mut Dataset<'_>) -> Result<(), Fault> {
        self.tear(data);
        clear_all(data, self.own)?;
        touch_all(data);
        let content = Content::Incomplete;
        let place = Place { content, source: String::new(), version: 0, ..self.place.clone() };
        self.commit(data, place)?;
        self.base.forget(data.store());
        self.whole = 0;
        Ok(())
    }

    /// A part of a change comes: there is a way back from here on.
    fn divide(&mut self, data: &mut Dataset<'_>) -> Result<(), Fault> {
        if !self.is_torn() {
            if self.noted != mark_of(&self.place) {
                // A start within the change finds there what is acknowledged.
                self.commit(data, self.place.clone())?;
            }
            self.base.keep(data.store())?;
            self.whole = self.place.version;
        }
        self.tear(data);
        Ok(())
    }

    /// From the next commit on the store is not whole.
    fn tear(&mut self, data: &mut Dataset<'_>) {
        if !self.is_torn() {
            self.gap.open(data.store().visible() + 1);
            data.set_access(Access::Loading);
        }
    }

    /// With what is visible the store is whole.
    fn mend(&mut self, data: &mut Dataset<'_>) {
        self.base.forget(data.store());
        self.gap.close(data.store().visible());
        data.set_access(Access::Replica);
    }

    /// Applies something that is not whole: it is too large to wait for the rest in memory.
    fn apply_part(&mut self, data: &mut Dataset<'_>) -> Result<(), Fault> {
        self.divide(data)?;
        self.apply(data)?;
        self.commit(data, Place { content: Content::Incomplete, ..self.place.clone() })
    }

    /// Applies what waits; with it, everything up to a version of the primary.
    fn apply_whole(
        &mut self,
        data: &mut Dataset<'_>,
        version: u64,
        content: Content,
    ) -> Result<(), Fault> {
        if content == Content::Incomplete {
            self.divide(data)?;
        }
        let was_torn = self.is_torn();
        let is_noted = self.place.content == content && !self.place.source.is_empty();
        let changes = !self.waiting.is_empty();
        self.apply(data)?;
        let source = self.upstream.clone();
        let place = Place { content, source, version, ..self.place.clone() };
        // Where nothing has changed, the version before is as good to begin again at.
        if changes || !is_noted {
            self.commit(data, place)?;
        } else {
            self.place = place;
        }
        if was_torn && !self.is_torn() {
            self.mend(data);
        }
        if self.stage == Stage::Sync {
            self.connected();
        }
        self.acknowledge = true;
        Ok(())
    }

    /// Applies what waits, in the turn's transaction.
    fn apply(&mut self, data: &mut Dataset<'_>) -> Result<(), Fault> {
        self.waiting_size = 0;
        let frames = std::mem::take(&mut self.waiting);
        for entries in &frames {
            for entry in Entries(entries) {
                let entry = entry?;
                if entry.action == Action::Create && !self.spaces.contains_key(entry.keyspace) {
                    let space = data.store().keyspace(entry.keyspace)?;
                    let target = Target { space, db: None };
                    self.spaces.insert(entry.keyspace.to_owned(), target);
                }
            }
        }
        for entries in &frames {
            for entry in Entries(entries) {
                self.apply_one(data, entry?)?;
            }
        }
        Ok(())
    }

    fn apply_one(&self, data: &mut Dataset<'_>, entry: Entry<'_>) -> Result<(), Fault> {
        let Target { space, db } = *self.spaces.get(entry.keyspace).ok_or(Malformed)?;
        let db = db.map(|number| data.database_of(number));
        let transaction = data.transaction()?;
        match entry.action {
            Action::Create => return Ok(()),
            Action::Put => drop(transaction.put(space, entry.key, entry.value)?),
            Action::Remove => drop(transaction.remove(space, entry.key)?),
            Action::Clear => {
                if transaction.count(space) != Some(0) {
                    transaction.clear(space)?;
                }
                db.into_iter().for_each(|db| touch_database(data, db));
                return Ok(());
            }
        }
        if let Some(db) = db {
            data.watches.touch(db, entry.key);
            data.waiting.touch(db, entry.key);
        }
        Ok(())
    }

    /// Commits what was applied, and where the store is with it. Durable at the end of the turn.
    fn commit(&mut self, data: &mut Dataset<'_>, place: Place) -> Result<(), Fault> {
        data.transaction()?.put(self.own, PLACE_KEY, &place.encode())?;
        data.commit()?;
        // What is not committed is asked for again.
        self.noted = mark_of(&place);
        self.place = place;
        Ok(data.load_order()?)
    }

    /// The version of the primary that the store holds, and keeps if it is promoted.
    pub(crate) fn version(&self) -> u64 {
        if self.is_torn() { self.whole } else { self.place.version }
    }

    /// The same, of what is durable.
    pub(crate) fn shown_version(&self) -> u64 {
        self.shown
    }

    /// Acknowledges what is durable, and shows it from here on: at the end of a turn.
    pub(crate) fn end_turn(&mut self, now_ms: u64) {
        self.shown = self.version();
        let is_due = now_ms >= self.acknowledged_ms + ACKNOWLEDGE_MS;
        if (self.acknowledge || is_due) && matches!(self.stage, Stage::Connected | Stage::Sync) {
            (self.acknowledge, self.acknowledged_ms) = (false, now_ms);
            self.link.acknowledge(self.version());
        }
    }
}

/// Removes every key of every keyspace but the store's own record.
///
/// # Errors
/// Those of the store.
pub(crate) fn clear_all(data: &mut Dataset<'_>, own: Keyspace) -> Result<(), Error> {
    for (_, space) in data.store().keyspaces() {
        let transaction = data.transaction()?;
        if space != own && transaction.count(space) != Some(0) {
            transaction.clear(space)?;
        }
    }
    Ok(())
}

/// Whatever clients have read may have changed.
pub(crate) fn touch_all(data: &mut Dataset<'_>) {
    (0..data.databases()).for_each(|db| touch_database(data, db));
}

fn touch_database(data: &mut Dataset<'_>, db: usize) {
    let keys = data.watches.keys(db);
    data.watches.clear(db, &keys);
    data.waiting.touch_all(db);
}

/// Why something was not applied.
enum Fault {
    Store(Error),
    Malformed,
}

impl Fault {
    fn reason(self) -> String {
        match self {
            Fault::Store(error) => format!("the store: {error}"),
            Fault::Malformed => "the primary has sent what is no change".to_owned(),
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Store(error)
    }
}

impl From<Malformed> for Fault {
    fn from(_: Malformed) -> Fault {
        Fault::Malformed
    }
}
