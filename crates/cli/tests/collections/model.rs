//! What one connection did, and which states that allows.

use crate::content::{Change, Content, State};
use crate::random::Random;
use crate::resp::Client;

/// Keys of each kind.
pub const KEYS: u64 = 3;
/// The kinds, as keys are named.
pub const KINDS: [&str; 5] = ["list", "hash", "set", "sorted", "stream"];
/// Later than any test: an expiry that is there and never comes.
const FAR_MS: u64 = 4_000_000_000_000;
/// Names that elements of a set, a hash, a sorted set have.
const NAMES: u64 = 700;
/// Executes any commands, each given as JSON.
const SCRIPT: &[u8] =
    b"for _, command in ipairs(ARGV) do redis.call(unpack(cjson.decode(command))) end return 1";

/// What is whole or absent: a command, a MULTI, a script.
#[derive(Clone, Debug)]
pub struct Unit {
    pub changes: Vec<(Vec<u8>, Change)>,
    /// How many replies it has.
    pub replies: usize,
}

/// One connection: keys that it alone changes.
pub struct Model {
    pub id: u64,
    pub random: Random,
    sequence: u64,
    /// The state when the units begin, and when all of them are done.
    base: State,
    next: State,
    /// The units sent since, whether acknowledged or not.
    pub units: Vec<Unit>,
    /// How many of them, from the first on, were acknowledged.
    pub acknowledged: usize,
}

/// A key of a connection.
pub fn key(id: u64, kind: &str, number: u64) -> Vec<u8> {
    format!("{kind}:{id}:{number}").into_bytes()
}

fn as_json(command: &[Vec<u8>]) -> Vec<u8> {
    let words: Vec<_> = command.iter().map(|word| String::from_utf8_lossy(word)).collect();
    serde_json::to_vec(&words).unwrap()
}

impl Model {
    pub fn new(id: u64, seed: u64) -> Model {
        let random = Random::new(seed);
        let (base, next, units) = (State::new(), State::new(), Vec::new());
        Model { id, random, sequence: 0, base, next, units, acknowledged: 0 }
    }

    /// Makes a unit, notes it as sent, and puts it into the pipeline.
    pub fn push(&mut self, client: &mut Client) {
        let how = self.random.below(6);
        let count = if how < 4 { 1 } else { 2 + self.random.below(5) };
        let changes: Vec<(Vec<u8>, Change)> = (0..count).map(|_| self.change()).collect();
        let commands = changes.iter().map(|(key, change)| change.command(key));
        let mut lines: Vec<Vec<Vec<u8>>> = commands.collect();
        match how {
            4 => {
                lines.insert(0, vec![b"MULTI".to_vec()]);
                lines.push(vec![b"EXEC".to_vec()]);
            }
            5 => {
                let head = ["EVAL".into(), SCRIPT.to_vec(), "0".into()];
                lines =
                    vec![head.into_iter().chain(lines.iter().map(|line| as_json(line))).collect()];
            }
            _ => {}
        }
        for line in &lines {
            client.push(&line.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
        self.units.push(Unit { changes, replies: lines.len() });
    }

    /// A change that is possible when all before it are made.
    fn change(&mut self) -> (Vec<u8>, Change) {
        let kind = self.random.below(KINDS.len() as u64);
        let number = self.random.below(KEYS);
        let key = key(self.id, KINDS[kind as usize], number);
        let change = self.change_of(kind, number, &key);
        change.apply(&mut self.next, &key);
        (key, change)
    }

    fn change_of(&mut self, kind: u64, number: u64, key: &[u8]) -> Change {
        if self.next.contains_key(key) && self.random.once_in(12) {
            return match self.random.below(6) {
                0 => Change::Delete,
                1 => Change::ExpireNow,
                2 => Change::Persist,
                3 => {
                    let to = crate::model::key(self.id, KINDS[kind as usize], (number + 1) % KEYS);
                    Change::Rename { to }
                }
                _ => Change::Expire { at_ms: FAR_MS + self.random.below(1_000_000) },
            };
        }
        let most = if self.random.once_in(4) { 60 } else { 4 };
        let count = 1 + self.random.below(most);
        let remove = self.random.once_in(3);
        match kind {
            0 => match self.random.below(9) {
                0..=5 => {
                    let elements = (0..count).map(|_| self.value()).collect();
                    Change::Push { is_left: self.random.once_in(2), elements }
                }
                6 => Change::Trim { from: count as usize },
                _ => Change::Pop { is_left: self.random.once_in(2), count: count as usize },
            },
            1 if remove => Change::RemoveFields(self.names(count)),
            1 => {
                let fields = self.names(count);
                Change::SetFields(fields.into_iter().map(|field| (field, self.value())).collect())
            }
            2 if remove => Change::Remove(self.names(count)),
            2 => Change::Add(self.names(count)),
            3 if remove && self.random.once_in(2) => Change::PopMin { count: count as usize },
            3 if remove => Change::RemoveScored(self.names(count)),
            3 => {
                let members = self.names(count);
                let score = |member| (member, self.random.below(1000) as i64 - 500);
                Change::Score(members.into_iter().map(score).collect())
            }
            _ => self.change_of_stream(key, count),
        }
    }

    fn change_of_stream(&mut self, key: &[u8], count: u64) -> Change {
        let ids: Vec<u64> = match self.next.get(key) {
            Some((Content::Stream(stream), _)) if stream.group.is_some() => {
                let from = stream.entries.len().saturating_sub(count as usize);
                stream.entries.keys().copied().skip(from / 2).take(count as usize).collect()
            }
            _ => return Change::CreateGroup,
        };
        let is_any = !ids.is_empty();
        match self.random.below(12) {
            0..=2 if is_any => Change::Acknowledge { ids },
            3 if is_any => Change::Erase { ids },
            4 => Change::CutTo { count: 20 + count as usize },
            5..=7 => {
                let consumer = format!("consumer-{}", self.random.below(3)).into_bytes();
                Change::Deliver { consumer, count: count as usize }
            }
            _ => {
                let value = self.value();
                Change::Append { id: self.sequence, value }
            }
        }
    }

    fn names(&mut self, count: u64) -> Vec<Vec<u8>> {
        let mut names: Vec<_> =
            (0..count).map(|_| format!("name:{}", self.random.below(NAMES)).into_bytes()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// No value is written twice.
    fn value(&mut self) -> Vec<u8> {
        self.sequence += 1;
        let most = if self.random.once_in(20) { 300 } else { 20 };
        let size = self.random.below(most) as usize;
        format!("{}-{}{}", self.id, self.sequence, ".".repeat(size)).into_bytes()
    }

    /// Whether `found` is the state after some prefix of the units that holds all acknowledged ones. If so, it is where the
    /// next round begins.
    pub fn accept(&mut self, found: &State) -> Result<(), String> {
        let mut state = self.base.clone();
        for count in 0..=self.units.len() {
            if count >= self.acknowledged && state == *found {
                (self.base, self.next) = (state.clone(), state);
                self.units.clear();
                self.acknowledged = 0;
                return Ok(());
            }
            for (key, change) in self.units.get(count).iter().flat_map(|unit| &unit.changes) {
                change.apply(&mut state, key);
            }
        }
        let mut state = self.base.clone();
        for (key, change) in self.units[..self.acknowledged].iter().flat_map(|unit| &unit.changes) {
            change.apply(&mut state, key);
        }
        let keys = state.keys().chain(found.keys());
        let differing: Vec<_> = keys.filter(|key| state.get(*key) != found.get(*key)).collect();
        let shown = differing.first().map(|key| {
            let text = format!("{:?}\nfound {:?}", state.get(*key), found.get(*key));
            text.chars().take(4000).collect::<String>()
        });
        Err(format!(
            "connection {}: no prefix of its {} units with all {} acknowledged ones gives what is there; after the latter \
             {} keys differ: {}\nexpected {}",
            self.id,
            self.units.len(),
            self.acknowledged,
            differing.len(),
            differing.iter().map(|key| String::from_utf8_lossy(key)).collect::<Vec<_>>().join(" "),
            shown.unwrap_or_default(),
        ))
    }
}
