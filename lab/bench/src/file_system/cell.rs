//! Small files by processes of their own.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use super::directory::Directory;
use super::small::Small;
use crate::Error;

/// What a process says when it may begin.
const READY: &str = "ready";

/// The part of a measurement that a process does: `tembo-lab bench files-cell`. If it waits, it says on its output
/// that it is there, and begins when its input has a line or ends.
///
/// # Errors
/// Those of the files.
pub fn files_cell(directory: &Path, first: u64, count: u64, waits: bool) -> Result<(), Error> {
    if waits {
        let mut output = io::stdout().lock();
        writeln!(output, "{READY}")?;
        output.flush()?;
        io::stdin().lock().read_line(&mut String::new())?;
    }
    Small { first, count }.make(&Directory(directory.to_owned()))
}

fn command(lab: &Path, directory: &Path, small: Small) -> Command {
    let mut command = Command::new(lab);
    command.args(["bench", "files-cell", "--directory"]).arg(directory);
    command.args(["--first", &small.first.to_string(), "--count", &small.count.to_string()]);
    command
}

fn failed(what: &str) -> impl Fn(io::Error) -> Error {
    move |source| Error::Process { contender: what.to_owned(), source }
}

/// Processes that wait for the word to begin. They end with this.
pub(crate) struct Cells(Vec<(Child, BufReader<ChildStdout>)>);

impl Cells {
    /// Starts one for each part; all are ready when it returns.
    pub(crate) fn start(lab: &Path, directory: &Path, parts: &[Small]) -> Result<Cells, Error> {
        let mut cells = Cells(Vec::new());
        for &part in parts {
            let mut command = command(lab, directory, part);
            command.arg("--waits").stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().map_err(failed("small files"))?;
            let Some(output) = child.stdout.take() else { return Err(Error::Panicked) };
            cells.0.push((child, BufReader::new(output)));
        }
        for (_, output) in &mut cells.0 {
            let mut line = String::new();
            output.read_line(&mut line).map_err(failed("small files"))?;
            if line.trim() != READY {
                return Err(failed("small files")(io::Error::other("it has not begun")));
            }
        }
        Ok(cells)
    }

    /// Lets all begin, and waits for all.
    pub(crate) fn run(mut self) -> Result<Duration, Error> {
        let begin = Instant::now();
        for (child, _) in &mut self.0 {
            // The end of its input is the word.
            drop(child.stdin.take());
        }
        for (child, _) in &mut self.0 {
            let status = child.wait().map_err(failed("small files"))?;
            if !status.success() {
                return Err(failed("small files")(io::Error::other(status.to_string())));
            }
        }
        Ok(begin.elapsed())
    }
}

impl Drop for Cells {
    fn drop(&mut self) {
        for (child, _) in &mut self.0 {
            // One that has ended is not there any more.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Makes the files in one `tembo txn` on a mount.
pub(crate) fn in_transaction(
    tembo: &Path,
    lab: &Path,
    directory: &Path,
    small: Small,
) -> Result<Duration, Error> {
    let cell = command(lab, directory, small);
    let mut transaction = Command::new(tembo);
    transaction.arg("txn").arg(directory).arg("--").arg(cell.get_program()).args(cell.get_args());
    let begin = Instant::now();
    let output = transaction.output().map_err(failed("tembo txn"))?;
    let elapsed = begin.elapsed();
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(failed("tembo txn")(io::Error::other(text)));
    }
    Ok(elapsed)
}
