//! What one connection did, and which states that allows.

use std::collections::BTreeMap;

use crate::random::Random;
use crate::resp::Client;

/// Keys of one connection.
const KEYS: u64 = 1500;
/// Most writes go to a few of them, and so overwrite; the others make the pool grow.
const HOT_KEYS: u64 = 48;
const VALUE_SIZE_MAX: u64 = 600;
/// Now and then a value is large: more than a node, and more than what the log takes inline.
const LARGE_SIZE_MAX: u64 = 100_000;
const LARGE_ONCE_IN: u64 = 400;

/// A change of one key; the value is made of its sequence number.
#[derive(Clone, Debug)]
pub enum Change {
    Put { key: u64, sequence: u64, size: u64 },
    Remove { key: u64 },
}

/// What is whole or absent: a command, or a MULTI.
#[derive(Clone, Debug)]
pub struct Unit {
    pub changes: Vec<Change>,
    pub multi: bool,
}

/// Key, and sequence number and size of its value.
pub type State = BTreeMap<u64, (u64, u64)>;

/// One connection: a range of keys that it alone writes.
#[derive(Debug)]
pub struct Model {
    pub id: u64,
    random: Random,
    sequence: u64,
    /// The state when the units begin.
    base: State,
    /// The units sent since, whether acknowledged or not.
    pub units: Vec<Unit>,
    /// How many of them, from the first on, were acknowledged.
    pub acknowledged: usize,
}

impl Model {
    pub fn new(id: u64, seed: u64) -> Model {
        let random = Random::new(seed ^ (id + 1) << 32);
        Model { id, random, sequence: 0, base: State::new(), units: Vec::new(), acknowledged: 0 }
    }

    pub fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// Makes a unit, notes it as sent, and puts it into the pipeline.
    pub fn push(&mut self, client: &mut Client) {
        let multi = self.random.once_in(5);
        let count = if multi { 2 + self.random.below(6) } else { 1 };
        let changes: Vec<Change> = (0..count).map(|_| self.change()).collect();
        if multi {
            client.push(&[b"MULTI"]);
        }
        for change in &changes {
            match *change {
                Change::Put { key, sequence, size } => {
                    client.push(&[b"SET", &self.key(key), &self.value(sequence, size)]);
                }
                Change::Remove { key } => client.push(&[b"DEL", &self.key(key)]),
            }
        }
        if multi {
            client.push(&[b"EXEC"]);
        }
        self.units.push(Unit { changes, multi });
    }

    fn change(&mut self) -> Change {
        let cold = self.random.once_in(3);
        let key = self.random.below(if cold { KEYS } else { HOT_KEYS });
        if self.random.once_in(4) {
            return Change::Remove { key };
        }
        self.sequence += 1;
        let large = self.random.once_in(LARGE_ONCE_IN);
        let size = self.random.below(if large { LARGE_SIZE_MAX } else { VALUE_SIZE_MAX });
        Change::Put { key, sequence: self.sequence, size }
    }

    fn key(&self, key: u64) -> Vec<u8> {
        format!("c{}:{key}", self.id).into_bytes()
    }

    /// Names the connection and the sequence number that wrote it; the rest is filled from both.
    fn value(&self, sequence: u64, size: u64) -> Vec<u8> {
        let mut value = format!("{}:{sequence}:{size}:", self.id).into_bytes();
        let mut random = Random::new(self.id << 48 ^ sequence);
        let len = value.len() + size as usize;
        while value.len() < len {
            value.extend_from_slice(&random.next().to_le_bytes());
        }
        value.truncate(len);
        value
    }

    /// Reads back what the server has of this connection's keys.
    pub fn observe(&self, client: &mut Client) -> Result<State, String> {
        use crate::resp::Reply;
        let keys: Vec<Vec<u8>> = (0..KEYS).map(|key| self.key(key)).collect();
        keys.iter().for_each(|key| client.push(&[b"GET", key]));
        client.send().map_err(|error| error.to_string())?;
        let mut state = State::new();
        for key in 0..KEYS {
            match client.read().map_err(|error| format!("GET: {error}"))? {
                Reply::Nil => {}
                Reply::Bulk(value) => drop(state.insert(key, self.recognise(key, &value)?)),
                other => return Err(format!("GET: {other:?}")),
            }
        }
        Ok(state)
    }

    fn recognise(&self, key: u64, value: &[u8]) -> Result<(u64, u64), String> {
        let head = String::from_utf8_lossy(&value[..value.len().min(60)]).into_owned();
        let mut words = head.split(':').map(|word| word.parse::<u64>().ok());
        match (words.next().flatten(), words.next().flatten(), words.next().flatten()) {
            (Some(id), Some(sequence), Some(size))
                if id == self.id && value == self.value(sequence, size) =>
            {
                Ok((sequence, size))
            }
            _ => {
                Err(format!("connection {}, key {key}: a value that nobody wrote: {head}", self.id))
            }
        }
    }

    /// Whether `found` is the state after some prefix of the units that holds all acknowledged ones.
    /// If so, it is where the next round begins.
    pub fn accept(&mut self, found: State) -> Result<(), String> {
        let mut state = self.base.clone();
        let mut distances = Vec::new();
        for count in 0..=self.units.len() {
            if count >= self.acknowledged {
                if state == found {
                    self.base = found;
                    self.units.clear();
                    self.acknowledged = 0;
                    return Ok(());
                }
                distances.push(difference(&state, &found));
            }
            for change in self.units.get(count).iter().flat_map(|unit| &unit.changes) {
                let _old = match *change {
                    Change::Put { key, sequence, size } => state.insert(key, (sequence, size)),
                    Change::Remove { key } => state.remove(&key),
                };
            }
        }
        let nearest = distances.iter().enumerate().min_by_key(|(_, keys)| keys.len());
        let (more, keys) = nearest.map(|(more, keys)| (more, keys.as_slice())).unwrap_or_default();
        Err(format!(
            "connection {}: no prefix of its {} units ({} acknowledged) gives what is there; the \
             nearest, {} units, differs in {} keys: {:?} (key, expected, found: sequence and size)",
            self.id,
            self.units.len(),
            self.acknowledged,
            self.acknowledged + more,
            keys.len(),
            &keys[..keys.len().min(4)],
        ))
    }

    /// The keys that the server should have now.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        self.base.keys().map(|&key| self.key(key)).collect()
    }
}

type Difference = (u64, Option<(u64, u64)>, Option<(u64, u64)>);

fn difference(expected: &State, found: &State) -> Vec<Difference> {
    let pair = |key| (key, expected.get(&key).copied(), found.get(&key).copied());
    (0..KEYS).map(pair).filter(|(_, expected, found)| expected != found).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: u64, sequence: u64) -> Change {
        Change::Put { key, sequence, size: 1 }
    }

    /// Two units, the first acknowledged; the second is a MULTI.
    fn model() -> Model {
        let mut model = Model::new(0, 0);
        model.units.push(Unit { changes: vec![put(1, 1)], multi: false });
        let changes = vec![put(1, 2), Change::Remove { key: 2 }, put(3, 3)];
        model.units.push(Unit { changes, multi: true });
        model.acknowledged = 1;
        model.base = State::from([(2, (9, 1))]);
        model
    }

    #[test]
    fn a_prefix_with_all_that_was_acknowledged_is_accepted() {
        assert_eq!(model().accept(State::from([(1, (1, 1)), (2, (9, 1))])), Ok(()));
        assert_eq!(model().accept(State::from([(1, (2, 1)), (3, (3, 1))])), Ok(()));
    }

    #[test]
    fn a_lost_or_torn_or_reordered_unit_is_not() {
        for found in [
            State::from([(2, (9, 1))]),
            State::from([(1, (2, 1)), (2, (9, 1))]),
            State::from([(1, (1, 1)), (3, (3, 1))]),
            State::from([(1, (1, 1)), (2, (9, 1)), (4, (1, 1))]),
            State::new(),
        ] {
            assert!(model().accept(found).is_err());
        }
    }

    #[test]
    fn values_are_recognised() {
        let model = Model::new(3, 7);
        assert_eq!(model.recognise(0, &model.value(5, 100)), Ok((5, 100)));
        let mut torn = model.value(5, 100);
        torn[50] ^= 1;
        assert!(model.recognise(0, &torn).is_err());
        assert!(model.recognise(0, &Model::new(4, 7).value(5, 100)).is_err());
    }
}
