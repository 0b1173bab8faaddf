use std::sync::Barrier;
use std::sync::atomic::AtomicU64;

use super::*;
use crate::thread::number;

#[test]
fn one_thread_at_a_time_is_at_the_value() {
    const ADDED: u64 = 100_000;
    let (latch, begin) = (Latch::new((0u64, 0u64)), Barrier::new(4));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                begin.wait();
                for _ in 0..ADDED {
                    let mut both = latch.lock();
                    both.0 += 1;
                    both.1 += 1;
                    assert_eq!(both.0, both.1);
                }
            });
        }
    });
    let both = latch.try_lock().unwrap();
    assert_eq!(*both, (4 * ADDED, 4 * ADDED));
    assert!(latch.try_lock().is_none() && latch.enter().is_none());
    drop(both);
    assert!(latch.try_lock().is_some());
}

#[test]
fn a_latch_is_biased_towards_its_owner_until_another_thread_takes_it() {
    let (own, ownerless) = (Latch::of(number(), 0), Latch::new(0));
    assert!(own.enter().is_none(), "it was never biased");
    drop(ownerless.bias(ownerless.lock()));
    assert!(ownerless.enter().is_none(), "it has no owner");
    drop(own.bias(ownerless.lock()));
    assert!(own.enter().is_none(), "another one was taken");
    let biased = own.bias(own.lock());
    assert!(own.enter().is_none() && own.try_lock().is_none(), "the owner holds it");
    drop(biased);
    if !has_barrier() {
        return;
    }
    // The attempt to take it revoked the bias.
    assert!(own.enter().is_none());
    drop(own.bias(own.lock()));
    for _ in 0..3 {
        assert!(own.enter().is_some());
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert!(own.enter().is_none(), "another thread owns it");
            *own.lock() += 1;
            drop(own.bias(own.lock()));
        });
    });
    assert!(own.enter().is_none());
    assert_eq!(*own.lock(), 1);
}

/// A value that finds out when another thread is at it.
#[derive(Default)]
struct Alone {
    holder: AtomicU64,
    stays: AtomicU64,
}

impl Alone {
    fn stay(&mut self, holder: u64) {
        self.holder.store(holder, Ordering::Relaxed);
        for _ in 0..20 {
            assert_eq!(self.holder.load(Ordering::Relaxed), holder, "another thread is inside");
        }
        let stays = self.stays.get_mut();
        *stays += 1;
    }
}

/// Enters by a store if it can; true if it could.
fn stay_as_owner(latch: &Latch<Alone>, holder: u64) -> bool {
    if let Some(mut alone) = latch.enter() {
        alone.stay(holder);
        return true;
    }
    latch.bias(latch.lock()).stay(holder);
    false
}

/// Away from each other.
#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU64);

/// Ends what goes on beside, be it by a panic.
struct Ends<'d>(&'d AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Fails in one run of two if [`barrier`] does nothing, where there are two processors.
#[test]
fn a_thread_that_revokes_a_bias_does_not_meet_the_owner() {
    const TAKEN_MAX: u64 = 40_000;
    const TAKEN_MIN: u64 = 100;
    // Where the two have one processor, or others want theirs, the owner's round is waited for each time.
    const LONG: std::time::Duration = std::time::Duration::from_secs(5);
    // Both write these lines. While the owner waits for them, its next stores wait behind: so the other sees
    // late that the owner has come in.
    let contended = [const { Line(AtomicU64::new(0)) }; 8];
    let contend = || contended.iter().for_each(|line| line.0.store(1, Ordering::Relaxed));
    let (entered, is_done) = (Line::default(), AtomicBool::new(false));
    let (latch, begin, mut taken) = (std::sync::OnceLock::new(), Barrier::new(2), 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let latch = latch.get_or_init(|| Latch::of(number(), Alone::default()));
            begin.wait();
            let _ends = Ends(&is_done);
            while !is_done.load(Ordering::Relaxed) {
                for _ in 0..20 {
                    contend();
                    let has_entered = stay_as_owner(latch, 1);
                    let before = entered.0.load(Ordering::Relaxed);
                    entered.0.store(before + u64::from(has_entered), Ordering::Relaxed);
                }
            }
        });
        begin.wait();
        let _ends = Ends(&is_done);
        let (latch, began) = (latch.get().unwrap(), std::time::Instant::now());
        while taken < TAKEN_MAX && (taken < TAKEN_MIN || began.elapsed() < LONG) {
            let before = entered.0.load(Ordering::Relaxed);
            (0..300).take_while(|_| entered.0.load(Ordering::Relaxed) == before).for_each(wait);
            contend();
            latch.lock().stay(2);
            taken += 1;
        }
    });
    let stays = latch.into_inner().unwrap().lock().stays.load(Ordering::Relaxed);
    let entered = entered.0.into_inner();
    assert!(stays > taken && (!has_barrier() || entered > taken / 10), "{stays}, {entered}");
}

#[test]
fn owners_come_and_go_and_all_are_locked_at_once_beside_them() {
    const OWNED: usize = 3;
    const LIVES: u64 = 600;
    let latches: Vec<Latch<Alone>> = (0..OWNED).map(|n| Latch::of(n, Alone::default())).collect();
    let of_others = Latch::<Alone>::default();
    let (lives, stays) = (AtomicU64::new(0), AtomicU64::new(0));
    let live = || {
        while lives.fetch_add(1, Ordering::Relaxed) < LIVES {
            // A thread of its own, which gets the number of one that has ended.
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let number = number() as u64;
                    for _ in 0..50 {
                        match latches.get(number as usize) {
                            Some(own) => drop(stay_as_owner(own, number)),
                            None => of_others.lock().stay(number),
                        }
                        stays.fetch_add(1, Ordering::Relaxed);
                    }
                });
            });
        }
    };
    std::thread::scope(|scope| {
        (0..4).for_each(|_| drop(scope.spawn(live)));
        while lives.load(Ordering::Relaxed) < LIVES {
            let mut seen = Vec::new();
            Latch::lock_each(latches.iter().enumerate(), |number, alone| {
                alone.stay(u64::MAX);
                *alone.stays.get_mut() -= 1;
                seen.push(number);
            });
            assert!(seen.into_iter().eq(0..OWNED));
            std::thread::yield_now();
        }
    });
    let all = latches.iter().chain([&of_others]);
    let counted: u64 = all.map(|latch| latch.lock().stays.load(Ordering::Relaxed)).sum();
    assert_eq!(counted, stays.into_inner());
}
