//! The server's keys in a store: read one after another, and written in groups.

use std::ops::Bound;

use anyhow::Context;
use tembo_kv::{Direction, Durability, Store};
use tembo_server::DATABASES_MAX;

use crate::exit::{Exit, refuse};
use crate::layout::{self as format, Header, Value};
use crate::line::Entry;

/// A group is committed when it has so many entries, or so many bytes.
const GROUP_COUNT: usize = 1000;
const GROUP_SIZE: usize = 4 << 20;

/// Shows every key, by database and in order. All are of one version.
pub(crate) fn each(
    store: &Store,
    visit: &mut dyn FnMut(Entry) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let databases = (0..DATABASES_MAX)
        .map(|db| Ok((db, store.keyspace(&format::data_keyspace(db))?)))
        .collect::<Result<Vec<_>, tembo_kv::Error>>()?;
    let transaction = store.transaction()?;
    for (db, keyspace) in databases {
        let mut failed = Ok(());
        transaction.range(
            keyspace,
            Bound::Unbounded,
            Bound::Unbounded,
            Direction::Forward,
            &mut |key, bytes| {
                failed = entry(db, key, bytes).and_then(&mut *visit);
                failed.is_ok()
            },
        )?;
        failed?;
    }
    Ok(())
}

fn entry(db: usize, key: &[u8], bytes: &[u8]) -> anyhow::Result<Entry> {
    let Ok(value) = Value::decode(bytes) else {
        let key = String::from_utf8_lossy(key);
        return refuse(Exit::NewerVersion, format!("the value of `{key}` is of an unknown kind"));
    };
    Ok(Entry {
        keyspace: db.to_string(),
        key: key.to_vec(),
        value: value.payload.to_vec(),
        expires_at_ms: value.expiry_ms,
    })
}

/// Entries on their way into a store.
pub(crate) struct Writer<'s> {
    store: &'s Store,
    group: Vec<Entry>,
    size: usize,
    /// Entries committed.
    pub(crate) count: u64,
}

impl<'s> Writer<'s> {
    pub(crate) fn new(store: &'s Store) -> Writer<'s> {
        Writer { store, group: Vec::new(), size: 0, count: 0 }
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
        for entry in &group {
            let db = database(&entry.keyspace)?;
            let data = self.store.keyspace(&format::data_keyspace(db))?;
            spaces.push((data, self.store.keyspace(&format::expiry_keyspace(db))?));
        }
        let mut transaction = self.store.transaction()?;
        let mut index_key = Vec::new();
        for (entry, (data, expiry)) in group.iter().zip(spaces) {
            let old = transaction.get(data, &entry.key)?;
            if let Some(old) = old.and_then(|old| Value::decode(old).ok()?.expiry_ms) {
                format::encode_expiry_entry(&mut index_key, old, &entry.key);
                transaction.remove(expiry, &index_key)?;
            }
            let header = Header::string(entry.expires_at_ms);
            transaction.put(data, &entry.key, &[header.as_bytes(), &entry.value])?;
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

fn database(name: &str) -> anyhow::Result<usize> {
    match name.parse() {
        Ok(db) if db < DATABASES_MAX => Ok(db),
        _ => refuse(Exit::BadLine, format!("there is no keyspace `{name}`")),
    }
}
