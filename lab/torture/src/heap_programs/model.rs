//! What the structures of a thread hold, and answer: by those of the standard library.

use std::collections::{BTreeMap, VecDeque};

use super::plan::{LeafStep, Program, Step, Steps, Whole};

/// What a step answers: the value that it has taken or replaced.
pub(super) type Answer = Option<u64>;

/// The structures of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Model {
    /// The last program.
    pub(super) number: u64,
    pub(super) vec: Vec<u64>,
    pub(super) map: BTreeMap<Vec<u8>, u64>,
    pub(super) hash: BTreeMap<Vec<u8>, u64>,
    pub(super) deque: VecDeque<u64>,
    pub(super) list: VecDeque<u64>,
    pub(super) boxed: Option<u64>,
    pub(super) leaves: Vec<u64>,
    /// The leaf of the weak pointer, if it is there still.
    pub(super) marked: Option<u64>,
}

/// The key of that index: keys have different lengths.
pub(super) fn key(index: usize) -> Vec<u8> {
    format!("{index:0width$}", width = 1 + index % 20).into_bytes()
}

/// The text that stands for a value in a map.
pub(super) fn text_of(value: u64) -> String {
    format!("{value}:{}", "x".repeat(value as usize % 60))
}

/// The value of a text; of one that no program has written it is one that no program has.
pub(super) fn value_of(text: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(text);
    let value = text.split_once(':').and_then(|(value, _)| value.parse().ok());
    value.filter(|value| text_of(*value) == text).unwrap_or(u64::MAX)
}

impl Model {
    /// Does a program; what each of its steps answers.
    pub(super) fn apply(&mut self, program: &Program) -> Vec<Answer> {
        self.number = program.number;
        let Steps { plain, leaves } = &program.steps;
        let mut answers: Vec<Answer> = plain.iter().map(|step| self.step(*step)).collect();
        answers.extend(leaves.iter().map(|step| self.leaf_step(*step)));
        self.leaves.extend(program.orphan);
        answers
    }

    fn step(&mut self, step: Step) -> Answer {
        match step {
            Step::Push(value) => self.vec.push(value),
            Step::Pop => return self.vec.pop(),
            Step::Set(index, value) => {
                let len = self.vec.len().max(1);
                let place = self.vec.get_mut(index % len)?;
                return Some(std::mem::replace(place, value));
            }
            Step::Insert(at, value) => return self.map.insert(key(at), value),
            Step::Remove(at) => return self.map.remove(&key(at)),
            Step::HashInsert(at, value) => return self.hash.insert(key(at), value),
            Step::HashRemove(at) => return self.hash.remove(&key(at)),
            Step::PushBack(value) => self.deque.push_back(value),
            Step::PushFront(value) => self.deque.push_front(value),
            Step::PopBack => return self.deque.pop_back(),
            Step::PopFront => return self.deque.pop_front(),
            Step::ListBack(value) => self.list.push_back(value),
            Step::ListFront(value) => self.list.push_front(value),
            Step::ListPop => return self.list.pop_front(),
            Step::Box(value) => return self.boxed.replace(value),
            Step::Unbox => return self.boxed.take(),
            Step::Clear(Whole::Vec) => self.vec.clear(),
            Step::Clear(Whole::Map) => self.map.clear(),
            Step::Clear(Whole::Hash) => self.hash.clear(),
            Step::Clear(Whole::Deque) => self.deque.clear(),
            Step::Clear(Whole::List) => self.list.clear(),
        }
        None
    }

    fn leaf_step(&mut self, step: LeafStep) -> Answer {
        match step {
            LeafStep::Grow(value) => self.leaves.push(value),
            LeafStep::Drop => {
                let dropped = self.leaves.pop();
                self.marked = self.marked.filter(|marked| dropped != Some(*marked));
                return dropped;
            }
            LeafStep::Mark(index) => {
                let len = self.leaves.len().max(1);
                self.marked = Some(*self.leaves.get(index % len)?);
            }
            LeafStep::Unmark => self.marked = None,
            LeafStep::Clear => {
                self.leaves.clear();
                self.marked = None;
            }
            LeafStep::Ring(_) => {}
        }
        None
    }
}
