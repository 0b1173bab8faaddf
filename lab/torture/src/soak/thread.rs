//! What one thread of a soak does.

use std::ops::Bound;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tembo_kv::{Durability, Error, Keyspace, Store};
use tembo_sim::Random;

use super::course::{Course, SoakError, Stretch};
use super::keys::{Held, Keys};

/// The keyspace of all threads.
const KEYSPACE: &str = "soak";

/// Operations for which a named snapshot is kept.
const KEPT: u64 = 2000;

/// A thread, its keys, and how long it has waited.
pub(super) struct Worker {
    number: u64,
    keys: Keys,
    random: Random,
    operations: u64,
    changed: u64,
    longest: Vec<(&'static str, u64, Duration)>,
    stalls: Vec<Stretch>,
    /// At which operation a snapshot was named that is there still.
    named: Option<u64>,
}

fn wrong(what: impl Into<String>) -> SoakError {
    SoakError::Wrong(what.into())
}

impl Worker {
    pub(super) fn new(number: u64, keys: u64, seed: u64) -> Worker {
        Worker {
            number,
            keys: Keys::new(number, keys.max(1)),
            random: Random::new(seed ^ (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            operations: 0,
            changed: 0,
            longest: Vec::new(),
            stalls: Vec::new(),
            named: None,
        }
    }

    pub(super) fn operations(&self) -> u64 {
        self.operations
    }

    pub(super) fn changed(&self) -> u64 {
        self.changed
    }

    pub(super) fn longest(&self) -> &[(&'static str, u64, Duration)] {
        &self.longest
    }

    pub(super) fn stalls(&self) -> &[Stretch] {
        &self.stalls
    }

    /// Works until it is over.
    pub(super) fn work(&mut self, store: &Store, course: &Course) -> Result<(), SoakError> {
        let done = self.work_on(store, course);
        if done.is_err() {
            course.stop.store(true, Ordering::Relaxed);
        }
        done
    }

    fn work_on(&mut self, store: &Store, course: &Course) -> Result<(), SoakError> {
        let (space, is_ordered) = (store.keyspace(KEYSPACE)?, store.is_ordered());
        while !course.is_over() {
            self.operations += 1;
            match self.random.below(100) {
                0..45 => self.put(store, space, course)?,
                45..75 => self.get(store, space, course)?,
                75..85 if is_ordered => self.scan(store, space, course)?,
                75..85 => self.get(store, space, course)?,
                85..95 => self.remove(store, space, course)?,
                95..97 if is_ordered => self.remove_range(store, space, course)?,
                97 if is_ordered && self.operations.is_multiple_of(500) => {
                    self.remove_all(store, space, course)?
                }
                _ => self.snapshot(store, course)?,
            }
        }
        if self.named.take().is_some() {
            store.drop_snapshot(&self.name())?;
        }
        Ok(())
    }

    fn timed<T>(
        &mut self,
        course: &Course,
        name: &'static str,
        work: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, SoakError> {
        let from = course.start.elapsed();
        let done = work()?;
        let stretch = Stretch { from, to: course.start.elapsed() };
        match self.longest.iter_mut().find(|(known, ..)| *known == name) {
            Some((_, count, longest)) => {
                (*count, *longest) = (*count + 1, stretch.len().max(*longest));
            }
            None => self.longest.push((name, 1, stretch.len())),
        }
        if stretch.len() > course.stall {
            self.stalls.push(stretch);
        }
        Ok(done)
    }

    /// Numbers of some keys that follow one another, or of some anywhere.
    fn numbers(&mut self, most: usize) -> Vec<usize> {
        let (count, all) = (1 + self.random.below(most), self.keys.count());
        let first = self.random.below(all);
        let in_a_row = self.random.below(4) == 0;
        let mut number = |at| if in_a_row { (first + at) % all } else { self.random.below(all) };
        let mut numbers: Vec<usize> = (0..count).map(&mut number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    fn set(&mut self, number: usize, held: Option<Held>, course: &Course) {
        let before = self.keys.bytes(number);
        match held {
            Some(held) => self.keys.put(number, held),
            None => self.keys.remove(number),
        }
        course.live.fetch_add(self.keys.bytes(number), Ordering::Relaxed);
        course.live.fetch_sub(before, Ordering::Relaxed);
        self.changed += 1;
    }

    fn put(&mut self, store: &Store, space: Keyspace, course: &Course) -> Result<(), SoakError> {
        let most = [1, 8, 60][self.random.below(3)];
        let mut changes = Vec::new();
        for number in self.numbers(most) {
            let (held, value) = self.keys.value(number, &mut self.random);
            changes.push((number, self.keys.key(number), held, value));
        }
        self.timed(course, "put", || {
            let mut writer = store.exclusive()?;
            for (_, key, _, value) in &changes {
                writer.put(space, key, value)?;
            }
            writer.commit(Durability::Strict)
        })?;
        changes.iter().for_each(|(number, _, held, _)| self.set(*number, Some(*held), course));
        Ok(())
    }

    fn remove(&mut self, store: &Store, space: Keyspace, course: &Course) -> Result<(), SoakError> {
        let numbers = self.numbers(20);
        let keys: Vec<_> = numbers.iter().map(|number| self.keys.key(*number)).collect();
        let found = self.timed(course, "remove", || {
            let mut writer = store.exclusive()?;
            let found: Result<Vec<bool>, Error> =
                keys.iter().map(|key| writer.remove(space, key)).collect();
            writer.commit(Durability::Strict)?;
            found
        })?;
        for (number, found) in numbers.into_iter().zip(found) {
            if found != self.keys.is_there(number) {
                return Err(wrong(format!("removing key {number}: it was there: {found}")));
            }
            self.set(number, None, course);
        }
        Ok(())
    }

    /// One in five hundred of the keys.
    fn remove_range(
        &mut self,
        store: &Store,
        space: Keyspace,
        course: &Course,
    ) -> Result<(), SoakError> {
        let all = self.keys.count();
        let first = self.random.below(all);
        let behind = (first + 1 + all / 500).min(all);
        self.remove_between(store, space, course, ("remove of a range", first, behind))
    }

    fn remove_all(
        &mut self,
        store: &Store,
        space: Keyspace,
        course: &Course,
    ) -> Result<(), SoakError> {
        let all = self.keys.count();
        self.remove_between(store, space, course, ("remove of all", 0, all))
    }

    fn remove_between(
        &mut self,
        store: &Store,
        space: Keyspace,
        course: &Course,
        (name, first, behind): (&'static str, usize, usize),
    ) -> Result<(), SoakError> {
        let (from, to) = (self.keys.key(first), self.keys.key(behind));
        self.timed(course, name, || {
            let mut writer = store.exclusive()?;
            let range = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
            writer.remove_range::<[u8]>(space, range)?;
            writer.commit(Durability::Strict)
        })?;
        (first..behind).for_each(|number| self.set(number, None, course));
        Ok(())
    }

    fn get(&mut self, store: &Store, space: Keyspace, course: &Course) -> Result<(), SoakError> {
        for number in self.numbers(10) {
            let key = self.keys.key(number);
            let value = self.timed(course, "get", || store.get(space, &key))?;
            if !self.keys.is_right(number, value.as_deref()) {
                return Err(wrong(format!("a get of key {number} gives another value")));
            }
            self.changed += 1;
        }
        Ok(())
    }

    fn scan(&mut self, store: &Store, space: Keyspace, course: &Course) -> Result<(), SoakError> {
        let all = self.keys.count();
        let first = self.random.below(all);
        let behind = (first + 1 + self.random.below(200)).min(all);
        let (from, to) = (self.keys.key(first), self.keys.key(behind));
        let entries = self.timed(course, "scan", || {
            let range = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
            store.range::<[u8]>(space, range)?.collect::<Result<Vec<_>, Error>>()
        })?;
        self.compare_range((first, behind), &entries)?;
        self.changed += entries.len() as u64;
        Ok(())
    }

    fn compare_range(
        &self,
        (first, behind): (usize, usize),
        entries: &[(Vec<u8>, Vec<u8>)],
    ) -> Result<(), SoakError> {
        let expected = (first..behind).filter(|number| self.keys.is_there(*number)).count();
        let is_right = |(key, value): &(Vec<u8>, Vec<u8>)| {
            Keys::number(key).is_some_and(|number| {
                (first..behind).contains(&number) && self.keys.is_right(number, Some(value))
            })
        };
        if entries.len() != expected || !entries.iter().all(is_right) {
            let found = entries.len();
            return Err(wrong(format!(
                "keys {first} to {behind}: {expected} are expected, {found} are there, or others"
            )));
        }
        Ok(())
    }

    /// Compares all keys, in the order of the index.
    fn compare_each(&self, store: &Store, space: Keyspace) -> Result<(), SoakError> {
        let mut found = 0;
        for entry in store.range::<[u8]>(space, ..)? {
            let entry = entry?;
            let Some(number) = Keys::number(&entry.0).filter(|_| self.keys.has(&entry.0)) else {
                continue;
            };
            if number >= self.keys.count() {
                return Err(wrong(format!("there is a key {number}, which was never put")));
            }
            self.compare_range((number, number + 1), &[entry])?;
            found += 1;
        }
        let expected = (0..self.keys.count()).filter(|number| self.keys.is_there(*number)).count();
        if found != expected {
            return Err(wrong(format!("{expected} keys are expected, {found} are there")));
        }
        Ok(())
    }

    fn name(&self) -> String {
        format!("soak-{}", self.number)
    }

    /// Names a snapshot, or drops the one that was named some time ago.
    fn snapshot(&mut self, store: &Store, course: &Course) -> Result<(), SoakError> {
        let name = self.name();
        match self.named {
            None if self.operations.is_multiple_of(16) => {
                self.timed(course, "save of a snapshot", || store.save_snapshot(&name))?;
                self.named = Some(self.operations);
            }
            Some(at) if self.operations > at + KEPT => {
                self.timed(course, "drop of a snapshot", || store.drop_snapshot(&name))?;
                self.named = None;
            }
            _ => {}
        }
        Ok(())
    }

    /// Compares all keys, some hundred at a time where they have an order.
    pub(super) fn compare(&self, store: &Store) -> Result<(), SoakError> {
        let (space, all) = (store.keyspace(KEYSPACE)?, self.keys.count());
        if !store.is_ordered() {
            return self.compare_each(store, space);
        }
        for first in (0..all).step_by(100) {
            let behind = (first + 100).min(all);
            let (from, to) = (self.keys.key(first), self.keys.key(behind));
            let range = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
            let entries: Result<Vec<_>, Error> = store.range::<[u8]>(space, range)?.collect();
            self.compare_range((first, behind), &entries?)?;
        }
        Ok(())
    }
}
