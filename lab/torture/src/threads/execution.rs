//! What has happened in a run, judged.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex};

use tembo_sim::{Bounds, Cache, Crash, Event, Explorer, History, Oracle, Reader, Step};

use super::fixture::recovered;
use super::order::{Done, explains, known};
use super::plan::Plan;
use super::start::{Start, region};
use crate::campaign::lock;
use crate::judge::quietly;
use crate::recording::digest;
use crate::tree::Map;

/// What the threads did, one step after the other, and what is there.
pub struct Execution {
    plan: Plan,
    history: History,
    before: Arc<Map>,
    done: Vec<Done>,
    after: Map,
}

impl Execution {
    pub(super) fn new(
        plan: Plan,
        start: &Start,
        (events, prelude): (Vec<Event>, usize),
        done: Vec<Done>,
        after: Map,
    ) -> Execution {
        let is_point = |at: &usize| events[*at].is_crash_point();
        let mut points: Vec<usize> = (prelude..events.len()).filter(is_point).collect();
        points.extend(done.iter().filter_map(Done::returned));
        points.sort_unstable();
        points.dedup();
        let crash = |at| Crash { at, operation: 0, after: false };
        let crashes = points.into_iter().map(crash).collect();
        let history = History { image: start.image.to_vec(), events, crashes };
        let before = start.map.clone();
        Execution { plan, history, before, done, after }
    }

    /// A hash of what each thread did, in order.
    pub fn schedule(&self) -> u64 {
        let steps = self.history.events.iter().map(|event| (event.thread, event.name()));
        let calls = self.done.iter().map(Done::times);
        digest(Some(&(steps.collect::<Vec<_>>(), calls.collect::<Vec<_>>())))
    }

    /// Whether a call began before one of another thread returned, and returned after it began.
    pub fn overlaps(&self) -> bool {
        let mut pairs =
            self.done.iter().flat_map(|one| self.done.iter().map(move |two| (one, two)));
        pairs.any(|(one, two)| one.overlaps(two))
    }

    /// What a planted bug leaves out: the steps of these names by the thread that did the first one of the first name are
    /// as if they had not been. False if there is none.
    pub fn leave_out(&mut self, names: &[&str]) -> bool {
        let first = self.history.crashes.first().map_or(0, |crash| crash.at);
        let events = &mut self.history.events[first..];
        let is_first = |event: &&Event| event.name() == names.first().copied();
        let Some(thread) = events.iter().find(is_first).map(|event| event.thread) else {
            return false;
        };
        let is_one = |event: &Event| event.name().is_some_and(|name| names.contains(&name));
        for event in events.iter_mut().filter(|event| is_one(event) && event.thread == thread) {
            event.step = Step::Operation;
        }
        true
    }

    /// How many steps of that name there were, once the threads had begun.
    pub fn count(&self, name: &str) -> usize {
        let first = self.history.crashes.first().map_or(0, |crash| crash.at);
        let events = &self.history.events[first..];
        events.iter().filter(|event| event.name() == Some(name)).count()
    }

    /// How many transactions were refused.
    pub fn refused(&self) -> usize {
        self.done.iter().filter(|done| done.is_refused()).count()
    }

    /// Judges it as it went.
    ///
    /// # Errors
    /// No order explains it, or a transaction was refused without a conflict.
    pub fn judge(&self) -> Result<(), String> {
        let is_for_nothing = |refused: &&Done| {
            refused.is_refused() && !self.done.iter().any(|other| other.comes_before(refused))
        };
        if let Some(refused) = self.done.iter().find(is_for_nothing) {
            let report = self.report(&self.done, &self.after);
            return Err(format!("refused for nothing: {refused:?}; {report}"));
        }
        if explains(&self.done, &self.before, &self.after) {
            return Ok(());
        }
        Err(format!("no order of the calls explains it: {}", self.report(&self.done, &self.after)))
    }

    /// Judges what crashes leave of it; how many images.
    ///
    /// # Errors
    /// What is wrong with one of them.
    pub fn crash(&self, bounds: Bounds) -> Result<u64, String> {
        let oracle = Durable { execution: self, shown: Mutex::default(), known: Mutex::default() };
        let explored = Explorer::new(&self.history, Cache::Flush, &oracle).explore(None, bounds);
        explored.map_err(|wrong| {
            format!("crash {} of {}: {}", wrong.crash, self.history.crashes.len(), wrong.what)
        })
    }

    fn report(&self, calls: &[Done], found: &Map) -> String {
        let mut text = format!("{:?}, before: {:?}", self.plan.cast, self.before);
        for call in calls {
            let _ = write!(text, "\n  {call:?}");
        }
        let _ = write!(text, "\n  found: {found:?}");
        text
    }
}

/// Every call that had returned is there, every other whole or not at all.
struct Durable<'p> {
    execution: &'p Execution,
    /// By digest.
    shown: Mutex<HashMap<u64, Map>>,
    /// By crash and digest, what is right.
    known: Mutex<HashMap<(usize, u64), bool>>,
}

impl Oracle for Durable<'_> {
    fn judge(&self, image: &[u8], reader: &Arc<Reader>) -> Result<u64, String> {
        let map = quietly(|| recovered(self.execution.plan.cast, region(image, reader.clone())?))?;
        let digest = digest(Some(&map));
        lock(&self.shown).insert(digest, map);
        Ok(digest)
    }

    fn accept(&self, crash: &Crash, shown: u64) -> Result<(), String> {
        let execution = self.execution;
        let maps = lock(&self.shown);
        let map = maps.get(&shown).ok_or("an image that was not judged")?;
        let mut known_right = lock(&self.known);
        let calls = || known(&execution.done, crash.at);
        let explain = || explains(&calls(), &execution.before, map);
        if *known_right.entry((crash.at, shown)).or_insert_with(explain) {
            return Ok(());
        }
        Err(format!("no order of the calls explains it: {}", execution.report(&calls(), map)))
    }

    fn judged(&self, _: u64, _: Option<&[u8]>, _: u64) -> bool {
        true
    }
}
