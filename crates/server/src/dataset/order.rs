//! Which keyspaces are those of a database: SWAPDB exchanges them.

use crate::config::DATABASES_MAX;
use crate::dataset::Dataset;
use crate::dataset::elements::Elements;
use crate::dataset::expiry::ExpiryIndex;
use crate::dataset::spaces::order_of;
use crate::failure::Failure;
use crate::format::{self, ORDER_KEY};

impl Dataset<'_> {
    /// Exchanges two databases, in constant time. Durable with the turn, which has the change in its commit.
    pub(crate) fn swap_databases(&mut self, a: usize, b: usize) -> Result<(), Failure> {
        let Some(space) = self.spaces.order_space else {
            return Err("ERR the databases of a pool that is only read cannot be exchanged".into());
        };
        let mut touched = [Vec::new(), Vec::new()];
        for (touched, (db, other)) in touched.iter_mut().zip([(a, b), (b, a)]) {
            for key in self.watches.keys(db) {
                if self.contains(db, &key)? || self.contains(other, &key)? {
                    touched.push(key);
                }
            }
        }
        let mut order = self.spaces.order.clone();
        order.swap(a, b);
        self.begin()?.put(space, ORDER_KEY, &format::encode_order(&order))?;
        self.written.changes += 1;
        self.exchange(a, b);
        self.is_order_new = true;
        for (db, touched) in [(a, &touched[0]), (b, &touched[1])] {
            self.watches.clear(db, touched);
            self.waiting.touch_all(db);
        }
        Ok(())
    }

    fn exchange(&mut self, a: usize, b: usize) {
        self.spaces.data.swap(a, b);
        self.spaces.elements.swap(a, b);
        self.spaces.expiry.swap(a, b);
        self.spaces.order.swap(a, b);
        self.elements.swap(a, b);
        self.expiry.swap(a, b);
        self.is_large.swap(a, b);
        // Collections are known there by the numbers of their databases.
        self.known_ends.forget();
        self.upper_levels.forget_all();
    }

    /// Takes over the order that the store has: what was written was given up, or it came from a primary. No transaction may
    /// be open.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn load_order(&mut self) -> Result<(), tembo_kv::Error> {
        self.is_order_new = false;
        let wanted = order_of(self.store, self.spaces.order_space)?;
        let databases = self.spaces.databases.min(DATABASES_MAX);
        for (db, wanted) in wanted.into_iter().take(databases).enumerate() {
            let rest = &self.spaces.order[db..databases];
            if let Some(at) = rest.iter().position(|number| *number == wanted)
                && at > 0
            {
                self.exchange(db, db + at);
                for db in [db, db + at] {
                    let keys = self.watches.keys(db);
                    self.watches.clear(db, &keys);
                    self.waiting.touch_all(db);
                }
            }
        }
        Ok(())
    }

    /// The store has gone back: keyspaces that were made since, as a start with more databases does, are made again. All that
    /// clients have read may have changed. No transaction may be open.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn reopen(&mut self) -> Result<(), tembo_kv::Error> {
        let spaces = self.spaces.reopened(self.store)?;
        self.is_order_new = false;
        self.elements = Elements::new(spaces.elements.clone());
        self.expiry = ExpiryIndex::new(spaces.expiry.clone());
        self.is_large.fill(false);
        self.spaces = spaces;
        Ok(())
    }

    /// The database whose keyspaces have this number.
    pub(crate) fn database_of(&self, number: usize) -> usize {
        let order = self.spaces.order.iter();
        order
            .take(self.spaces.databases)
            .position(|&one| usize::from(one) == number)
            .unwrap_or(number)
    }
}
