//! What every structure under torture says of itself.

use std::fmt::Debug;
use std::hash::Hash;

use tembo_pmem::Region;
use tembo_sim::Random;

/// A structure, the operations on it, and the model that says what it must show.
///
/// Errors are texts: they stand in the report of a violation.
pub(crate) trait Subject: Sync {
    /// Something that is done to it.
    type Op: Clone + Debug + Send + Sync;
    /// All that a client can see.
    type State: Clone + PartialEq + Debug + Hash + Send + Sync;
    /// The structure, open.
    type Live;

    /// Bytes in its region, at first and at most.
    fn size(&self) -> (u64, u64);

    /// Makes an empty one in a region of zeros, says when it is durable, and opens it.
    fn make(&self, region: Region, made: &mut dyn FnMut()) -> Result<Self::Live, String>;

    /// What an empty one shows.
    fn empty(&self) -> Self::State;

    /// Opens what is in the region; `None`: nothing was ever there, or its making was interrupted.
    fn open(&self, region: Region) -> Result<Option<Self::Live>, String>;

    /// All that a client can see.
    fn show(&self, live: &mut Self::Live) -> Result<Self::State, String>;

    /// Does `op` to what shows `state`, and compares what it returns; what the model shows then.
    /// `serial` is different for each operation.
    fn run(
        &self,
        live: &mut Self::Live,
        state: &Self::State,
        op: &Self::Op,
        serial: u64,
    ) -> Result<Self::State, String>;

    /// Closes it, if that is the first thing that `op` does: `None`, and it is opened again for the rest. Otherwise gives it
    /// back.
    fn close(&self, live: Self::Live, _op: &Self::Op) -> Result<Option<Self::Live>, String> {
        Ok(Some(live))
    }

    /// Ends recovery.
    fn settle(&self, live: &mut Self::Live) -> Result<(), String>;

    /// The structure is sound, and every byte accounted for; after `settle`.
    fn check(&self, live: &mut Self::Live, state: &Self::State) -> Result<(), String>;

    /// Recovery, as operations.
    fn recovery(&self) -> Vec<Self::Op>;

    /// Any operation.
    fn random_op(&self, random: &mut Random) -> Self::Op;

    /// The operations of which all short sequences are tried.
    fn alphabet(&self) -> Vec<Self::Op>;

    /// What is done before those; the first is nothing, and what has no operations is not made.
    fn starts(&self) -> Vec<Vec<Self::Op>>;

    /// Sequences that once found something, or that reach what others do not.
    fn scripts(&self) -> Vec<Script<Self::Op>>;
}

/// A sequence of operations that is explored.
#[derive(Clone, Debug)]
pub(crate) struct Script<Op> {
    /// Distinguishes it from others.
    pub(crate) name: String,
    /// Which of the starts comes before.
    pub(crate) start: usize,
    /// Then these are done, each ended by a crash before the last step of that name, if there is
    /// one, in which everything stored is kept.
    pub(crate) leads: Vec<(Vec<Op>, Option<&'static str>)>,
    /// These are explored.
    pub(crate) ops: Vec<Op>,
    /// From this operation on; 0 is the opening or making.
    pub(crate) first: usize,
    /// Each image is recovered under observation, not a sample.
    pub(crate) recovers_each: bool,
}

impl<Op> Script<Op> {
    /// Without leads, the opening explored too.
    pub(crate) fn new(name: impl Into<String>, start: usize, ops: Vec<Op>) -> Script<Op> {
        Script { name: name.into(), start, leads: Vec::new(), ops, first: 0, recovers_each: false }
    }
}

/// Does something by another thread, and waits for it: what it builds on was made durable by others.
pub(crate) fn elsewhere<R: Send>(run: impl FnOnce() -> R + Send) -> Result<R, String> {
    std::thread::scope(|scope| scope.spawn(run).join().map_err(|_| "a panic".to_owned()))
}
