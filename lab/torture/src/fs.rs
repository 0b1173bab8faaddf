//! The file system under torture: every call, several as one commit, transactions, files that are open without a name.

mod call;
mod model;

use std::collections::BTreeSet;

use tembo_fs::{Allocate, Condition, Error, Format, Fs, Rename};
use tembo_kv::{Durability, IndexKind, Progress, Store};
use tembo_pmem::Region;
use tembo_pool::{Geometry, Pool};
use tembo_sim::Random;

use crate::judge::{expect, text};
use crate::kv;
use crate::pooled::{expect_accounted, stored};
use crate::stacked::InStore;
use crate::subject::{Script, Subject};
use call::{Call, PIECE, any_call, code, time};
use model::State;

/// Most pieces of a file that are removed one by one, not as a range.
const SINGLY_MAX: u64 = 2;

/// The file system, in leaves of six elements, over an index.
pub(crate) struct Files(pub(crate) IndexKind);

/// Something that is done to it.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Makes one call.
    Call(Call),
    /// Makes these calls in one commit. If one is refused, none is made.
    Together(Vec<Call>),
    /// Makes these calls in a transaction, which keeps those that are not refused.
    Transaction(Vec<Call>),
    /// A transaction that is dropped.
    Dropped(Vec<Call>),
    /// A file is opened, and loses a name.
    UnlinkOpen(&'static str),
    /// Closes the open file.
    Close,
    Step,
    Maintain,
}

/// The file system, and what is open.
pub(crate) struct Live {
    fs: Fs,
    open: BTreeSet<u64>,
}

fn live(fs: Fs) -> Live {
    fs.set_singly_max(SINGLY_MAX);
    fs.set_copied_max(0);
    Live { fs, open: BTreeSet::new() }
}

/// That a call gets the error that the model says, or none.
fn compare(
    call: &Call,
    done: Result<(), Error>,
    expected: Result<(), &'static str>,
) -> Result<(), String> {
    let found = match &done {
        Ok(()) => Ok(()),
        Err(error) => Err(code(error).ok_or_else(|| format!("{call:?}: {error:?}"))?),
    };
    if found == expected {
        return Ok(());
    }
    Err(format!("{call:?} gets {done:?}, and should get {expected:?}"))
}

impl Live {
    fn is_sound(&self) -> Result<(), String> {
        let found = self.fs.snapshot().and_then(|mut tree| tree.check()).map_err(text)?;
        if !found.findings.is_empty() {
            return Err(format!("what does not fit: {:?}", found.findings));
        }
        expect(found.orphans <= self.open.len() as u64, "orphans that are not open")
    }

    fn together(&self, state: &State, calls: &[Call], serial: u64) -> Result<State, String> {
        let (mut next, mut failed) = (state.clone(), Ok(()));
        let done = self.fs.write(time(serial), Durability::Strict, |tree| {
            for (call, serial) in calls.iter().zip(serial..) {
                let expected = next.after(call, serial);
                let done = call.run(tree, serial);
                let refused = done.as_ref().is_err_and(|error| code(error).is_some());
                failed = compare(call, done, expected.as_ref().map(drop).map_err(|what| *what));
                match expected {
                    Ok(after) if failed.is_ok() => next = after,
                    _ if refused => return Err(Error::Broken),
                    _ => return Err(Error::NoFileSystem),
                }
            }
            Ok(())
        });
        failed?;
        match done {
            Ok(()) => Ok(next),
            Err(Error::Broken) => Ok(state.clone()),
            Err(error) => Err(text(error)),
        }
    }

    fn transaction(
        &self,
        state: &State,
        calls: &[Call],
        serial: u64,
        commits: bool,
    ) -> Result<State, String> {
        let (mut next, mut tx) = (state.clone(), self.fs.transaction().map_err(text)?);
        for (call, serial) in calls.iter().zip(serial..) {
            let expected = next.after(call, serial);
            let done = tx.change(time(serial), |tree| call.run(tree, serial));
            compare(call, done, expected.as_ref().map(drop).map_err(|what| *what))?;
            next = expected.unwrap_or(next);
            let shown = tx.read(|tree| Ok(State::of(tree))).map_err(text)??;
            if shown != next {
                return Err(format!("{call:?}: the transaction shows {shown:?}, not {next:?}"));
            }
        }
        let others = State::of(&mut self.fs.snapshot().map_err(text)?)?;
        expect(others == *state, "others see what is not committed")?;
        if !commits {
            return Ok(state.clone());
        }
        tx.commit(Durability::Strict).map_err(text)?;
        Ok(next)
    }

    fn unlink_open(
        &mut self,
        state: &State,
        path: &'static str,
        serial: u64,
    ) -> Result<State, String> {
        let call = Call::Unlink(path);
        if state.after(&call, serial).is_ok() {
            let found = self.fs.snapshot().and_then(|mut tree| tree.resolve(path.as_bytes()));
            let number = found.map_err(text)?.number;
            if self.open.insert(number) {
                self.fs.open_inode(number).map_err(text)?;
            }
        }
        self.together(state, &[call], serial)
    }
}

impl Subject for Files {
    type Op = Op;
    type State = State;
    type Live = Live;

    fn size(&self) -> (u64, u64) {
        (kv::SIZE, kv::SIZE)
    }

    fn empty(&self) -> State {
        State::default()
    }

    fn make(&self, region: Region, made: &mut dyn FnMut()) -> Result<Live, String> {
        Pool::format(&region, Geometry::TINY).map_err(text)?;
        let pool = Pool::from_region_of(region, tembo_kv::kinds()).map_err(text)?;
        Store::format(&pool, self.0).map_err(text)?;
        let live = self.make_in(kv::start(pool).map_err(text)?)?;
        made();
        Ok(live)
    }

    fn open(&self, region: Region) -> Result<Option<Live>, String> {
        let Some(pool) = stored(region)? else { return Ok(None) };
        self.open_in(kv::start(pool).map_err(text)?)
    }

    fn show(&self, live: &mut Live) -> Result<State, String> {
        State::of(&mut live.fs.snapshot().map_err(text)?)
    }

    fn run(&self, live: &mut Live, state: &State, op: &Op, serial: u64) -> Result<State, String> {
        match op {
            Op::Call(call) => live.together(state, std::slice::from_ref(call), serial),
            Op::Together(calls) => live.together(state, calls, serial),
            Op::Transaction(calls) => live.transaction(state, calls, serial, true),
            Op::Dropped(calls) => live.transaction(state, calls, serial, false),
            Op::UnlinkOpen(path) => live.unlink_open(state, path, serial),
            Op::Close => {
                for number in std::mem::take(&mut live.open) {
                    live.fs.close_inode(number).map_err(text)?;
                }
                Ok(state.clone())
            }
            Op::Step => {
                live.fs.store().maintain(1).map_err(text)?;
                Ok(state.clone())
            }
            Op::Maintain => {
                self.settle(live)?;
                Ok(state.clone())
            }
        }
    }

    fn settle(&self, live: &mut Live) -> Result<(), String> {
        match live.fs.store().maintain(10_000).map_err(text)? {
            Progress::Idle => Ok(()),
            Progress::More => Err("recovery does not end".into()),
        }
    }

    fn check(&self, live: &mut Live, _: &State) -> Result<(), String> {
        let check = live.fs.store().check().map_err(text)?;
        expect_accounted(&check.account, kv::SIZE)?;
        expect(check.leaked == 0, "leaked objects")?;
        live.is_sound()
    }

    fn recovery(&self) -> Vec<Op> {
        vec![Op::Step, Op::Maintain]
    }

    fn random_op(&self, random: &mut Random) -> Op {
        let calls = |random: &mut Random| {
            let count = 1 + random.below(5);
            (0..count).map(|_| any_call(random)).collect()
        };
        match random.below(16) {
            0 => Op::Together(calls(random)),
            1 | 2 => Op::Transaction(calls(random)),
            3 => Op::Dropped(calls(random)),
            4 => Op::UnlinkOpen(["a", "b", "d/a"][random.below(3)]),
            5 => Op::Close,
            6 => Op::Step,
            7 if random.below(3) == 0 => Op::Maintain,
            _ => Op::Call(any_call(random)),
        }
    }

    fn alphabet(&self) -> Vec<Op> {
        let calls = [
            Call::Create("b"),
            Call::Folder("d/e"),
            Call::Symlink("d/b", "a"),
            Call::Link("a", "d/b"),
            Call::Unlink("a"),
            Call::RemoveFolder("d/e"),
            Call::Rename("a", "d/a", Rename::Replace),
            Call::Rename("d", "d/e/d", Rename::Replace),
            Call::Rename("a", "d", Rename::Exchange),
            Call::Rename("d/e", "e", Rename::NoReplace),
            Call::Write("a", 300, 900),
            Call::Resize("a", 600),
            Call::Resize("a", 5000),
            Call::Allocate("a", 200, 700, Allocate::Punch),
            Call::Allocate("a", 0, 512, Allocate::Collapse),
            Call::Allocate("a", 512, 1024, Allocate::Insert),
            Call::Copy("a", "d/a", 100),
            Call::Clone("a", "d/a"),
            Call::SetAttribute("a", 20, Condition::Any),
            Call::Permissions("d", 0o700),
            Call::DefaultList("d", true),
        ];
        let mut ops: Vec<Op> = calls.into_iter().map(Op::Call).collect();
        ops.push(Op::UnlinkOpen("a"));
        ops.push(Op::Close);
        ops.push(Op::Transaction(safe_write("a")));
        ops.push(Op::Maintain);
        ops
    }

    fn starts(&self) -> Vec<Vec<Op>> {
        let some = vec![
            Op::Call(Call::Folder("d")),
            Op::Call(Call::Create("a")),
            Op::Call(Call::Write("a", 0, 1300)),
            Op::Call(Call::Create("d/a")),
        ];
        let more = vec![
            Op::Together(vec![Call::Folder("d"), Call::Folder("d/e"), Call::Create("d/e/a")]),
            Op::Call(Call::Create("a")),
            Op::Call(Call::Write("a", 5000, 10)),
            Op::Call(Call::SetAttribute("a", 50, Condition::Create)),
            Op::Call(Call::Link("a", "b")),
        ];
        vec![vec![], some, more]
    }

    fn scripts(&self) -> Vec<Script<Op>> {
        let large = vec![Call::Write("a", 0, 4000), Call::Unlink("d/a"), Call::Unlink("a")];
        vec![
            Script::new("making", 0, vec![Op::Call(Call::Create("a")), Op::Maintain]),
            Script::new("removed-range", 1, vec![Op::Together(large.clone()), Op::Maintain]),
            Script::new("spilled-range", 1, vec![Op::Transaction(large), Op::Step, Op::Maintain]),
            Script::new("safe-writes", 1, safe_write("a").into_iter().map(Op::Call).collect()),
            Script::new("clones", 1, clones()),
            Script::new(
                "inherited-lists",
                1,
                vec![
                    Op::Call(Call::DefaultList("d", true)),
                    Op::Call(Call::Folder("d/e")),
                    Op::Call(Call::Create("d/e/a")),
                    Op::Call(Call::Permissions("d/e/a", 0o604)),
                    Op::Call(Call::Unlink("d/e/a")),
                    Op::Maintain,
                ],
            ),
            Script::new(
                "open-without-a-name",
                2,
                vec![Op::UnlinkOpen("a"), Op::UnlinkOpen("b"), Op::Close, Op::Maintain],
            ),
            Script::new("protocol.git", 1, git_object().into_iter().map(Op::Call).collect()),
            Script::new("protocol.sqlite", 1, sqlite_commit().into_iter().map(Op::Call).collect()),
            Script::new(
                "protocol.leveldb",
                1,
                leveldb_switch().into_iter().map(Op::Call).collect(),
            ),
        ]
    }
}

impl InStore for Files {
    fn make_in(&self, store: Store) -> Result<Live, String> {
        let format = Format { piece_size: PIECE, ..Format::default() };
        Fs::format(&store, &format, time(0)).map(live).map_err(text)
    }

    fn open_in(&self, store: Store) -> Result<Option<Live>, String> {
        match Fs::open(&store) {
            Err(Error::NoFileSystem) => Ok(None),
            opened => opened.map(live).map(Some).map_err(text),
        }
    }

    fn store_of(&self, live: &Live) -> Store {
        live.fs.store().clone()
    }

    fn first(&self) -> Option<Op> {
        None
    }

    fn check_in(&self, live: &mut Live) -> Result<(), String> {
        live.is_sound()
    }
}

/// A file is cloned, the clone too; all are changed and cut, inside of a transaction and outside, and removed one by one.
fn clones() -> Vec<Op> {
    let twice = vec![Call::Clone("a", "d/a"), Call::Write("a", 500, 100), Call::Resize("a", 900)];
    let again = vec![Call::Create("b"), Call::Clone("a", "b"), Call::Resize("d/a", 0)];
    vec![
        Op::Together(twice),
        Op::Transaction(again),
        Op::Call(Call::Allocate("b", 100, 600, Allocate::Punch)),
        Op::Call(Call::Write("d/a", 0, 10)),
        Op::UnlinkOpen("a"),
        Op::Call(Call::Create("a")),
        Op::Call(Call::Clone("b", "a")),
        Op::Close,
        Op::Call(Call::Unlink("b")),
        Op::Call(Call::Write("a", 0, 1024)),
        Op::Call(Call::Unlink("a")),
        Op::Maintain,
    ]
}

/// What an editor does to a file.
fn safe_write(path: &'static str) -> Vec<Call> {
    vec![
        Call::Create("e"),
        Call::Write("e", 0, 700),
        Call::Permissions("e", 0o600),
        Call::Rename("e", path, Rename::Replace),
    ]
}

/// What git does to store an object: a file that has no other name yet gets its name by a link.
fn git_object() -> Vec<Call> {
    vec![
        Call::Create("d/tmp_obj"),
        Call::Write("d/tmp_obj", 0, 700),
        Call::Permissions("d/tmp_obj", 0o444),
        Call::Link("d/tmp_obj", "d/object"),
        Call::Unlink("d/tmp_obj"),
    ]
}

/// What SQLite does to commit with a journal: the old pages go there, then the new ones to their places; then the journal goes.
fn sqlite_commit() -> Vec<Call> {
    vec![
        Call::Create("a-journal"),
        Call::Write("a-journal", 0, 28),
        Call::Write("a-journal", 512, 1040),
        Call::Write("a-journal", 8, 4),
        Call::Write("a", 0, 512),
        Call::Write("a", 512, 512),
        Call::Unlink("a-journal"),
    ]
}

/// What LevelDB does to switch to another manifest: a file with its name replaces CURRENT.
fn leveldb_switch() -> Vec<Call> {
    vec![
        Call::Create("d/MANIFEST-2"),
        Call::Write("d/MANIFEST-2", 0, 600),
        Call::Create("d/tmp"),
        Call::Write("d/tmp", 0, 16),
        Call::Rename("d/tmp", "d/a", Rename::Replace),
        Call::Unlink("a"),
    ]
}
