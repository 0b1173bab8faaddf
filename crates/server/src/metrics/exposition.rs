//! The text format of Prometheus: families of metrics, each with its kind and its samples.

use std::fmt::{Display, Write};

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It only grows.
    Counter,
    /// It grows and shrinks.
    Gauge,
    /// It counts values by their size.
    Histogram,
}

/// The text, as far as it is written.
#[derive(Default)]
pub(super) struct Exposition {
    text: String,
    name: &'static str,
}

impl Exposition {
    /// Begins a family; its samples follow.
    pub(super) fn family(&mut self, name: &'static str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        self.name = name;
        // Writing to a string cannot fail.
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    /// A sample of the family.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.sample_of("", labels, value);
    }

    /// A family of one sample without labels.
    pub(super) fn single(
        &mut self,
        name: &'static str,
        kind: Kind,
        help: &str,
        value: impl Display,
    ) {
        self.family(name, kind, help);
        self.sample(&[], value);
    }

    /// A histogram of the family: the counts of values up to each bound, of all, and their sum.
    pub(super) fn histogram(
        &mut self,
        label: (&str, &str),
        counts: impl Iterator<Item = (f64, u64)>,
        (count, sum): (u64, f64),
    ) {
        for (bound, up_to) in counts {
            self.sample_of("_bucket", &[label, ("le", &bound.to_string())], up_to);
        }
        self.sample_of("_bucket", &[label, ("le", "+Inf")], count);
        self.sample_of("_sum", &[label], sum);
        self.sample_of("_count", &[label], count);
    }

    fn sample_of(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(self.name);
        self.text.push_str(suffix);
        for (number, (label, text)) in labels.iter().enumerate() {
            self.text.push(if number == 0 { '{' } else { ',' });
            self.text.push_str(label);
            self.text.push_str("=\"");
            for letter in text.chars() {
                match letter {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    _ => self.text.push(letter),
                }
            }
            self.text.push('"');
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{end} {value}");
    }

    /// The whole text.
    pub(super) fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_histograms_end_with_all() {
        let mut text = Exposition::default();
        text.single("a", Kind::Gauge, "An a.", 1.5);
        text.family("b", Kind::Counter, "Some bs.");
        text.sample(&[("of", "x\\\"\n")], 2);
        text.family("c", Kind::Histogram, "Times.");
        text.histogram(("of", "y"), [(0.1, 3)].into_iter(), (4, 0.5));
        let expected = "# HELP a An a.\n# TYPE a gauge\na 1.5\n# HELP b Some bs.\n# TYPE b counter\nb{of=\"x\\\\\\\"\\n\"} 2\n\
                        # HELP c Times.\n# TYPE c histogram\nc_bucket{of=\"y\",le=\"0.1\"} 3\nc_bucket{of=\"y\",le=\"+Inf\"} 4\n\
                        c_sum{of=\"y\"} 0.5\nc_count{of=\"y\"} 4\n";
        assert_eq!(text.into_text(), expected);
    }
}
