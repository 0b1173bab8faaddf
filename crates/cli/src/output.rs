//! What a command prints: for people, or as one JSON object for programs.

use std::fmt::Display;
use std::io::{self, Write};

use serde::Serialize;

/// Prints `report` as JSON, or as aligned lines of name and value.
pub(crate) fn print(json: bool, report: &impl Serialize, lines: &Lines) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    if json {
        serde_json::to_writer(&mut out, report)?;
        writeln!(out)?;
    } else {
        let width = lines.0.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in &lines.0 {
            writeln!(out, "{name:width$}  {value}")?;
        }
    }
    Ok(out.flush()?)
}

/// Lines of name and value.
#[derive(Default)]
pub(crate) struct Lines(Vec<(&'static str, String)>);

impl Lines {
    pub(crate) fn add(&mut self, name: &'static str, value: impl Display) {
        self.0.push((name, value.to_string()));
    }
}

/// Prints one line at once, even into a pipe.
pub(crate) fn print_line(json: bool, report: &impl Serialize, line: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string(report)?)?;
    } else {
        writeln!(out, "{line}")?;
    }
    Ok(out.flush()?)
}

/// Prints one line at once, for people.
pub(crate) fn line(line: impl Display) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}
