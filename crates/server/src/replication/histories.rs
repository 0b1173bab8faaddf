//! The names under which replicas know the versions of a store.
//!
//! What a replica was given may be lost here: by a crash where syncs come later than commits, or because the pool is put
//! back from a copy. The numbers of what was lost may then be used again. So the versions have another name in each run
//! of a server, and the names of earlier runs stand for versions up to the last one that the store was found with. A replica
//! that holds a later one begins anew.
//!
//! A name is noted before a replica hears of it.

use tembo_kv::{Durability, Error, Retention, Store};

use crate::replication::format::{HISTORIES_KEY, History, KEYSPACE, Malformed};
use crate::replication::in_force::unless_full;
use crate::replication::mark::Mark;

/// Names that are noted at most: of the last runs in which there were replicas.
const COUNT_MAX: usize = 32;

/// The names of the versions of a store.
#[derive(Default)]
pub(crate) struct Histories {
    /// That of this run.
    id: String,
    earlier: Vec<History>,
}

impl Histories {
    /// In a run that has this name. Notes which versions the earlier names stand for. No transaction may be open.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn open(store: &Store, run_id: &str) -> Result<Histories, Error> {
        let opening = opening_of(store);
        let mut earlier = match noted_in(store)? {
            // Those of a later version are as none: then every replica begins anew.
            Some(noted) => noted.unwrap_or_else(|Malformed| Vec::new()),
            // Without a file, or a window, no replica can go on.
            None if store.identity() == 0 || store.retention() == Retention::Nothing => Vec::new(),
            None => vec![first_history(store)],
        };
        let mut histories = Histories { id: run_id.to_owned(), earlier: Vec::new() };
        let mut is_new = false;
        for history in earlier.iter_mut().filter(|history| history.last == u64::MAX) {
            is_new = true;
            history.last = match opening.wrapping_sub(history.opening) {
                // Nothing is lost without an opening.
                0 => store.visible(),
                1 => store.found(),
                // What other programs have committed since may have the numbers of what was lost.
                _ => history.first,
            };
        }
        histories.earlier = earlier;
        if is_new && !store.is_read_only() {
            // A later run finds more in the store. If there is no room for it, that takes more of an earlier name for lost.
            unless_full(Histories::write(store, &histories.earlier))?;
        }
        Ok(histories)
    }

    /// The name of what happens in this run.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Notes the name, if it is not, also if the store has gone back to before it was: of a store that is only read it is never
    /// noted, and is unknown to the next run. Durable when it returns. No transaction may be open.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn note(&self, store: &Store) -> Result<(), Error> {
        let is_own = |history: &History| history.id == self.id;
        let is_noted = matches!(noted_in(store)?, Some(Ok(noted)) if noted.iter().any(is_own));
        if is_noted || store.is_read_only() {
            return Ok(());
        }
        let skipped = (self.earlier.len() + 1).saturating_sub(COUNT_MAX);
        let mut noted = self.earlier[skipped..].to_vec();
        let (first, opening) = (store.visible(), opening_of(store));
        noted.push(History { id: self.id.clone(), opening, first, last: u64::MAX });
        Histories::write(store, &noted)
    }

    fn write(store: &Store, noted: &[History]) -> Result<(), Error> {
        let space = store.keyspace(KEYSPACE)?;
        // Not as a single change: the store is found with what was committed.
        let mut tx = store.exclusive()?;
        tx.put(space, HISTORIES_KEY, &History::encode_all(noted))?;
        tx.commit(Durability::Strict).map(drop)
    }

    /// Whether the mark is of a history of this store; then its version here, if it is there.
    pub(crate) fn version(&self, mark: &Mark) -> Option<Option<u64>> {
        if mark.id == self.id {
            return Some(Some(mark.version));
        }
        let history = self.earlier.iter().rev().find(|history| history.id == mark.id)?;
        Some(Some(mark.version).filter(|version| *version <= history.last))
    }
}

/// The names that a store has noted; none, if it has none.
fn noted_in(store: &Store) -> Result<Option<Result<Vec<History>, Malformed>>, Error> {
    let known = store.keyspaces().into_iter().find(|(name, _)| name == KEYSPACE);
    let Some((_, space)) = known else { return Ok(None) };
    let noted = store.get(space, HISTORIES_KEY)?;
    Ok(noted.map(|noted| History::decode_all(&noted)))
}

/// One more at each opening of a pool, and another one for each pool.
fn opening_of(store: &Store) -> u128 {
    store.identity().wrapping_add(store.generation().into())
}

/// What came before runs had names of their own.
fn first_history(store: &Store) -> History {
    let identity = store.identity();
    let id = format!("{identity:032x}{:08x}", (identity ^ identity >> 32) as u32);
    let opening = opening_of(store).wrapping_sub(1);
    History { id, opening, first: 0, last: u64::MAX }
}
