//! Requests for a sync: those that come while one is under way are answered together by the next one.
//!
//! The thread that comes first syncs, and goes on until none waits; the others leave their requests with it and serve other requests. So
//! one thread at most waits for the disk, and programs share a sync however few threads serve them.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Requests of a kind that wait for a sync.
pub(crate) struct Syncs<R>(Mutex<Waiting<R>>);

struct Waiting<R> {
    requests: Vec<R>,
    /// A thread syncs, and will look for requests again.
    is_syncing: bool,
}

impl<R> Default for Syncs<R> {
    fn default() -> Syncs<R> {
        Syncs(Mutex::new(Waiting { requests: Vec::new(), is_syncing: false }))
    }
}

impl<R> Syncs<R> {
    fn lock(&self) -> MutexGuard<'_, Waiting<R>> {
        // A panic leaves the list whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request, which is answered with the result of a sync that begins after this: by this thread or by another one.
    pub(crate) fn add<T>(&self, request: R, sync: impl Fn() -> T, answer: impl Fn(R, &T)) {
        let mut waiting = self.lock();
        waiting.requests.push(request);
        if waiting.is_syncing {
            return;
        }
        waiting.is_syncing = true;
        while !waiting.requests.is_empty() {
            let requests = std::mem::take(&mut waiting.requests);
            drop(waiting);
            let done = sync();
            requests.into_iter().for_each(|request| answer(request, &done));
            waiting = self.lock();
        }
        waiting.is_syncing = false;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn requests_that_come_while_one_is_synced_cost_one_sync_together() {
        const REQUESTS: u64 = 16;
        let (syncs, done) = (Syncs::default(), AtomicU64::new(0));
        let answered = Mutex::new(Vec::new());
        let sync = || {
            let number = done.fetch_add(1, Ordering::SeqCst);
            // The disk is slow: all others come.
            while number == 0 && (syncs.lock().requests.len() as u64) < REQUESTS - 1 {
                thread::yield_now();
            }
            number
        };
        let answer = |request: u64, sync: &u64| answered.lock().unwrap().push((request, *sync));
        thread::scope(|scope| {
            for request in 0..REQUESTS {
                let (syncs, sync, answer) = (&syncs, &sync, &answer);
                scope.spawn(move || syncs.add(request, sync, answer));
            }
        });
        assert_eq!(done.load(Ordering::SeqCst), 2);
        let mut answered = answered.into_inner().unwrap();
        let (first, others) = (answered.remove(0), answered);
        assert_eq!(first.1, 0);
        assert!(others.iter().all(|(_, sync)| *sync == 1));
        let mut requests: Vec<u64> = others.iter().map(|(request, _)| *request).collect();
        requests.push(first.0);
        requests.sort_unstable();
        assert_eq!(requests, (0..REQUESTS).collect::<Vec<_>>());
        // None is left, and none is waited for.
        syncs.add(0, sync, |_, sync| assert_eq!(*sync, 2));
    }
}
