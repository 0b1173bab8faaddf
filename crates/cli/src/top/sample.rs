//! What is shown of a server, from one INFO or from two.

use std::time::Duration;

use serde::Serialize;
use tembo_server::Answer;

use super::info::Info;

/// Kinds of commands that are shown.
const COMMANDS_MAX: usize = 10;

/// The stages of a turn, in their order.
const STAGES: [&str; 6] = ["turn", "expiry", "execute", "lock", "commit", "sync"];

/// What is shown of a server. Rates are of the time since the look before; at the first one, of the last seconds or unknown.
#[derive(Serialize)]
pub(super) struct Sample {
    pub(super) server: Server,
    pub(super) ops_per_second: u64,
    pub(super) input_bytes_per_second: Option<u64>,
    pub(super) output_bytes_per_second: Option<u64>,
    pub(super) syncs_per_second: Option<u64>,
    pub(super) fences_per_second: Option<u64>,
    /// Of all reads.
    pub(super) hits_percent: Option<f64>,
    pub(super) clients: Clients,
    pub(super) memory: Memory,
    pub(super) pool: Pool,
    pub(super) keyspace: Vec<Keys>,
    pub(super) stages: Vec<Stage>,
    pub(super) commands: Vec<Command>,
    pub(super) replicas: Vec<Replica>,
    pub(super) slow: Vec<Slow>,
}

#[derive(Serialize)]
pub(super) struct Server {
    pub(super) address: String,
    pub(super) version: String,
    pub(super) role: String,
    pub(super) uptime_s: u64,
    pub(super) domain: String,
    pub(super) index: String,
    pub(super) sync: String,
}

#[derive(Serialize)]
pub(super) struct Clients {
    pub(super) connected: u64,
    pub(super) blocked: u64,
    pub(super) rejected: u64,
}

/// Bytes.
#[derive(Serialize)]
pub(super) struct Memory {
    pub(super) resident: u64,
    /// Of no file.
    pub(super) own: u64,
    /// Private copies of pages of the pool.
    pub(super) private: u64,
    /// The parameter maxmemory.
    pub(super) max: u64,
}

/// Bytes, and versions.
#[derive(Serialize)]
pub(super) struct Pool {
    pub(super) size: u64,
    pub(super) used: u64,
    pub(super) log_used: u64,
    pub(super) log_capacity: u64,
    pub(super) log_bytes_per_second: Option<u64>,
    pub(super) checkpoints: u64,
    pub(super) version_visible: u64,
    pub(super) version_durable: u64,
    pub(super) versions_retained: u64,
}

#[derive(Serialize)]
pub(super) struct Keys {
    pub(super) db: String,
    pub(super) keys: u64,
    pub(super) expires: u64,
}

/// Microseconds since the start.
#[derive(Serialize)]
pub(super) struct Stage {
    pub(super) name: String,
    pub(super) p50: u64,
    pub(super) p99: u64,
    #[serde(rename = "p99.9")]
    pub(super) p999: u64,
    pub(super) max: u64,
}

/// Of the time since the look before, or since the start.
#[derive(Serialize)]
pub(super) struct Command {
    pub(super) name: String,
    pub(super) calls: u64,
    pub(super) calls_per_second: Option<u64>,
    pub(super) us_per_call: f64,
    pub(super) failed: u64,
    /// Microseconds of all calls.
    pub(super) us: u64,
}

#[derive(Serialize)]
pub(super) struct Replica {
    pub(super) address: String,
    pub(super) state: String,
    pub(super) lag_s: u64,
}

/// A slow command.
#[derive(Serialize)]
pub(super) struct Slow {
    /// Seconds since 1970.
    pub(super) at: i64,
    pub(super) us: i64,
    pub(super) command: String,
}

impl Slow {
    /// From an entry of SLOWLOG GET: number, time, microseconds, arguments.
    pub(super) fn of(entry: &Answer) -> Option<Slow> {
        let Answer::Array(parts) = entry else { return None };
        let [_, Answer::Integer(at), Answer::Integer(us), Answer::Array(args), ..] = &parts[..]
        else {
            return None;
        };
        let text = |arg: &Answer| match arg {
            // What would move the cursor is shown as it is escaped.
            Answer::Bulk(bytes) => bytes.escape_ascii().to_string(),
            _ => String::new(),
        };
        let words: Vec<String> = args.iter().map(text).collect();
        Some(Slow { at: *at, us: *us, command: words.join(" ") })
    }
}

/// A look before, and the time since then.
type Earlier<'a> = Option<(&'a Info, Duration)>;

/// By how much a counter has grown in a second.
fn rate(info: &Info, earlier: Earlier<'_>, name: &str) -> Option<u64> {
    let (before, time) = earlier?;
    Some(per_second(info.number(name).saturating_sub(before.number(name)), time))
}

fn per_second(count: u64, time: Duration) -> u64 {
    (count as f64 / time.as_secs_f64().max(1e-3)).round() as u64
}

impl Sample {
    pub(super) fn new(address: &str, info: &Info, earlier: Earlier<'_>, slow: Vec<Slow>) -> Sample {
        let (text, number) = (|name: &str| info.text(name), |name: &str| info.number(name));
        let (hits, misses) = (number("keyspace_hits"), number("keyspace_misses"));
        let reads = hits + misses;
        let commands = rate(info, earlier, "total_commands_processed");
        Sample {
            server: Server {
                address: address.to_owned(),
                version: text("tembo_version"),
                role: text("role"),
                uptime_s: number("uptime_in_seconds"),
                domain: text("tembo_domain"),
                index: text("tembo_index"),
                sync: text("tembo_sync_policy"),
            },
            ops_per_second: commands.unwrap_or_else(|| number("instantaneous_ops_per_sec")),
            input_bytes_per_second: rate(info, earlier, "total_net_input_bytes"),
            output_bytes_per_second: rate(info, earlier, "total_net_output_bytes"),
            syncs_per_second: rate(info, earlier, "tembo_fdatasyncs"),
            fences_per_second: rate(info, earlier, "tembo_fences"),
            hits_percent: (reads > 0).then(|| 100.0 * hits as f64 / reads as f64),
            clients: Clients {
                connected: number("connected_clients"),
                blocked: number("blocked_clients"),
                rejected: number("rejected_connections"),
            },
            memory: Memory {
                resident: number("used_memory_rss"),
                own: number("tembo_memory_own"),
                private: number("tembo_memory_private_pages"),
                max: number("maxmemory"),
            },
            pool: Pool {
                size: number("tembo_pool_bytes"),
                used: number("tembo_used_bytes"),
                log_used: number("tembo_log_used"),
                log_capacity: number("tembo_log_capacity"),
                log_bytes_per_second: rate(info, earlier, "tembo_log_bytes_written"),
                checkpoints: number("tembo_checkpoints"),
                version_visible: number("tembo_version_visible"),
                version_durable: number("tembo_version_durable"),
                versions_retained: number("tembo_horizon_lag"),
            },
            keyspace: keyspace(info),
            stages: stages(info),
            commands: commands_of(info, earlier),
            replicas: replicas(info),
            slow,
        }
    }
}

fn keyspace(info: &Info) -> Vec<Keys> {
    let databases = info.starting_with("db").filter(|(db, _)| db.parse::<u8>().is_ok());
    let keys = databases.map(|(db, parts)| Keys {
        db: format!("db{db}"),
        keys: parts.number("keys"),
        expires: parts.number("expires"),
    });
    keys.collect()
}

fn stages(info: &Info) -> Vec<Stage> {
    let stages = info.starting_with("tembo_latency_usec_").map(|(name, parts)| Stage {
        name: name.to_owned(),
        p50: parts.number("p50"),
        p99: parts.number("p99"),
        p999: parts.number("p99.9"),
        max: parts.number("max"),
    });
    let mut stages: Vec<Stage> = stages.collect();
    stages.sort_by_key(|stage| STAGES.iter().position(|name| *name == stage.name));
    stages
}

/// Those that have taken most of the time, since the look before if there was one.
fn commands_of(info: &Info, earlier: Earlier<'_>) -> Vec<Command> {
    let counts = |info: &Info, name: &str| {
        let found = info.starting_with("cmdstat_").find(|(known, _)| *known == name);
        found.map_or([0; 3], |(_, parts)| {
            ["calls", "usec", "failed_calls"].map(|of| parts.number(of))
        })
    };
    let mut all = Vec::new();
    for (name, _) in info.starting_with("cmdstat_") {
        let mut grown = counts(info, name);
        if let Some((before, _)) = earlier {
            let before = counts(before, name);
            grown
                .iter_mut()
                .zip(before)
                .for_each(|(count, before)| *count = count.saturating_sub(before));
        }
        let [calls, us, failed] = grown;
        if calls > 0 {
            all.push(Command {
                name: name.to_owned(),
                calls,
                calls_per_second: earlier.map(|(_, time)| per_second(calls, time)),
                us_per_call: us as f64 / calls as f64,
                failed,
                us,
            });
        }
    }
    all.sort_by_key(|command| std::cmp::Reverse(command.us));
    all.truncate(COMMANDS_MAX);
    all
}

fn replicas(info: &Info) -> Vec<Replica> {
    let replicas = info.starting_with("slave").filter(|(number, _)| number.parse::<u32>().is_ok());
    let replicas = replicas.map(|(_, parts)| Replica {
        address: format!("{}:{}", parts.text("ip"), parts.text("port")),
        state: parts.text("state").to_owned(),
        lag_s: parts.number("lag"),
    });
    replicas.collect()
}
