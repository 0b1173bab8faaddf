//! Progress on a terminal; silence into a file or pipe.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

/// Counts keys, if `wanted` and standard error is a terminal.
pub(crate) fn keys(wanted: bool) -> ProgressBar {
    if !wanted || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    styled(ProgressBar::new_spinner(), "{spinner} {human_pos} keys, {per_sec}")
}

/// Counts objects that are moved, if standard error is a terminal.
pub(crate) fn objects() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    styled(ProgressBar::new_spinner(), "{spinner} {human_pos} objects moved, {per_sec}")
}

/// Counts bytes, if standard error is a terminal.
pub(crate) fn written() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    styled(ProgressBar::new_spinner(), "{spinner} {bytes} written, {bytes_per_sec}")
}

/// Counts bytes towards `size`, if it is known and standard error is a terminal.
pub(crate) fn bytes(size: Option<u64>) -> ProgressBar {
    let Some(size) = size.filter(|_| std::io::stderr().is_terminal()) else {
        return ProgressBar::hidden();
    };
    let template = "{bar:40} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
    styled(ProgressBar::new(size), template)
}

fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        // The default style will do.
        Err(_) => bar,
    }
}
