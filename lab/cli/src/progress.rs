//! Progress on a terminal; silence into a file or pipe.

use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Counts towards `count` what is done with `what`. Hidden unless standard error is a terminal.
pub(crate) fn images(count: u64, what: &'static str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let template = "{msg:8} {bar:40} {human_pos} of {human_len}, {per_sec}, {eta} left";
    styled(ProgressBar::new(count), template).with_message(what)
}

/// Counts towards `count` what threads do. Hidden unless standard error is a terminal.
pub(crate) fn operations(count: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    styled(ProgressBar::new(count), "{bar:40} {human_pos} of {human_len}, {per_sec}, {eta} left")
}

/// Counts towards `count` the trials of an experiment. Hidden unless standard error is a terminal.
pub(crate) fn trials(count: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    // The spinner and the message move within an experiment, the bar between two; what is too long is cut.
    let bar =
        styled(ProgressBar::new(count), "{spinner} {bar:10} {pos} of {len}, {elapsed}, {wide_msg}");
    bar.enable_steady_tick(TICK);
    bar
}

/// Columns of a terminal that does not say how many it has.
const COLUMNS: usize = 80;

/// How many letters a line has where this writes to; `None` into a file or pipe.
pub(crate) fn columns(out: &(impl AsFd + IsTerminal)) -> Option<usize> {
    if !out.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(out).ok();
    let columns = size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
    Some(columns.unwrap_or(COLUMNS))
}

/// Between two steps of the spinner.
const TICK: Duration = Duration::from_millis(250);

fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        // The default style will do.
        Err(_) => bar,
    }
}
