//! Preparation: what makes the next open quick is written down in the background, while the writer
//! goes on.

use tembo_index::VersionedIndex;

use crate::inner::Inner;
use crate::writer::{Recovery, WriterState, Writing};
use crate::{Error, Progress};

impl Inner {
    /// Prepares one index that wants it for the next open.
    pub(crate) fn prepare_step(&self, mut state: Writing<'_>) -> Result<Progress, Error> {
        let mut wanting = state.trees.iter().filter(|tree| tree.index.wants_to_prepare());
        let Some(index) = wanting.next().map(|tree| tree.index.clone()) else {
            return Ok(Progress::Idle);
        };
        // What is being written down can be reached by nobody yet: no survey may begin.
        state.recovery = Recovery::Preparing;
        drop(state);
        let mut retired = Vec::new();
        let prepared = index.prepare_open(self.clock.last(), &mut retired);
        let mut state = self.lock();
        let again = std::mem::take(&mut state.again);
        state.recovery = if again { Recovery::Owed } else { Recovery::Done };
        state.retired.extend(&mut retired);
        match prepared.map_err(Error::from) {
            Ok(()) => Ok(Progress::More),
            // The next open does without.
            Err(Error::Full(_)) => Ok(Progress::Idle),
            Err(error) => Err(error),
        }
    }

    /// Calls the thread that recovers, if an index wants to be prepared.
    pub(crate) fn offer_to_prepare(&self, state: &WriterState) {
        if state.recovery == Recovery::Done
            && state.trees.iter().any(|tree| tree.index.wants_to_prepare())
        {
            self.wake.want();
        }
    }
}
