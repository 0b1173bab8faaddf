//! What keys hold, and what a command makes of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What is under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    List(VecDeque<Vec<u8>>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    Set(BTreeSet<Vec<u8>>),
    Sorted(BTreeMap<Vec<u8>, i64>),
    Stream(Stream),
}

/// A stream: its entries, and its group if it has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// By the first number of the id.
    pub entries: BTreeMap<u64, Vec<u8>>,
    /// The last id that was delivered, and the entries that are pending for each consumer.
    pub group: Option<(u64, BTreeMap<u64, Vec<u8>>)>,
}

/// By key: the content, and when it expires in milliseconds since 1970.
pub type State = BTreeMap<Vec<u8>, (Content, Option<u64>)>;

/// A change of one key, or of two.
#[derive(Clone, Debug)]
pub enum Change {
    Push {
        is_left: bool,
        elements: Vec<Vec<u8>>,
    },
    Pop {
        is_left: bool,
        count: usize,
    },
    Trim {
        from: usize,
    },
    SetFields(Vec<(Vec<u8>, Vec<u8>)>),
    RemoveFields(Vec<Vec<u8>>),
    Add(Vec<Vec<u8>>),
    Remove(Vec<Vec<u8>>),
    Score(Vec<(Vec<u8>, i64)>),
    PopMin {
        count: usize,
    },
    RemoveScored(Vec<Vec<u8>>),
    Append {
        id: u64,
        value: Vec<u8>,
    },
    CutTo {
        count: usize,
    },
    Erase {
        ids: Vec<u64>,
    },
    CreateGroup,
    Deliver {
        consumer: Vec<u8>,
        count: usize,
    },
    Acknowledge {
        ids: Vec<u64>,
    },
    Delete,
    Expire {
        at_ms: u64,
    },
    /// By a time that is past: the key is removed at once.
    ExpireNow,
    Persist,
    Rename {
        to: Vec<u8>,
    },
}

impl Change {
    /// The command that makes the change.
    pub fn command(&self, key: &[u8]) -> Vec<Vec<u8>> {
        let text = |number: &dyn std::fmt::Display| number.to_string().into_bytes();
        let words = |line: &str, rest: Vec<Vec<u8>>| {
            let word = |word: &str| if word == "KEY" { key.to_vec() } else { word.into() };
            line.split(' ').map(word).chain(rest).collect::<Vec<Vec<u8>>>()
        };
        let ids = |ids: &[u64]| ids.iter().map(|id| format!("{id}-0").into_bytes()).collect();
        match self {
            Change::Push { is_left, elements } => {
                words(if *is_left { "LPUSH KEY" } else { "RPUSH KEY" }, elements.clone())
            }
            Change::Pop { is_left, count } => {
                words(if *is_left { "LPOP KEY" } else { "RPOP KEY" }, vec![text(count)])
            }
            Change::Trim { from } => words("LTRIM KEY", vec![text(from), text(&-1)]),
            Change::SetFields(fields) => {
                let pair = |(field, value): &(Vec<u8>, Vec<u8>)| [field.clone(), value.clone()];
                words("HSET KEY", fields.iter().flat_map(pair).collect())
            }
            Change::RemoveFields(fields) => words("HDEL KEY", fields.clone()),
            Change::Add(members) => words("SADD KEY", members.clone()),
            Change::Remove(members) => words("SREM KEY", members.clone()),
            Change::Score(members) => {
                let pair = |(member, score): &(Vec<u8>, i64)| [text(score), member.clone()];
                words("ZADD KEY", members.iter().flat_map(pair).collect())
            }
            Change::PopMin { count } => words("ZPOPMIN KEY", vec![text(count)]),
            Change::RemoveScored(members) => words("ZREM KEY", members.clone()),
            Change::Append { id, value } => {
                words(&format!("XADD KEY {id}-0 field"), vec![value.clone()])
            }
            Change::CutTo { count } => words("XTRIM KEY MAXLEN", vec![text(count)]),
            Change::Erase { ids: all } => words("XDEL KEY", ids(all)),
            Change::CreateGroup => words("XGROUP CREATE KEY group 0 MKSTREAM", vec![]),
            Change::Deliver { consumer, count } => {
                let consumer = String::from_utf8_lossy(consumer);
                let line = format!("XREADGROUP GROUP group {consumer} COUNT {count} STREAMS KEY >");
                words(&line, vec![])
            }
            Change::Acknowledge { ids: all } => words("XACK KEY group", ids(all)),
            Change::Delete => words("DEL KEY", vec![]),
            Change::Expire { at_ms } => words("PEXPIREAT KEY", vec![text(at_ms)]),
            Change::ExpireNow => words("PEXPIREAT KEY 1000", vec![]),
            Change::Persist => words("PERSIST KEY", vec![]),
            Change::Rename { to } => words("RENAME KEY", vec![to.clone()]),
        }
    }

    /// Makes the change.
    pub fn apply(&self, state: &mut State, key: &[u8]) {
        let Some((mut content, mut expiry_ms)) = state.remove(key).or_else(|| self.empty()) else {
            return;
        };
        match (self, &mut content) {
            (Change::Delete | Change::ExpireNow, _) => return,
            (Change::Expire { at_ms }, _) => expiry_ms = Some(*at_ms),
            (Change::Persist, _) => expiry_ms = None,
            (Change::Rename { to }, _) => {
                state.insert(to.clone(), (content, expiry_ms));
                return;
            }
            (_, Content::List(list)) => self.apply_to_list(list),
            (Change::SetFields(fields), Content::Hash(hash)) => hash.extend(fields.iter().cloned()),
            (Change::RemoveFields(fields), Content::Hash(hash)) => {
                hash.retain(|field, _| !fields.contains(field));
            }
            (Change::Add(members), Content::Set(set)) => set.extend(members.iter().cloned()),
            (Change::Remove(members), Content::Set(set)) => {
                set.retain(|member| !members.contains(member));
            }
            (Change::Score(members), Content::Sorted(set)) => set.extend(members.iter().cloned()),
            (Change::PopMin { count }, Content::Sorted(set)) => {
                let mut order: Vec<_> =
                    set.iter().map(|(member, score)| (*score, member)).collect();
                order.sort();
                let first = order.into_iter().take(*count).map(|(_, member)| member.clone());
                for member in first.collect::<Vec<_>>() {
                    set.remove(&member);
                }
            }
            (Change::RemoveScored(members), Content::Sorted(set)) => {
                set.retain(|member, _| !members.contains(member));
            }
            (_, Content::Stream(stream)) => self.apply_to_stream(stream),
            _ => panic!("{self:?} of another kind"),
        }
        if !content.is_empty() {
            state.insert(key.to_vec(), (content, expiry_ms));
        }
    }

    /// What it begins with where nothing is.
    fn empty(&self) -> Option<(Content, Option<u64>)> {
        let content = match self {
            Change::Push { .. } => Content::List(VecDeque::new()),
            Change::SetFields(_) => Content::Hash(BTreeMap::new()),
            Change::Add(_) => Content::Set(BTreeSet::new()),
            Change::Score(_) => Content::Sorted(BTreeMap::new()),
            Change::Append { .. } | Change::CreateGroup => Content::Stream(Stream::default()),
            _ => return None,
        };
        Some((content, None))
    }

    fn apply_to_list(&self, list: &mut VecDeque<Vec<u8>>) {
        match self {
            Change::Push { is_left: true, elements } => {
                elements.iter().for_each(|element| list.push_front(element.clone()));
            }
            Change::Push { elements, .. } => list.extend(elements.iter().cloned()),
            Change::Pop { is_left: true, count } | Change::Trim { from: count } => {
                list.drain(..list.len().min(*count));
            }
            Change::Pop { count, .. } => list.truncate(list.len().saturating_sub(*count)),
            _ => panic!("{self:?} of a list"),
        }
    }

    fn apply_to_stream(&self, stream: &mut Stream) {
        match self {
            Change::Append { id, value } => drop(stream.entries.insert(*id, value.clone())),
            Change::CutTo { count } => {
                while stream.entries.len() > *count {
                    stream.entries.pop_first();
                }
            }
            Change::Erase { ids } => stream.entries.retain(|id, _| !ids.contains(id)),
            Change::CreateGroup => stream.group = Some((0, BTreeMap::new())),
            Change::Deliver { consumer, count } => {
                let (last, pending) = stream.group.as_mut().unwrap();
                for id in stream.entries.keys().filter(|id| **id > *last).take(*count) {
                    pending.insert(*id, consumer.clone());
                }
                *last = pending.keys().next_back().copied().unwrap_or(0).max(*last);
            }
            Change::Acknowledge { ids } => {
                let (_, pending) = stream.group.as_mut().unwrap();
                pending.retain(|id, _| !ids.contains(id));
            }
            _ => panic!("{self:?} of a stream"),
        }
    }
}

impl Content {
    /// Whether its key goes with it. A stream stays.
    fn is_empty(&self) -> bool {
        match self {
            Content::List(list) => list.is_empty(),
            Content::Hash(hash) => hash.is_empty(),
            Content::Set(set) => set.is_empty(),
            Content::Sorted(set) => set.is_empty(),
            Content::Stream(_) => false,
        }
    }
}
