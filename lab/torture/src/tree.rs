//! An index of either kind under torture, with the least that it needs of a store: a limit of
//! versions, a word that commits them, two named versions, and the note of a rollback.

mod model;
mod scripts;
mod shelf;

use tembo_index::IndexKind;
use tembo_pmem::Region;
use tembo_sim::Random;

use crate::subject::{Script, Subject};
pub(crate) use model::{Map, Write, key, value};
use model::{Op, State};
pub(crate) use shelf::Shelf;

const SIZE: u64 = 128 << 10;

/// A tree in nodes of four entries, or in leaves of six.
pub(crate) struct Tree(pub(crate) IndexKind);

impl Subject for Tree {
    type Op = Op;
    type State = State;
    type Live = Shelf;

    fn size(&self) -> (u64, u64) {
        (SIZE, SIZE)
    }

    fn empty(&self) -> State {
        State::default()
    }

    fn make(&self, region: Region, made: &mut dyn FnMut()) -> Result<Shelf, String> {
        Shelf::make(self.0, region, made)
    }

    fn open(&self, region: Region) -> Result<Option<Shelf>, String> {
        Shelf::open(region)
    }

    fn show(&self, shelf: &mut Shelf) -> Result<State, String> {
        shelf.show()
    }

    fn run(&self, shelf: &mut Shelf, state: &State, op: &Op, serial: u64) -> Result<State, String> {
        shelf.run(state, op, serial)
    }

    fn settle(&self, shelf: &mut Shelf) -> Result<(), String> {
        shelf.recover()
    }

    fn check(&self, shelf: &mut Shelf, state: &State) -> Result<(), String> {
        shelf.check(state)
    }

    fn recovery(&self) -> Vec<Op> {
        vec![Op::Recover]
    }

    fn random_op(&self, random: &mut Random) -> Op {
        model::random_op(random)
    }

    fn alphabet(&self) -> Vec<Op> {
        scripts::alphabet()
    }

    fn starts(&self) -> Vec<Vec<Op>> {
        scripts::starts()
    }

    fn scripts(&self) -> Vec<Script<Op>> {
        scripts::all()
    }
}
