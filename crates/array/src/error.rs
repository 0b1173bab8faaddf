//! What can go wrong with a device.

use tembo_kv as kv;

use crate::bounds::{BLOCK_SIZE_MAX, BLOCK_SIZE_MIN, NAME_SIZE_MAX, RUN_SIZE_MAX};

/// Errors of devices and their transactions. The thesis defines none: each of these says what has changed, which is
/// nothing unless it says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Of the store below: damage, no room, a failed sync.
    #[error(transparent)]
    Store(kv::Error),
    /// Choose a power of two between the bounds.
    #[error("blocks of {size} bytes: use a power of two from {BLOCK_SIZE_MIN} to {BLOCK_SIZE_MAX}")]
    BlockSize {
        /// The size asked for, in bytes.
        size: usize,
    },
    /// Choose a power of two of blocks that have no more than [`RUN_SIZE_MAX`] bytes together.
    #[error(
        "runs of {count} blocks: use a power of two, and at most {RUN_SIZE_MAX} bytes together"
    )]
    RunBlocks {
        /// The blocks asked for.
        count: usize,
    },
    /// A name has 1 to [`NAME_SIZE_MAX`] bytes.
    #[error("the name of a device has 1 to {NAME_SIZE_MAX} bytes, not {size}: use another name")]
    DeviceName {
        /// Its length, in bytes.
        size: usize,
    },
    /// Open that one, or use another name.
    #[error("there is a device {name:?} already: open it, or use another name")]
    DeviceExists {
        /// Its name.
        name: String,
    },
    /// There is none of that name, or the handle is of one that was removed. [`Array::devices`](crate::Array::devices) lists
    /// those that there are.
    #[error("there is no device {name:?}: `devices` lists those that there are")]
    NoSuchDevice {
        /// Its name.
        name: String,
    },
    /// The store has had as many devices as it can.
    #[error("the store has had {count} devices, and can have no more: use another store")]
    TooManyDevices {
        /// How many.
        count: u32,
    },
    /// What was asked for lies behind the end of a device that does not grow, or no device can be so long.
    #[error(
        "{len} bytes at {offset} are out of the range of device {name:?}, which has {size} bytes: stay within them, \
         or give a device that does not grow a greater length first"
    )]
    OutOfRange {
        /// The name of the device.
        name: String,
        /// Where the access begins, in bytes.
        offset: u64,
        /// How many bytes.
        len: u64,
        /// The bytes that the device has, or that it can have.
        size: u64,
    },
    /// Another transaction has committed a change of the same block, or of the length, first. The transaction is over; begin
    /// it again.
    #[error(
        "block {block} of device {name:?} was changed by a transaction that committed first; begin this one again"
    )]
    Conflict {
        /// The name of the device.
        name: String,
        /// The first such block; that of the end, if it is the length.
        block: u64,
    },
    /// The transaction has written more than [`Array::set_log_max`](crate::Array::set_log_max) allows: commit it, go back to a
    /// savepoint, or drop it.
    #[error("the log of the transaction has {bytes} bytes of {max}: commit in smaller parts")]
    LogFull {
        /// Bytes that it would have.
        bytes: u64,
        /// Bytes that it may have.
        max: u64,
    },
    /// The device is in use by transactions that are pending: end them first.
    #[error("device {name:?} is in use by {pending} transactions: commit or drop them first")]
    Busy {
        /// Its name.
        name: String,
        /// How many transactions have written to it.
        pending: usize,
    },
    /// A write of the transaction has failed after a part of it was logged: go back to a savepoint before it, or drop the
    /// transaction. A savepoint after it does not help.
    #[error(
        "an earlier write of the transaction failed half-way: go back to a savepoint before it, or begin again"
    )]
    BadState,
    /// The transaction has gone back behind the savepoint, or it is another's.
    #[error(
        "the transaction has no such savepoint any more: go back to an earlier one, or begin again"
    )]
    NoSuchSavepoint,
    /// Devices or transactions of different stores cannot be used together.
    #[error("the device or the transaction is of another store: use two of one store")]
    OtherStore,
    /// Two versions of different devices have no difference.
    #[error(
        "the snapshots are of different devices, or the second is older than the first: \
         give two of one device, the older one first"
    )]
    NotComparable,
    /// What the device was cloned from is not in this store: it was restored from a backup, which has no past, or is a
    /// replica. [`Array::remove`](crate::Array::remove) removes the device, [`Array::lost`](crate::Array::lost) lists those like it.
    #[error(
        "device {name:?} is a clone of version {version}, which this store does not have: \
         copy it from the pool where it was made, and remove it here"
    )]
    OriginLost {
        /// The name of the clone.
        name: String,
        /// The version.
        version: u64,
    },
    /// What stands in the store is no device.
    #[error("damaged: {what}; check the pool, and restore a backup")]
    Damaged {
        /// What is damaged.
        what: &'static str,
    },
}

impl From<kv::Error> for Error {
    fn from(error: kv::Error) -> Error {
        Error::Store(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each variant with fields; one that is not listed does not compile.
    macro_rules! all {
        ($($variant:ident { $($field:tt)* })*) => {{
            let _ = |error: &Error| match error {
                $(Error::$variant { .. } => {})*
            };
            [$(Error::$variant { $($field)* }),*]
        }};
    }

    /// Whether a part of the text begins with a word that asks for something.
    fn advises(text: &str) -> bool {
        let words = [
            "ask", "begin", "check", "close", "commit", "copy", "drop", "free", "give", "go",
            "hold", "lay", "make", "mark", "move", "open", "put", "raise", "read", "remove",
            "restore", "save", "start", "stay", "try", "unlink", "use", "wait",
        ];
        let first = |part: &str| part.split_whitespace().next().unwrap_or_default().to_owned();
        let mut parts = text.split([':', ';']).skip(1);
        parts.any(|part| words.contains(&first(part).as_str()) || part.contains("` lists "))
    }

    #[test]
    fn each_text_says_what_to_do() {
        let name = || String::from("a");
        let errors = all! {
            Store { 0: kv::Error::Poisoned }
            BlockSize { size: 1 }
            RunBlocks { count: 3 }
            DeviceName { size: 0 }
            DeviceExists { name: name() }
            NoSuchDevice { name: name() }
            TooManyDevices { count: 1 }
            OutOfRange { name: name(), offset: 1, len: 1, size: 1 }
            Conflict { name: name(), block: 1 }
            LogFull { bytes: 2, max: 1 }
            Busy { name: name(), pending: 1 }
            BadState {}
            NoSuchSavepoint {}
            OtherStore {}
            NotComparable {}
            OriginLost { name: name(), version: 1 }
            Damaged { what: "?" }
        };
        let silent = errors.iter().map(|error| error.to_string());
        let silent: Vec<_> = silent.filter(|text| !advises(text) || text.contains('\n')).collect();
        assert!(silent.is_empty(), "{silent:#?}");
    }
}
