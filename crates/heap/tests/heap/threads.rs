//! Transactions beside each other.

use tembo_heap::{Error, Persist, Ptr};

use crate::{objects, volatile};

#[derive(Persist)]
struct Account {
    balance: i64,
}

#[derive(Persist)]
struct Bank<'h> {
    accounts: [Ptr<'h, Account>; 4],
}

#[test]
fn transfers_of_several_threads_lose_nothing() {
    let file = volatile();
    file.enter(|heap| {
        let bank = heap
            .root_or::<Bank<'_>, Error>(|tx| {
                let mut account = || tx.alloc(Account { balance: 100 });
                Ok(Bank { accounts: [account()?, account()?, account()?, account()?] })
            })
            .unwrap();
        let sum = || {
            heap.atomic(|tx| {
                let accounts = tx.read(&bank)?.accounts;
                accounts.iter().try_fold(0, |sum, account| {
                    Ok::<_, Error>(sum + tx.get(account, Account::BALANCE)?)
                })
            })
            .unwrap()
        };
        std::thread::scope(|scope| {
            for thread in 0..3_usize {
                let bank = &bank;
                scope.spawn(move || {
                    for round in 0..1000_usize {
                        let (from, to) = ((thread + round) % 4, (round * 7 + 1) % 4);
                        let moved = heap.atomic(|tx| {
                            let accounts = tx.read(bank)?.accounts;
                            let balance = tx.get(&accounts[from], Account::BALANCE)?;
                            tx.set(&accounts[from], Account::BALANCE, balance - 1)?;
                            let balance = tx.get(&accounts[to], Account::BALANCE)?;
                            tx.set(&accounts[to], Account::BALANCE, balance + 1)
                        });
                        moved.unwrap();
                    }
                });
            }
            scope.spawn(|| (0..1000).for_each(|_| assert_eq!(sum(), 400, "one state")));
        });
        assert_eq!(sum(), 400);
    });
    assert_eq!(objects(&file), 5);
}

#[derive(Persist)]
struct Link<'h> {
    next: Option<Ptr<'h, Link<'h>>>,
}

#[test]
fn threads_that_link_and_unlink_leave_nothing_behind() {
    let file = volatile();
    file.enter(|heap| {
        let root = heap.root_or::<_, Error>(|_| Ok(Link { next: None })).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for round in 0..500 {
                        let done = heap.atomic(|tx| {
                            let next = tx.get(&root, Link::NEXT)?;
                            if round % 3 == 2 {
                                return tx.set(&root, Link::NEXT, None);
                            }
                            let link = tx.alloc(Link { next })?;
                            tx.set(&root, Link::NEXT, Some(link))
                        });
                        done.unwrap();
                    }
                });
            }
        });
        heap.atomic(|tx| tx.set(&root, Link::NEXT, None)).unwrap();
    });
    assert_eq!(objects(&file), 1);
}
