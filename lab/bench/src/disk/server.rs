//! A server under `redis-benchmark`.

use std::process::Command;

use super::spec::Figure;
use crate::Error;
use crate::rival::{Rival, failed};

/// A run of `redis-benchmark`.
pub(super) struct Load {
    verb: &'static str,
    pipeline: u32,
    value_size: usize,
    requests: u64,
    keys: u64,
}

const CLIENTS: u32 = 50;

/// The runs over one server: each verb at each depth.
pub(super) fn loads(value_size: usize, requests: u64) -> Vec<Load> {
    let load = |(verb, pipeline)| {
        let requests = if pipeline > 1 { 4 * requests } else { requests };
        Load { verb, pipeline, value_size, requests, keys: 100_000 }
    };
    [("set", 1), ("set", 16), ("get", 1), ("get", 16)].map(load).into()
}

impl Load {
    pub(super) fn name(&self) -> String {
        format!("{}, P{}", self.verb.to_uppercase(), self.pipeline)
    }
}

/// Runs it; the rate and the latencies.
///
/// # Errors
/// [`Error::Absent`] without `redis-benchmark`; what it says.
pub(super) fn run(load: &Load, store: &dyn Rival) -> Result<Vec<Figure>, Error> {
    let (_, address) = store.server().ok_or(Error::Absent("a server"))?;
    let mut command = Command::new("redis-benchmark");
    command.args(["-h", &address.ip().to_string(), "-p", &address.port().to_string()]);
    command.args(["-t", load.verb, "-c", &CLIENTS.to_string(), "-P", &load.pipeline.to_string()]);
    command.args(["-n", &load.requests.to_string(), "-r", &load.keys.to_string()]);
    command.args(["-d", &load.value_size.to_string(), "--csv"]);
    let output = command.output().map_err(|_| Error::Absent("redis-benchmark"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let figures = parse(&load.name(), &text);
    figures.ok_or_else(|| failed("redis-benchmark")(text.into_owned().into()))
}

/// Of `"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95…","p99…","max…"` and a line.
fn parse(name: &str, text: &str) -> Option<Vec<Figure>> {
    let line = text.lines().find(|line| !line.starts_with("\"test\"") && line.contains(','))?;
    let fields: Vec<f64> =
        line.split(',').skip(1).map_while(|field| field.trim_matches('"').parse().ok()).collect();
    let figure = |what: &str, unit: &str, at: usize| {
        let value = *fields.get(at)?;
        Some(Figure { name: format!("{name}: {what}"), unit: unit.into(), value })
    };
    [
        figure("rate", "ops/s", 0),
        figure("p50", "ms", 3),
        figure("p99", "ms", 5),
        figure("max", "ms", 6),
    ]
    .into_iter()
    .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_line_of_redis_benchmark_has_its_rate_and_latencies() {
        let text = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\"SET\",\"125000.00\",\"0.211\",\"0.080\",\"0.207\",\"0.295\",\"0.319\",\"0.463\"\n";
        let figures = parse("SET, P1", text).unwrap();
        let all: Vec<_> = figures.iter().map(|f| (&f.name[..], f.value)).collect();
        let wanted = [
            ("SET, P1: rate", 125_000.0),
            ("SET, P1: p50", 0.207),
            ("SET, P1: p99", 0.319),
            ("SET, P1: max", 0.463),
        ];
        assert_eq!(all, wanted);
        assert!(parse("SET, P1", "ERROR").is_none());
    }
}
