//! The findings of experiments: the source of the page and the tables, kept as JSON.

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::spread::Spread;

/// A run of experiments.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Where.
    pub machine: Machine,
    /// Seconds since 1970, at the end.
    pub time_s: u64,
    /// Few keys and rounds.
    pub quick: bool,
    /// The seed of keys and orders.
    pub seed: u64,
    /// The commit that was built, as far as the folder knows.
    #[serde(default)]
    pub commit: String,
    /// The command that ran.
    #[serde(default)]
    pub command: String,
    /// The findings, in the order of the experiments.
    pub findings: Vec<Finding>,
    /// What could not be done, and why.
    pub missing: Vec<Missing>,
}

/// When, where and of what an experiment was measured. A full run takes hours, and may go on another day.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Seconds since 1970, at its end.
    pub time_s: u64,
    /// How long it took, in seconds.
    pub lasted_s: u64,
    /// Where, and how many other processes wanted a processor when it began.
    pub machine: Machine,
    /// The commit that was built, as far as the folder knows.
    pub commit: String,
    /// The command that ran.
    pub command: String,
    /// Rounds.
    pub rounds: u32,
}

/// An experiment that could not be done here.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Missing {
    /// Its name, or that of the figure.
    pub name: String,
    /// Why not.
    pub reason: String,
}

/// The finding of one experiment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Finding {
    /// The experiment's name on the command line.
    pub name: String,
    /// What it is about.
    pub title: String,
    /// Where it comes from.
    pub source: String,
    /// One honest sentence, or two.
    pub sentence: String,
    /// Plots; each is also a table.
    pub charts: Vec<Chart>,
    /// The document's own figures, and those of this run.
    pub claims: Vec<Claim>,
    /// Tembo against others, for the first view.
    pub duels: Vec<Duel>,
    /// Notes that a reader needs to judge it.
    pub notes: Vec<String>,
    /// Its own measurement; `None` in reports of earlier programs, where that of the report counts.
    #[serde(default)]
    pub measured: Option<Measured>,
}

/// A plot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// What its x axis is.
    pub x: String,
    /// What its y axis is, with the unit.
    pub y: String,
    /// How it is drawn.
    pub shape: Shape,
    /// What it is made of.
    pub series: Vec<Series>,
}

/// How a chart is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Bars from zero, grouped by place.
    Bars,
    /// Bars on a logarithmic scale.
    LogBars,
    /// Lines over the places, from zero.
    Lines,
    /// Lines on a logarithmic scale.
    LogLines,
    /// A row of cells for each series, shaded by their values.
    Heat,
}

/// A named row of points.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Series {
    /// What the points are of.
    pub name: String,
    /// Its points, in their order.
    pub points: Vec<Point>,
}

/// A point of a series.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Point {
    /// Its place on the x axis.
    pub at: String,
    /// Its value over all rounds.
    pub value: Spread,
}

/// A document's figure and ours.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Claim {
    /// What it says.
    pub what: String,
    /// The value in the document.
    pub document: String,
    /// The value of this run.
    pub here: String,
}

/// Tembo's throughput divided by another store's, in the same rounds: above 1 Tembo is faster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Duel {
    /// The operation that is compared.
    pub what: String,
    /// The other one.
    pub rival: String,
    /// How much faster.
    pub ratio: Spread,
}

impl Report {
    /// With what an older report has of experiments that this one did not do, in the order of `names`. What no program can do
    /// is what the later one says.
    pub(crate) fn with_older(mut self, older: Report, names: &[&str]) -> Report {
        let has = |name: &str, report: &Report| {
            let found = report.findings.iter().any(|finding| finding.name == name);
            found || report.missing.iter().any(|missing| missing.name == name)
        };
        let kept = older.findings.into_iter().filter(|finding| !has(&finding.name, &self));
        let findings: Vec<Finding> = kept.collect();
        self.findings.extend(findings);
        let place = |finding: &Finding| names.iter().position(|name| *name == finding.name);
        self.findings.sort_by_key(place);
        let is_experiment = |missing: &Missing| names.contains(&&missing.name[..]);
        let kept = older.missing.into_iter();
        let kept = kept.filter(|missing| is_experiment(missing) && !has(&missing.name, &self));
        let missing: Vec<Missing> = kept.collect();
        self.missing.extend(missing);
        self
    }
}

impl Finding {
    /// An empty one.
    pub(crate) fn new(name: &str, title: &str, source: &str) -> Finding {
        Finding {
            name: name.into(),
            title: title.into(),
            source: source.into(),
            ..Finding::default()
        }
    }

    /// Adds a claim, if there is a figure of it here.
    pub(crate) fn claim(&mut self, what: &str, document: &str, here: Option<String>) {
        let here = here.unwrap_or_else(|| "not measured".into());
        self.claims.push(Claim { what: what.into(), document: document.into(), here });
    }

    /// Adds a duel, if both took part.
    pub(crate) fn duel(&mut self, what: &str, rival: &str, ratio: Option<Spread>) {
        if let Some(ratio) = ratio {
            self.duels.push(Duel { what: what.into(), rival: rival.into(), ratio });
        }
    }

    /// Adds a note.
    pub(crate) fn note(&mut self, note: &str) {
        self.notes.push(note.into());
    }
}

/// A ratio as text: its median and its spread.
pub(crate) fn times(ratio: Option<Spread>) -> Option<String> {
    ratio.map(|Spread { median, best, worst }| format!("{median:.2}× ({worst:.2}–{best:.2})"))
}

/// A ratio as a gain in percent.
pub(crate) fn percent_more(ratio: Option<Spread>) -> Option<String> {
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    ratio.map(|Spread { median, best, worst }| {
        format!("{:+.0} % ({:+.0} to {:+.0})", percent(median), percent(worst), percent(best))
    })
}
