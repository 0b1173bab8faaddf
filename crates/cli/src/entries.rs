//! The server's keys in a store: read one after another, and written in groups.

use std::ops::Bound;

use anyhow::Context;
use serde::Serialize;
use tembo_index::Visit;
use tembo_kv::{Direction, Durability, Keyspace, Snapshot, Store};
use tembo_server::format::{self, Header, Kind, PIECE_SIZE, Part, Value, element_prefix};
use tembo_server::{DATABASES_MAX, check_collections};

use crate::exit::{Exit, refuse};
use crate::line::Entry;

/// A group is committed when it has so many entries, or so many bytes.
const GROUP_COUNT: usize = 1000;
const GROUP_SIZE: usize = 4 << 20;

/// A database's keyspaces, as far as they are there.
struct Database {
    /// Its number, as clients select it; that of the items of memcached is their keyspace's name.
    name: String,
    /// The number in the names of its keyspaces: SWAPDB exchanges them. The items of memcached have none.
    number: Option<usize>,
    data: Option<Keyspace>,
    elements: Option<Keyspace>,
    expiry: Option<Keyspace>,
}

fn databases(snapshot: &Snapshot) -> anyhow::Result<Vec<Database>> {
    let keyspaces = snapshot.keyspaces()?;
    let find = |name: String| keyspaces.iter().find(|(other, _)| *other == name).map(|(_, id)| *id);
    let order = order(snapshot)?;
    let database = |(name, number): (usize, usize)| Database {
        name: name.to_string(),
        number: Some(number),
        data: find(format::data_keyspace(number)),
        elements: find(format::elements_keyspace(number)),
        expiry: find(format::expiry_keyspace(number)),
    };
    let items = Database {
        name: format::ITEMS_KEYSPACE.to_owned(),
        number: None,
        data: find(format::ITEMS_KEYSPACE.to_owned()),
        elements: find(format::ITEM_ELEMENTS_KEYSPACE.to_owned()),
        expiry: find(format::ITEM_EXPIRY_KEYSPACE.to_owned()),
    };
    Ok(order.into_iter().enumerate().map(database).chain([items]).collect())
}

/// The numbers in the names of the keyspaces of each database.
fn order(snapshot: &Snapshot) -> anyhow::Result<Vec<usize>> {
    let keyspaces = snapshot.keyspaces()?;
    let known = keyspaces.iter().find(|(name, _)| name == format::ORDER_KEYSPACE);
    let found = match known {
        Some((_, space)) => snapshot.get(*space, format::ORDER_KEY)?.map(|value| value.to_vec()),
        None => None,
    };
    let known = found.and_then(|bytes| format::decode_order(&bytes, DATABASES_MAX).ok());
    Ok(match known {
        Some(order) => order.into_iter().map(usize::from).collect(),
        None => (0..DATABASES_MAX).collect(),
    })
}

/// Calls `visit` with each key and value of the keyspace, if there is one.
fn walk(
    snapshot: &Snapshot,
    keyspace: Option<Keyspace>,
    visit: &mut Visit<'_>,
) -> anyhow::Result<()> {
    let Some(keyspace) = keyspace else { return Ok(()) };
    let all = Bound::Unbounded;
    Ok(snapshot.range_with::<[u8]>(keyspace, (all, all), Direction::Forward, visit)?)
}

/// Shows every key, by database and in order. All are of one version.
pub(crate) fn each(
    store: &Store,
    visit: &mut dyn FnMut(Entry) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let snapshot = store.snapshot()?;
    for database in databases(&snapshot)? {
        let mut failed = Ok(());
        walk(&snapshot, database.data, &mut |key, bytes| {
            failed = entry(&snapshot, &database, key, bytes).and_then(&mut *visit);
            failed.is_ok()
        })?;
        failed?;
    }
    Ok(())
}

fn entry(
    snapshot: &Snapshot,
    database: &Database,
    key: &[u8],
    bytes: tembo_kv::Value<'_>,
) -> anyhow::Result<Entry> {
    let Ok(value) = Value::decode(bytes) else {
        let key = String::from_utf8_lossy(key);
        return refuse(Exit::NewerVersion, format!("the value of `{key}` is of an unknown kind"));
    };
    if value.of.kind != Kind::String {
        let (key, kind) = (String::from_utf8_lossy(key), value.of.kind.name());
        return refuse(
            Exit::NewerVersion,
            format!("`{key}` is a {kind}, and only strings can be written as lines"),
        );
    }
    let string = match (value.pieces(), database.elements) {
        (Ok(Some((id, len))), Some(elements)) => in_pieces(snapshot, elements, id, len)?,
        _ => value.payload.to_vec(),
    };
    Ok(Entry {
        keyspace: database.name.clone(),
        key: key.to_vec(),
        value: string,
        expires_at_ms: value.expiry_ms,
    })
}

/// The bytes of a large string.
fn in_pieces(
    snapshot: &Snapshot,
    elements: Keyspace,
    id: u64,
    len: usize,
) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(len);
    for number in 0..len.div_ceil(PIECE_SIZE) {
        let number_bytes = (number as u64).to_be_bytes();
        let key = [&element_prefix(id, Part::Main)[..], &number_bytes].concat();
        if let Some(piece) = snapshot.get(elements, &key)? {
            piece.append_to(&mut bytes);
        }
        bytes.resize(len.min((number + 1) * PIECE_SIZE), 0);
    }
    Ok(bytes)
}

/// What reading all of the server's keys found.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Audit {
    pub(crate) keys: u64,
    pub(crate) key_bytes: u64,
    pub(crate) value_bytes: u64,
    /// Keys that expire.
    pub(crate) expiring: u64,
    /// What does not hold, at most [`FAULTS_MAX`].
    pub(crate) faults: Vec<String>,
}

/// More faults than this say nothing new.
const FAULTS_MAX: usize = 100;

impl Audit {
    fn fault(&mut self, what: String) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(what);
        }
    }
}

/// Reads every key: each value is one, the expiry index and the values agree, and collections are whole.
pub(crate) fn audit(store: &Store) -> anyhow::Result<Audit> {
    let mut audit = Audit::default();
    let snapshot = store.snapshot()?;
    for database in databases(&snapshot)? {
        let (mut expiring, mut indexed) = (0, 0);
        let db = match database.name.parse::<usize>() {
            Ok(number) => format!("db{number}"),
            Err(_) => database.name.clone(),
        };
        walk(&snapshot, database.data, &mut |key, bytes| {
            audit.keys += 1;
            audit.key_bytes += key.len() as u64;
            match Value::decode(bytes) {
                Ok(value) => {
                    audit.value_bytes += value.string_len().unwrap_or(0) as u64;
                    expiring += u64::from(value.expiry_ms.is_some());
                }
                Err(_) => audit.fault(format!("{db}: the value of {} is none", shown(key))),
            }
            true
        })?;
        walk(&snapshot, database.expiry, &mut |index_key, of| {
            let found = format::decode_expiry_entry(index_key).zip(database.data);
            let agrees = found.is_some_and(|((expiry_ms, key), data)| {
                let found = snapshot.get(data, key).ok().flatten();
                let value = found.map(Value::decode);
                matches!(value, Some(Ok(value)) if value.expiry_ms == Some(expiry_ms))
            });
            indexed += u64::from(agrees);
            // An entry about a field may be of one that does not expire any more.
            if !agrees && of != format::OF_A_FIELD {
                audit.fault(format!("{db}: {} in the expiry index is stale", shown(index_key)));
            }
            true
        })?;
        if indexed != expiring {
            audit.fault(format!("{db}: {expiring} keys expire, {indexed} are in the index"));
        }
        audit.expiring += expiring;
        // Items of memcached are strings.
        if let Some(number) = database.number {
            check_collections(&snapshot, number, &mut |what| audit.fault(format!("{db}: {what}")))?;
        }
    }
    Ok(audit)
}

fn shown(key: &[u8]) -> String {
    key.escape_ascii().take(100).map(char::from).collect()
}

/// Entries on their way into a store.
pub(crate) struct Writer<'s> {
    store: &'s Store,
    group: Vec<Entry>,
    size: usize,
    /// The numbers in the names of the keyspaces of each database, once the first group is committed.
    order: Option<Vec<usize>>,
    /// Entries committed.
    pub(crate) count: u64,
}

impl<'s> Writer<'s> {
    pub(crate) fn new(store: &'s Store) -> Writer<'s> {
        Writer { store, group: Vec::new(), size: 0, order: None, count: 0 }
    }

    /// Takes an entry, and now and then commits a group.
    pub(crate) fn put(&mut self, entry: Entry) -> anyhow::Result<()> {
        self.size += entry.key.len() + entry.value.len();
        self.group.push(entry);
        if self.group.len() >= GROUP_COUNT || self.size >= GROUP_SIZE {
            self.commit()?;
        }
        Ok(())
    }

    /// Commits what was taken, whole and durable.
    pub(crate) fn commit(&mut self) -> anyhow::Result<()> {
        let group = std::mem::take(&mut self.group);
        self.size = 0;
        if group.is_empty() {
            return Ok(());
        }
        let mut spaces = Vec::new();
        let order = match self.order.take() {
            Some(order) => order,
            None => order(&self.store.snapshot()?)?,
        };
        for entry in &group {
            let (data, expiry) = keyspaces(&entry.keyspace, &order)?;
            spaces.push((self.store.keyspace(&data)?, self.store.keyspace(&expiry)?));
        }
        self.order = Some(order);
        let mut transaction = self.store.exclusive()?;
        let mut index_key = Vec::new();
        for (entry, (data, expiry)) in group.iter().zip(spaces) {
            let old = transaction.get(data, &entry.key)?;
            if let Some(old) = old.and_then(|old| Value::decode(old).ok()?.expiry_ms) {
                format::encode_expiry_entry(&mut index_key, old, &entry.key);
                transaction.remove(expiry, &index_key)?;
            }
            let header = Header::string(entry.expires_at_ms);
            transaction.put_parts(data, &entry.key, &[header.as_bytes(), &entry.value])?;
            if let Some(new) = entry.expires_at_ms {
                format::encode_expiry_entry(&mut index_key, new, &entry.key);
                transaction.put(expiry, &index_key, &[])?;
            }
        }
        transaction.commit(Durability::Strict).context("committing a group")?;
        self.count += group.len() as u64;
        Ok(())
    }
}

/// The keyspaces of a database's values and of its expiry index.
fn keyspaces(name: &str, order: &[usize]) -> anyhow::Result<(String, String)> {
    if name == format::ITEMS_KEYSPACE {
        return Ok((name.to_owned(), format::ITEM_EXPIRY_KEYSPACE.to_owned()));
    }
    match name.parse::<usize>().ok().and_then(|db| order.get(db)) {
        Some(&number) => Ok((format::data_keyspace(number), format::expiry_keyspace(number))),
        None => refuse(Exit::BadLine, format!("there is no keyspace `{name}`")),
    }
}
