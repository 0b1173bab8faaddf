use std::sync::Barrier;
use std::sync::atomic::AtomicU64;

use super::*;
use crate::thread_number;

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
    assert!(latch.try_lock().is_none() && latch.reenter().is_none());
    drop(both);
    assert!(latch.try_lock().is_some());
}

#[test]
fn a_latch_is_lent_to_its_owner_until_somebody_takes_it() {
    let (own, of_nobody) = (Latch::of(thread_number(), 0), Latch::new(0));
    assert!(own.reenter().is_none(), "it was never lent");
    drop(of_nobody.lend(of_nobody.lock()));
    assert!(of_nobody.reenter().is_none(), "nobody owns it");
    drop(own.lend(of_nobody.lock()));
    assert!(own.reenter().is_none(), "what was taken is another one");
    let lent = own.lend(own.lock());
    assert!(own.reenter().is_none() && own.try_lock().is_none(), "he has it");
    drop(lent);
    if !has_barrier() {
        return;
    }
    // The attempt to take it took it back.
    assert!(own.reenter().is_none());
    drop(own.lend(own.lock()));
    for _ in 0..3 {
        assert!(own.reenter().is_some());
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert!(own.reenter().is_none(), "it is another's");
            *own.lock() += 1;
            drop(own.lend(own.lock()));
        });
    });
    assert!(own.reenter().is_none());
    assert_eq!(*own.lock(), 1);
}

/// A value that tells when somebody else is at it.
#[derive(Default)]
struct Alone {
    who: AtomicU64,
    stays: AtomicU64,
}

impl Alone {
    fn stay(&mut self, who: u64) {
        self.who.store(who, Ordering::Relaxed);
        for _ in 0..20 {
            assert_eq!(self.who.load(Ordering::Relaxed), who, "somebody else is inside");
        }
        let stays = self.stays.get_mut();
        *stays += 1;
    }
}

/// Comes in by a store if it can; true if it could.
fn stay_as_owner(latch: &Latch<Alone>, who: u64) -> bool {
    if let Some(mut alone) = latch.reenter() {
        alone.stay(who);
        return true;
    }
    latch.lend(latch.lock()).stay(who);
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
fn who_takes_a_latch_from_its_owner_does_not_meet_him() {
    const TAKEN_MAX: u64 = 40_000;
    const TAKEN_MIN: u64 = 100;
    // Where the two have one processor, or others want theirs, the owner's turn is waited for each time.
    const LONG: std::time::Duration = std::time::Duration::from_secs(5);
    // Both write these lines. While the owner waits for them, his next stores wait behind: so the other sees
    // late that he has come in.
    let contended = [const { Line(AtomicU64::new(0)) }; 8];
    let contend = || contended.iter().for_each(|line| line.0.store(1, Ordering::Relaxed));
    let (reentered, is_done) = (Line::default(), AtomicBool::new(false));
    let (latch, begin, mut taken) = (std::sync::OnceLock::new(), Barrier::new(2), 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let latch = latch.get_or_init(|| Latch::of(thread_number(), Alone::default()));
            begin.wait();
            let _ends = Ends(&is_done);
            while !is_done.load(Ordering::Relaxed) {
                for _ in 0..20 {
                    contend();
                    let has_reentered = stay_as_owner(latch, 1);
                    let before = reentered.0.load(Ordering::Relaxed);
                    reentered.0.store(before + u64::from(has_reentered), Ordering::Relaxed);
                }
            }
        });
        begin.wait();
        let _ends = Ends(&is_done);
        let (latch, began) = (latch.get().unwrap(), std::time::Instant::now());
        while taken < TAKEN_MAX && (taken < TAKEN_MIN || began.elapsed() < LONG) {
            let before = reentered.0.load(Ordering::Relaxed);
            (0..300)
                .take_while(|_| reentered.0.load(Ordering::Relaxed) == before)
                .for_each(wait_in_round);
            contend();
            latch.lock().stay(2);
            taken += 1;
        }
    });
    let stays = latch.into_inner().unwrap().lock().stays.load(Ordering::Relaxed);
    let reentered = reentered.0.into_inner();
    assert!(stays > taken && (!has_barrier() || reentered > taken / 10), "{stays}, {reentered}");
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
                    let number = thread_number() as u64;
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
