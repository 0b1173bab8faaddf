//! The regression guard that noise cannot fool: instructions, fences and lines of the hot paths.
//!
//! Cases run in one process under callgrind: it begins to count where `counted` begins and writes down
//! what it has where `guarded` ends. The store is volatile, so that what is counted is the same code on every machine: no flush
//! instruction, and no wider vectors than valgrind knows. Counts are kept in the repository; they change
//! with the code and with the pinned compiler only.
//!
//! [`profile()`] says of the same operations in which parts of the code the instructions are.

mod callgrind;
mod cases;
mod count;
mod parts;
mod profile;
mod symbols;

use std::path::Path;

pub(crate) use self::callgrind::{CALLGRIND, guarded};
pub use self::cases::run;
pub use self::count::{Change, Count, Counts, changes};
pub use self::profile::{Profile, ProfileTable, profile, run_profiled};
use crate::contender::Size;
use crate::keys::Keys;
use crate::rival::failed;
use crate::{Error, Kind};

/// Inserts keys into a bare tree in memory, to be counted: callgrind has no room for a file's reservation.
///
/// # Errors
/// Those of the tree.
pub fn insert(kind: Kind, keys: u64, node_size: u32) -> Result<(), Error> {
    let mut contender = kind.in_memory(Size::new(keys, node_size), None)?;
    let plan = Keys { count: keys, seed: 1 }.shuffled(0);
    guarded(&mut || contender.inserts(&plan))
}

/// Runs `program words...`, which is to call [`run()`] and print its counts as `read` reads them, under
/// callgrind; without instructions if there is no valgrind.
///
/// # Errors
/// [`Error::Rival`] if callgrind or the program fails.
pub fn count(
    program: &Path,
    words: &[&str],
    read: &dyn Fn(&[u8]) -> Option<Counts>,
) -> Result<(Counts, bool), Error> {
    let error = failed("callgrind");
    if !callgrind::is_there() {
        return Ok((run()?, false));
    }
    let dumps = callgrind::watch(program, words, &[])?;
    let Some(mut counts) = read(&dumps.printed) else {
        return Err(error("the counts that it printed".into()));
    };
    for (name, total) in cases::names().zip(dumps.totals()?) {
        if let Some(count) = counts.get_mut(&name) {
            count.instructions = Some((total / cases::OPERATIONS as f64).round());
        }
    }
    Ok((counts, true))
}
