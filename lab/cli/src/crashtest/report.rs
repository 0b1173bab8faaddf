//! What a crash test reports, to people and to programs.

use serde::Serialize;
use tembo_torture::{Mutation, Outcome, Redundancy, Target, Violation};

use crate::output::Lines;

/// An exploration.
#[derive(Serialize)]
pub(super) struct Explored<'o> {
    structure: &'static str,
    model: &'static str,
    seed: u64,
    images: u64,
    distinct: u64,
    steps: usize,
    seconds: f64,
    violation: Option<Found<'o>>,
}

/// A violation.
#[derive(Serialize)]
struct Found<'o> {
    workload: &'o str,
    what: &'o str,
    replay: &'o str,
}

impl<'o> From<&'o Violation> for Found<'o> {
    fn from(violation: &'o Violation) -> Found<'o> {
        let Violation { what, workload, replay } = violation;
        Found { workload, what, replay }
    }
}

impl<'o> Explored<'o> {
    pub(super) fn of(outcome: &'o Outcome, seed: u64) -> Explored<'o> {
        Explored {
            structure: outcome.target.structure.name(),
            model: outcome.target.model.name(),
            seed,
            images: outcome.images,
            distinct: outcome.distinct,
            steps: outcome.steps.len(),
            seconds: outcome.elapsed.as_secs_f64(),
            violation: outcome.violation.as_ref().map(Found::from),
        }
    }

    pub(super) fn lines(&self) -> Lines {
        let mut lines = Lines::default();
        lines.add("structure", format!("{}, {}", self.structure, self.model));
        lines.add("images", self.images);
        lines.add("distinct", format!("{} in what was read of them", self.distinct));
        lines.add("named steps", self.steps);
        lines.add("time", format!("{:.1} s", self.seconds));
        match &self.violation {
            None => lines.add("result", "no violation"),
            Some(Found { workload, what, replay }) => {
                lines.add("VIOLATION", format!("{workload}: {what}"));
                lines.add("replay", replay);
            }
        }
        lines
    }
}

/// A mutation that was tried.
#[derive(Serialize)]
pub(super) struct Proved<'o> {
    structure: &'static str,
    model: &'static str,
    step: &'o str,
    twist: &'static str,
    missed: bool,
    images: u64,
    seconds: f64,
    violation: Option<Found<'o>>,
}

impl<'o> Proved<'o> {
    pub(super) fn of(mutation: &'o Mutation, outcome: &'o Outcome) -> Proved<'o> {
        Proved {
            structure: outcome.target.structure.name(),
            model: outcome.target.model.name(),
            step: &mutation.step,
            twist: mutation.twist.name(),
            missed: outcome.violation.is_some(),
            images: outcome.images,
            seconds: outcome.elapsed.as_secs_f64(),
            violation: outcome.violation.as_ref().map(Found::from),
        }
    }

    /// A row of the table; with all that was found, if it was asked for alone.
    pub(super) fn line(&self, alone: bool) -> String {
        let found = match &self.violation {
            Some(Found { workload, .. }) => format!("missed by {workload}"),
            None => "NOT MISSED".to_owned(),
        };
        let mut line = format!(
            "{:36} {:9} {:9} {:>8} images  {found}",
            self.step, self.structure, self.twist, self.images
        );
        if let (true, Some(Found { what, replay, .. })) = (alone, &self.violation) {
            line += &format!("\n{what}\nreplay  {replay}");
        }
        line
    }
}

/// Steps that bought nothing.
#[derive(Serialize)]
pub(super) struct Wasted {
    structure: &'static str,
    flushes: Vec<Row>,
    fences: Vec<Row>,
    never_flushed: Vec<Row>,
}

/// How often a step was done, and how often in vain.
#[derive(Serialize)]
struct Row {
    step: &'static str,
    count: u64,
    idle: u64,
}

impl Wasted {
    pub(super) fn of(target: Target, found: &Redundancy) -> Wasted {
        let rows = |done: &std::collections::BTreeMap<&'static str, tembo_torture::Done>| {
            let all =
                done.iter().map(|(&step, done)| Row { step, count: done.count, idle: done.idle });
            all.filter(|row| row.idle > 0).collect()
        };
        let never = found.unflushed.iter();
        Wasted {
            structure: target.structure.name(),
            flushes: rows(&found.flushes),
            fences: rows(&found.fences),
            never_flushed: never.map(|(&step, &count)| Row { step, count, idle: count }).collect(),
        }
    }

    pub(super) fn add_to(&self, lines: &mut Lines) {
        lines.add("structure", self.structure);
        for (name, rows) in
            [("clean line flushed", &self.flushes), ("fence of nothing", &self.fences)]
        {
            for Row { step, count, idle } in rows {
                lines.add(name, format!("{step}: {idle} of {count}"));
            }
        }
        for Row { step, count, .. } in &self.never_flushed {
            lines.add("never flushed", format!("{count} stores, last {step}"));
        }
    }
}
