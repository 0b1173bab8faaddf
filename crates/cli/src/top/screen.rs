//! A sample as lines of text, and on a terminal.

use super::sample::Sample;
use crate::bytes::Bytes;

/// The lines that show a sample.
pub(super) fn lines(sample: &Sample) -> Vec<String> {
    let mut lines = heads(sample);
    if !sample.stages.is_empty() {
        lines.push(String::new());
        lines.push(row(["stage, µs", "p50", "p99", "p99.9", "max"].map(str::to_owned)));
        for stage in &sample.stages {
            let times = [stage.p50, stage.p99, stage.p999, stage.max].map(|us| us.to_string());
            let [p50, p99, p999, max] = times;
            lines.push(row([stage.name.clone(), p50, p99, p999, max]));
        }
    }
    if !sample.commands.is_empty() {
        lines.push(String::new());
        lines.push(row(["command", "calls", "calls/s", "µs a call", "failed"].map(str::to_owned)));
        for command in &sample.commands {
            let rate =
                command.calls_per_second.map_or_else(|| "-".to_owned(), |rate| rate.to_string());
            let (calls, failed) = (command.calls.to_string(), command.failed.to_string());
            let us = format!("{:.1}", command.us_per_call);
            lines.push(row([command.name.clone(), calls, rate, us, failed]));
        }
    }
    for replica in &sample.replicas {
        let (address, state) = (&replica.address, &replica.state);
        lines.push(format!("replica   {address} {state}, {} s behind", replica.lag_s));
    }
    if !sample.slow.is_empty() {
        lines.push(String::new());
        lines.push("slow commands, the last first".to_owned());
        let slow = sample.slow.iter();
        lines.extend(slow.map(|slow| format!("{:>10} µs  {}", slow.us, slow.command)));
    }
    lines
}

fn row([name, others @ ..]: [String; 5]) -> String {
    let others = others.map(|other| format!("{other:>12}"));
    format!("{name:<24}{}", others.concat())
}

fn heads(sample: &Sample) -> Vec<String> {
    let (server, clients) = (&sample.server, &sample.clients);
    let (memory, pool) = (&sample.memory, &sample.pool);
    let rate =
        |bytes: Option<u64>| bytes.map_or_else(|| "-".to_owned(), |bytes| Bytes(bytes).to_string());
    let count =
        |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
    let hits = sample.hits_percent.map_or_else(|| "-".to_owned(), |hits| format!("{hits:.1} %"));
    let keys = sample.keyspace.iter().map(|db| {
        let expires =
            if db.expires > 0 { format!(" ({} expire)", db.expires) } else { String::new() };
        format!("{} {}{expires}", db.db, db.keys)
    });
    let keys: Vec<String> = keys.collect();
    vec![
        format!(
            "tembo {} at {} | {} | domain {} | index {} | sync {} | up {}",
            server.version,
            server.address,
            server.role,
            server.domain,
            server.index,
            server.sync,
            duration(server.uptime_s),
        ),
        format!(
            "commands  {}/s | in {}/s | out {}/s | hits {hits}",
            sample.ops_per_second,
            rate(sample.input_bytes_per_second),
            rate(sample.output_bytes_per_second),
        ),
        format!(
            "clients   {} connected | {} blocked | {} rejected",
            clients.connected, clients.blocked, clients.rejected
        ),
        format!(
            "memory    {} resident | {} own | {} private pages{}",
            Bytes(memory.resident),
            Bytes(memory.own),
            Bytes(memory.private),
            if memory.max > 0 { format!(" | max {}", Bytes(memory.max)) } else { String::new() },
        ),
        format!(
            "pool      {} of {} used | log {} of {}, {}/s | {} checkpoints",
            Bytes(pool.used),
            Bytes(pool.size),
            Bytes(pool.log_used),
            Bytes(pool.log_capacity),
            rate(pool.log_bytes_per_second),
            pool.checkpoints,
        ),
        format!(
            "versions  {} visible | {} durable | {} retained | {} syncs/s | {} fences/s",
            pool.version_visible,
            pool.version_durable,
            pool.versions_retained,
            count(sample.syncs_per_second),
            count(sample.fences_per_second),
        ),
        format!("keys      {}", if keys.is_empty() { "none".to_owned() } else { keys.join(" | ") }),
    ]
}

fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// The lines, cut to a terminal of so many columns and rows; `home` brings the cursor to the first.
pub(super) fn framed(home: &str, lines: &[String], (columns, rows): (usize, usize)) -> String {
    let mut text = home.to_owned();
    for (number, line) in lines.iter().take(rows).enumerate() {
        if number > 0 {
            text.push_str("\r\n");
        }
        text.extend(line.chars().take(columns));
        // To the end of the line.
        text.push_str("\x1b[K");
    }
    // To the end of the screen.
    text.push_str("\x1b[J");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_to_the_terminal() {
        let lines = ["abcdef".to_owned(), "µs".to_owned(), "x".to_owned()];
        assert_eq!(framed("", &lines, (3, 2)), "abc\x1b[K\r\nµs\x1b[K\x1b[J");
    }

    #[test]
    fn durations_have_two_units_at_most() {
        let shown = [5, 90, 7260, 180_000].map(duration);
        assert_eq!(shown, ["5 s", "1 min", "2 h 1 min", "2 d 2 h"]);
    }
}
