//! The report as one HTML file that needs nothing else, and as pages for the repository.

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

use crate::spread::Spread;

/// Text that is safe within HTML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A figure with its spread.
fn spread(value: Spread) -> String {
    let [median, worst, best] = [value.median, value.worst, value.best].map(figure);
    if worst == best { median } else { format!("{median} ({worst}–{best})") }
}
