//! The report as one HTML file that needs nothing else, and as pages for the repository.

mod aims;
mod baselines;
mod claims;
mod colour;
mod groups;
mod html;
mod markdown;
mod overview;
mod plot;
mod scale;

pub use claims::agreement;
pub use html::html;
pub(crate) use markdown::date;
pub use markdown::{markdown, plots};
pub(crate) use scale::figure;

use crate::finding::{Missing, Report};
use crate::spread::Spread;

/// What could not be done, each once: an earlier program said less of what it left out than a later one.
fn missing(report: &Report) -> Vec<&Missing> {
    let all = &report.missing;
    let is_said_better = |one: &Missing| {
        all.iter().any(|other| other.name != one.name && other.name.starts_with(&one.name))
    };
    all.iter().filter(|one| !is_said_better(one)).collect()
}

/// Text that is safe within HTML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A figure with its spread.
fn spread(value: Spread) -> String {
    let [median, worst, best] = [value.median, value.worst, value.best].map(figure);
    if worst == best { median } else { format!("{median} ({worst}–{best})") }
}
