//! The families of metrics, with what they are taken from.

use hdrhistogram::Histogram;

use crate::access::Access;
use crate::clients::Clients;
use crate::command::Table;
use crate::dataset::Dataset;
use crate::latency::Stage;
use crate::memory::resident_bytes;
use crate::metrics::exposition::{Exposition, Kind};
use crate::observed::Times;
use crate::replication::{Follower, Stage as LinkStage};
use crate::session::Topic;
use crate::shared::Shared;

/// Upper bounds of the buckets of times, in microseconds.
const BOUNDS_US: [u64; 16] = [
    10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000, 250_000,
    1_000_000, 10_000_000,
];

use Kind::{Counter, Gauge};

/// Name and help of a family that has a sample for each command, and its value.
type CommandFamily = (&'static str, &'static str, fn(&Times) -> f64);

/// All families.
pub(super) fn all(
    (data, shared, clients, table): (&mut Dataset<'_>, &Shared, &Clients, &Table),
) -> String {
    let mut text = Exposition::default();
    text.single("redis_up", Gauge, "The server answers.", 1);
    server(&mut text, shared);
    connections(&mut text, data, shared, clients);
    counters(&mut text, shared);
    memory(&mut text, data, shared);
    store(&mut text, data, shared);
    keyspace(&mut text, data);
    commands(&mut text, shared, table);
    stages(&mut text, shared);
    replication(&mut text, shared);
    text.into_text()
}

fn server(text: &mut Exposition, shared: &Shared) {
    let role = if shared.replication.following().is_some() { "slave" } else { "master" };
    text.family("redis_instance_info", Gauge, "What the server is.");
    text.sample(
        &[
            ("role", role),
            ("redis_version", crate::commands::REDIS_VERSION),
            ("tembo_version", env!("CARGO_PKG_VERSION")),
            ("redis_mode", "standalone"),
            ("os", std::env::consts::OS),
            ("tcp_port", &shared.port.to_string()),
            ("run_id", &shared.run_id),
            ("domain", &shared.report.domain),
            ("sync_policy", &shared.report.sync_policy),
            ("index", shared.report.index.name()),
        ],
        1,
    );
    let uptime_s = shared.started.elapsed().as_secs();
    text.single("redis_uptime_in_seconds", Gauge, "Time since the start.", uptime_s);
    let started_s = shared.clock.wall_s().saturating_sub(uptime_s);
    text.single("redis_start_time_seconds", Gauge, "When the server started.", started_s);
    text.single("redis_process_id", Gauge, "The process.", std::process::id());
}

fn connections(text: &mut Exposition, data: &Dataset<'_>, shared: &Shared, clients: &Clients) {
    text.single("redis_connected_clients", Gauge, "Clients.", clients.count());
    let blocked = data.waiting.count() + shared.paused.len();
    text.single("redis_blocked_clients", Gauge, "Clients whose command waits.", blocked);
    let tracking = shared.tracking.counts()[0];
    text.single("redis_tracking_clients", Gauge, "Clients that track keys.", tracking);
    let most = shared.settings.maxclients;
    text.single("redis_config_maxclients", Gauge, "Most clients at a time.", most);
    let stats = &shared.stats;
    for (name, help, value) in [
        ("redis_connections_received_total", "Connections accepted.", stats.connections),
        ("redis_rejected_connections_total", "Connections refused.", stats.rejected),
        (
            "redis_client_output_buffer_limit_disconnections_total",
            "Clients that were disconnected as they did not read.",
            stats.output_limit_closes,
        ),
    ] {
        text.single(name, Counter, help, value);
    }
    let channels = shared.pubsub.names(Topic::Channel, b"*").len();
    text.single("redis_pubsub_channels", Gauge, "Channels with subscribers.", channels);
    let patterns = shared.pubsub.pattern_count();
    text.single("redis_pubsub_patterns", Gauge, "Patterns subscribed to.", patterns);
}

fn counters(text: &mut Exposition, shared: &Shared) {
    let stats = &shared.stats;
    for (name, help, value) in [
        ("redis_commands_processed_total", "Commands executed.", stats.commands),
        ("redis_net_input_bytes_total", "Bytes read from clients.", stats.input_bytes),
        ("redis_net_output_bytes_total", "Bytes sent to clients.", stats.output_bytes),
        ("redis_expired_keys_total", "Keys removed because they had expired.", stats.expired_keys),
        ("redis_evicted_keys_total", "Keys removed to make room.", stats.evicted_keys),
        ("redis_keyspace_hits_total", "Reads that found their key.", stats.hits),
        ("redis_keyspace_misses_total", "Reads that did not.", stats.misses),
        ("tembo_turns_total", "Turns of the event loop that had something to do.", stats.turns),
        ("tembo_failed_turns_total", "Turns whose changes were refused.", stats.failed_turns),
    ] {
        text.single(name, Counter, help, value);
    }
    let changes = stats.changes;
    let help = "Changes since the last snapshot.";
    text.single("redis_rdb_changes_since_last_save", Gauge, help, changes);
    let help = "When a snapshot was last kept.";
    text.single("redis_rdb_last_save_timestamp_seconds", Gauge, help, shared.saved_s);
    let slow = &shared.observed.slow;
    text.single("redis_slowlog_length", Gauge, "Entries of the slow log.", slow.iter().len());
    let last = slow.iter().next();
    let help = "The number of the last slow command.";
    text.single("redis_slowlog_last_id", Gauge, help, last.map_or(0, |command| command.id));
    let took_s = last.map_or(0.0, |command| command.took_us as f64 / 1e6);
    let help = "How long the last slow command took.";
    text.single("redis_last_slow_execution_duration_seconds", Gauge, help, took_s);
    text.family("redis_errors_total", Counter, "Error replies by their first word.");
    for (code, count) in &shared.observed.errors {
        text.sample(&[("err", code)], count);
    }
}

fn memory(text: &mut Exposition, data: &Dataset<'_>, shared: &Shared) {
    let (resident, of_files) = resident_bytes();
    let report = &shared.report;
    for (name, help, value) in [
        (
            "redis_memory_used_bytes",
            "Bytes of the data, which maxmemory limits.",
            data.used_bytes(),
        ),
        (
            "redis_memory_used_rss_bytes",
            "Resident memory of the process, with pages of files.",
            resident,
        ),
        (
            "redis_memory_max_bytes",
            "The parameter maxmemory; 0: no limit.",
            shared.settings.maxmemory,
        ),
        (
            "tembo_memory_own_bytes",
            "Resident memory that is of no file.",
            resident.saturating_sub(of_files),
        ),
        (
            "tembo_memory_private_bytes",
            "Private copies of pages of the pool.",
            report.private_bytes,
        ),
        ("tembo_memory_private_max_bytes", "What they may take.", report.private_limit),
    ] {
        text.single(name, Gauge, help, value);
    }
}

fn store(text: &mut Exposition, data: &Dataset<'_>, shared: &Shared) {
    let report = &shared.report;
    let loading = u8::from(data.access() == Access::Loading);
    text.single("redis_loading_dump_file", Gauge, "A full synchronisation arrives.", loading);
    let horizon = &report.horizon;
    let held = horizon.visible.saturating_sub(horizon.version);
    for (name, help, value) in [
        ("tembo_version_visible", "The newest version.", report.visible),
        ("tembo_version_durable", "The newest version that is durable.", report.durable),
        ("tembo_versions_retained", "Versions that something still reads or keeps.", held),
        ("tembo_pool_bytes", "Size of the pool.", report.pool_bytes),
        ("tembo_pool_used_bytes", "Bytes of the pool in objects.", report.used_bytes),
        (
            "tembo_pool_free_bytes",
            "Bytes of the pool in no object.",
            report.pool_bytes.saturating_sub(report.used_bytes),
        ),
        ("tembo_retired_objects", "Objects that wait for versions that see them.", report.retired),
        ("tembo_log_used_bytes", "Bytes of the redo log in use.", report.log.used_bytes),
        ("tembo_log_capacity_bytes", "Bytes that it can hold.", report.log.capacity_bytes),
        ("tembo_recovering", "Work of the last recovery is left.", u64::from(report.recovering)),
        (
            "tembo_emulated",
            "Persistent memory is only emulated: a power failure takes it.",
            u64::from(report.emulated),
        ),
        (
            "tembo_files_removed",
            "A file of the pool was removed: writes are refused.",
            u64::from(data.access() == Access::Removed),
        ),
    ] {
        text.single(name, Gauge, help, value);
    }
    for (name, help, value) in [
        ("tembo_commits_total", "Versions committed since the pool was made.", report.visible),
        ("tembo_fences_total", "Fences of the event loop.", report.fences),
        ("tembo_flushed_lines_total", "Cache lines that it has flushed.", report.flushed_lines),
        ("tembo_syncs_total", "Calls of fdatasync, of log and pool.", report.fdatasyncs),
        ("tembo_log_syncs_total", "Those of the log.", report.log.syncs),
        ("tembo_log_written_bytes_total", "Bytes written to the log.", report.log.bytes_written),
        (
            "tembo_pool_written_bytes_total",
            "Bytes written to the pool's file.",
            report.log.pool_bytes_written,
        ),
        ("tembo_checkpoints_total", "Checkpoints of the log.", report.log.checkpoints),
        ("tembo_collections_total", "Collections that have come to their end.", report.collections),
    ] {
        text.single(name, Counter, help, value);
    }
    let recovery_s = report.recovery_us as f64 / 1e6;
    text.single("tembo_recovery_seconds", Gauge, "How long opening the pool took.", recovery_s);
}

fn keyspace(text: &mut Exposition, data: &mut Dataset<'_>) {
    let mut counts = Vec::new();
    for db in 0..data.databases() {
        // One that cannot be counted is left out.
        let Ok(counted) = data.count(db) else { continue };
        if counted.keys > 0 {
            let expiring = data.count_expiring(db).map_or(0, |expiring| expiring.keys);
            counts.push((format!("db{db}"), counted.keys, expiring));
        }
    }
    text.family("redis_db_keys", Gauge, "Keys of a database.");
    for (db, keys, _) in &counts {
        text.sample(&[("db", db)], keys);
    }
    text.family("redis_db_keys_expiring", Gauge, "Those of them that expire.");
    for (db, _, expiring) in &counts {
        text.sample(&[("db", db)], expiring);
    }
}

fn commands(text: &mut Exposition, shared: &Shared, table: &Table) {
    let known = || {
        let of = |(command, number)| Some((command, shared.observed.times.of(number)?));
        table.all_numbered().filter_map(of)
    };
    let families: [CommandFamily; 4] = [
        ("redis_commands_total", "Executions of a command.", |times| times.calls as f64),
        ("redis_commands_duration_seconds_total", "Their time.", |times| {
            times.total_ns as f64 / 1e9
        }),
        ("redis_commands_failed_calls_total", "Those that ended with an error.", |times| {
            times.failed as f64
        }),
        ("redis_commands_rejected_calls_total", "Requests refused before.", |times| {
            times.rejected as f64
        }),
    ];
    for (name, help, value) in families {
        text.family(name, Counter, help);
        for (command, times) in known() {
            text.sample(&[("cmd", command.full_name)], value(times));
        }
    }
}

fn stages(text: &mut Exposition, shared: &Shared) {
    let help = "How long the stages of turns took: see docs/observability.md.";
    text.family("tembo_stage_duration_seconds", Kind::Histogram, help);
    for stage in Stage::ALL {
        let Some(times) = shared.latency.of(stage) else { continue };
        let sum_s = times.mean() * times.len() as f64 / 1e6;
        text.histogram(("stage", stage.name()), buckets(times), (times.len(), sum_s));
    }
}

/// How many times there are up to each bound, the bounds in seconds.
fn buckets(times: &Histogram<u64>) -> impl Iterator<Item = (f64, u64)> {
    let mut counts = [0; BOUNDS_US.len()];
    let mut up_to = 0;
    let mut recorded = times.iter_recorded().peekable();
    for (count, bound_us) in counts.iter_mut().zip(BOUNDS_US) {
        while let Some(step) = recorded.next_if(|step| step.value_iterated_to() <= bound_us) {
            up_to += step.count_at_value();
        }
        *count = up_to;
    }
    BOUNDS_US.into_iter().map(|bound_us| bound_us as f64 / 1e6).zip(counts)
}

fn replication(text: &mut Exposition, shared: &Shared) {
    let (replication, now_ms) = (&shared.replication, shared.clock.steady_ms);
    let offset = replication.offset(shared.report.durable);
    text.single("redis_master_repl_offset", Gauge, "The offset: a version.", offset);
    if let Some(following) = replication.following() {
        let is_up = u8::from(following.stage == LinkStage::Connected);
        text.single("redis_master_link_up", Gauge, "The primary is connected.", is_up);
        let heard_s = now_ms.saturating_sub(following.heard_ms) / 1000;
        let help = "Time since the primary was heard of.";
        text.single("redis_master_last_io_seconds_ago", Gauge, help, heard_s);
    }
    let replicas: Vec<Follower<'_>> = replication.followers().collect();
    text.single("redis_connected_slaves", Gauge, "Replicas.", replicas.len());
    let each = |text: &mut Exposition, name, help: &str, value: &dyn Fn(&Follower<'_>) -> f64| {
        text.family(name, Gauge, help);
        for replica in &replicas {
            let (port, state) = (replica.port.to_string(), replica.state());
            let labels = [("slave_ip", replica.ip), ("slave_port", &port), ("slave_state", state)];
            text.sample(&labels, value(replica));
        }
    };
    let help = "The version that a replica has made durable, or the place that a server of Redis has reached.";
    each(text, "redis_connected_slave_offset_bytes", help, &|replica| replica.reached as f64);
    let help = "Time since a replica was heard of.";
    each(text, "redis_connected_slave_lag_seconds", help, &|replica| {
        (now_ms.saturating_sub(replica.heard_ms) / 1000) as f64
    });
    let help = "Versions that a replica has not made durable yet, or bytes that a server of Redis has not executed.";
    each(text, "tembo_replica_lag_versions", help, &|replica| {
        let all =
            if replica.is_redis { replication.redis.bounds().1 } else { shared.report.visible };
        all.saturating_sub(replica.reached) as f64
    });
}
