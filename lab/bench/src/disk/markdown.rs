//! The report as a page for the repository.

use std::fmt::Write;

use super::contender::is_tembo;
use super::report::{Bounds, DiskCell, DiskReport};
use super::spec::{Part, Phase, Spec};
use crate::page::{date, figure};
use crate::spread::Spread;

/// The page. Writing to a string cannot fail, here and below.
pub fn disk_markdown(report: &DiskReport) -> String {
    let mut out = String::new();
    let title = title(report);
    let kind = if report.quick { "**A quick run: its numbers mean nothing.** " } else { "" };
    let _ = write!(
        out,
        "# {title}\n\nWritten by `tembo-lab bench disk`; not by hand. {}: {}.\n{kind}Each contender has {} MiB of memory: {}.\n\n",
        date(report.time_s),
        report.machine,
        report.memory >> 20,
        report.limit,
    );
    if let Some(extent) = extent(report) {
        let _ = write!(out, "{extent}\n\n");
    }
    out.push_str(HEAD);
    missed(&mut out, report);
    for group in groups(&report.cells) {
        section(&mut out, &group);
    }
    settings(&mut out, &report.cells);
    out
}

/// The title of the page, with the sizes.
fn title(report: &DiskReport) -> String {
    let ratios = report.cells.iter().map(|cell| cell.ratio);
    let largest = ratios.fold(0.0, f64::max);
    let memory = report.memory >> 20;
    match largest > 0.0 {
        true => format!(
            "Stores of up to {} MiB in {memory} MiB of memory, on a disk",
            figure(largest * memory as f64)
        ),
        false => format!("Stores in {memory} MiB of memory, on a disk"),
    }
}

/// The extent of the run, in a sentence.
fn extent(report: &DiskReport) -> Option<String> {
    let Bounds { seconds, load_seconds } = report.bounds?;
    let rounds = report.cells.iter().map(|cell| cell.round).max().unwrap_or_default();
    let rounds = if rounds == 1 { "One round".into() } else { format!("{rounds} rounds") };
    Some(format!(
        "{rounds}; a phase lasts {seconds} s, a load at most {load_seconds} s and then, in the order of the keys, {} s.",
        Spec::FILL * load_seconds
    ))
}

fn missed(out: &mut String, report: &DiskReport) {
    if !report.missed.is_empty() {
        out.push_str("\nNot measured:\n\n");
    }
    for what in &report.missed {
        let _ = writeln!(out, "- {what}");
    }
}

const HEAD: &str = "Keys have 16 bytes, values are random bytes, each commit is synced before it returns, one thread calls. Contenders alternate; a number is the median of the rounds (least–greatest). Bytes are those that the disk counts (`/sys/dev/block/*/stat`), whatever else uses it; in brackets those that the kernel counts for the process (`/proc/PID/io`), without what the file system adds, and of large folios more than is written. `*`: the time was over before all was done, so the rate is of what was done; what a load has left is then put in the order of the keys (*fill*), within a bound of its own; where that was too short as well, it is said below the table how many records were there. A get is measured when it has gone on for half of its time. Latencies are of what one caller waits for: an operation, or a commit of 200.\n";

/// Cells that belong into one table.
fn groups(cells: &[DiskCell]) -> Vec<Vec<&DiskCell>> {
    let mut groups: Vec<Vec<&DiskCell>> = Vec::new();
    let key = |cell: &DiskCell| (cell.part, cell.value_size, cell.ratio.to_bits());
    for cell in cells {
        match groups.iter_mut().find(|group| group.iter().any(|own| key(own) == key(cell))) {
            Some(group) => group.push(cell),
            None => groups.push(vec![cell]),
        }
    }
    groups.sort_by_key(|group| group.first().map(|cell| key(cell)));
    groups
}

/// The contenders of a group, in the order in which they came in the first round.
fn titles<'c>(group: &[&'c DiskCell]) -> Vec<&'c str> {
    let mut titles: Vec<&str> = Vec::new();
    for cell in group {
        if !titles.contains(&cell.title.as_str()) {
            titles.push(&cell.title);
        }
    }
    titles
}

fn names<'c, T: 'c>(
    group: &[&'c DiskCell],
    of: impl Fn(&'c DiskCell) -> &'c [T],
    name: impl Fn(&'c T) -> &'c str,
) -> Vec<&'c str> {
    let mut names: Vec<&str> = Vec::new();
    for one in group.iter().flat_map(|cell| of(cell)) {
        if !names.contains(&name(one)) {
            names.push(name(one));
        }
    }
    names
}

fn section(out: &mut String, group: &[&DiskCell]) {
    let Some(first) = group.first() else { return };
    let DiskCell { value_size, ratio, records, .. } = first;
    let _ = match first.part {
        Part::Table => write!(
            out,
            "\n## Values of {value_size} B, {ratio} times the memory ({records} records)\n"
        ),
        Part::Ycsb => write!(
            out,
            "\n## YCSB, {ratio} times the memory ({records} records of {value_size} B)\n"
        ),
        Part::Churn => write!(
            out,
            "\n## Space after churn, {ratio} times the memory\n\nA quarter of the operations removes, the rest puts values of 256 to 2048 B, until four times as many bytes were put as were loaded.\n"
        ),
        Part::Restart => write!(
            out,
            "\n## After SIGKILL in the middle of overwrites, {ratio} times the memory\n\nThe page cache of the group was given back before the opening.\n"
        ),
        Part::Server => write!(
            out,
            "\n## Servers, values of {value_size} B\n\n`redis-benchmark -c 50 -r 100000`, in the memory group of the server.\n"
        ),
    };
    let mut commands: Vec<&str> = group.iter().map(|cell| &cell.command[..]).collect();
    commands.sort_unstable();
    commands.dedup();
    for command in commands {
        let _ = write!(out, "\n`{command}`\n");
    }
    let phases = names(group, |cell| &cell.phases, |phase| &phase.name);
    if !phases.is_empty() {
        rates(out, group, &phases);
        bytes(out, group, &phases);
        latencies(out, group, &phases);
    }
    figures(out, group);
    failures(out, group);
}

/// A table with a row for each contender; the first column is its name.
fn head(out: &mut String, title: &str, columns: &[&str]) {
    let _ = write!(out, "\n{title}:\n\n| |");
    for column in columns {
        let _ = write!(out, " {column} |");
    }
    let _ = write!(out, "\n|---|{}\n", "---|".repeat(columns.len()));
}

/// What `of` says of a phase, over the rounds of a contender.
fn over_rounds(
    group: &[&DiskCell],
    title: &str,
    phase: &str,
    of: impl Fn(&Phase) -> Option<f64>,
) -> Option<Spread> {
    let cells = group.iter().filter(|cell| cell.title == title);
    let phases = cells.filter_map(|cell| cell.phases.iter().find(|own| own.name == phase));
    Spread::of(phases.filter_map(of))
}

fn text(spread: Option<Spread>) -> String {
    let Some(Spread { median, best, worst }) = spread else { return "–".into() };
    let [median, best, worst] = [median, best, worst].map(figure);
    if worst == best { median } else { format!("{median} ({worst}–{best})") }
}

fn rates(out: &mut String, group: &[&DiskCell], phases: &[&str]) {
    head(out, "Operations a second (of a scan: entries)", phases);
    for title in titles(group) {
        let _ = write!(out, "| {title} |");
        for phase in phases {
            let is_cut = over_rounds(group, title, phase, |phase| {
                (phase.is_cut && phase.name != "scan").then_some(1.0)
            });
            let mark = if is_cut.is_some() { " *" } else { "" };
            let rate = text(over_rounds(group, title, phase, |phase| Some(phase.rate())));
            let _ = write!(out, " {rate}{mark} |");
        }
        out.push('\n');
    }
    for cell in group.iter().filter(|cell| is_tembo(&cell.contender) && cell.round == 1) {
        let _ = write!(out, "| *{} to the best rival* |", cell.title);
        for phase in phases {
            let _ = write!(out, " {} |", against_best(group, &cell.title, phase));
        }
        out.push('\n');
    }
}

/// A contender's rate to that of the best rival in the same round, and which that is.
fn against_best(group: &[&DiskCell], title: &str, phase: &str) -> String {
    let rate = |title: &str| over_rounds(group, title, phase, |phase| Some(phase.rate()));
    let rivals = group.iter().filter(|cell| !is_tembo(&cell.contender) && cell.round == 1);
    let rated = rivals.filter_map(|cell| Some((rate(&cell.title)?.median, &cell.title[..])));
    let Some((_, best)) = rated.max_by(|a, b| a.0.total_cmp(&b.0)) else { return "–".into() };
    let in_round = |title: &str, round: u32| {
        let cell = group.iter().find(|cell| cell.title == title && cell.round == round)?;
        cell.phases.iter().find(|own| own.name == phase).map(Phase::rate)
    };
    let rounds = group.iter().filter(|cell| cell.title == title).map(|cell| cell.round);
    let ratios = rounds.filter_map(|round| Some(in_round(title, round)? / in_round(best, round)?));
    match Spread::of(ratios) {
        Some(ratio) => format!("{} of {best}", text(Some(ratio))),
        None => "–".into(),
    }
}

fn bytes(out: &mut String, group: &[&DiskCell], phases: &[&str]) {
    let title = "Bytes written to a byte of keys and values (by the process's count), and read for each operation";
    head(out, title, phases);
    for title in titles(group) {
        let _ = write!(out, "| {title} |");
        for phase in phases {
            let of = |what: fn(&Phase) -> Option<f64>| {
                over_rounds(group, title, phase, what)
                    .map_or("–".into(), |spread| figure(spread.median))
            };
            let by_disk = of(|phase| phase.write_amplification()?.0);
            let by_process = of(|phase| Some(phase.write_amplification()?.1));
            let read = of(|phase| Some(phase.read_per_operation()));
            let _ = write!(out, " {by_disk} ({by_process}), {read} |");
        }
        out.push('\n');
    }
}

fn latencies(out: &mut String, group: &[&DiskCell], phases: &[&str]) {
    head(out, "Latency in µs: 50 %, 99 %, 99.9 %, the longest (medians of the rounds)", phases);
    for title in titles(group) {
        let _ = write!(out, "| {title} |");
        for phase in phases {
            let of = |ns: fn(&Phase) -> u64| {
                let spread = over_rounds(group, title, phase, |phase| Some(ns(phase) as f64 / 1e3));
                spread.map_or("–".into(), |spread| figure(spread.median))
            };
            let all = [
                of(|phase| phase.latency.median_ns),
                of(|phase| phase.latency.p99_ns),
                of(|phase| phase.latency.p999_ns),
                of(|phase| phase.latency.max_ns),
            ];
            let _ = write!(out, " {} |", all.join(", "));
        }
        out.push('\n');
    }
}

fn figures(out: &mut String, group: &[&DiskCell]) {
    let names = names(group, |cell| &cell.figures, |figure| &figure.name);
    if names.is_empty() {
        return;
    }
    let unit = |name: &str| {
        let mut figures = group.iter().flat_map(|cell| &cell.figures);
        figures.find(|figure| figure.name == name).map_or("", |figure| &figure.unit[..])
    };
    let columns: Vec<String> = names.iter().map(|name| format!("{name}, {}", unit(name))).collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    head(out, "Other numbers", &columns);
    for title in titles(group) {
        let _ = write!(out, "| {title} |");
        for name in &names {
            let cells = group.iter().filter(|cell| cell.title == title);
            let figures = cells.flat_map(|cell| &cell.figures).filter(|own| own.name == *name);
            let _ = write!(out, " {} |", text(Spread::of(figures.map(|figure| figure.value))));
        }
        out.push('\n');
    }
}

fn failures(out: &mut String, group: &[&DiskCell]) {
    for cell in group {
        if let Some(count) = cell.partly_loaded() {
            let _ = write!(
                out,
                "\nRound {}, {}: **{count} of {} records were loaded within the bound**; its other numbers are over these.\n",
                cell.round, cell.title, cell.records
            );
        }
        if let Some(why) = &cell.failure {
            let _ = write!(out, "\nRound {}, {}: {why}.\n", cell.round, cell.title);
        }
    }
}

fn settings(out: &mut String, cells: &[DiskCell]) {
    out.push_str("\n## Settings\n\nWhat is not its default; memory and caches in bytes.\n\n| | values of | |\n|---|---|---|\n");
    let mut rows: Vec<(&str, usize, String)> = cells
        .iter()
        .filter(|cell| !cell.settings.is_empty())
        .map(|cell| (&cell.title[..], cell.value_size, cell.settings.join(", ")))
        .collect();
    rows.sort_unstable();
    rows.dedup();
    for (title, value_size, settings) in rows {
        let _ = writeln!(out, "| {title} | {value_size} B | {settings} |");
    }
}

#[cfg(test)]
mod tests {
    use super::super::traffic::Traffic;
    use super::*;
    use crate::machine::Machine;
    use crate::outcome::Latency;

    fn phase(name: &str, operations: u64) -> Phase {
        Phase {
            name: name.into(),
            operations,
            seconds: 1.0,
            is_cut: true,
            latency: Latency { median_ns: 1, p99_ns: 2, p999_ns: 3, max_ns: 4 },
            payload_written: 0,
            traffic: Traffic::default(),
            disk: None,
        }
    }

    fn cell(phases: Vec<Phase>) -> DiskCell {
        DiskCell {
            part: Part::Table,
            contender: "lmdb".into(),
            title: "LMDB".into(),
            value_size: 1024,
            ratio: 8.0,
            records: 1000,
            round: 1,
            command: String::new(),
            settings: Vec::new(),
            phases,
            figures: Vec::new(),
            failure: None,
        }
    }

    fn page(cell: DiskCell) -> String {
        let bounds = Some(Bounds { seconds: 3.0, load_seconds: 10.0 });
        let (limit, missed) = ("a group".into(), vec!["fjall: gone".into()]);
        let (machine, cells) = (Machine::this(), vec![cell]);
        let (time_s, quick, memory) = (0, false, 64 << 20);
        disk_markdown(&DiskReport { machine, time_s, quick, memory, limit, bounds, cells, missed })
    }

    #[test]
    fn a_page_says_how_much_was_done_and_what_was_not() {
        let page = page(cell(vec![phase("load", 300), phase("fill", 200), phase("scan", 7)]));
        assert!(page.starts_with("# Stores of up to 512 MiB in 64 MiB of memory, on a disk\n"));
        assert!(page.contains("\nOne round; a phase lasts 3 s, a load at most 10 s and then"));
        assert!(page.contains("\nNot measured:\n\n- fjall: gone\n"));
        let partly = "Round 1, LMDB: **500 of 1000 records were loaded within the bound**";
        assert!(page.contains(partly), "{page}");
    }

    #[test]
    fn what_is_loaded_wholly_or_only_opened_is_not_called_partly_loaded() {
        assert_eq!(cell(vec![phase("load", 300), phase("fill", 700)]).partly_loaded(), None);
        assert_eq!(cell(vec![phase("100 gets", 100)]).partly_loaded(), None);
    }
}
