//! What can go wrong in an index.

use tembo_pmem::Fault;

use crate::KEY_SIZE_MAX;

/// Errors of an index operation. Before its first store an operation either has everything that it
/// needs or fails with [`Error::Pool`]; later only damage can stop it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No room, or the region refuses writes.
    #[error(transparent)]
    Pool(#[from] tembo_pool::Error),
    /// An offset on media led outside the pool.
    #[error("damaged index: {0}")]
    Fault(#[from] Fault),
    /// Nothing was written: use a shorter key.
    #[error("a key of {size} bytes is longer than {KEY_SIZE_MAX}: use a shorter one")]
    KeyTooLong {
        /// Its length, in bytes.
        size: usize,
    },
    /// The marker wanted no more.
    #[error("the mark was stopped: begin another one later")]
    Stopped,
    /// A record of a pool that was opened is not as it was written: its checksum is another. All else can be
    /// read, also behind this key; restore the key from a backup, or put or remove it.
    #[error("the record at offset {offset:#x}, of the key {}, is corrupt: restore it from a backup, or put it again", key.escape_ascii())]
    Corrupt {
        /// Where it lies in the pool.
        offset: u64,
        /// The key, as it stands in the record, which may be what is corrupt.
        key: Vec<u8>,
    },
    /// What lies at an offset is not what should lie there.
    #[error(
        "damaged index at offset {offset:#x}: {what}; save what can be read, and restore a backup"
    )]
    Damaged {
        /// Where.
        offset: u64,
        /// What was expected.
        what: &'static str,
    },
}

pub(crate) fn damaged<T>(offset: u64, what: &'static str) -> Result<T, Error> {
    Err(Error::Damaged { offset, what })
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
            "ask", "begin", "check", "close", "copy", "drop", "free", "give", "hold", "lay",
            "make", "mark", "move", "open", "put", "raise", "read", "remove", "restore", "save",
            "start", "stay", "try", "unlink", "use", "wait",
        ];
        let first = |part: &str| part.split_whitespace().next().unwrap_or_default().to_owned();
        let mut parts = text.split([':', ';']).skip(1);
        parts.any(|part| words.contains(&first(part).as_str()) || part.contains("` lists "))
    }

    #[test]
    fn each_text_says_what_to_do() {
        let errors = all! {
            Pool { 0: tembo_pool::Error::SweepRunning }
            Fault { 0: Fault { offset: 1, len: 2, size: 3 } }
            KeyTooLong { size: 1 }
            Stopped {}
            Corrupt { offset: 1, key: Vec::new() }
            Damaged { offset: 1, what: "?" }
        };
        let silent = errors.iter().map(|error| error.to_string());
        let silent: Vec<_> = silent.filter(|text| !advises(text) || text.contains('\n')).collect();
        assert!(silent.is_empty(), "{silent:#?}");
    }
}
