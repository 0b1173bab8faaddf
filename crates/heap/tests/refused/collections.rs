//! Collections of the standard library, in the variants of an enum.
use std::collections::{BTreeMap, HashMap, HashSet, LinkedList, VecDeque};

#[derive(tembo_heap::Persist)]
enum All {
    Hash(HashMap<String, u64>),
    Map { map: BTreeMap<u64, u64> },
    Set(HashSet<u64>),
    Deque(VecDeque<u64>),
    List(LinkedList<u64>),
}

fn main() {}
