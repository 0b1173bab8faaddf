//! What a program does to the heap.

use tembo_heap::{
    Access, Counted, Error, Heap, HeapFile, Layer, PBox, PDeque, PHashMap, PList, PMap, PString,
    PVec, Ptr,
};

use super::content::{Account, Lane, Leaf, Top, name, parts, value};
use super::model::{Answer, key, text_of};
use super::plan::{LeafStep, Program, Step, Steps, Transfer, Way, Whole};

/// Runs a program; what its steps answer. It is durable when this returns, or an error says that nothing was done.
pub(super) fn run<'h>(
    file: &HeapFile,
    heap: Heap<'h>,
    program: &Program,
) -> Result<Vec<Answer>, Error> {
    if let Some(steps) = &program.aborted {
        abort(heap, program.lane, steps)?;
    }
    let make = |value: u64| heap.atomic(|tx| tx.alloc(Leaf { value, next: None }));
    let orphan = program.orphan.map(make).transpose()?;
    let orphan = orphan.as_ref();
    match program.way {
        Way::Shared => heap.atomic(|tx| counted(tx, program, orphan)),
        Way::Alone => heap.exclusive(|tx| counted(tx, program, orphan)),
        Way::Safe => heap.safe(|heap| {
            let answers = counted(heap, program, orphan)?;
            heap.checkpoint()?;
            Ok(answers)
        }),
        Way::Base => file.base(|heap| {
            let answers = plain(heap, program)?;
            heap.checkpoint()?;
            Ok(answers)
        }),
    }
}

/// Begins something, and takes it back.
fn abort(heap: Heap<'_>, lane: usize, steps: &Steps) -> Result<(), Error> {
    let ended = heap.atomic(|tx| {
        let (_, lane) = parts(tx, lane)?;
        for each in &steps.plain {
            step(tx, &lane, *each)?;
        }
        for each in &steps.leaves {
            leaf_step(tx, &lane, *each)?;
        }
        Err::<(), Error>(Error::Aborted)
    });
    match ended {
        Ok(()) | Err(Error::Aborted) => Ok(()),
        Err(error) => Err(error),
    }
}

/// All of a program where objects go by themselves.
fn counted<'h, L: Counted>(
    heap: &mut Access<'h, L>,
    program: &Program,
    orphan: Option<&Ptr<'h, Leaf<'h>>>,
) -> Result<Vec<Answer>, Error> {
    let mut answers = plain(heap, program)?;
    let (_, lane) = parts(heap, program.lane)?;
    for each in &program.steps.leaves {
        answers.push(leaf_step(heap, &lane, *each)?);
    }
    if let Some(leaf) = orphan {
        grow(heap, &lane, leaf.clone())?;
    }
    Ok(answers)
}

/// What of a program any layer does.
fn plain<'h, L: Layer>(heap: &mut Access<'h, L>, program: &Program) -> Result<Vec<Answer>, Error> {
    let (top, lane) = parts(heap, program.lane)?;
    let steps = program.steps.plain.iter();
    let answers: Result<Vec<Answer>, Error> = steps.map(|each| step(heap, &lane, *each)).collect();
    let answers = answers?;
    heap.set(&lane, Lane::NUMBER, program.number)?;
    transfer(heap, &top, program.transfer)?;
    if program.is_entered {
        top.field(Top::ENTERED).insert(heap, name(program.lane), program.number)?;
    }
    Ok(answers)
}

fn transfer<'h, L: Layer>(
    heap: &mut Access<'h, L>,
    top: &Ptr<'h, Top<'h>>,
    Transfer { from, to, amount }: Transfer,
) -> Result<(), Error> {
    let accounts = heap.get(top, Top::ACCOUNTS)?;
    for (account, amount) in [(&accounts[from], -amount), (&accounts[to], amount)] {
        let balance = heap.get(account, Account::BALANCE)?;
        heap.set(account, Account::BALANCE, balance + amount)?;
    }
    Ok(())
}

fn step<'h, L: Layer>(
    heap: &mut Access<'h, L>,
    lane: &Ptr<'h, Lane<'h>>,
    step: Step,
) -> Result<Answer, Error> {
    let (vec, deque) = (lane.field(Lane::VEC), lane.field(Lane::DEQUE));
    let (map, hash) = (lane.field(Lane::MAP), lane.field(Lane::HASH));
    let list = lane.field(Lane::LIST);
    match step {
        Step::Push(value) => vec.push(heap, value)?,
        Step::Pop => return vec.pop(heap),
        Step::Set(index, value) => {
            let len = vec.len(heap)?;
            if len > 0 {
                let index = index as u64 % len;
                let before = vec.get(heap, index)?;
                vec.set(heap, index, value)?;
                return Ok(Some(before));
            }
        }
        Step::Insert(at, stored) => {
            let text = PString::new(heap, text_of(stored))?;
            let before = map.insert(heap, key(at), text)?;
            return before.map(|before| value(heap, &before)).transpose();
        }
        Step::Remove(at) => {
            let before = map.remove(heap, key(at))?;
            return before.map(|before| value(heap, &before)).transpose();
        }
        Step::HashInsert(at, value) => return hash.insert(heap, key(at), value),
        Step::HashRemove(at) => return hash.remove(heap, key(at)),
        Step::PushBack(value) => deque.push_back(heap, value)?,
        Step::PushFront(value) => deque.push_front(heap, value)?,
        Step::PopBack => return deque.pop_back(heap),
        Step::PopFront => return deque.pop_front(heap),
        Step::ListBack(value) => list.push_back(heap, value)?,
        Step::ListFront(value) => list.push_front(heap, value)?,
        Step::ListPop => return list.pop_front(heap),
        Step::Box(value) => {
            let boxed = PBox::new(heap, value)?;
            return rebox(heap, lane, Some(boxed));
        }
        Step::Unbox => return rebox(heap, lane, None),
        Step::Clear(Whole::Vec) => heap.put(&vec, PVec::new())?,
        Step::Clear(Whole::Map) => heap.put(&map, PMap::new())?,
        Step::Clear(Whole::Hash) => heap.put(&hash, PHashMap::new())?,
        Step::Clear(Whole::Deque) => heap.put(&deque, PDeque::new())?,
        Step::Clear(Whole::List) => heap.put(&list, PList::new())?,
    }
    Ok(None)
}

/// Another box, or none; what the one before held.
fn rebox<'h, L: Layer>(
    heap: &mut Access<'h, L>,
    lane: &Ptr<'h, Lane<'h>>,
    boxed: Option<PBox<'h, u64>>,
) -> Result<Answer, Error> {
    let before = heap.get(lane, Lane::BOXED)?;
    heap.set(lane, Lane::BOXED, boxed)?;
    before.map(|before| before.read(heap)).transpose()
}

fn leaf_step<'h, L: Counted>(
    heap: &mut Access<'h, L>,
    lane: &Ptr<'h, Lane<'h>>,
    step: LeafStep,
) -> Result<Answer, Error> {
    let leaves = lane.field(Lane::LEAVES);
    match step {
        LeafStep::Grow(value) => {
            let leaf = heap.alloc(Leaf { value, next: None })?;
            grow(heap, lane, leaf)?;
        }
        LeafStep::Drop => {
            let dropped = leaves.pop(heap)?;
            return dropped.map(|leaf| heap.get(&leaf, Leaf::VALUE)).transpose();
        }
        LeafStep::Mark(index) => {
            let len = leaves.len(heap)?;
            if len > 0 {
                let leaf = leaves.get(heap, index as u64 % len)?;
                let weak = heap.downgrade(&leaf)?;
                heap.set(lane, Lane::MARKED, Some(weak))?;
            }
        }
        LeafStep::Unmark => heap.set(lane, Lane::MARKED, None)?,
        LeafStep::Clear => heap.put(&leaves, PVec::new())?,
        LeafStep::Ring(value) => {
            let one = heap.alloc(Leaf { value, next: None })?;
            let two = heap.alloc(Leaf { value, next: Some(one.clone()) })?;
            heap.set(&one, Leaf::NEXT, Some(two))?;
        }
    }
    Ok(None)
}

/// A leaf more, which refers to the one before.
fn grow<'h, L: Counted>(
    heap: &mut Access<'h, L>,
    lane: &Ptr<'h, Lane<'h>>,
    leaf: Ptr<'h, Leaf<'h>>,
) -> Result<(), Error> {
    let leaves = lane.field(Lane::LEAVES);
    if let Some(last) = leaves.len(heap)?.checked_sub(1) {
        let last = leaves.get(heap, last)?;
        heap.set(&leaf, Leaf::NEXT, Some(last))?;
    }
    leaves.push(heap, leaf)
}
