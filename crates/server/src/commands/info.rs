//! INFO: what operators and clients ask about the server.

use std::fmt::Write;

use crate::access::Access;
use crate::args::Args;
use crate::backup::State;
use crate::buffer::Buffer;
use crate::command::{Command, Context};
use crate::commands::connection::REDIS_VERSION;
use crate::commands::replication;
use crate::connection::Connection;
use crate::failure::{Failure, Outcome};
use crate::latency::Stage;
use crate::memory::resident_bytes;
use crate::observed::Times;
use crate::reply::Reply;
use crate::session::Topic;

/// The family.
pub(super) const COMMANDS: &[Command] = &[Command::new("info", -1, 0, info)];

type Section = fn(&mut Context<'_, '_>, &mut String) -> Result<(), Failure>;

const SECTIONS: &[(&str, Section)] = &[
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", replication),
    ("CPU", cpu),
    ("Modules", nothing),
    ("Commandstats", commandstats),
    ("Errorstats", errorstats),
    ("Latencystats", latencystats),
    ("Cluster", cluster),
    ("Keyspace", keyspace),
];

/// Sections that are shown only when they are asked for.
const LONG: [&str; 2] = ["Commandstats", "Latencystats"];

fn info(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    // Within EXEC nothing may be committed: there the report of the last tick is shown.
    if !context.session.executing {
        let store = context.commit_early()?;
        context.shared.take_report(store);
    }
    let all = (1..args.count()).any(|at| args.is(at, "ALL") || args.is(at, "EVERYTHING"));
    let default = args.count() == 1 || (1..args.count()).any(|at| args.is(at, "DEFAULT"));
    let mut text = String::new();
    for &(name, section) in SECTIONS {
        let is_default = default && !LONG.contains(&name);
        if all
            || is_default
            || args.from(1).any(|wanted| wanted.eq_ignore_ascii_case(name.as_bytes()))
        {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            put(&mut text, format_args!("# {name}"));
            section(context, &mut text)?;
        }
    }
    reply.verbatim(text.as_bytes());
    Ok(())
}

/// Appends a line.
fn put(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = write!(text, "{line}\r\n");
}

/// Appends lines that say the same always.
fn put_all(text: &mut String, lines: &[&str]) {
    lines.iter().for_each(|line| put(text, format_args!("{line}")));
}

fn server(context: &mut Context<'_, '_>, text: &mut String) -> Result<(), Failure> {
    let uptime_s = context.shared.started.elapsed().as_secs();
    put(text, format_args!("redis_version:{REDIS_VERSION}"));
    put(text, format_args!("tembo_version:{}", env!("CARGO_PKG_VERSION")));
    // What is built, and by what, is not of Redis.
    put_all(text, &["redis_git_sha1:00000000", "redis_git_dirty:0", "redis_build_id:0"]);
    put(text, format_args!("redis_mode:standalone"));
    put(text, format_args!("os:{} {}", std::env::consts::OS, std::env::consts::ARCH));
    put(text, format_args!("arch_bits:{}", usize::BITS));
    put_all(text, &["monotonic_clock:POSIX clock_gettime", "multiplexing_api:epoll"]);
    put_all(text, &["atomicvar_api:rust", "gcc_version:0.0.0"]);
    put(text, format_args!("process_id:{}", std::process::id()));
    let is_notified = std::env::var_os("NOTIFY_SOCKET").is_some_and(|name| !name.is_empty());
    put(text, format_args!("process_supervised:{}", if is_notified { "systemd" } else { "no" }));
    put(text, format_args!("run_id:{}", context.shared.run_id));
    put(text, format_args!("tcp_port:{}", context.shared.port));
    put(text, format_args!("server_time_usec:{}", context.shared.clock.wall_us));
    put(text, format_args!("uptime_in_seconds:{uptime_s}"));
    put(text, format_args!("uptime_in_days:{}", uptime_s / 86_400));
    put(text, format_args!("hz:10"));
    put(text, format_args!("configured_hz:10"));
    put(text, format_args!("lru_clock:{}", context.shared.clock.wall_s() & 0xff_ffff));
    put(text, format_args!("executable:tembo"));
    let file = context
        .shared
        .config_file
        .as_deref()
        .map_or_else(String::new, |file| file.display().to_string());
    put(text, format_args!("config_file:{file}"));
    put(text, format_args!("io_threads_active:0"));
    Ok(())
}

fn clients(context: &mut Context<'_, '_>, text: &mut String) -> Result<(), Failure> {
    put(text, format_args!("connected_clients:{}", context.clients.count()));
    put(text, format_args!("cluster_connections:0"));
    put(text, format_args!("maxclients:{}", context.shared.settings.maxclients));
    let others = context.clients.iter().map(|other| (other.input_buffer(), other.reply.buffer()));
    let own = (context.session.input, Buffer::default());
    let size = |buffer: Buffer| buffer.used + buffer.free;
    let (input, output) = others
        .chain([own])
        .fold((0, 0), |most, (input, output)| (most.0.max(size(input)), most.1.max(size(output))));
    put(text, format_args!("client_recent_max_input_buffer:{input}"));
    put(text, format_args!("client_recent_max_output_buffer:{output}"));
    put(
        text,
        format_args!(
            "blocked_clients:{}",
            context.data.waiting.count() + context.shared.paused.len()
        ),
    );
    put(text, format_args!("tracking_clients:{}", context.shared.tracking.counts()[0]));
    put(text, format_args!("clients_in_timeout_table:{}", context.data.waiting.count_until()));
    Ok(())
}

fn memory(context: &mut Context<'_, '_>, text: &mut String) -> Result<(), Failure> {
    let (resident, of_files) = resident_bytes();
    let own = resident.saturating_sub(of_files);
    let report = &context.shared.report;
    let human = format!("{:.2}M", resident as f64 / f64::from(1 << 20));
    // What `maxmemory` limits: the data.
    let used = context.data.used_bytes();
    let used_human = format!("{:.2}M", used as f64 / f64::from(1 << 20));
    put(text, format_args!("used_memory:{used}"));
    put(text, format_args!("used_memory_human:{used_human}"));
    put(text, format_args!("used_memory_rss:{resident}"));
    put(text, format_args!("used_memory_rss_human:{human}"));
    let peak = used.max(report.used_bytes);
    let of_peak = used as f64 * 100.0 / peak.max(1) as f64;
    put(text, format_args!("used_memory_peak:{peak}"));
    put(text, format_args!("used_memory_peak_human:{used_human}"));
    put(text, format_args!("used_memory_peak_perc:{of_peak:.2}%"));
    put(text, format_args!("used_memory_dataset:{used}"));
    let system = rustix::system::sysinfo();
    let total = system.totalram as u64 * u64::from(system.mem_unit);
    put(text, format_args!("total_system_memory:{total}"));
    put(text, format_args!("total_system_memory_human:{:.2}G", total as f64 / f64::from(1 << 30)));
    let scripts = &context.shared.scripts;
    let (of_scripts, of_functions) = (scripts.memory(), scripts.libraries.memory());
    let human = |bytes: usize| format!("{:.2}K", bytes as f64 / 1024.0);
    put(text, format_args!("used_memory_lua:{of_scripts}"));
    put(text, format_args!("used_memory_vm_eval:{of_scripts}"));
    put(text, format_args!("used_memory_lua_human:{}", human(of_scripts)));
    put(text, format_args!("used_memory_scripts_eval:{}", scripts.sizes()));
    put(text, format_args!("number_of_cached_scripts:{}", scripts.count()));
    put(text, format_args!("number_of_functions:{}", scripts.libraries.counts().1));
    put(text, format_args!("number_of_libraries:{}", scripts.libraries.counts().0));
    put(text, format_args!("used_memory_vm_functions:{of_functions}"));
    put(text, format_args!("used_memory_vm_total:{}", of_scripts + of_functions));
    put(text, format_args!("used_memory_vm_total_human:{}", human(of_scripts + of_functions)));
    let most = context.shared.settings.maxmemory;
    let human = format!("{:.2}M", most as f64 / f64::from(1 << 20));
    put(text, format_args!("maxmemory:{most}"));
    put(text, format_args!("maxmemory_human:{}", if most == 0 { "0B" } else { &human }));
    let policy = context.shared.settings.matching(b"maxmemory-policy").next();
    let policy = policy.map_or(&b"noeviction"[..], |(_, word)| word);
    put(text, format_args!("maxmemory_policy:{}", String::from_utf8_lossy(policy)));
    put_all(text, &["mem_not_counted_for_evict:0", "mem_cluster_links:0", "mem_aof_buffer:0"]);
    let (first, end) = context.shared.replication.redis.bounds();
    put(text, format_args!("mem_replication_backlog:{}", end - first));
    put(text, format_args!("mem_total_replication_buffers:{}", end - first));
    let clients = context.clients.iter().map(Connection::memory).sum::<usize>();
    put(text, format_args!("used_memory_overhead:{}", clients + of_scripts + of_functions));
    put(text, format_args!("mem_clients_slaves:0"));
    put(text, format_args!("mem_clients_normal:{clients}"));
    // What is resident of files, the pool's first of all, was not allocated.
    put(text, format_args!("rss_overhead_ratio:{:.2}", resident as f64 / own.max(1) as f64));
    put(text, format_args!("rss_overhead_bytes:{of_files}"));
    put_all(text, &["mem_fragmentation_ratio:1.00", "mem_fragmentation_bytes:0"]);
    put(text, format_args!("mem_allocator:libc"));
    put(text, format_args!("active_defrag_running:0"));
    put(text, format_args!("lazyfree_pending_objects:0"));
    put(text, format_args!("lazyfreed_objects:0"));
    // Private pages of the pool; the rest of the process's own: side-cars, inner nodes, clients.
    put(text, format_args!("tembo_memory_own:{own}"));
    put(text, format_args!("tembo_memory_private_pages:{}", report.private_bytes));
    put(text, format_args!("tembo_memory_private_pages_max:{}", report.private_limit));
    put(text, format_args!("tembo_memory_rest:{}", own.saturating_sub(report.private_bytes)));
    Ok(())
}

/// How many of the oldest holders of versions are shown.
const HOLDERS_SHOWN: usize = 8;

/// No process is forked to save or to rewrite.
const NO_FORK: &[&str] = &[
    "current_cow_peak:0",
    "current_cow_size:0",
    "current_cow_size_age:0",
    "current_fork_perc:0.00",
    "current_save_keys_processed:0",
    "current_save_keys_total:0",
];

/// There is no RDB file to load, and no file of commands.
const NO_FILES: &[&str] = &[
    "rdb_last_cow_size:0",
    "rdb_last_load_keys_expired:0",
    "rdb_last_load_keys_loaded:0",
    "aof_enabled:0",
    "aof_rewrite_in_progress:0",
    "aof_rewrite_scheduled:0",
    "aof_last_rewrite_time_sec:-1",
    "aof_current_rewrite_time_sec:-1",
    "aof_last_bgrewrite_status:ok",
    "aof_rewrites:0",
    "aof_rewrites_consecutive_failures:0",
    "aof_last_write_status:ok",
    "aof_last_cow_size:0",
    "module_fork_in_progress:0",
    "module_fork_last_cow_size:0",
];

fn persistence(context: &mut Context<'_, '_>, text: &mut String) -> Result<(), Failure> {
    let shared = &*context.shared;
    let report = &shared.report;
    put(text, format_args!("loading:{}", u8::from(context.data.access() == Access::Loading)));
    put(text, format_args!("async_loading:0"));
    put_all(text, NO_FORK);
    put(text, format_args!("rdb_changes_since_last_save:{}", shared.stats.changes));
    put(text, format_args!("rdb_bgsave_in_progress:0"));
    put(text, format_args!("rdb_last_save_time:{}", shared.saved_s));
    let status = if shared.save_ok { "ok" } else { "err" };
    put(text, format_args!("rdb_last_bgsave_status:{status}"));
    put(text, format_args!("rdb_last_bgsave_time_sec:0"));
    put(text, format_args!("rdb_current_bgsave_time_sec:-1"));
    put(text, format_args!("rdb_saves:{}", shared.stats.saves));
    put_all(text, NO_FILES);
    put(text, format_args!("tembo_domain:{}", report.domain));
    put(text, format_args!("tembo_emulated:{}", u8::from(report.emulated)));
    let removed = context.data.access() == Access::Removed;
    put(text, format_args!("tembo_files_removed:{}", u8::from(removed)));
    put(text, format_args!("tembo_disk_full:{}", u8::from(shared.is_disk_full())));
    put(text, format_args!("tembo_sync_policy:{}", report.sync_policy));
    put(text, format_args!("tembo_index:{}", report.index.name()));
    put(text, format_args!("tembo_read_only:{}", u8::from(report.read_only)));
    put(text, format_args!("tembo_version_visible:{}", report.visible));
    put(text, format_args!("tembo_version_durable:{}", report.durable));
    let horizon = &report.horizon;
    put(text, format_args!("tembo_horizon:{}", horizon.version));
    put(text, format_args!("tembo_horizon_lag:{}", horizon.visible - horizon.version));
    for (number, holder) in horizon.holders.iter().take(HOLDERS_SHOWN).enumerate() {
        put(text, format_args!("tembo_horizon_holder{number}:{holder}"));
    }
    put(text, format_args!("tembo_last_recovery_us:{}", report.recovery_us));
    put(text, format_args!("tembo_recovering:{}", u8::from(report.recovering)));
    put(text, format_args!("tembo_private_bytes:{}", report.private_bytes));
    put(text, format_args!("tembo_pool_bytes:{}", report.pool_bytes));
    put(text, format_args!("tembo_used_bytes:{}", report.used_bytes));
    put(text, format_args!("tembo_fdatasyncs:{}", report.fdatasyncs));
    put(text, format_args!("tembo_collections:{}", report.collections));
    put(text, format_args!("tembo_log_used:{}", report.log.used_bytes));
    put(text, format_args!("tembo_log_capacity:{}", report.log.capacity_bytes));
    put(text, format_args!("tembo_log_bytes_written:{}", report.log.bytes_written));
    put(text, format_args!("tembo_checkpoints:{}", report.log.checkpoints));
    put(text, format_args!("tembo_fences:{}", report.fences));
    backup(context, text);
    Ok(())
}

/// The running backup, or the last one since the server started.
fn backup(context: &Context<'_, '_>, text: &mut String) {
    let last = context.shared.backups.last();
    let is_running = last.as_ref().is_some_and(|backup| backup.took.is_none());
    put(text, format_args!("tembo_backup_in_progress:{}", u8::from(is_running)));
    let Some(backup) = last else { return };
    put(text, format_args!("tembo_backup_name:{}", backup.name));
    put(text, format_args!("tembo_backup_bytes:{}", backup.bytes));
    put(text, format_args!("tembo_backup_started:{}", backup.started_s));
    put(text, format_args!("tembo_backup_state:{}", backup.state.name()));
    if let Some(took) = backup.took {
        put(text, format_args!("tembo_backup_ended:{}", backup.started_s + took.as_secs()));
    }
    match &backup.state {
        State::Done { version, .. } => put(text, format_args!("tembo_backup_version:{version}")),
        State::Failed(error) => put(text, format_args!("tembo_backup_error:{error}")),
        State::Running | State::Cancelled => {}
    }
}

/// Nothing is forked or moved, and one thread reads and writes.
const OF_STATS: &[&str] = &[
    "latest_fork_usec:0",
    "total_forks:0",
    "active_defrag_hits:0",
    "active_defrag_misses:0",
    "active_defrag_key_hits:0",
    "active_defrag_key_misses:0",
    "total_active_defrag_time:0",
    "current_active_defrag_time:0",
    "slave_expires_tracked_keys:0",
    "unexpected_error_replies:0",
    "io_threaded_reads_processed:0",
    "io_threaded_writes_processed:0",
];

fn stats(context: &mut Context<'_, '_>, text: &mut String) -> Result<(), Failure> {
    let stats = &context.shared.stats;
    put(text, format_args!("total_connections_received:{}", stats.connections));
    put(text, format_args!("total_commands_processed:{}", stats.commands));
    put(text, format_args!("instantaneous_ops_per_sec:{}", stats.commands_per_second()));
    put(text, format_args!("total_net_input_bytes:{}", stats.input_bytes));
    put(text, format_args!("total_net_output_bytes:{}", stats.output_bytes));
    let kilobytes = |bytes: u64| bytes as f64 / 1024.0;
    let (input, output) = stats.bytes_per_second();
    put(text, format_args!("instantaneous_input_kbps:{:.2}", kilobytes(input)));
    put(text, format_args!("instantaneous_output_kbps:{:.2}", kilobytes(output)));
    put(text, format_args!("rejected_connections:{}", stats.rejected));
    let replicas = &context.shared.replication.replicas;
    let redis = &context.shared.replication.redis;
    let (full, partial) = (redis.full_syncs, redis.partial_syncs);
    put(text, format_args!("sync_full:{}", replicas.full_syncs + full));
    put(text, format_args!("sync_partial_ok:{}", replicas.partial_syncs + partial));
    put(text, format_args!("expired_keys:{}", stats.expired_keys));
    // They are removed in the order in which they expire.
    put_all(text, &["expired_stale_perc:0.00", "expired_time_cap_reached_count:0"]);
    put(text, format_args!("evicted_keys:{}", stats.evicted_keys));
    put(text, format_args!("evicted_clients:{}", stats.evicted_clients));
    let current = stats.excess_since.map_or(0, |since| since.elapsed().as_millis());
    let total = stats.excess.as_millis() + current;
    put(text, format_args!("total_eviction_exceeded_time:{total}"));
    put(text, format_args!("current_eviction_exceeded_time:{current}"));
    put(text, format_args!("keyspace_hits:{}", stats.hits));
    put(text, format_args!("keyspace_misses:{}", stats.misses));
    let pubsub = &context.shared.pubsub;
    put(text, format_args!("pubsub_channels:{}", pubsub.names(Topic::Channel, b"*").len()));
    put(text, format_args!("pubsub_patterns:{}", pubsub.pattern_count()));
    put(text, format_args!("pubsubshard_channels:{}", pubsub.names(Topic::Shard, b"*").len()));
    put(
        text,
        format_args!("client_output_buffer_limit_disconnections:{}", stats.output_limit_closes),
    );
    put(
        text,
        format_args!("client_query_buffer_limit_disconnections:{}", stats.input_limit_closes),
    );
    put_all(text, OF_STATS);
    put(text, format_args!("total_error_replies:{}", stats.errors));
    put(text, format_args!("total_reads_processed:{}", stats.reads));
    put(text, format_args!("total_writes_processed:{}", stats.writes));
    let [_, keys, items, prefixes] = context.shared.tracking.counts();
    put(text, format_args!("tracking_total_keys:{keys}"));
    put(text, format_args!("tracking_total_items:{items}"));
    put(text, format_args!("tracking_total_prefixes:{prefixes}"));
    put(text, format_args!("tembo_turns:{}", stats.turns));
    put(text, format_args!("tembo_failed_turns:{}", stats.failed_turns));
    Ok(())
}

fn replication(context: &mut Context<'_, '_>, text: &mut String) -> Result<(), Failure> {
    replication::info(context, text);
    Ok(())
}

fn cpu(_: &mut Context<'_, '_>, text: &mut String) -> Result<(), Failure> {
    let [user, system, user_children, system_children] = processor_seconds("/proc/self/stat");
    put(text, format_args!("used_cpu_sys:{system:.6}"));
    put(text, format_args!("used_cpu_user:{user:.6}"));
    put(text, format_args!("used_cpu_sys_children:{system_children:.6}"));
    put(text, format_args!("used_cpu_user_children:{user_children:.6}"));
    // The event loop's, which is what executes this.
    let [user, system, ..] = processor_seconds("/proc/thread-self/stat");
    put(text, format_args!("used_cpu_sys_main_thread:{system:.6}"));
    put(text, format_args!("used_cpu_user_main_thread:{user:.6}"));
    Ok(())
}

/// The seconds in programs and in the system that a `stat` of /proc says, and the same of children.
fn processor_seconds(stat: &str) -> [f64; 4] {
    let stat = std::fs::read_to_string(stat).unwrap_or_default();
    // Behind the command's closing parenthesis: state is field 3, utime 14, in ticks.
    let behind = stat.rsplit(')').next().unwrap_or_default();
    let mut ticks =
        behind.split_ascii_whitespace().skip(11).map(|field| field.parse().unwrap_or(0.0));
    [(); 4].map(|()| ticks.next().unwrap_or(0.0) / rustix::param::clock_ticks_per_second() as f64)
}

fn nothing(_: &mut Context<'_, '_>, _: &mut String) -> Result<(), Failure> {
    Ok(())
}

/// How often commands were executed or refused.
fn commandstats(context: &mut Context<'_, '_>, text: &mut String) -> Result<(), Failure> {
    for (command, number) in context.table.all_numbered() {
        let Some(times) = context.shared.observed.times.of(number) else { continue };
        let Times { calls, rejected, failed, .. } = times;
        let usec = times.total_ns / 1000;
        let per_call = times.total_ns as f64 / 1000.0 / (*calls).max(1) as f64;
        let name = command.full_name;
        put(
            text,
            format_args!(
                "cmdstat_{name}:calls={calls},usec={usec},usec_per_call={per_call:.2},\
                 rejected_calls={rejected},failed_calls={failed}"
            ),
        );
    }
    Ok(())
}

fn errorstats(context: &mut Context<'_, '_>, text: &mut String) -> Result<(), Failure> {
    for (code, count) in &context.shared.observed.errors {
        put(text, format_args!("errorstat_{code}:count={count}"));
    }
    Ok(())
}

/// How long the stages of turns took: see `latency.rs`.
fn latencystats(context: &mut Context<'_, '_>, text: &mut String) -> Result<(), Failure> {
    let times = |&stage: &Stage| Some((stage, context.shared.latency.of(stage)?));
    for (stage, times) in Stage::ALL.iter().filter_map(times) {
        let at = |quantile| times.value_at_quantile(quantile);
        let (p50, p99, p999, max) = (at(0.5), at(0.99), at(0.999), times.max());
        let name = stage.name();
        put(
            text,
            format_args!("tembo_latency_usec_{name}:p50={p50},p99={p99},p99.9={p999},max={max}"),
        );
    }
    for (command, number) in context.table.all_numbered() {
        let times = context.shared.observed.times.of(number);
        let Some(histogram) = times.and_then(|times| times.histogram.as_deref()) else { continue };
        let percentile = |&percent: &f64| {
            let us = histogram.value_at_quantile(percent / 100.0) as f64 / 1000.0;
            format!("p{percent}={us:.3}")
        };
        let shown: Vec<String> =
            context.shared.settings.percentiles.iter().map(percentile).collect();
        let (name, shown) = (command.full_name, shown.join(","));
        put(text, format_args!("latency_percentiles_usec_{name}:{shown}"));
    }
    Ok(())
}

fn cluster(_: &mut Context<'_, '_>, text: &mut String) -> Result<(), Failure> {
    put(text, format_args!("cluster_enabled:0"));
    Ok(())
}

fn keyspace(context: &mut Context<'_, '_>, text: &mut String) -> Result<(), Failure> {
    let mut are_exact = true;
    for db in 0..context.data.databases() {
        let counted = context.data.count(db)?;
        are_exact &= counted.is_exact;
        if counted.keys > 0 {
            let (keys, expiring) = (counted.keys, context.data.count_expiring(db)?);
            are_exact &= expiring.is_exact;
            let expires = expiring.keys;
            put(text, format_args!("db{db}:keys={keys},expires={expires},avg_ttl=0"));
        }
    }
    // 0: some are estimates, until the store has counted its keys.
    put(text, format_args!("tembo_counts_exact:{}", u8::from(are_exact)));
    Ok(())
}
