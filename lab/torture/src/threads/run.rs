//! Threads that act on a tree or a store.

use std::sync::{Arc, Mutex, MutexGuard};

use tembo_pmem::Observer;
use tembo_pmem::thread::lock;
use tembo_sim::Recorder;

use super::execution::Execution;
use super::fixture::Fixture;
use super::order::Done;
use super::plan::Plan;
use super::start::{Start, region};

/// A tree or a store on which the threads of a plan act.
pub struct Run {
    plan: Plan,
    start: Start,
    fixture: Fixture,
    recorder: Arc<Recorder>,
    /// Steps before the threads begin.
    prelude: usize,
    script: Mutex<Script>,
}

/// What has happened.
#[derive(Default)]
struct Script {
    /// Begins and returns so far.
    time: usize,
    done: Vec<Done>,
    failed: Option<String>,
}

impl Run {
    /// Opens the tree or the store from the image of the start. `observer` watches, and notifies `recorder`.
    ///
    /// # Errors
    /// A text: it does not open.
    pub fn new(
        plan: &Plan,
        start: &Start,
        observer: Arc<dyn Observer>,
        recorder: Arc<Recorder>,
    ) -> Result<Run, String> {
        let fixture = Fixture::open(plan.cast, region(&start.image, observer)?)?;
        let prelude = recorder.len();
        let (plan, start, script) = (plan.clone(), start.clone(), Mutex::default());
        Ok(Run { plan, start, fixture, recorder, prelude, script })
    }

    /// Makes the calls that the plan has for one thread, on the calling thread.
    pub fn act(&self, thread: usize) {
        for (index, call) in self.plan.threads[thread].iter().enumerate() {
            let serial = (32 * thread + 4 * index) as u64;
            let at = {
                let mut script = self.script();
                let begin = (script.time, self.recorder.len());
                script.done.push(Done::begun(thread, call.clone(), serial, begin));
                script.done.len() - 1
            };
            let answer = self.fixture.perform(call, serial);
            let mut script = self.script();
            let end = (script.time, self.recorder.len());
            match answer {
                Ok(answer) => script.done[at].end(answer, end),
                Err(what) => {
                    script.failed = Some(format!("thread {thread}, {call:?}: {what}"));
                    return;
                }
            }
        }
    }

    /// Locks the script, and begins another moment.
    fn script(&self) -> MutexGuard<'_, Script> {
        let mut script = lock(&self.script);
        script.time += 1;
        script
    }

    /// All threads have ended.
    ///
    /// # Errors
    /// A call failed, or what is there is not sound.
    pub fn end(self) -> Result<Execution, String> {
        let Script { done, failed, .. } = std::mem::take(&mut *self.script());
        if let Some(failed) = failed {
            return Err(failed);
        }
        let events = self.recorder.take();
        let after = self.fixture.end()?;
        Ok(Execution::new(self.plan, &self.start, (events, self.prelude), done, after))
    }
}
