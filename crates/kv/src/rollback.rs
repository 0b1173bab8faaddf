//! Rollback: one dead interval, and what the writer knew of it is forgotten.

use tembo_index::{DeadInterval, View};

use crate::inner::Inner;
use crate::writer::{Recovery, WriterState};
use crate::{Error, open};

impl Inner {
    /// Takes back everything after `version`; synced when it returns.
    pub(crate) fn rollback(&self, version: u64) -> Result<(), Error> {
        let mut state = self.lock();
        // A survey counts and marks what the rollback would change.
        while state.recovery == Recovery::Surveying {
            drop(state);
            std::thread::yield_now();
            state = self.lock();
        }
        let state = &mut *state;
        let named_after: Vec<(String, u64)> = state
            .named
            .iter()
            .filter(|&(_, &named)| named > version)
            .map(|(name, &version)| (name.clone(), version))
            .collect();
        if !self.pins.pin_retained(version) {
            return Err(Error::NotRetained { version });
        }
        let in_use = self.pins.youngest_above(version).filter(|&pin| {
            self.pins.count(pin) > named_after.iter().filter(|(_, named)| *named == pin).count()
        });
        let rolled_back = match in_use {
            Some(version) => Err(Error::VersionInUse { version }),
            None => self.roll(state, version, &named_after),
        };
        self.pins.unpin(version);
        rolled_back
    }

    fn roll(
        &self,
        state: &mut WriterState,
        version: u64,
        named_after: &[(String, u64)],
    ) -> Result<(), Error> {
        // The version that is visible from here on is not void itself, so that a name it is given
        // can be told from those of void versions, which the next open forgets after a crash here.
        let visible = self.next_version(state)?;
        self.kill(state, DeadInterval { from: version, to: visible - 1, lane: None })?;
        self.pins.publish(visible);
        state.retired.forget_after(version);
        for (name, pin) in named_after {
            self.forget_name(name)?;
            state.named.remove(name);
            self.pins.unpin(*pin);
        }
        state.recovery = Recovery::Owed;
        let dead = self.forest.dead();
        let view = View { version: self.pins.visible(), dead: &dead };
        state.trees = open::trees(&self.forest, &self.catalogue, view)?;
        self.region().sync()?;
        Ok(())
    }
}
