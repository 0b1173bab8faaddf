//! An index of any kind under torture, with the least that it needs of a store: a limit of
//! versions, a word that commits them, two named versions, and the note of a rollback.

mod harness;
mod model;
mod scripts;

use tembo_index::IndexKind;
use tembo_pmem::Region;
use tembo_sim::Random;

use crate::subject::{Script, Subject};
pub(crate) use harness::Harness;
pub(crate) use model::{Map, Write, key, value};
use model::{Op, State};

const SIZE: u64 = 128 << 10;
/// With keys of 64 KiB.
const SIZE_FOR_LONGEST: u64 = 6 << 20;

/// A tree in nodes of four entries, or in leaves of six; a hash index in leaves of six.
pub(crate) struct Tree {
    pub(crate) kind: IndexKind,
    pub(crate) keys: Keys,
}

/// Which keys a tree has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keys {
    /// Of up to 40 bytes.
    Short,
    /// Of as many bytes as there may be, of which only the last ones differ.
    Longest,
}

impl Subject for Tree {
    type Op = Op;
    type State = State;
    type Live = Harness;

    fn size(&self) -> (u64, u64) {
        let size = if self.keys == Keys::Short { SIZE } else { SIZE_FOR_LONGEST };
        (size, size)
    }

    fn empty(&self) -> State {
        State::default()
    }

    fn make(&self, region: Region, made: &mut dyn FnMut()) -> Result<Harness, String> {
        Harness::make(self.kind, region, made)
    }

    fn open(&self, region: Region) -> Result<Option<Harness>, String> {
        Harness::open(region)
    }

    fn show(&self, harness: &mut Harness) -> Result<State, String> {
        harness.show()
    }

    fn run(
        &self,
        harness: &mut Harness,
        state: &State,
        op: &Op,
        serial: u64,
    ) -> Result<State, String> {
        harness.run(state, op, serial)
    }

    fn settle(&self, harness: &mut Harness) -> Result<(), String> {
        harness.recover()
    }

    fn check(&self, harness: &mut Harness, state: &State) -> Result<(), String> {
        harness.check(state)
    }

    fn recovery(&self) -> Vec<Op> {
        vec![Op::Recover]
    }

    fn random_op(&self, random: &mut Random) -> Op {
        match self.keys {
            Keys::Short => model::random_op(random),
            Keys::Longest => model::random_op_on_longest(random),
        }
    }

    fn alphabet(&self) -> Vec<Op> {
        match self.keys {
            Keys::Short => scripts::alphabet(),
            Keys::Longest => Vec::new(),
        }
    }

    fn starts(&self) -> Vec<Vec<Op>> {
        match self.keys {
            Keys::Short => scripts::starts(),
            Keys::Longest => scripts::starts_with_longest(),
        }
    }

    fn scripts(&self) -> Vec<Script<Op>> {
        match self.keys {
            Keys::Short => scripts::all(),
            Keys::Longest => scripts::all_with_longest(),
        }
    }
}
