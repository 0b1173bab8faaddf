//! WATCH: the clients whose next EXEC depends on a key.

use std::collections::{HashMap, HashSet};

use crate::session::Session;
use crate::sources::{OF_COMMAND, Sources};

/// One client's watch of one key.
struct Watcher {
    client: u64,
    /// The key was not there (or expired) when the watch began.
    absent: bool,
}

/// All watches, and the clients whose keys were touched since.
pub(crate) struct Watches {
    databases: Vec<HashMap<Vec<u8>, Vec<Watcher>>>,
    dirty: HashSet<u64>,
    /// Watches in force, and one more if changes are recorded. Most of the time there are none, and a write looks at this
    /// alone.
    count: usize,
    /// The keys that have changed, of any database, if clients track keys.
    changed: Option<Vec<Vec<u8>>>,
    /// A database was cleared meanwhile.
    is_cleared: bool,
}

impl Watches {
    /// No watches, in so many databases.
    pub(crate) fn new(databases: usize) -> Watches {
        let databases = (0..databases).map(|_| HashMap::new()).collect();
        Watches { databases, dirty: HashSet::new(), count: 0, changed: None, is_cleared: false }
    }

    /// The client watches the key.
    pub(crate) fn add(&mut self, db: usize, key: &[u8], client: u64, absent: bool) {
        self.databases[db].entry(key.to_vec()).or_default().push(Watcher { client, absent });
        self.count += 1;
    }

    /// The client does not watch the key any more.
    fn remove(&mut self, db: usize, key: &[u8], client: u64) {
        if let Some(watchers) = self.databases[db].get_mut(key) {
            let before = watchers.len();
            watchers.retain(|watcher| watcher.client != client);
            self.count -= before - watchers.len();
            if watchers.is_empty() {
                self.databases[db].remove(key);
            }
        }
    }

    /// A command that goes on in later turns watches what it reads.
    pub(crate) fn hold(&mut self, sources: &Sources) {
        for (key, is_there) in &sources.keys {
            self.add(sources.db, key, sources.watcher, !is_there);
        }
    }

    /// It does so no more. Whether one of them has changed.
    pub(crate) fn release(&mut self, sources: &Sources) -> bool {
        for key in sources.keys.keys() {
            self.remove(sources.db, key, sources.watcher);
        }
        self.dirty.remove(&sources.watcher)
    }

    /// What commands read in later turns may have changed without being touched.
    pub(crate) fn touch_held(&mut self) {
        let watchers = self.databases.iter().flat_map(HashMap::values).flatten();
        let held = watchers.map(|watcher| watcher.client).filter(|client| client & OF_COMMAND > 0);
        self.dirty.extend(held);
    }

    /// The client watches nothing any more.
    pub(crate) fn remove_all(&mut self, session: &mut Session) {
        for ((db, key), _) in session.take_watched() {
            self.remove(db, &key, session.id);
        }
        self.dirty.remove(&session.id);
    }

    /// The key was changed by a command.
    #[inline]
    pub(crate) fn touch(&mut self, db: usize, key: &[u8]) {
        if self.count > 0 {
            self.mark(db, key, false);
        }
    }

    /// The key was removed because it had expired: for a client that saw it expired, nothing changed.
    pub(crate) fn touch_expired(&mut self, db: usize, key: &[u8]) {
        if self.count > 0 {
            self.mark(db, key, true);
        }
    }

    fn mark(&mut self, db: usize, key: &[u8], only_present: bool) {
        if let Some(changed) = &mut self.changed {
            changed.push(key.to_vec());
        }
        for watcher in self.databases[db].get(key).into_iter().flatten() {
            if !(only_present && watcher.absent) {
                self.dirty.insert(watcher.client);
            }
        }
    }

    /// Begins to record which keys change, or ends it.
    pub(crate) fn record_changes(&mut self, is_wanted: bool) {
        if is_wanted != self.changed.is_some() {
            self.changed = is_wanted.then(Vec::new);
            self.count = if is_wanted { self.count + 1 } else { self.count - 1 };
        }
    }

    /// A database was cleared; these of the watched keys were in it.
    pub(crate) fn clear(&mut self, db: usize, removed: &[Vec<u8>]) {
        removed.iter().for_each(|key| self.touch(db, key));
        self.is_cleared |= self.changed.is_some();
    }

    /// The keys that have changed since the last call, of [`take_changed`](Watches::take_changed) too.
    pub(crate) fn take_changed_keys(&mut self) -> Vec<Vec<u8>> {
        self.changed.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The keys that have changed since the last call, and whether a database was cleared.
    pub(crate) fn take_changed(&mut self) -> (Vec<Vec<u8>>, bool) {
        (self.take_changed_keys(), std::mem::take(&mut self.is_cleared))
    }

    /// Whether a key that the client watches was touched.
    pub(crate) fn is_dirty(&self, client: u64) -> bool {
        self.dirty.contains(&client)
    }

    /// The keys watched in a database.
    pub(crate) fn keys(&self, db: usize) -> Vec<Vec<u8>> {
        self.databases[db].keys().cloned().collect()
    }
}
