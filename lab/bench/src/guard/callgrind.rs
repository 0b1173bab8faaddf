//! Callgrind: what it is asked to watch, and what it writes down.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::Error;
use crate::rival::failed;

/// Callgrind finds both by their names, in full: patterns that begin alike are not names apart. They are
/// two, for it takes one order a function.
pub(crate) const CALLGRIND: [&str; 3] = [
    "--tool=callgrind",
    "--zero-before=tembo_bench::guard::callgrind::counted",
    "--dump-after=tembo_bench::guard::callgrind::guarded",
];

#[inline(never)]
pub(crate) fn guarded(work: &mut dyn FnMut() -> Result<(), Error>) -> Result<(), Error> {
    let done = counted(work);
    // So that the call above does not become a jump.
    std::hint::black_box(&done);
    done
}

#[inline(never)]
fn counted(work: &mut dyn FnMut() -> Result<(), Error>) -> Result<(), Error> {
    let done = work();
    std::hint::black_box(&done);
    done
}

/// Whether there is a valgrind.
pub(super) fn is_there() -> bool {
    let mut command = Command::new("valgrind");
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// What callgrind has written down: a dump for each time that `guarded` was called.
pub(super) struct Dumps {
    /// What the program has printed.
    pub(super) printed: Vec<u8>,
    out: PathBuf,
    /// It is there as long as this is.
    _folder: TempDir,
}

/// Runs `program words...` under callgrind, with more options for it.
///
/// # Errors
/// [`Error::Rival`] if callgrind or the program fails.
pub(super) fn watch(program: &Path, words: &[&str], options: &[&str]) -> Result<Dumps, Error> {
    let error = failed("callgrind");
    let folder = tempfile::tempdir().map_err(|source| error(Box::new(source)))?;
    let out = folder.path().join("out");
    let mut command = Command::new("valgrind");
    command.args(CALLGRIND).args(options);
    command.arg(format!("--callgrind-out-file={}", out.display())).arg(program).args(words);
    let output = command.output().map_err(|source| error(Box::new(source)))?;
    if !output.status.success() {
        return Err(error(String::from_utf8_lossy(&output.stderr).into()));
    }
    Ok(Dumps { printed: output.stdout, out, _folder: folder })
}

impl Dumps {
    /// The dumps, in their order.
    ///
    /// # Errors
    /// [`Error::Rival`] if one cannot be read, or there is none.
    pub(super) fn texts(&self) -> Result<Vec<String>, Error> {
        let path = |number: usize| self.out.with_extension(number.to_string());
        let paths = (1..).map(path).take_while(|path| path.exists());
        let texts: Vec<String> = paths
            .map(fs::read_to_string)
            .collect::<Result<_, _>>()
            .map_err(|source| failed("callgrind")(Box::new(source)))?;
        if texts.is_empty() {
            return Err(failed("callgrind")("it has counted nothing".into()));
        }
        Ok(texts)
    }

    /// Instructions of each dump.
    ///
    /// # Errors
    /// As of [`texts`](Dumps::texts).
    pub(super) fn totals(&self) -> Result<Vec<f64>, Error> {
        let total = |text: &String| -> Option<f64> {
            let total = text.lines().rev().find_map(|line| line.strip_prefix("totals: "));
            total?.trim().parse().ok()
        };
        let totals: Option<Vec<f64>> = self.texts()?.iter().map(total).collect();
        totals.ok_or_else(|| failed("callgrind")("a dump without a total".into()))
    }
}
