//! The parameters that CONFIG GET and CONFIG SET know, with the values that they take.

/// Longest bulk, at most.
pub(super) const BULK_SIZE_MAX: i64 = 512 << 20;

/// What values a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Only the one it has: it reports a fact.
    Fixed,
    /// Any text.
    Text,
    /// `yes` or `no`.
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Options of SHUTDOWN, or `default`.
    Shutdown,
    /// Only its default, with what is said of others: they would promise something that the server does not keep.
    Default(&'static str),
    /// A number between these.
    Number(i64, i64),
    /// A number of bytes between these, also with a unit.
    Size(i64, i64),
    /// A number of bytes, or a share of `maxmemory` in percent.
    SizeOrShare,
    /// Percentiles: numbers from 0 to 100.
    Percentiles,
    /// Pairs of seconds and changes. Any is kept: what is acknowledged is durable at once.
    SavePoints,
    /// `yes` or `no`, but for `yes` where nothing is durable: what is acknowledged is durable with either.
    Appending,
    /// Letters of classes of events.
    Events,
    /// For classes of clients, how many bytes may wait.
    OutputLimits,
    /// Three numbers from -2000 to 2000.
    Scores,
    /// Another name of the parameter that is its default.
    Alias,
}

/// Any number from 0 on.
const ANY: Kind = Kind::Number(0, i64::MAX);
/// Any number of bytes.
const ANY_SIZE: Kind = Kind::Size(0, i64::MAX);
/// Any number of 32 bits that is not negative.
const SMALL: Kind = Kind::Number(0, i32::MAX as i64);
/// The number of a port; 0: none.
const PORT: Kind = Kind::Number(0, 65535);

const CIPHERS: &str = "the ciphers are those that rustls holds to be safe: leave it empty";
const OF_CLIENT: &str = "a primary is shown the certificate of tls-cert-file: leave it empty";
const ENCRYPTED_KEY: &str = "decrypt the key with openssl, and protect the file: leave it empty";

/// The parameters that clients and their tools ask for, with their defaults. What of Redis's has no meaning here is taken
/// and kept, where the server does not promise less by it.
#[rustfmt::skip]
pub(super) const PARAMETERS: &[(&str, &str, Kind)] = &[
    ("acl-pubsub-default", "resetchannels", Kind::Word(&["allchannels", "resetchannels"])),
    ("aclfile", "", Kind::Fixed),
    ("acllog-max-len", "128", ANY),
    ("active-defrag-cycle-max", "25", Kind::Number(1, 99)),
    ("active-defrag-cycle-min", "1", Kind::Number(1, 99)),
    ("active-defrag-ignore-bytes", "104857600", Kind::Size(1, i64::MAX)),
    ("active-defrag-max-scan-fields", "1000", Kind::Number(1, i64::MAX)),
    ("active-defrag-threshold-lower", "10", Kind::Number(0, 1000)),
    ("active-defrag-threshold-upper", "100", Kind::Number(0, 1000)),
    ("active-expire-effort", "1", Kind::Number(1, 10)),
    ("activedefrag", "no", Kind::Fixed),
    ("activerehashing", "no", Kind::Flag),
    ("always-show-logo", "no", Kind::Fixed),
    ("aof-disable-auto-gc", "no", Kind::Flag),
    ("aof-load-truncated", "yes", Kind::Flag),
    ("aof-rewrite-incremental-fsync", "yes", Kind::Flag),
    ("aof-timestamp-enabled", "no", Kind::Flag),
    ("aof-use-rdb-preamble", "yes", Kind::Flag),
    ("aof_rewrite_cpulist", "", Kind::Fixed),
    ("appenddirname", "appendonlydir", Kind::Fixed),
    ("appendfilename", "appendonly.aof", Kind::Fixed),
    ("appendfsync", "always", Kind::Fixed),
    ("appendonly", "no", Kind::Appending),
    ("auto-aof-rewrite-min-size", "67108864", ANY_SIZE),
    ("auto-aof-rewrite-percentage", "100", SMALL),
    ("backup-dir", "", Kind::Fixed),
    ("bgsave_cpulist", "", Kind::Fixed),
    ("bind", "", Kind::Fixed),
    ("bind-source-addr", "", Kind::Default("connections to others leave by the address that the system chooses")),
    ("bio_cpulist", "", Kind::Fixed),
    ("busy-reply-threshold", "5000", ANY),
    ("client-output-buffer-limit", "", Kind::OutputLimits),
    ("client-query-buffer-limit", "1073741824", Kind::Size(1 << 20, i64::MAX)),
    ("cluster-allow-pubsubshard-when-down", "yes", Kind::Flag),
    ("cluster-allow-reads-when-down", "no", Kind::Flag),
    ("cluster-allow-replica-migration", "yes", Kind::Flag),
    ("cluster-announce-bus-port", "0", PORT),
    ("cluster-announce-hostname", "", Kind::Text),
    ("cluster-announce-ip", "", Kind::Text),
    ("cluster-announce-port", "0", PORT),
    ("cluster-announce-tls-port", "0", PORT),
    ("cluster-config-file", "nodes.conf", Kind::Fixed),
    ("cluster-enabled", "no", Kind::Fixed),
    ("cluster-link-sendbuf-limit", "0", ANY_SIZE),
    ("cluster-migration-barrier", "1", SMALL),
    ("cluster-node-timeout", "15000", ANY),
    ("cluster-port", "0", Kind::Fixed),
    ("cluster-preferred-endpoint-type", "ip", Kind::Word(&["ip", "hostname", "unknown-endpoint"])),
    ("cluster-replica-no-failover", "no", Kind::Flag),
    ("cluster-replica-validity-factor", "10", SMALL),
    ("cluster-require-full-coverage", "yes", Kind::Flag),
    ("cluster-slave-no-failover", "cluster-replica-no-failover", Kind::Alias),
    ("cluster-slave-validity-factor", "cluster-replica-validity-factor", Kind::Alias),
    ("crash-log-enabled", "yes", Kind::Flag),
    ("crash-memcheck-enabled", "yes", Kind::Flag),
    ("daemonize", "no", Kind::Fixed),
    ("databases", "16", Kind::Fixed),
    ("dbfilename", "", Kind::Fixed),
    ("dir", "", Kind::Fixed),
    ("disable-thp", "yes", Kind::Fixed),
    ("dynamic-hz", "yes", Kind::Flag),
    ("enable-debug-command", "no", Kind::Fixed),
    ("enable-module-command", "no", Kind::Fixed),
    ("enable-protected-configs", "no", Kind::Fixed),
    ("hash-max-listpack-entries", "512", ANY),
    ("hash-max-listpack-value", "64", ANY_SIZE),
    ("hash-max-ziplist-entries", "hash-max-listpack-entries", Kind::Alias),
    ("hash-max-ziplist-value", "hash-max-listpack-value", Kind::Alias),
    ("hll-sparse-max-bytes", "3000", ANY_SIZE),
    ("hz", "10", SMALL),
    ("ignore-warnings", "", Kind::Text),
    ("io-threads", "1", Kind::Fixed),
    ("io-threads-do-reads", "no", Kind::Fixed),
    ("jemalloc-bg-thread", "yes", Kind::Flag),
    ("latency-monitor-threshold", "0", ANY),
    ("latency-tracking", "yes", Kind::Flag),
    ("latency-tracking-info-percentiles", "50 99 99.9", Kind::Percentiles),
    ("lazyfree-lazy-eviction", "no", Kind::Flag),
    ("lazyfree-lazy-expire", "no", Kind::Flag),
    ("lazyfree-lazy-server-del", "no", Kind::Flag),
    ("lazyfree-lazy-user-del", "no", Kind::Flag),
    ("lazyfree-lazy-user-flush", "no", Kind::Flag),
    ("lfu-decay-time", "1", SMALL),
    ("lfu-log-factor", "10", SMALL),
    ("list-compress-depth", "0", SMALL),
    ("list-max-listpack-size", "-2", Kind::Number(i32::MIN as i64, i32::MAX as i64)),
    ("list-max-ziplist-size", "list-max-listpack-size", Kind::Alias),
    ("logfile", "", Kind::Fixed),
    ("loglevel", "notice", Kind::Word(&["debug", "verbose", "notice", "warning"])),
    ("lua-time-limit", "busy-reply-threshold", Kind::Alias),
    ("masterauth", "", Kind::Text),
    ("masteruser", "", Kind::Text),
    ("maxclients", "10000", Kind::Number(1, u32::MAX as i64)),
    ("maxmemory", "0", ANY_SIZE),
    ("maxmemory-clients", "0", Kind::SizeOrShare),
    ("maxmemory-eviction-tenacity", "10", Kind::Number(0, 100)),
    ("maxmemory-policy", "noeviction", Kind::Word(crate::eviction::WORDS)),
    ("maxmemory-samples", "5", Kind::Number(1, 64)),
    ("min-replicas-max-lag", "10", SMALL),
    ("min-replicas-to-write", "0", SMALL),
    ("min-slaves-max-lag", "min-replicas-max-lag", Kind::Alias),
    ("min-slaves-to-write", "min-replicas-to-write", Kind::Alias),
    ("no-appendfsync-on-rewrite", "no", Kind::Flag),
    ("notify-keyspace-events", "", Kind::Events),
    ("oom-score-adj", "no", Kind::Word(&["no", "yes", "relative", "absolute"])),
    ("oom-score-adj-values", "0 200 800", Kind::Scores),
    ("pidfile", "", Kind::Fixed),
    ("port", "6379", Kind::Fixed),
    ("proc-title-template", "{title} {listen-addr} {server-mode}", Kind::Text),
    ("propagation-error-behavior", "ignore", Kind::Word(&["ignore", "panic", "panic-on-replicas"])),
    ("protected-mode", "yes", Kind::Flag),
    ("proto-max-bulk-len", "536870912", Kind::Size(1 << 20, i64::MAX)),
    ("rdb-del-sync-files", "no", Kind::Flag),
    ("rdb-key-save-delay", "0", Kind::Number(i32::MIN as i64, i32::MAX as i64)),
    ("rdb-save-incremental-fsync", "yes", Kind::Flag),
    ("rdbchecksum", "yes", Kind::Fixed),
    ("rdbcompression", "yes", Kind::Flag),
    ("repl-backlog-size", "1048576", Kind::Size(1, i64::MAX)),
    ("repl-backlog-ttl", "3600", ANY),
    ("repl-disable-tcp-nodelay", "no", Kind::Flag),
    ("repl-diskless-load", "disabled", Kind::Word(&["disabled", "on-empty-db", "swapdb"])),
    ("repl-diskless-sync", "yes", Kind::Flag),
    ("repl-diskless-sync-delay", "5", SMALL),
    ("repl-diskless-sync-max-replicas", "0", SMALL),
    ("repl-ping-replica-period", "10", Kind::Number(1, i32::MAX as i64)),
    ("repl-ping-slave-period", "repl-ping-replica-period", Kind::Alias),
    ("repl-retain-seconds", "60", Kind::Number(0, u32::MAX as i64)),
    ("repl-timeout", "60", Kind::Number(1, i32::MAX as i64)),
    ("replica-announce-ip", "", Kind::Text),
    ("replica-announce-port", "0", PORT),
    ("replica-announced", "yes", Kind::Flag),
    ("replica-ignore-disk-write-errors", "no", Kind::Flag),
    ("replica-ignore-maxmemory", "yes", Kind::Flag),
    ("replica-lazy-flush", "no", Kind::Flag),
    ("replica-priority", "100", Kind::Number(0, i32::MAX as i64)),
    ("replica-read-only", "yes", Kind::Fixed),
    ("replica-serve-stale-data", "yes", Kind::Flag),
    ("requirepass", "", Kind::Text),
    ("retain-seconds", "0", Kind::Number(0, u32::MAX as i64)),
    ("sanitize-dump-payload", "no", Kind::Word(&["no", "yes", "clients"])),
    ("save", "", Kind::SavePoints),
    ("server_cpulist", "", Kind::Fixed),
    ("set-max-intset-entries", "512", ANY),
    ("set-proc-title", "yes", Kind::Fixed),
    ("shutdown-on-sigint", "default", Kind::Shutdown),
    ("shutdown-on-sigterm", "default", Kind::Shutdown),
    ("shutdown-timeout", "10", SMALL),
    ("slave-announce-ip", "replica-announce-ip", Kind::Alias),
    ("slave-announce-port", "replica-announce-port", Kind::Alias),
    ("slave-ignore-maxmemory", "replica-ignore-maxmemory", Kind::Alias),
    ("slave-lazy-flush", "replica-lazy-flush", Kind::Alias),
    ("slave-priority", "replica-priority", Kind::Alias),
    ("slave-read-only", "replica-read-only", Kind::Alias),
    ("slave-serve-stale-data", "replica-serve-stale-data", Kind::Alias),
    ("slowlog-log-slower-than", "10000", Kind::Number(-1, i64::MAX)),
    ("slowlog-max-len", "128", ANY),
    ("socket-mark-id", "0", Kind::Fixed),
    ("stop-writes-on-bgsave-error", "yes", Kind::Flag),
    ("stream-node-max-bytes", "4096", ANY_SIZE),
    ("stream-node-max-entries", "100", ANY),
    ("supervised", "no", Kind::Fixed),
    ("syslog-enabled", "no", Kind::Fixed),
    ("syslog-facility", "local0", Kind::Fixed),
    ("syslog-ident", "redis", Kind::Fixed),
    ("tcp-backlog", "511", Kind::Fixed),
    ("tcp-keepalive", "300", SMALL),
    ("timeout", "0", SMALL),
    ("tls-auth-clients", "yes", Kind::Word(&["no", "yes", "optional"])),
    ("tls-ca-cert-dir", "", Kind::Default("write the authorities into one file, and name it with tls-ca-cert-file")),
    ("tls-ca-cert-file", "", Kind::Text),
    ("tls-cert-file", "", Kind::Text),
    ("tls-ciphers", "", Kind::Default(CIPHERS)),
    ("tls-ciphersuites", "", Kind::Default(CIPHERS)),
    ("tls-client-cert-file", "", Kind::Default(OF_CLIENT)),
    ("tls-client-key-file", "", Kind::Default(OF_CLIENT)),
    ("tls-client-key-file-pass", "", Kind::Default(ENCRYPTED_KEY)),
    ("tls-cluster", "no", Kind::Default("there is no cluster")),
    ("tls-dh-params-file", "", Kind::Text),
    ("tls-key-file", "", Kind::Text),
    ("tls-key-file-pass", "", Kind::Default(ENCRYPTED_KEY)),
    ("tls-port", "0", Kind::Fixed),
    ("tls-prefer-server-ciphers", "no", Kind::Flag),
    ("tls-protocols", "", Kind::Default("TLS 1.2 and 1.3 are spoken: leave it empty")),
    ("tls-replication", "no", Kind::Flag),
    ("tls-session-cache-size", "20480", SMALL),
    ("tls-session-cache-timeout", "300", SMALL),
    ("tls-session-caching", "yes", Kind::Flag),
    ("tracking-table-max-keys", "1000000", ANY),
    ("unixsocket", "", Kind::Fixed),
    ("unixsocketperm", "0", Kind::Fixed),
    ("zset-max-listpack-entries", "128", ANY),
    ("zset-max-listpack-value", "64", ANY_SIZE),
    ("zset-max-ziplist-entries", "zset-max-listpack-entries", Kind::Alias),
    ("zset-max-ziplist-value", "zset-max-listpack-value", Kind::Alias),
];

/// A parameter of CONFIG SET, as a configuration file may name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// A value can be chosen.
    Settable,
    /// It always has this value, or one that follows from what the server is started with.
    Fixed(&'static str),
}

impl Parameter {
    /// The parameter of that name, in any case.
    pub fn of(name: &str) -> Option<Parameter> {
        let (_, value, kind) = PARAMETERS[find(name.as_bytes())?];
        Some(if kind == Kind::Fixed { Parameter::Fixed(value) } else { Parameter::Settable })
    }
}

/// The place of the parameter of that name, in any case; of an alias, that of what it stands for.
pub(super) fn find(name: &[u8]) -> Option<usize> {
    let at =
        PARAMETERS.iter().position(|(known, ..)| name.eq_ignore_ascii_case(known.as_bytes()))?;
    Some(resolved(at))
}

/// The place where the value is kept.
pub(super) fn resolved(at: usize) -> usize {
    let (_, default, kind) = PARAMETERS[at];
    let stands_for = |(name, ..): &(&str, &str, Kind)| *name == default;
    match kind {
        Kind::Alias => PARAMETERS.iter().position(stands_for).unwrap_or(at),
        _ => at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_each_alias_stands_for_one_that_is_none() {
        assert!(PARAMETERS.is_sorted_by_key(|(name, ..)| *name));
        for (at, (name, _, kind)) in PARAMETERS.iter().enumerate() {
            assert_ne!(PARAMETERS[resolved(at)].2, Kind::Alias, "{name}");
            assert_eq!(*kind == Kind::Alias, resolved(at) != at, "{name}");
        }
    }
}
