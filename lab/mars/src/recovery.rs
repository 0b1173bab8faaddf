//! Recovery: the driver scans the tables of all controllers, replays what has committed in the order of the commit
//! sequence numbers, and aborts the rest (thesis, section 3.4.3). It is idempotent.
//!
//! # The rule, and what is wrong with it
//! The thesis replays "the transactions that all loggers have marked as COMMITTED". That can be read in two ways, and
//! both tear transactions:
//!
//! - *All loggers of the array* (`AllLoggers`). A commit goes to those that have logged something, so one
//!   that does not touch all of them is lost, though the host has learned of it. One that does touch all is torn: a
//!   logger that has written it back is FREE while another is still COMMITTED. The rule aborts it, half of it
//!   applied.
//! - *All loggers that hold it* (`AllHolding`), for it is the mark of others that must not be missing.
//!   A commit may be issued while a write is on its way: one logger has it COMMITTED, another has not got its write yet
//!   and is FREE. The rule replays it, half of it never logged.
//!
//! FREE says too little: it is the state before the first write and the state behind the write-back. Ours
//! (`Participants`) puts two facts on media that fit into the record of 32 bytes: the set of the
//! participants is stored with the mark, and the sequence number stays when the record is freed. A transaction has
//! committed if each participant has its number, COMMITTED or FREE. Numbers are never drawn twice, and a record is taken
//! again only when all participants are done, so that the number of a free record is no stranger's.

use crate::Error;
use crate::bank::{Bank, Record};
use crate::format::{COMMITTED, FREE, PENDING, TRANSACTIONS};

/// Which transactions recovery replays. The head of `recovery.rs` says what is wrong with two of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryRule {
    /// The thesis's, to the letter. Wrong.
    AllLoggers,
    /// The thesis's, read kindly. Wrong.
    AllHolding,
    /// Ours.
    Participants,
}

/// What a recovery has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Transactions that were replayed.
    pub replayed: u64,
    /// Transactions that were aborted.
    pub aborted: u64,
    /// The greatest commit sequence number that the tables have.
    pub sequence: u64,
}

/// The records of one transaction, by controller.
struct Transaction {
    tid: u8,
    records: Vec<Record>,
}

impl Transaction {
    /// A record of it that says COMMITTED.
    fn committed(&self) -> Option<&Record> {
        self.records.iter().find(|record| record.status == COMMITTED)
    }

    fn has_committed(&self, rule: RecoveryRule) -> bool {
        let Some(mark) = self.committed() else { return false };
        let mut all = self.records.iter();
        match rule {
            RecoveryRule::AllLoggers => all.all(|record| record.status == COMMITTED),
            RecoveryRule::AllHolding => all.all(|record| record.status != PENDING),
            RecoveryRule::Participants => {
                let is_done = |record: &Record| {
                    record.sequence == mark.sequence && [COMMITTED, FREE].contains(&record.status)
                };
                let takes_part = |number: &usize| mark.participants >> number & 1 == 1;
                all.enumerate()
                    .filter(|(number, _)| takes_part(number))
                    .all(|(_, record)| is_done(record))
            }
        }
    }
}

/// Brings all controllers to a state without transactions.
///
/// # Errors
/// Damage.
pub(crate) fn recover(banks: &[Bank], rule: RecoveryRule) -> Result<Recovered, Error> {
    let (mut recovered, mut committed, mut others) = (Recovered::default(), Vec::new(), Vec::new());
    for tid in 0..TRANSACTIONS as u8 {
        let records: Result<_, Error> = banks.iter().map(|bank| bank.record(tid)).collect();
        let transaction = Transaction { tid, records: records? };
        let sequences = transaction.records.iter().map(|record| record.sequence);
        recovered.sequence = sequences.fold(recovered.sequence, u64::max);
        match transaction.committed() {
            Some(mark) if transaction.has_committed(rule) => {
                committed.push((mark.sequence, transaction));
            }
            _ if transaction.records.iter().any(|record| record.status != FREE) => {
                others.push(transaction);
            }
            _ => {}
        }
    }
    committed.sort_by_key(|(sequence, _)| *sequence);
    for (_, Transaction { tid, records }) in committed {
        for (bank, record) in banks.iter().zip(records) {
            if record.status == COMMITTED {
                bank.apply(tid)?;
            }
        }
        recovered.replayed += 1;
    }
    for Transaction { tid, records } in others {
        for (bank, record) in banks.iter().zip(records) {
            if record.status != FREE {
                bank.free(tid)?;
            }
        }
        recovered.aborted += 1;
    }
    Ok(recovered)
}
