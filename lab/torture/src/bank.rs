//! A bank whose process is killed: money moves between accounts, and each transfer leaves an entry in a
//! ledger, in the same transaction.
//!
//! Tellers are threads. Each numbers its transfers, reports each committed one to another process, and only
//! then makes the next. Afterwards the [`Audit`] follows the ledger: every transfer
//! that was reported is there, none that no teller can have made, none twice, none missing between others;
//! and the balances are exactly what the ledger says, so that no transfer is there in part and the total is
//! what it was.

use std::ops::Bound;
use std::thread::scope;

use tembo_kv::{Direction, Durability, Error, Isolation, Keyspace, Snapshot, Store};
use tembo_sim::Random;

/// The balance of each account at first.
const BALANCE: i64 = 1000;

/// An open bank.
pub struct Bank<'s> {
    store: &'s Store,
    accounts: Keyspace,
    ledger: Keyspace,
    account_count: u32,
}

/// Gets each transfer that was committed: the teller and its number. If it returns false, the bank closes.
pub type Acknowledge<'a> = dyn Fn(u16, u64) -> bool + Sync + 'a;

/// A transfer.
struct Transfer {
    from: u32,
    to: u32,
    amount: i64,
}

fn account_key(account: u32) -> String {
    format!("{account:06}")
}

fn entry_key(teller: u16, number: u64) -> String {
    format!("{teller:03} {number:012}")
}

fn number<T: std::str::FromStr>(bytes: &[u8]) -> Option<T> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

impl Transfer {
    fn random(random: &mut Random, account_count: u32) -> Transfer {
        let from = random.below(account_count as usize) as u32;
        let step = 1 + random.below(account_count as usize - 1) as u32;
        let to = (from + step) % account_count;
        Transfer { from, to, amount: 1 + random.below(BALANCE as usize / 10) as i64 }
    }

    fn to_text(&self) -> String {
        format!("{} {} {}", self.from, self.to, self.amount)
    }

    fn from_text(text: &[u8]) -> Option<Transfer> {
        let mut words = text.split(|&byte| byte == b' ');
        let transfer = Transfer {
            from: number(words.next()?)?,
            to: number(words.next()?)?,
            amount: number(words.next()?)?,
        };
        words.next().is_none().then_some(transfer)
    }
}

impl<'s> Bank<'s> {
    /// Opens the bank in that store, and founds it, with at least two accounts, if there is none.
    ///
    /// # Errors
    /// The store's, among them [`Error::Unordered`]: its ledger is read by ranges.
    pub fn open(store: &'s Store, account_count: u32) -> Result<Bank<'s>, Error> {
        store.check_ordered()?;
        let (accounts, ledger) = (store.keyspace("accounts")?, store.keyspace("ledger")?);
        let bank = Bank { store, accounts, ledger, account_count };
        if store.get(accounts, account_key(0).as_bytes())?.is_none() {
            let mut transaction = store.exclusive()?;
            for account in 0..account_count {
                let balance = BALANCE.to_string();
                transaction.put_parts(
                    accounts,
                    account_key(account).as_bytes(),
                    &[balance.as_bytes()],
                )?;
            }
            transaction.commit(Durability::Strict)?;
        }
        Ok(bank)
    }

    /// Serves with so many tellers until `acknowledge` says no.
    ///
    /// # Errors
    /// The store's.
    pub fn serve(
        &self,
        tellers: u16,
        seed: u64,
        acknowledge: &Acknowledge<'_>,
    ) -> Result<(), Error> {
        scope(|threads| {
            let spawned: Vec<_> = (0..tellers)
                .map(|teller| threads.spawn(move || self.serve_one(teller, seed, acknowledge)))
                .collect();
            let joined = spawned.into_iter().map(|thread| match thread.join() {
                Ok(served) => served,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            joined.collect()
        })
    }

    fn serve_one(
        &self,
        teller: u16,
        seed: u64,
        acknowledge: &Acknowledge<'_>,
    ) -> Result<(), Error> {
        let mut number = self.next_number(teller)?;
        let mut random = Random::new(seed ^ (u64::from(teller) << 40) ^ number);
        loop {
            let transfer = Transfer::random(&mut random, self.account_count);
            self.transfer(teller, number, &transfer)?;
            if !acknowledge(teller, number) {
                return Ok(());
            }
            number += 1;
        }
    }

    /// Moves the money, or what there is of it, and enters that in the ledger.
    fn transfer(&self, teller: u16, number: u64, transfer: &Transfer) -> Result<(), Error> {
        let (from, to) = (account_key(transfer.from), account_key(transfer.to));
        let isolation = Isolation::Snapshot;
        self.store.with_retry(isolation, Durability::Strict, |transaction| {
            let mut balance = |key: &str| -> Result<i64, Error> {
                let found = transaction.get(self.accounts, key.as_bytes())?;
                let balance = found.as_deref().and_then(crate::bank::number);
                balance.ok_or(Error::Damaged { what: "a balance" })
            };
            let (from_balance, to_balance) = (balance(&from)?, balance(&to)?);
            let amount = transfer.amount.min(from_balance);
            let entry = Transfer { amount, ..*transfer };
            for (keyspace, key, value) in [
                (self.accounts, &from, (from_balance - amount).to_string()),
                (self.accounts, &to, (to_balance + amount).to_string()),
                (self.ledger, &entry_key(teller, number), entry.to_text()),
            ] {
                transaction.put(keyspace, key.as_bytes(), value.as_bytes())?;
            }
            Ok(())
        })
    }

    /// The total of one snapshot is what it was when the bank was founded.
    ///
    /// # Errors
    /// That it is not; the store's.
    pub fn count(&self) -> Result<(), String> {
        let snapshot = self.store.snapshot().map_err(|error| error.to_string())?;
        self.balances(&snapshot).map(drop)
    }

    /// The balance of each account, if the total is right.
    fn balances(&self, snapshot: &Snapshot) -> Result<Vec<Option<i64>>, String> {
        let mut balances = Vec::new();
        let read = snapshot.range_with::<[u8]>(
            self.accounts,
            (Bound::Unbounded, Bound::Unbounded),
            Direction::Forward,
            &mut |_, value| {
                balances.push(value.with(number::<i64>));
                true
            },
        );
        read.map_err(|error| error.to_string())?;
        if balances.len() != self.account_count as usize {
            return Err(format!("{} accounts of {}", balances.len(), self.account_count));
        }
        let total: i64 = balances.iter().flatten().sum();
        let founded = BALANCE * balances.len() as i64;
        if total != founded {
            return Err(format!("the total was {founded} and is {total}"));
        }
        Ok(balances)
    }

    /// The number of a teller's next transfer.
    fn next_number(&self, teller: u16) -> Result<u64, Error> {
        let (from, to) = (entry_key(teller, 0), entry_key(teller, 999_999_999_999));
        let mut next = 0;
        self.store.snapshot()?.range_with::<[u8]>(
            self.ledger,
            (Bound::Included(from.as_bytes()), Bound::Included(to.as_bytes())),
            Direction::Backward,
            &mut |key, _| {
                next = key.get(4..).and_then(number::<u64>).map_or(0, |number| number + 1);
                false
            },
        )?;
        Ok(next)
    }
}

/// Compares a bank with what its tellers have reported.
pub struct Audit {
    /// The balance of each account, by the ledger as far as it has been followed.
    balances: Vec<i64>,
    /// Transfers of each teller in the ledger, as far as it has been followed.
    followed: Vec<u64>,
}

impl Audit {
    /// The audit of a new bank.
    pub fn new(account_count: u32, tellers: u16) -> Audit {
        Audit {
            balances: vec![BALANCE; account_count as usize],
            followed: vec![0; usize::from(tellers)],
        }
    }

    /// Transfers that were found.
    pub fn transfers(&self) -> u64 {
        self.followed.iter().sum()
    }

    /// Follows the ledger. `reported` is, by teller, the number of the last transfer that it has reported since
    /// the last time. Begun with [`Audit::new`], it follows all of it.
    ///
    /// # Errors
    /// What is wrong with the bank.
    pub fn follow(&mut self, bank: &Bank<'_>, reported: &[Option<u64>]) -> Result<(), String> {
        let snapshot = bank.store.snapshot().map_err(|error| error.to_string())?;
        for (teller, &reported) in reported.iter().enumerate() {
            let before = self.followed[teller];
            self.follow_teller(bank, &snapshot, teller)?;
            let (found, reported) =
                (self.followed[teller], reported.map_or(before, |last| last + 1));
            if found < reported {
                return Err(format!(
                    "teller {teller} has acknowledged {reported} transfers, and {found} are there"
                ));
            }
            if found > reported + 1 {
                return Err(format!(
                    "teller {teller} has acknowledged {reported} transfers and can have begun one more, \
                     but {found} are there"
                ));
            }
        }
        self.compare(bank, &snapshot)
    }

    /// Follows all of the ledger again, from its beginning: it is what was followed before.
    ///
    /// # Errors
    /// What is wrong with the bank.
    pub fn follow_again(&self, bank: &Bank<'_>) -> Result<(), String> {
        let mut again = Audit::new(self.balances.len() as u32, self.followed.len() as u16);
        let reported: Vec<_> = self.followed.iter().map(|count| count.checked_sub(1)).collect();
        again.follow(bank, &reported)?;
        if again.followed == self.followed {
            return Ok(());
        }
        Err(format!("the ledger had {:?} entries and has {:?}", self.followed, again.followed))
    }

    fn follow_teller(
        &mut self,
        bank: &Bank<'_>,
        snapshot: &Snapshot,
        teller: usize,
    ) -> Result<(), String> {
        let key = |number| entry_key(teller as u16, number);
        let (from, to) = (key(self.followed[teller]), key(999_999_999_999));
        let mut wrong = None;
        let mut enter = |found: &[u8], value: tembo_kv::Value<'_>| {
            let number = self.followed[teller];
            if found != key(number).as_bytes() {
                let found = String::from_utf8_lossy(found);
                wrong = Some(format!("`{found}` is in the ledger, and `{}` is not", key(number)));
                return false;
            }
            let Some(transfer) = value.with(Transfer::from_text) else {
                wrong = Some(format!("the entry `{}` is no transfer", key(number)));
                return false;
            };
            for (account, amount) in
                [(transfer.from, -transfer.amount), (transfer.to, transfer.amount)]
            {
                if let Some(balance) = self.balances.get_mut(account as usize) {
                    *balance += amount;
                }
            }
            self.followed[teller] += 1;
            true
        };
        let (from, to) = (Bound::Included(from.as_bytes()), Bound::Included(to.as_bytes()));
        let read = snapshot.range_with::<[u8]>(
            bank.ledger,
            (from, to),
            Direction::Forward,
            &mut |key, value| enter(key, value),
        );
        read.map_err(|error| error.to_string())?;
        wrong.map_or(Ok(()), Err)
    }

    /// The balances are what the ledger says, and nothing was made or lost.
    fn compare(&self, bank: &Bank<'_>, snapshot: &Snapshot) -> Result<(), String> {
        let balances = bank.balances(snapshot)?;
        let accounts = balances.iter().zip(&self.balances).enumerate();
        for (account, (found, &expected)) in accounts {
            if *found != Some(expected) {
                return Err(format!(
                    "account {account} has {found:?}, and by the ledger {expected}"
                ));
            }
        }
        Ok(())
    }
}
