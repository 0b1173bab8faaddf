//! A run of a store that was written down, and the crashes of it.

use std::collections::HashSet;

use tembo_kv::Store;

use crate::images::{Broken, Cache};
use crate::judge::{Effort, judge, options, pool};
use crate::model::{Op, Runner, State};
use crate::recorder::{Event, Recorder};

/// Where a crash may be, and which states are right then.
struct Crash {
    at: usize,
    acceptable: Vec<State>,
    what: String,
}

/// All that happened from opening `image` to the end.
pub(crate) struct History {
    image: Vec<u8>,
    events: Vec<Event>,
    crashes: Vec<Crash>,
    /// The bytes at the end, and what they mean.
    pub(crate) end: Vec<u8>,
    pub(crate) state: State,
    pub(crate) ops: Vec<Op>,
}

/// How many images, and how much of each.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) images: usize,
    pub(crate) effort: Effort,
    /// One image in so many gets all of the effort, the others none.
    pub(crate) sample: usize,
}

#[derive(Debug)]
pub(crate) struct Violation {
    pub(crate) what: String,
}

/// An image that was judged right.
pub(crate) struct Judged {
    pub(crate) image: Vec<u8>,
    pub(crate) state: State,
}

impl History {
    /// Opens `image`, which shows `state` (absent: makes a store in it first), and does `ops`. Crashes are looked at from operation
    /// `first` on; 0 is the opening.
    pub(crate) fn record(image: &[u8], state: &State, ops: &[Op], first: usize) -> History {
        History::try_record(image, state, ops, first)
            .unwrap_or_else(|what| panic!("{ops:?}: {what}"))
    }

    pub(crate) fn try_record(
        image: &[u8],
        state: &State,
        ops: &[Op],
        first: usize,
    ) -> Result<History, String> {
        let recorder = Recorder::new();
        let pool = pool(image, Some(recorder.clone()))?;
        recorder.watch(pool.region());
        let image = recorder.memory();
        let mut spans = Vec::new();
        let mut state = state.clone();
        if state.absent {
            Store::format(&pool).map_err(|e| format!("{e:?}"))?;
            let empty = State::default();
            spans.push((recorder.len(), vec![state, empty.clone()], "making".to_owned()));
            state = empty;
        }
        let store = Store::start(pool, &options(&image)).map_err(|e| format!("{e:?}"))?;
        spans.push((recorder.len(), vec![state.clone()], "opening".to_owned()));
        let mut runner = Runner { store: &store, state, serial: 1 };
        for op in ops {
            let before = runner.state.clone();
            runner.run(op).map_err(|what| format!("{op:?}: {what}"))?;
            let mut acceptable = vec![before];
            if runner.state != acceptable[0] {
                acceptable.push(runner.state.clone());
            }
            spans.push((recorder.len(), acceptable, format!("{op:?}")));
        }
        let found = State::of(&store)?;
        if found != runner.state {
            return Err(format!("the store shows {found:?}\nthe model {:?}", runner.state));
        }
        let end = recorder.memory();
        let events = recorder.take();
        let crashes = crashes(&events, &spans, first);
        Ok(History { image, events, crashes, end, state: runner.state.clone(), ops: ops.to_vec() })
    }

    /// The named steps of which a crash shows.
    pub(crate) fn names(&self) -> HashSet<&'static str> {
        self.events.iter().filter_map(Event::name).collect()
    }

    /// The bytes before the last step of that name, all that was stored included.
    pub(crate) fn left_before(&self, name: &str) -> Vec<u8> {
        let at = self.events.iter().rposition(|event| event.name() == Some(name)).unwrap();
        let mut cache = Cache::new(&self.image, None);
        self.events[..at].iter().for_each(|event| cache.step(event));
        cache.newest()
    }

    /// Judges the images of all crashes; `seen` are those judged already. How many were judged.
    pub(crate) fn explore(
        &self,
        broken: Option<Broken>,
        bounds: Bounds,
        seen: &mut HashSet<u64>,
        mut each: impl FnMut(Judged),
    ) -> Result<usize, Violation> {
        let (mut legal, mut cache) =
            (Cache::new(&self.image, None), Cache::new(&self.image, broken));
        let (mut done, mut count) = (0, 0);
        for crash in &self.crashes {
            for event in &self.events[done..crash.at] {
                legal.step(event);
                cache.step(event);
            }
            done = crash.at;
            if broken.is_some() && legal.same(&cache) {
                continue;
            }
            let images =
                cache.images(broken.map(|_| &legal), bounds.images, crash.at as u64 * 77 + 13);
            for image in images {
                let states = crash.acceptable.len() as u64;
                if !seen.insert(image.hash.wrapping_add(states << 60)) {
                    continue;
                }
                let bytes = cache.bytes(&image);
                count += 1;
                let full = broken.is_some() || image.hash % bounds.sample as u64 == 0;
                let effort = if full { bounds.effort } else { Effort { steps: 0, again: false } };
                match judge(&bytes, &crash.acceptable, effort) {
                    Ok(state) => each(Judged { image: bytes, state }),
                    Err(what) => {
                        let what = format!(
                            "{:?}, crash in {} before step {} {:?} ({:?}):\n{what}",
                            self.ops,
                            crash.what,
                            crash.at,
                            self.events.get(crash.at),
                            broken,
                        );
                        return Err(Violation { what });
                    }
                }
            }
        }
        Ok(count)
    }
}

/// Before each fence and each commit store, and after each operation.
fn crashes(events: &[Event], spans: &[(usize, Vec<State>, String)], first: usize) -> Vec<Crash> {
    let mut crashes = Vec::new();
    let mut from = 0;
    for (index, (to, acceptable, what)) in spans.iter().enumerate() {
        if index >= first {
            let is_point = |event: &Event| {
                matches!(event, Event::Fence { .. } | Event::Store { name: Some(_), .. })
            };
            let points = (from..*to).filter(|&at| is_point(&events[at]));
            crashes.extend(points.map(|at| Crash {
                at,
                acceptable: acceptable.clone(),
                what: what.clone(),
            }));
            let after = acceptable[acceptable.len() - 1..].to_vec();
            crashes.push(Crash { at: *to, acceptable: after, what: format!("(after) {what}") });
        }
        from = *to;
    }
    crashes
}
