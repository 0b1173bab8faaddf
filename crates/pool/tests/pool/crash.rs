//! A small adversary: every image that a crash could leave of formatting, opening, allocating,
//! raising the frontier and growing; and the proof that no flush or fence can be left out.
//!
//! A run is stopped, by unwinding, at each step that passes the waist, which gives the bytes at
//! that step. An image takes of each line any content that it had since it was last flushed and
//! that flush was fenced by the thread that made it. Lines are independent.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use tembo_pmem::{Observer, RegionOptions, Stored};

use crate::random::Random;

const LINE: usize = 64;
const IMAGES_MAX: usize = 300;

#[derive(Clone, Debug)]
enum What {
    Store,
    Flush { offset: u64, len: u64 },
    Fence,
}

/// A step that passed the waist.
#[derive(Clone, Debug)]
struct Step {
    name: &'static str,
    thread: ThreadId,
    what: What,
}

/// Writes steps down, and stops the run at one of them.
pub(crate) struct Recorder {
    steps: Mutex<Vec<Step>>,
    stop_at: AtomicUsize,
}

/// What the run unwinds with.
struct Stopped;

impl Recorder {
    /// A recorder that stops nothing yet.
    pub(crate) fn new() -> Arc<Recorder> {
        Arc::new(Recorder { steps: Mutex::default(), stop_at: AtomicUsize::new(usize::MAX) })
    }

    /// Begins anew.
    pub(crate) fn forget(&self) {
        self.steps.lock().unwrap().clear();
    }

    fn note(&self, name: &'static str, what: What) {
        let count = {
            let mut steps = self.steps.lock().unwrap();
            steps.push(Step { name, thread: std::thread::current().id(), what });
            steps.len()
        };
        if count > self.stop_at.load(Ordering::Relaxed) {
            panic_any(Stopped);
        }
    }

    pub(crate) fn options(self: &Arc<Self>, size_max: u64) -> RegionOptions {
        RegionOptions { observer: Some(self.clone()), size_max, ..RegionOptions::default() }
    }
}

impl Observer for Recorder {
    fn load(&self, _: u64, _: u64) {}
    fn store(&self, stored: Stored<'_>, perform: &mut dyn FnMut()) {
        stored.name.into_iter().for_each(|name| self.note(name, What::Store));
        let is_word = stored.len() == 8;
        if is_word {
            perform();
        }
        self.note("store", What::Store);
        if !is_word {
            perform();
        }
    }
    fn flush(&self, name: &'static str, offset: u64, len: u64) {
        self.note(name, What::Flush { offset, len });
    }
    fn fence(&self, name: &'static str) {
        self.note(name, What::Fence);
    }
    fn sync(&self) {}
    fn grow(&self, _: u64) {}
}

/// All that happened: before step `i` the region held `states[i].bytes`.
pub(crate) struct History<A> {
    steps: Vec<Step>,
    states: Vec<State<A>>,
}

/// The bytes of a region behind its header, and what had been promised by then.
#[derive(Clone)]
pub(crate) struct State<A> {
    pub(crate) bytes: Vec<u8>,
    pub(crate) promised: A,
}

/// What a crash left, and what had been promised before it.
#[derive(Clone, Copy)]
pub(crate) struct Image<'i, A> {
    pub(crate) bytes: &'i [u8],
    pub(crate) promised: &'i A,
    /// Whether the run had got through.
    pub(crate) at_end: bool,
}

/// Runs `act` on what `prepare` makes, again and again, until it gets through.
pub(crate) fn record<T, A>(
    prepare: impl Fn(&Arc<Recorder>) -> T,
    act: impl Fn(&T),
    look: impl Fn(&T) -> State<A>,
) -> History<A> {
    let mut states = Vec::new();
    loop {
        let recorder = Recorder::new();
        let subject = prepare(&recorder);
        recorder.forget();
        recorder.stop_at.store(states.len(), Ordering::Relaxed);
        let result = catch_unwind(AssertUnwindSafe(|| act(&subject)));
        recorder.stop_at.store(usize::MAX, Ordering::Relaxed);
        states.push(look(&subject));
        match result {
            Ok(()) => {
                let steps = recorder.steps.lock().unwrap().clone();
                assert_eq!(steps.len() + 1, states.len());
                return History { steps, states };
            }
            Err(cause) if cause.is::<Stopped>() => {}
            Err(cause) => std::panic::resume_unwind(cause),
        }
    }
}

impl<A> History<A> {
    /// A history of which only the start and the end are known.
    pub(crate) fn of_ends(recorder: &Recorder, start: State<A>, end: State<A>) -> History<A>
    where
        A: Clone,
    {
        let steps = recorder.steps.lock().unwrap().clone();
        let mut states = vec![end; steps.len() + 1];
        states[0] = start;
        History { steps, states }
    }

    /// The flushes and fences whose names begin with `prefix`.
    pub(crate) fn names(&self, prefix: &str) -> Vec<&'static str> {
        let steps = self.steps.iter().filter(|step| !matches!(step.what, What::Store));
        let mut names: Vec<_> =
            steps.map(|step| step.name).filter(|name| name.starts_with(prefix)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Checks all images, of every crash or of one at the end only; leaves a step `without` effect.
    pub(crate) fn explore(
        &self,
        without: Option<&str>,
        only_end: bool,
        check: impl Fn(Image<'_, A>) -> Result<(), String>,
    ) -> Result<usize, String> {
        let mut count = 0;
        let first = if only_end { self.steps.len() } else { 0 };
        for crash in first..=self.steps.len() {
            let guaranteed = self.guaranteed(crash, without);
            let choices = self.choices(crash, &guaranteed);
            let all: usize =
                choices.iter().map(|(_, c)| c.len()).fold(1, |a, b| a.saturating_mul(b));
            let mut random = Random(crash as u64);
            for number in 0..all.min(IMAGES_MAX) {
                let mut rest = if all <= IMAGES_MAX { number } else { random.next() as usize };
                let mut image = self.states[crash].bytes.clone();
                for (line, contents) in &choices {
                    let content = contents[rest % contents.len()];
                    image[line * LINE..][..content.len()].copy_from_slice(content);
                    rest /= contents.len();
                }
                count += 1;
                let promised = &self.states[crash].promised;
                check(Image { bytes: &image, promised, at_end: crash == self.steps.len() })
                    .map_err(|what| format!("crash before step {crash}: {what}"))?;
            }
        }
        Ok(count)
    }

    /// For each line flushed and fenced before the crash, from which step its content is safe.
    fn guaranteed(&self, crash: usize, without: Option<&str>) -> HashMap<usize, usize> {
        let mut guaranteed = HashMap::new();
        let mut pending: HashMap<(ThreadId, usize), usize> = HashMap::new();
        for (at, step) in self.steps[..crash].iter().enumerate() {
            if without == Some(step.name) {
                continue;
            }
            match step.what {
                What::Store => {}
                What::Flush { offset, len } => {
                    let behind_header = offset as usize - 4096;
                    for line in behind_header / LINE..(behind_header + len as usize).div_ceil(LINE)
                    {
                        // The content at the next step: a write is announced before it is done,
                        // and no plain store follows a flush here.
                        pending.insert((step.thread, line), at + 1);
                    }
                }
                What::Fence => pending.retain(|&(thread, line), &mut flushed| {
                    if thread == step.thread {
                        let safe = guaranteed.entry(line).or_insert(flushed);
                        *safe = flushed.max(*safe);
                    }
                    thread != step.thread
                }),
            }
        }
        guaranteed
    }

    /// The lines of which several contents may be found, with these contents.
    fn choices(
        &self,
        crash: usize,
        guaranteed: &HashMap<usize, usize>,
    ) -> Vec<(usize, Vec<&[u8]>)> {
        let last = &self.states[crash].bytes;
        let mut choices = Vec::new();
        for line in 0..last.len() / LINE {
            let from = guaranteed.get(&line).copied().unwrap_or(0);
            let mut contents: Vec<&[u8]> = Vec::new();
            for state in &self.states[from..=crash] {
                // What was grown meanwhile was zero.
                let content = state
                    .bytes
                    .get(line * LINE..)
                    .map_or(&[0; LINE][..], |b| &b[..LINE.min(b.len())]);
                let content = if content.is_empty() { &[0; LINE][..] } else { content };
                if !contents.contains(&content) {
                    contents.push(content);
                }
            }
            if contents.len() > 1 {
                choices.push((line, contents));
            }
        }
        choices
    }
}
