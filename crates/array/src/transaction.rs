//! Transactions of any number of writes to any number of devices.

use std::fmt;
use std::sync::Arc;

use tembo_kv::Durability;

use crate::commit::commit;
use crate::shared::Shared;
use crate::write_log::WriteLog;
use crate::{Device, Error, Isolation};

/// A multi-part atomic write: what it writes becomes visible and durable together, or not at all.
///
/// The operations of the thesis (Table 3.3) by its names:
///
/// | thesis | here |
/// |---|---|
/// | `LogWrite` | [`write`](Transaction::write), of any offset and length; editing the log: a later write to the same place |
/// | reading the log | [`read`](Transaction::read): its own writes show |
/// | `Commit` | [`commit`](Transaction::commit) |
/// | `Abort` | [`abort`](Transaction::abort), or dropping it |
/// | `Abort` to a place in the log | [`rollback_to`](Transaction::rollback_to) a [`savepoint`](Transaction::savepoint) |
/// | `AtomicWrite` | [`write_and_commit`](Transaction::write_and_commit), [`Array::write`](crate::Array::write) |
/// | barrier | none is needed: writes are logged in the order of the calls |
/// | notification of the logical commit | [`commit`](Transaction::commit) with [`Durability::Buffered`] returns |
/// | notification that all is written back | [`Committed::wait`], or `commit` with [`Durability::Strict`] returns |
///
/// A transaction is a value, so that of the states PENDING and COMMITTED each has its own methods. It can be sent
/// to another thread. What it has written lies in memory, and from some size on in the pool, where no other sees it.
pub struct Transaction {
    log: WriteLog,
}

/// A point in a transaction to which it can go back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint {
    number: u64,
}

/// A commit that is visible, and perhaps not yet durable.
#[derive(Clone)]
pub struct Committed {
    shared: Arc<Shared>,
    version: u64,
}

impl fmt::Debug for Committed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Committed").field("version", &self.version).finish_non_exhaustive()
    }
}

impl Committed {
    pub(crate) fn new(shared: &Arc<Shared>, version: u64) -> Committed {
        Committed { shared: shared.clone(), version }
    }

    /// The version: the commit sequence number of the thesis. That which was read, if nothing was written.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whether it is durable.
    pub fn is_durable(&self) -> bool {
        self.shared.store.durable() >= self.version
    }

    /// Waits until it is durable: the second notification.
    ///
    /// # Errors
    /// Those of a sync: the store takes no more writes then.
    pub fn wait(&self) -> Result<(), Error> {
        if !self.is_durable() {
            self.shared.store.sync()?;
        }
        Ok(())
    }
}

impl Transaction {
    pub(crate) fn begin(shared: &Arc<Shared>, isolation: Isolation) -> Result<Transaction, Error> {
        Ok(Transaction { log: WriteLog::begin(shared, isolation)? })
    }

    /// The version that it began with.
    pub fn version(&self) -> u64 {
        self.log.snapshot.version()
    }

    /// Bytes that it has logged.
    pub fn log_bytes(&self) -> u64 {
        self.log.bytes
    }

    /// Writes `data` at `offset` (`LogWrite`). The device gets longer if it grows and they reach beyond its end.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::LogFull`], [`Error::NoSuchDevice`], [`Error::OtherStore`], [`Error::BadState`]; those of
    /// the store, no room among them: the first block was not logged, or the transaction is in [`Error::BadState`] from then on.
    pub fn write(&mut self, device: &Device, offset: u64, data: &[u8]) -> Result<(), Error> {
        self.log.write(device, offset, data)
    }

    /// Makes a range zero; whole blocks of it take no space any more. What lies behind the end is passed over. What others
    /// write there before the commit stays, without isolation.
    ///
    /// # Errors
    /// As of [`write`](Transaction::write).
    pub fn discard(&mut self, device: &Device, offset: u64, len: u64) -> Result<(), Error> {
        self.log.discard(device, offset, len)
    }

    /// Gives the device another length: what lies behind is cut off, what is added is zero and takes no space.
    ///
    /// # Errors
    /// As of [`write`](Transaction::write).
    pub fn set_len(&mut self, device: &Device, len: u64) -> Result<(), Error> {
        self.log.set_len(device, len)
    }

    /// Gives the device a tag: a number that the program keeps with it, in the same commit as the blocks. It takes some
    /// bytes, not a block. 0 at first.
    ///
    /// # Errors
    /// As of [`write`](Transaction::write).
    pub fn set_tag(&mut self, device: &Device, tag: u64) -> Result<(), Error> {
        self.log.set_tag(device, tag)
    }

    /// The tag of a device as the transaction sees it.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`], [`Error::OtherStore`]; damage.
    pub fn tag(&self, device: &Device) -> Result<u64, Error> {
        self.log.tag(device)
    }

    /// The length of a device as the transaction sees it, in bytes.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`], [`Error::OtherStore`]; damage.
    pub fn len(&self, device: &Device) -> Result<u64, Error> {
        self.log.len(device)
    }

    /// Reads from `offset` on, what it has written included; how many bytes: fewer than asked for at the end of the device.
    /// What it has not written is as its [`Isolation`] says.
    ///
    /// # Errors
    /// As of [`len`](Transaction::len).
    pub fn read(&mut self, device: &Device, offset: u64, to: &mut [u8]) -> Result<usize, Error> {
        self.log.read(device, offset, to)
    }

    /// Where it is. Any number of them nest.
    pub fn savepoint(&mut self) -> Savepoint {
        Savepoint { number: self.log.savepoint() }
    }

    /// Takes back what was written since a savepoint, which stays; later ones are forgotten (`Abort` to a place in the log).
    ///
    /// # Errors
    /// [`Error::NoSuchSavepoint`]: nothing is taken back. Those of the store: then it can only be dropped.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<(), Error> {
        self.log.roll_back_to(savepoint.number)
    }

    /// Nothing of it ever happened (`Abort`). The same as to drop it.
    pub fn abort(self) {}

    /// Commits all or nothing (`Commit`).
    ///
    /// Durability point: as `durability` says, capped by the store's sync policy. With [`Durability::Buffered`]
    /// [`Committed::wait`] waits for the rest.
    ///
    /// # Errors
    /// [`Error::Conflict`], [`Error::NoSuchDevice`], [`Error::OutOfRange`] (a device that does not grow was cut meanwhile),
    /// [`Error::BadState`]; of the store no room: nothing has changed. A failed sync: then nothing of it may be shown,
    /// though it may be there after the next open.
    pub fn commit(self, durability: Durability) -> Result<Committed, Error> {
        Transaction::commit_all(vec![self], durability)
    }

    /// Writes, and commits (`AtomicWrite` as the last write of a transaction).
    ///
    /// # Errors
    /// As of [`write`](Transaction::write) and [`commit`](Transaction::commit): nothing has changed.
    pub fn write_and_commit(
        mut self,
        device: &Device,
        offset: u64,
        data: &[u8],
        durability: Durability,
    ) -> Result<Committed, Error> {
        self.write(device, offset, data)?;
        self.commit(durability)
    }

    /// Commits several transactions as one: all of all of them, or nothing. None of them has written to a device of
    /// another.
    ///
    /// Durability point and errors are those of [`commit`](Transaction::commit); also [`Error::OtherStore`], [`Error::Busy`]: two
    /// have written to one device.
    pub fn commit_all(all: Vec<Transaction>, durability: Durability) -> Result<Committed, Error> {
        let logs: Vec<WriteLog> = all.into_iter().map(|tx| tx.log).collect();
        let Some(shared) = logs.first().map(|log| log.shared.clone()) else {
            return Err(Error::BadState);
        };
        let began = logs.iter().map(|log| log.snapshot.version()).max().unwrap_or_default();
        let version = commit(logs, durability)?;
        Ok(Committed { shared, version: version.max(began) })
    }
}
