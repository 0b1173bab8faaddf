//! What the heap of the programs consists of, and what it shows.

use std::collections::{BTreeMap, VecDeque};

use tembo_heap::{
    Access, Error, Heap, Layer, PBox, PDeque, PHashMap, PList, PMap, PString, PVec, Persist, Ptr,
    Transaction, Weak,
};

use super::model::{Model, key, value_of};
use super::plan::{ACCOUNTS, KEYS, LANES};
use crate::judge::{expect, text};

/// What each account has at first.
const BALANCE: i64 = 1000;

#[derive(Persist)]
pub(super) struct Top<'h> {
    pub(super) accounts: [Ptr<'h, Account>; ACCOUNTS],
    pub(super) lanes: [Ptr<'h, Lane<'h>>; LANES],
    /// Of each thread, by its name, the number of the last program that was entered.
    pub(super) entered: PHashMap<'h, u64>,
}

#[derive(Persist)]
pub(super) struct Account {
    pub(super) balance: i64,
}

/// The structures of a thread.
#[derive(Persist)]
pub(super) struct Lane<'h> {
    /// The last program.
    pub(super) number: u64,
    pub(super) vec: PVec<'h, u64>,
    pub(super) map: PMap<'h, PString<'h>>,
    pub(super) hash: PHashMap<'h, u64>,
    pub(super) deque: PDeque<'h, u64>,
    pub(super) list: PList<'h, u64>,
    pub(super) boxed: Option<PBox<'h, u64>>,
    pub(super) leaves: PVec<'h, Ptr<'h, Leaf<'h>>>,
    pub(super) marked: Option<Weak<'h, Leaf<'h>>>,
}

#[derive(Persist)]
pub(super) struct Leaf<'h> {
    pub(super) value: u64,
    pub(super) next: Option<Ptr<'h, Leaf<'h>>>,
}

fn lane<'h>() -> Lane<'h> {
    Lane {
        number: 0,
        vec: PVec::new(),
        map: PMap::new(),
        hash: PHashMap::new(),
        deque: PDeque::new(),
        list: PList::new(),
        boxed: None,
        leaves: PVec::new(),
        marked: None,
    }
}

/// The root, made if there is none.
pub(super) fn root<'h>(heap: Heap<'h>) -> Result<Ptr<'h, Top<'h>>, Error> {
    heap.root_or(|tx| {
        let accounts: Result<Vec<_>, Error> =
            (0..ACCOUNTS).map(|_| tx.alloc(Account { balance: BALANCE })).collect();
        let lanes: Result<Vec<_>, Error> = (0..LANES).map(|_| tx.alloc(lane())).collect();
        Ok::<_, Error>(Top {
            accounts: accounts?.try_into().map_err(|_| Error::NoRoot)?,
            lanes: lanes?.try_into().map_err(|_| Error::NoRoot)?,
            entered: PHashMap::new(),
        })
    })
}

/// The root, and the structures of a thread.
pub(super) fn parts<'h, L: Layer>(
    heap: &mut Access<'h, L>,
    lane: usize,
) -> Result<(Ptr<'h, Top<'h>>, Ptr<'h, Lane<'h>>), Error> {
    let top: Ptr<'h, Top<'h>> = heap.root()?.ok_or(Error::NoRoot)?;
    let lanes = heap.get(&top, Top::LANES)?;
    Ok((top, lanes[lane].clone()))
}

/// The name of a thread in the map of all.
pub(super) fn name(lane: usize) -> String {
    format!("thread {lane}")
}

/// The value of a text of a map.
pub(super) fn value<'h, L: Layer>(
    heap: &mut Access<'h, L>,
    text: &PString<'h>,
) -> Result<u64, Error> {
    Ok(value_of(&text.to_bytes(heap)?))
}

/// All that a heap shows.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) lanes: Vec<Model>,
    pub(super) entered: Vec<Option<u64>>,
    total: i64,
}

impl Shown {
    /// No money was made or lost.
    pub(super) fn check_total(&self) -> Result<(), String> {
        let founded = ACCOUNTS as i64 * BALANCE;
        expect(self.total == founded, &format!("a total of {} instead of {founded}", self.total))
    }
}

/// What a heap shows; `None`: it has no root.
pub(super) fn show(heap: Heap<'_>) -> Result<Option<Shown>, String> {
    let of_all = heap.exclusive(|tx| {
        let Some(top) = tx.root::<Top<'_>>()? else { return Ok(None) };
        let (mut entered, mut total) = (Vec::new(), 0);
        for lane in 0..LANES {
            entered.push(top.field(Top::ENTERED).get(tx, name(lane))?);
        }
        for account in &tx.get(&top, Top::ACCOUNTS)? {
            total += tx.get(account, Account::BALANCE)?;
        }
        Ok::<_, Error>(Some((entered, total)))
    });
    let Some((entered, total)) = of_all.map_err(text)? else { return Ok(None) };
    let lanes = (0..LANES).map(|lane| look(heap, lane)).collect::<Result<_, _>>()?;
    Ok(Some(Shown { lanes, entered, total }))
}

/// What the structures of a thread hold.
pub(super) fn look(heap: Heap<'_>, lane: usize) -> Result<Model, String> {
    let read = heap.exclusive(|tx| {
        let (_, lane) = parts(tx, lane)?;
        let mut is_sound = true;
        let model = read(tx, &lane, &mut is_sound)?;
        Ok::<_, Error>((model, is_sound))
    });
    let (model, is_sound) = read.map_err(text)?;
    let what = || format!("a structure of {} contradicts itself: {model:?}", name(lane));
    expect(is_sound, &what())?;
    Ok(Model { deque: emptied(heap, lane)?, ..model })
}

/// All but the queue.
fn read<'h>(
    tx: &mut Transaction<'h>,
    lane: &Ptr<'h, Lane<'h>>,
    is_sound: &mut bool,
) -> Result<Model, Error> {
    let mut map = BTreeMap::new();
    for (key, text) in lane.field(Lane::MAP).to_vec(tx)? {
        map.insert(key, value(tx, &text)?);
    }
    let (of_hash, mut hash) = (lane.field(Lane::HASH), BTreeMap::new());
    for index in 0..KEYS {
        if let Some(value) = of_hash.get(tx, key(index))? {
            hash.insert(key(index), value);
        }
    }
    let list = VecDeque::from(lane.field(Lane::LIST).to_vec(tx)?);
    let lens = [of_hash.len(tx)?, lane.field(Lane::MAP).len(tx)?, lane.field(Lane::LIST).len(tx)?];
    *is_sound &= lens == [hash.len() as u64, map.len() as u64, list.len() as u64];
    let (mut leaves, mut before) = (Vec::new(), None);
    for leaf in lane.field(Lane::LEAVES).to_vec(tx)? {
        let Leaf { value, next } = tx.read(&leaf)?;
        *is_sound &= next == before;
        leaves.push(value);
        before = Some(leaf);
    }
    let boxed = tx.get(lane, Lane::BOXED)?.map(|boxed| boxed.read(tx)).transpose()?;
    let marked = tx.get(lane, Lane::MARKED)?.map(|weak| tx.upgrade(&weak)).transpose()?;
    let marked = marked.flatten().map(|leaf| tx.get(&leaf, Leaf::VALUE)).transpose()?;
    let number = tx.get(lane, Lane::NUMBER)?;
    let vec = lane.field(Lane::VEC).to_vec(tx)?;
    Ok(Model { number, vec, map, hash, deque: VecDeque::new(), list, boxed, leaves, marked })
}

/// What is in the queue: taken out by a transaction that is taken back.
fn emptied(heap: Heap<'_>, lane: usize) -> Result<VecDeque<u64>, String> {
    let mut all = VecDeque::new();
    let ended = heap.exclusive(|tx| {
        let (_, lane) = parts(tx, lane)?;
        let deque = lane.field(Lane::DEQUE);
        while let Some(value) = deque.pop_front(tx)? {
            all.push_back(value);
        }
        Err::<(), Error>(Error::Aborted)
    });
    match ended {
        Ok(()) | Err(Error::Aborted) => Ok(all),
        Err(error) => Err(text(error)),
    }
}
