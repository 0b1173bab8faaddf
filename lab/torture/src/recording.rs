//! A script that was carried out and written down.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use tembo_pmem::{Observer, Region, RegionOptions};
use tembo_sim::{Cache, Crash, Event, History, Recorder, Step, newest};

use crate::subject::{Script, Subject};

/// The digest of what is shown where nothing is.
pub(crate) const ABSENT: u64 = 0;

/// A recorded history with its meaning.
pub(crate) struct Recording<S: Subject> {
    /// The events.
    pub(crate) history: History,
    /// Per operation, its text and what is shown before and after it.
    pub(crate) operations: Vec<Operation<S>>,
    /// All that was stored, and what it shows.
    pub(crate) end: Vec<u8>,
    pub(crate) state: Option<S::State>,
}

pub(crate) struct Operation<S: Subject> {
    pub(crate) what: String,
    pub(crate) before: Option<S::State>,
    pub(crate) after: Option<S::State>,
    pub(crate) digests: (u64, u64),
}

/// The start of a recording.
#[derive(Clone)]
pub(crate) struct Start<T> {
    pub(crate) image: Vec<u8>,
    pub(crate) state: Option<T>,
}

/// A digest of what is shown.
pub(crate) fn digest<T: Hash>(state: Option<&T>) -> u64 {
    let Some(state) = state else { return ABSENT };
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish().max(1)
}

/// A region in memory that begins with these bytes.
pub(crate) fn region<S: Subject>(
    subject: &S,
    image: &[u8],
    observer: Option<Arc<dyn Observer>>,
) -> Result<Region, String> {
    let size_max = subject.size().1.max(image.len() as u64);
    let options = RegionOptions { observer, size_max, ..RegionOptions::default() };
    Region::from_image(image, &options).map_err(|error| error.to_string())
}

impl<T> Start<T> {
    /// Nothing at all.
    pub(crate) fn nothing<S: Subject<State = T>>(subject: &S) -> Start<T> {
        Start { image: vec![0; subject.size().0 as usize], state: None }
    }

    /// Opens what was left after a crash.
    fn left<S: Subject<State = T>>(subject: &S, image: Vec<u8>) -> Result<Start<T>, String> {
        let state = match subject.open(region(subject, &image, None)?)? {
            Some(mut live) => Some(subject.show(&mut live)?),
            None => None,
        };
        Ok(Start { image, state })
    }

    /// Where a script's exploration begins, its start given.
    pub(crate) fn lead<S: Subject<State = T>>(
        self,
        subject: &S,
        script: &Script<S::Op>,
    ) -> Result<Start<T>, String> {
        let mut start = self;
        for (ops, crash) in &script.leads {
            let recording = Recording::of(subject, &start, ops, usize::MAX, Cache::Flush)?;
            start = match crash {
                Some(step) => {
                    let History { image, events, .. } = &recording.history;
                    let at = events.iter().rposition(|event| event.name() == Some(*step));
                    let at = at.ok_or_else(|| format!("the lead does not reach {step}"))?;
                    Start::left(subject, newest(image, &events[..at]))?
                }
                None => Start { image: recording.end, state: recording.state },
            };
        }
        Ok(start)
    }
}

impl<S: Subject> Recording<S> {
    /// Makes or opens what `start` has, and does `ops`. Crashes are looked at from operation `first`
    /// on; 0 is the opening.
    pub(crate) fn of(
        subject: &S,
        start: &Start<S::State>,
        ops: &[S::Op],
        first: usize,
        cache: Cache,
    ) -> Result<Recording<S>, String> {
        Recording::by(Recorder::new(), subject, start, ops, first, cache)
    }

    /// As [`of`](Recording::of), by a recorder that may leave something undone.
    pub(crate) fn by(
        recorder: Arc<Recorder>,
        subject: &S,
        start: &Start<S::State>,
        ops: &[S::Op],
        first: usize,
        cache: Cache,
    ) -> Result<Recording<S>, String> {
        let mut operations = Vec::new();
        let mut ends = Vec::new();
        let mut ended = |what: String, before: &Option<S::State>, after: &Option<S::State>| {
            let digests = (digest(before.as_ref()), digest(after.as_ref()));
            let (before, after) = (before.clone(), after.clone());
            operations.push(Operation { what, before, after, digests });
            ends.push(recorder.len());
            recorder.begin_operation();
        };
        let region = region(subject, &start.image, Some(recorder.clone()))?;
        let before = start.state.clone().unwrap_or_else(|| subject.empty());
        let opened = match &start.state {
            Some(_) => subject.open(region)?,
            None => {
                let mut made = || ended("making".to_owned(), &None, &Some(before.clone()));
                Some(subject.make(region, &mut made)?)
            }
        };
        let mut live = opened.ok_or("nothing is where something was")?;
        let mut state = subject.show(&mut live)?;
        if state != before {
            return Err(format!("opened, it shows {state:?}\nand not {before:?}"));
        }
        ended("opening".to_owned(), &Some(before), &Some(state.clone()));
        for (index, op) in ops.iter().enumerate() {
            let serial = 1 + index as u64 * 8;
            let closed = subject.close(live, op);
            live = match closed.map_err(|what| format!("closing for {op:?}: {what}"))? {
                Some(live) => live,
                None => {
                    let left = recorder.newest(&start.image);
                    let opened =
                        subject.open(self::region(subject, &left, Some(recorder.clone()))?)?;
                    opened.ok_or("closed, and nothing is left")?
                }
            };
            let next = subject.run(&mut live, &state, op, serial);
            let next = next.map_err(|what| format!("operation {index}, {op:?}: {what}"))?;
            ended(format!("{op:?}"), &Some(state), &Some(next.clone()));
            state = next;
        }
        let shown = subject.show(&mut live)?;
        if shown != state {
            return Err(format!("after {ops:?} it shows {shown:?}\nthe model {state:?}"));
        }
        let events = recorder.take();
        let end = newest(&start.image, &events);
        let crashes = crashes(&events, &ends, first, cache);
        let history = History { image: start.image.clone(), events, crashes };
        Ok(Recording { history, operations, end, state: Some(state) })
    }

    /// Whether a crash that is looked at comes after a step of that name.
    pub(crate) fn reaches(&self, name: &str) -> bool {
        let until = self.history.crashes.last().map_or(0, |crash| crash.at);
        self.history.events[..until].iter().any(|event| event.name() == Some(name))
    }
}

/// Before each fence and each commit store, and after each operation; without caches, before each
/// store, for each is durable at once.
fn crashes(events: &[Event], ends: &[usize], first: usize, cache: Cache) -> Vec<Crash> {
    let is_point = |event: &Event| match cache {
        Cache::Flush => event.is_crash_point(),
        Cache::Eadr => matches!(event.step, Step::Store(_)),
    };
    let mut crashes = Vec::new();
    let mut from = 0;
    for (operation, &to) in ends.iter().enumerate() {
        if operation >= first {
            let points = (from..to).filter(|&at| is_point(&events[at]));
            crashes.extend(points.map(|at| Crash { at, operation, after: false }));
            crashes.push(Crash { at: to, operation, after: true });
        }
        from = to;
    }
    crashes
}
