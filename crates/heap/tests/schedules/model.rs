//! What threads do to the counts, and what these are when one call follows another.

/// A call; the numbers are those of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Acquire(usize),
    Release(usize),
    Doom(usize),
    EndDoom(usize, bool),
    SetSlot(usize, Option<u32>),
    IsHeld(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Is(bool),
    Nothing,
    Orphan,
    Void,
}

/// What each thread does.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) threads: Vec<Vec<Call>>,
}

impl Program {
    /// The first thread has the ledger, so that only it dooms and gives places in the dead-on-open list.
    pub(crate) fn random(seed: u64) -> Program {
        let mut state = seed;
        let mut below = |end: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed | 1);
            (state >> 33) % end
        };
        let mut ledger = Vec::new();
        for _ in 0..2 {
            let object = below(2) as usize;
            match below(3) {
                0 => ledger.extend([
                    Call::SetSlot(object, Some(below(9) as u32)),
                    Call::SetSlot(object, None),
                ]),
                1 => ledger.extend([Call::Doom(object), Call::EndDoom(object, below(2) == 0)]),
                _ => ledger.extend([Call::SetSlot(object, Some(5)), Call::Doom(object)]),
            }
        }
        let mut threads = vec![ledger];
        for _ in 0..1 + below(2) {
            let one = |at: u64, object: usize| match at {
                0..=2 => Call::Acquire(object),
                3..=5 => Call::Release(object),
                _ => Call::IsHeld(object),
            };
            threads.push((0..4).map(|_| one(below(7), below(2) as usize)).collect());
        }
        Program { threads }
    }
}

#[derive(Clone, Copy, Default)]
struct Object {
    count: u64,
    is_doomed: bool,
    slot: Option<u32>,
}

/// What a call does and answers.
fn apply(objects: &mut [Object; 2], call: Call) -> Answer {
    match call {
        Call::Acquire(at) => {
            let can = !objects[at].is_doomed;
            objects[at].count += u64::from(can);
            Answer::Is(can)
        }
        Call::Release(at) => {
            objects[at].count -= 1;
            let Object { count, is_doomed, slot } = objects[at];
            let is_orphan = count == 0 && slot.is_some() && !is_doomed;
            if is_orphan { Answer::Orphan } else { Answer::Nothing }
        }
        Call::Doom(at) => {
            let can = objects[at].count == 0;
            objects[at].is_doomed |= can;
            Answer::Is(can)
        }
        Call::EndDoom(at, is_made) => {
            objects[at].is_doomed = false;
            if is_made {
                objects[at].slot = None;
            }
            Answer::Nothing
        }
        Call::SetSlot(at, slot) => {
            objects[at].slot = slot;
            Answer::Is(objects[at].count == 0 && slot.is_some())
        }
        Call::IsHeld(at) => Answer::Is(objects[at].count > 0),
    }
}

type Done = Vec<(Call, Answer)>;

/// Whether some order of the calls, in which those of each thread come one after another, gives the answers, and then those of the end.
pub(crate) fn is_explained(history: &[Done], end: &Done) -> bool {
    search(history, &mut vec![0; history.len()], [Object::default(); 2], end)
}

fn search(history: &[Done], at: &mut Vec<usize>, objects: [Object; 2], end: &Done) -> bool {
    if at.iter().zip(history).all(|(at, done)| *at == done.len()) {
        let mut objects = objects;
        return end.iter().all(|(call, answer)| apply(&mut objects, *call) == *answer);
    }
    for thread in 0..history.len() {
        let Some(&(call, answer)) = history[thread].get(at[thread]) else { continue };
        let mut next = objects;
        if apply(&mut next, call) == answer {
            at[thread] += 1;
            if search(history, at, next, end) {
                return true;
            }
            at[thread] -= 1;
        }
    }
    false
}
