//! Structures that are wrong on purpose: if one of them passes, the adversary is asleep.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use tembo_pmem::{HEADER_SIZE, Region, RegionOptions};
use tembo_sim::{Bounds, Cache, Crash, Explorer, History, Oracle, Reader, Recorder, Step, newest};

const SIZE: u64 = 16 << 10;

/// A list of nodes: `HEAD` names the first, each node the next. `COUNT` and `SUM` say what is in it,
/// `TAKEN` how many nodes were ever handed out.
const HEAD: u64 = HEADER_SIZE;
const TAKEN: u64 = HEADER_SIZE + 64;
const COUNT: u64 = HEADER_SIZE + 128;
const SUM: u64 = HEADER_SIZE + 192;
const NODES: u64 = HEADER_SIZE + 1024;

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Nothing,
    PublishesBeforePersisting,
    ForgetsToFlushTheNode,
    TakesTwoWordsForOne,
    LeaksOnSplit,
}

fn set(region: &Region, offset: u64, value: u64) {
    region.store(&region.words(offset, 1).unwrap()[0], value);
}

fn get(region: &Region, offset: u64) -> u64 {
    region.words(offset, 1).unwrap()[0].load()
}

fn publish(region: &Region, offset: u64, value: u64) {
    region.commit("toy.publish", &region.words(offset, 1).unwrap()[0], value);
    region.flush("toy.publish.flush", offset, 8);
    region.fence("toy.publish.fence");
}

/// Puts `value` at the front of the list.
fn push(region: &Region, value: u64, fault: Fault) {
    let node = NODES + get(region, TAKEN) * 128;
    set(region, TAKEN, get(region, TAKEN) + 1);
    region.flush("toy.taken.flush", TAKEN, 8);
    if fault == Fault::LeaksOnSplit {
        // Handed out for good, whether or not it is published.
        region.fence("toy.taken.fence");
    }
    set(region, node, value);
    set(region, node + 64, get(region, HEAD));
    if fault == Fault::PublishesBeforePersisting {
        publish(region, HEAD, node);
    }
    if fault != Fault::ForgetsToFlushTheNode {
        region.flush("toy.node.flush", node, 72);
    }
    region.fence("toy.node.fence");
    if fault != Fault::PublishesBeforePersisting {
        publish(region, HEAD, node);
    }
}

/// Notes one more, of that value, in words of two lines.
fn note(region: &Region, value: u64) {
    set(region, COUNT, get(region, COUNT) + 1);
    set(region, SUM, get(region, SUM) + value);
    region.flush("toy.note.flush", COUNT, 72);
    region.fence("toy.note.fence");
}

/// What is in the list, if nothing is wrong with it.
fn look(region: &Region, fault: Fault) -> Result<Vec<u64>, String> {
    let (mut at, mut values) = (get(region, HEAD), Vec::new());
    while at != 0 {
        if at < NODES || values.len() > 8 {
            return Err("a list that ends".to_owned());
        }
        values.push(get(region, at));
        at = get(region, at + 64);
    }
    if values.contains(&0) {
        return Err("a node that nobody filled".to_owned());
    }
    let taken = get(region, TAKEN);
    if fault == Fault::LeaksOnSplit && taken != values.len() as u64 {
        return Err("a node that nobody knows".to_owned());
    }
    if fault == Fault::TakesTwoWordsForOne && get(region, SUM) != get(region, COUNT) * 7 {
        return Err("a count and a sum that do not fit".to_owned());
    }
    Ok(values)
}

struct Toy {
    fault: Fault,
}

impl Oracle for Toy {
    fn judge(&self, image: &[u8], reader: &Arc<Reader>) -> Result<u64, String> {
        let options = RegionOptions { observer: Some(reader.clone()), ..RegionOptions::default() };
        let region = Region::from_image(image, &options).map_err(|e| e.to_string())?;
        look(&region, self.fault).map(|values| values.len() as u64)
    }

    fn accept(&self, crash: &Crash, shown: u64) -> Result<(), String> {
        let done = crash.operation as u64 + 1;
        let fine = shown == done || (!crash.after && shown + 1 == done);
        if fine || self.fault == Fault::TakesTwoWordsForOne {
            return Ok(());
        }
        Err(format!("{shown} values after {done} operations"))
    }

    fn judged(&self, _: u64, _: Option<&[u8]>, _: u64) -> bool {
        true
    }
}

/// Three operations, explored.
fn explore(fault: Fault) -> Result<u64, String> {
    let recorder = Recorder::new();
    let options =
        RegionOptions { observer: Some(recorder.clone()), size_max: SIZE, ..Default::default() };
    let region = Region::volatile(SIZE, &options).unwrap();
    let mut ends = Vec::new();
    for value in [3, 5, 9] {
        match fault {
            Fault::TakesTwoWordsForOne => note(&region, 7),
            _ => push(&region, value, fault),
        }
        ends.push(recorder.len());
    }
    let events = recorder.take();
    let mut crashes = Vec::new();
    for (operation, &to) in ends.iter().enumerate() {
        let from = if operation == 0 { 0 } else { ends[operation - 1] };
        let is_point = |at: &usize| events[*at].is_crash_point();
        let points = (from..to).filter(is_point).map(|at| Crash { at, operation, after: false });
        crashes.extend(points);
        crashes.push(Crash { at: to, operation, after: true });
    }
    let image = vec![0; SIZE as usize];
    assert_eq!(newest(&image, &events).len(), image.len());
    let history = History { image, events, crashes };
    let bounds = Bounds { all: 1000, corners: 0, chance: 0, seed: 1 };
    let toy = Toy { fault };
    let explored = Explorer::new(&history, Cache::Flush, &toy).explore(None, bounds);
    explored.map_err(|wrong| wrong.what)
}

#[test]
fn a_sound_list_passes() {
    assert!(explore(Fault::Nothing).unwrap() > 15);
}

#[test]
fn publishing_before_persisting_is_found() {
    explore(Fault::PublishesBeforePersisting).unwrap_err();
}

#[test]
fn a_node_that_was_not_flushed_is_found() {
    explore(Fault::ForgetsToFlushTheNode).unwrap_err();
}

#[test]
fn two_words_taken_for_one_are_found() {
    let what = explore(Fault::TakesTwoWordsForOne).unwrap_err();
    assert_eq!(what, "a count and a sum that do not fit");
}

#[test]
fn a_leak_is_found() {
    let what = explore(Fault::LeaksOnSplit).unwrap_err();
    assert_eq!(what, "a node that nobody knows");
}

/// A flush by one thread is not guaranteed by another's fence.
#[test]
fn a_fence_orders_its_own_threads_flushes() {
    for elsewhere in [false, true] {
        let recorder = Recorder::new();
        let options = RegionOptions { observer: Some(recorder.clone()), ..Default::default() };
        let region = Region::volatile(SIZE, &options).unwrap();
        let persist = |region: &Region| {
            set(region, NODES, 7);
            region.flush("toy.node.flush", NODES, 8);
        };
        if elsewhere {
            std::thread::scope(|scope| scope.spawn(|| persist(&region)).join().unwrap());
        } else {
            persist(&region);
        }
        region.fence("toy.node.fence");
        publish(&region, HEAD, NODES);
        let events = recorder.take();
        assert!(events.iter().any(|event| matches!(event.step, Step::Fence { .. })));
        let crashes = vec![Crash { at: events.len(), operation: 0, after: true }];
        let history = History { image: vec![0; SIZE as usize], events, crashes };
        let bounds = Bounds { all: 100, corners: 0, chance: 0, seed: 1 };
        let toy = Toy { fault: Fault::Nothing };
        let explored = Explorer::new(&history, Cache::Flush, &toy).explore(None, bounds);
        assert_eq!(explored.is_err(), elsewhere);
    }
}
