//! Threads that act on a tree or a store.

use std::sync::{Arc, Mutex, MutexGuard};

use tembo_pmem::{Observer, Region, RegionOptions, lock};
use tembo_sim::{Recorder, newest};

use super::ground::{self, Ground};
use super::order::Done;
use super::performance::Performance;
use super::plan::Plan;
use crate::tree::{Map, Write};

/// The first serial number of values that are there before; those of calls are below.
const STAGE: u64 = 128;

/// What there is before the threads begin.
#[derive(Clone)]
pub struct Stage {
    pub(super) image: Arc<Vec<u8>>,
    pub(super) map: Arc<Map>,
}

impl Stage {
    /// Of a plan.
    ///
    /// # Errors
    /// A text: not even one thread alone succeeds.
    pub fn of(plan: &Plan) -> Result<Stage, String> {
        let recorder = Recorder::new();
        let nothing = vec![0; ground::size(plan.cast) as usize];
        let keys: Vec<Write> = (0..plan.keys).map(|n| (2 * n, Some(8))).collect();
        let map = ground::make(plan.cast, region(&nothing, recorder.clone())?, &keys, STAGE)?;
        let image = newest(&nothing, &recorder.take());
        Ok(Stage { image: Arc::new(image), map: Arc::new(map) })
    }
}

/// A region of these bytes, watched.
pub(super) fn region(image: &[u8], observer: Arc<dyn Observer>) -> Result<Region, String> {
    let (observer, size_max) = (Some(observer), image.len() as u64);
    let options = RegionOptions { observer, size_max, ..RegionOptions::default() };
    Region::from_image(image, &options).map_err(|error| error.to_string())
}

/// A tree or a store on which the threads of a plan act.
pub struct Play {
    plan: Plan,
    stage: Stage,
    ground: Ground,
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

impl Play {
    /// Opens what the stage has. `observer` watches, and tells `recorder`.
    ///
    /// # Errors
    /// A text: it does not open.
    pub fn new(
        plan: &Plan,
        stage: &Stage,
        observer: Arc<dyn Observer>,
        recorder: Arc<Recorder>,
    ) -> Result<Play, String> {
        let ground = Ground::open(plan.cast, region(&stage.image, observer)?)?;
        let prelude = recorder.len();
        let (plan, stage, script) = (plan.clone(), stage.clone(), Mutex::default());
        Ok(Play { plan, stage, ground, recorder, prelude, script })
    }

    /// Does what the plan has for one thread, by the calling one.
    pub fn act(&self, thread: usize) {
        for (index, call) in self.plan.threads[thread].iter().enumerate() {
            let serial = (32 * thread + 4 * index) as u64;
            let at = {
                let mut script = self.script();
                let begin = (script.time, self.recorder.len());
                script.done.push(Done::begun(thread, call.clone(), serial, begin));
                script.done.len() - 1
            };
            let answer = self.ground.perform(call, serial);
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

    /// At another time than before.
    fn script(&self) -> MutexGuard<'_, Script> {
        let mut script = lock(&self.script);
        script.time += 1;
        script
    }

    /// All threads have ended.
    ///
    /// # Errors
    /// A call failed, or what is there is not sound.
    pub fn end(self) -> Result<Performance, String> {
        let Script { done, failed, .. } = std::mem::take(&mut *self.script());
        if let Some(failed) = failed {
            return Err(failed);
        }
        let events = self.recorder.take();
        let after = self.ground.end()?;
        Ok(Performance::new(self.plan, &self.stage, (events, self.prelude), done, after))
    }
}
