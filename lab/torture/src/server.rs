//! The server's commands under torture: whole turns, without sockets.

mod collection;
mod model;
mod stream;

use tembo_kv::{Direction, IndexKind, Options, Progress, Snapshot, Store};
use tembo_pmem::{Region, RegionOptions};
use tembo_pool::{Geometry, Pool, PoolOptions};
use tembo_server::format::{
    ID_KEY, Kind, Value, data_keyspace, decode_expiry_entry, elements_keyspace, expiry_keyspace,
};
use tembo_server::{Local, check_collections};
use tembo_sim::Random;

use crate::judge::{expect, text};
use crate::pooled::{expect_accounted, stored};
use crate::subject::{Script, Subject};
use collection::{Collection, Edit};
use model::{Command, Content, Database, Op, State};
use stream::{Change, Elements, Stream};

const SIZE: u64 = 256 << 10;

/// The server with one database, in leaves of six elements.
pub(crate) struct Served;

fn start(pool: Pool) -> Result<Local, String> {
    let region = RegionOptions { size_max: SIZE, ..RegionOptions::default() };
    let pool_options = PoolOptions { region, ..PoolOptions::default() };
    let options = Options::new().pool(pool_options).background(false);
    Local::open(Store::start(pool, &options).map_err(text)?, 1).map_err(text)
}

/// Every key and value of a keyspace.
fn each(
    snapshot: &Snapshot,
    name: &str,
    visit: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<(), String> {
    let all = snapshot.keyspaces().map_err(text)?;
    let Some((_, space)) = all.into_iter().find(|(other, _)| other == name) else { return Ok(()) };
    let mut visit = |key: &[u8], value: tembo_kv::Value<'_>| {
        value.with(|value| visit(key, value));
        true
    };
    let (from, to) = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    snapshot.range_with::<[u8]>(space, (from, to), Direction::Forward, &mut visit).map_err(text)
}

/// What a snapshot holds; the index of what expires must fit, and the elements of collections.
fn database(snapshot: &Snapshot) -> Result<Database, String> {
    let mut fault = None;
    check_collections(snapshot, 0, &mut |what| fault = Some(what)).map_err(text)?;
    if let Some(what) = fault {
        return Err(what);
    }
    let (mut elements, mut database) = (Elements::new(), Database::new());
    each(snapshot, &elements_keyspace(0), &mut |key, value| {
        elements.insert(key.to_vec(), value.to_vec());
    })?;
    elements.remove(&ID_KEY[..]);
    let mut failed = Ok(());
    each(snapshot, &data_keyspace(0), &mut |key, bytes| match Value::decode(bytes.into()) {
        Ok(value) if value.of.kind == Kind::Stream => {
            match Stream::read(&value.payload.to_vec(), &mut elements) {
                Ok(stream) => {
                    database.insert(key.to_vec(), (Content::Stream(stream), value.expiry_ms));
                }
                Err(what) => failed = Err(what),
            }
        }
        Ok(value) if value.of.kind != Kind::String => {
            match Collection::read(&value, &mut elements) {
                Ok(read) => {
                    database.insert(key.to_vec(), (Content::Collection(read), value.expiry_ms));
                }
                Err(what) => failed = Err(what),
            }
        }
        Ok(value) => {
            let content = Content::String(value.payload.to_vec());
            database.insert(key.to_vec(), (content, value.expiry_ms));
        }
        Err(_) => failed = Err("a value that is not the server's".to_owned()),
    })?;
    failed?;
    expect(elements.is_empty(), "elements of no value")?;
    let mut indexed = Vec::new();
    each(snapshot, &expiry_keyspace(0), &mut |entry, _| {
        indexed.extend(decode_expiry_entry(entry).map(|(due, key)| (due, key.to_vec())));
    })?;
    let mut expiring: Vec<(u64, Vec<u8>)> = database
        .iter()
        .filter_map(|(key, (_, expiry_ms))| Some(((*expiry_ms)?, key.clone())))
        .collect();
    expiring.sort();
    expect(indexed == expiring, "the index of what expires does not fit the values")?;
    Ok(database)
}

impl Subject for Served {
    type Op = Op;
    type State = State;
    type Live = Local;

    fn size(&self) -> (u64, u64) {
        (SIZE, SIZE)
    }

    fn empty(&self) -> State {
        State::default()
    }

    fn make(&self, region: Region, made: &mut dyn FnMut()) -> Result<Local, String> {
        Pool::format(&region, Geometry::TINY).map_err(text)?;
        let pool = Pool::from_region_of(region, tembo_kv::kinds()).map_err(text)?;
        Store::format(&pool, IndexKind::Nvtree).map_err(text)?;
        made();
        start(pool)
    }

    fn open(&self, region: Region) -> Result<Option<Local>, String> {
        stored(region)?.map(start).transpose()
    }

    fn show(&self, local: &mut Local) -> Result<State, String> {
        let store = local.store();
        let now = database(&store.snapshot().map_err(text)?)?;
        let saved = match store.snapshots().into_iter().find(|(name, _)| name == "save") {
            Some((_, version)) => Some(database(&store.snapshot_at(version).map_err(text)?)?),
            None => None,
        };
        Ok(State { now, saved })
    }

    fn run(&self, local: &mut Local, state: &State, op: &Op, serial: u64) -> Result<State, String> {
        match op {
            Op::Turn(commands) => {
                let requests: Vec<_> =
                    commands.iter().flat_map(|command| command.requests(serial)).collect();
                let (next, failing) = state.after(commands, serial);
                let replies = local.turn(model::time(commands, serial), &requests).map_err(text)?;
                let lines = replies.split(|&byte| byte == b'\n');
                let errors = lines.filter(|line| line.starts_with(b"-")).count();
                expect(errors == failing, "a command fails where the model does not, or not")?;
                Ok(next)
            }
            Op::Step => {
                local.store().maintain(1).map_err(text)?;
                Ok(state.clone())
            }
            Op::Maintain => {
                self.settle(local)?;
                Ok(state.clone())
            }
        }
    }

    fn settle(&self, local: &mut Local) -> Result<(), String> {
        match local.store().maintain(10_000).map_err(text)? {
            Progress::Idle => Ok(()),
            Progress::More => Err("recovery does not end".into()),
        }
    }

    fn check(&self, local: &mut Local, state: &State) -> Result<(), String> {
        let check = local.store().check().map_err(text)?;
        expect_accounted(&check.account, SIZE)?;
        expect(check.leaked == 0, "leaked objects")?;
        let size = local.turn(0, &[vec![b"DBSIZE".to_vec()]]).map_err(text)?;
        let expected = format!(":{}\r\n", state.now.len());
        expect(size == expected.as_bytes(), "DBSIZE is wrong")
    }

    fn recovery(&self) -> Vec<Op> {
        vec![Op::Step, Op::Maintain]
    }

    fn random_op(&self, random: &mut Random) -> Op {
        model::random_op(random)
    }

    fn alphabet(&self) -> Vec<Op> {
        use Command as C;
        let turns = vec![
            vec![C::Set(0, 5, None)],
            vec![C::Set(1, 5, Some(30)), C::Set(2, 90, Some(1)), C::Delete(vec![0, 3])],
            vec![C::Increment(20), C::Increment(20), C::Append(1, 9)],
            vec![C::Expire(0, 7), C::Persist(1), C::Expire(2, 3)],
            vec![C::Rename(0, 4)],
            vec![C::Clear, C::Set(5, 8, None)],
            vec![C::Exec(vec![C::Set(6, 7, Some(9)), C::Rename(6, 1), C::Increment(21)])],
            vec![C::Clear],
            vec![C::Save],
            vec![
                C::Stream(30, Change::CreateGroup),
                C::Stream(30, Change::Add(None)),
                C::Stream(30, Change::Read(1, 9)),
            ],
            vec![C::Stream(30, Change::Add(Some(1))), C::Stream(30, Change::Claim(2))],
            vec![C::Edit(40, Edit::PushLeft(9)), C::Edit(40, Edit::PopRight)],
            vec![C::Edit(42, Edit::SetField(2, 9)), C::Edit(42, Edit::SetField(1, 4))],
            vec![C::Edit(44, Edit::Add(3)), C::Edit(44, Edit::RemoveMember(2))],
            vec![C::Edit(46, Edit::Score(1, 2)), C::Edit(46, Edit::PopMin), C::Rename(46, 47)],
            vec![C::Stream(30, Change::DestroyGroup), C::Rename(30, 31), C::Delete(vec![31])],
        ];
        let mut ops: Vec<Op> = turns.into_iter().map(Op::Turn).collect();
        ops.extend([Op::Step, Op::Maintain]);
        ops
    }

    fn starts(&self) -> Vec<Vec<Op>> {
        let set = |keys: std::ops::Range<u8>, expiry: Option<u64>| {
            Op::Turn(keys.map(|key| Command::Set(key, 12, expiry)).collect())
        };
        vec![
            vec![],
            vec![set(0..3, None)],
            vec![set(0..6, Some(40)), Op::Turn(vec![Command::Save]), set(3..9, None)],
            vec![
                set(0..9, Some(500)),
                Op::Maintain,
                Op::Turn(vec![Command::Delete(vec![1, 2, 3])]),
            ],
            vec![
                Op::Turn(vec![Command::Stream(30, Change::CreateGroup)]),
                Op::Turn(vec![Command::Stream(30, Change::Add(None)); 3]),
                Op::Turn(vec![Command::Stream(30, Change::Read(1, 2))]),
            ],
            // Of each kind one that is large, and one with an element that is not.
            [1, 2, 3]
                .into_iter()
                .map(|n| {
                    Op::Turn(vec![
                        Command::Edit(40, Edit::PushRight(if n == 1 { 1100 } else { 5 })),
                        Command::Edit(42, Edit::SetField(n, 5)),
                        Command::Edit(44, Edit::Add(n)),
                        Command::Edit(46, Edit::Score(n, 1)),
                    ])
                })
                .collect(),
        ]
    }

    fn scripts(&self) -> Vec<Script<Op>> {
        vec![Script::new("making", 0, vec![Op::Turn(vec![Command::Set(0, 5, None)])])]
    }
}
