//! Rollback: one dead interval, and what the writer knew of it is forgotten.

use std::sync::PoisonError;

use tembo_index::{DeadInterval, View};

use crate::inner::Inner;
use crate::writer::{Tree, WriterState};
use crate::{Error, open};

impl Inner {
    /// Takes back everything after `version`; synced when it returns.
    pub(crate) fn rollback(&self, version: u64) -> Result<(), Error> {
        let mut state = self.lock();
        // A survey counts and marks what the rollback would change; a preparation is of a tree that it
        // replaces.
        while state.recovery.is_under_way() {
            drop(state);
            std::thread::yield_now();
            state = self.lock();
        }
        let state = &mut *state;
        state.sound()?;
        let named_after: Vec<(String, u64)> = state
            .named
            .iter()
            .filter(|&(_, &named)| named > version)
            .map(|(name, &version)| (name.clone(), version))
            .collect();
        // No snapshot begins between the test and the end of the rollback.
        let _gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        let _closed = self.pins.close_slots();
        if !self.pins.pin_retained(version) {
            return Err(Error::NotRetained { version });
        }
        let names_at = |pin| named_after.iter().filter(|&&(_, named)| named == pin).count();
        let in_use = self.pins.above(version).into_iter().find(|&(pin, n)| n > names_at(pin));
        let rolled_back = match in_use {
            Some((version, _)) => Err(Error::VersionInUse { version }),
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
        self.pins.with_past(|past, _| past.rolled_back(version, visible - 1));
        // From here on there is no way back: an error leaves the store to the next open.
        state.broken = true;
        self.pins.publish(visible);
        state.retired.forget_after(version);
        for (name, pin) in named_after {
            self.forget_name(name)?;
            state.named.remove(name);
            self.pins.unpin(*pin);
        }
        let dead = self.forest.dead();
        let mut trees =
            open::trees(&self.forest, &self.catalogue, View { version: visible, dead: &dead })?;
        for (id, tree) in trees.iter_mut().enumerate() {
            // What an index knows of its tree beside media, all who read the tree must share.
            let same = |before: &&Tree| before.entry.cell == tree.entry.cell;
            if let Some(before) = state.trees.iter().find(same) {
                tree.index = before.index.clone();
            }
            let before = state.trees.get(id).filter(|before| before.name == tree.name);
            tree.incarnation = before.map_or(state.incarnations, |before| before.incarnation);
        }
        state.incarnations += 1;
        state.trees = trees;
        self.tell_trees(state, visible);
        self.region().sync()?;
        state.broken = false;
        Ok(())
    }
}
