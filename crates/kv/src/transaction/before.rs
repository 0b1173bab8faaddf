//! A stack in the pool of what was in private trees before each change since the first savepoint.

use std::sync::Arc;

use tembo_index::{Index, Value, VersionedIndex};

use super::private::{VIEW, create, set};
use crate::write::Locked;
use crate::{Error, Keyspace};

const DAMAGED: Error = Error::Damaged { what: "a note in a private tree" };

/// Bytes before the key: keyspace (number and incarnation), whether there was an entry, length of the key.
const HEAD: usize = 4 + 4 + 1 + 4;

/// A key, and the private entry that it had.
type Note = (Keyspace, Vec<u8>, Option<Vec<u8>>);

/// Notes, numbered from 0 on.
#[derive(Default)]
pub(super) struct Before {
    tree: Option<Arc<Index>>,
    len: u64,
}

impl Before {
    /// How many notes there are.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The private tree that has the notes, if there are any.
    pub(super) fn tree(&self) -> Option<&Arc<Index>> {
        self.tree.as_ref()
    }

    /// Adds a note.
    pub(super) fn note(
        &mut self,
        writing: &mut Locked<'_>,
        (keyspace, key): (Keyspace, &[u8]),
        entry: Option<Value<'_>>,
    ) -> Result<(), Error> {
        let tree = match &self.tree {
            Some(tree) => tree.clone(),
            None => self.tree.insert(create(writing)?).clone(),
        };
        let mut head = Vec::with_capacity(HEAD + key.len());
        head.extend(keyspace.id.to_le_bytes());
        head.extend(keyspace.incarnation.to_le_bytes());
        head.push(entry.is_some().into());
        head.extend((key.len() as u32).to_le_bytes());
        head.extend(key);
        let entry = entry.map(|entry| entry.to_vec()).unwrap_or_default();
        set(writing, &tree, &self.len.to_be_bytes(), Some(&[&head, &entry]))?;
        self.len += 1;
        Ok(())
    }

    /// The last note.
    pub(super) fn last(&self) -> Result<Note, Error> {
        let number = self.len.checked_sub(1).ok_or(DAMAGED)?;
        let tree = self.tree.as_ref().ok_or(DAMAGED)?;
        let note = tree.get(&number.to_be_bytes(), VIEW)?.ok_or(DAMAGED)?.to_vec();
        decode(&note).ok_or(DAMAGED)
    }

    /// Forgets the last note.
    pub(super) fn forget_last(&mut self, writing: &mut Locked<'_>) -> Result<(), Error> {
        let (Some(tree), Some(number)) = (&self.tree, self.len.checked_sub(1)) else {
            return Err(DAMAGED);
        };
        set(writing, tree, &number.to_be_bytes(), None)?;
        self.len = number;
        Ok(())
    }
}

fn decode(note: &[u8]) -> Option<Note> {
    let (&id, rest) = note.split_first_chunk::<4>()?;
    let (&incarnation, rest) = rest.split_first_chunk::<4>()?;
    let (&[has_entry], rest) = rest.split_first_chunk::<1>()?;
    let (&size, rest) = rest.split_first_chunk::<4>()?;
    let (key, entry) = rest.split_at_checked(u32::from_le_bytes(size) as usize)?;
    let (id, incarnation) = (u32::from_le_bytes(id), u32::from_le_bytes(incarnation));
    let entry = (has_entry == 1).then(|| entry.to_vec());
    Some((Keyspace { id, incarnation }, key.to_vec(), entry))
}
