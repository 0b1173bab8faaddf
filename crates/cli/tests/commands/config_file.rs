//! `tembo serve --config`: files in Redis's syntax.

use std::path::Path;

use crate::resp::{Client, Reply};
use crate::server::Setup;
use crate::text;

/// Exit code of wrong usage.
const USAGE: i32 = 2;

fn call(client: &mut Client, line: &str) -> Reply {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    client.call(&words).unwrap()
}

fn value(client: &mut Client, name: &str) -> String {
    match call(client, &format!("CONFIG GET {name}")) {
        Reply::Array(parts) => match &parts[1] {
            Reply::Bulk(value) => String::from_utf8(value.clone()).unwrap(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// What Redis's own file says, of which Tembo takes what it can and reports the rest.
const OF_REDIS: &str = r#"
# Redis configuration file example.
bind 127.0.0.1 -::1
protected-mode yes
tcp-backlog 511
timeout 0
tcp-keepalive 300
daemonize yes
supervised auto
pidfile /run/redis/redis-server.pid
loglevel notice
logfile ""
databases 4
always-show-logo no
set-proc-title yes
proc-title-template "{title} {listen-addr} {server-mode}"
stop-writes-on-bgsave-error yes
rdbcompression yes
rdbchecksum yes
dbfilename dump.rdb
rdb-del-sync-files no
replica-serve-stale-data yes
slave-read-only yes
slave-priority 70
crash-log-enabled no
shutdown-on-sigterm nosave now
tls-ciphers ""
repl-diskless-sync yes
repl-disable-tcp-nodelay no
replica-lazy-flush yes
maxmemory 100mb
acllog-max-len 128
lazyfree-lazy-eviction no
oom-score-adj no
oom-score-adj-values 0 200 800
disable-thp yes
appendonly no
appendfilename "appendonly.aof"
appendfsync everysec
auto-aof-rewrite-min-size 64mb
slowlog-max-len 17
notify-keyspace-events "Ex"
hash-max-listpack-entries 512
save 3600 1 300 100
save 60 10000
hz 10
client-output-buffer-limit normal 0 0 0
client-output-buffer-limit replica 128mb 64mb 60
client-output-buffer-limit pubsub 16mb 8mb 60
jemalloc-bg-thread yes
requirepass "a b"
maxclients 500
"#;

#[test]
fn redis_s_own_file_is_obeyed_where_both_have_the_directive() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (pool, file) = (folder.path().join("a.pool"), folder.path().join("redis.conf"));
    std::fs::write(&file, OF_REDIS).unwrap();
    let setup = Setup::new(&pool, &["--config", text(&file), "--maxclients", "77"]);
    let server = setup.start();
    let mut client = server.client();
    assert!(matches!(call(&mut client, "GET a"), Reply::Error(text) if text.starts_with("NOAUTH")));
    assert_eq!(client.call(&[b"AUTH", b"a b"]).unwrap(), Reply::Simple("OK".into()));
    let expected = [
        ("databases", "4"),
        ("slowlog-max-len", "17"),
        ("maxmemory", "104857600"),
        ("notify-keyspace-events", "xE"),
        ("save", "3600 1 300 100 60 10000"),
        (
            "client-output-buffer-limit",
            "normal 0 0 0 slave 134217728 67108864 60 pubsub 16777216 8388608 60",
        ),
        ("slave-priority", "70"),
        ("replica-priority", "70"),
        // They have no effect, and are shown.
        ("crash-log-enabled", "no"),
        ("slave-lazy-flush", "yes"),
        ("shutdown-on-sigterm", "nosave now"),
        // The command line goes before the file.
        ("maxclients", "77"),
    ];
    for (name, expected) in expected {
        assert_eq!(value(&mut client, name), expected, "{name}");
    }
    // What has no effect is reported with its place; what has the only value there is, is not.
    let errors = setup.errors();
    assert!(errors.contains("redis.conf:9: supervised has no effect: "), "{errors}");
    assert!(errors.contains("redis.conf:8: daemonize has no effect: "), "{errors}");
    assert!(!errors.contains("rdbchecksum") && !errors.contains(": maxmemory"), "{errors}");
    assert!(server.stop().success());
}

#[test]
fn a_directive_that_cannot_be_obeyed_is_an_error_with_its_place() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (pool, file) = (folder.path().join("a.pool"), folder.path().join("redis.conf"));
    for (line, reason) in [
        ("nosuchthing 5", "tembo does not know it"),
        ("rename-command FLUSHALL \"\"", "ACL SETUSER"),
        ("cluster-enabled yes", "there is no cluster"),
        ("maxclients many", "invalid value 'many'"),
        ("hash-max-listpack-entries x", "argument couldn't be parsed into an integer"),
        ("tls-ciphers HIGH", "the ciphers are those that rustls holds to be safe"),
        ("tls-client-cert-file a.crt", "a primary is shown the certificate of tls-cert-file"),
        ("slave-priority x", "argument couldn't be parsed into an integer"),
        ("protected-mode perhaps", "it is yes or no"),
        ("bind host.example", "is no IP address"),
        ("logfile \"x", "quotes are not balanced"),
    ] {
        std::fs::write(&file, format!("port 1\n{line}\n")).unwrap();
        let setup = Setup::new(&pool, &["--config", text(&file)]);
        let status = setup.try_start().unwrap_err();
        assert_eq!(status.code(), Some(USAGE), "{line}");
        let errors = setup.errors();
        let name = line.split(' ').next().unwrap();
        assert!(errors.contains("redis.conf:2: ") && errors.contains(name), "{line}: {errors}");
        assert!(errors.contains(reason), "{line}: {errors}");
        std::fs::remove_file(pool.with_extension("stderr")).unwrap();
    }
    assert!(!pool.exists());
}

#[test]
fn what_config_rewrite_has_written_holds_after_a_restart() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (pool, file) = (folder.path().join("a.pool"), folder.path().join("redis.conf"));
    std::fs::write(&file, "# mine\ntimeout 9\n").unwrap();
    let setup = Setup::new(&pool, &["--config", text(&file)]);
    let server = setup.start();
    let mut client = server.client();
    call(&mut client, "CONFIG SET timeout 0 slowlog-max-len 5");
    assert_eq!(call(&mut client, "CONFIG REWRITE"), Reply::Simple("OK".into()));
    assert!(server.stop().success());
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        "# mine\ntimeout 0\n# Generated by CONFIG REWRITE\nslowlog-max-len 5\n"
    );
    let server = setup.start();
    let mut client = server.client();
    assert_eq!(value(&mut client, "slowlog-max-len"), "5");
    assert!(server.stop().success());
    let without = Setup::new(Path::new(&pool), &[]).start();
    let refused = call(&mut without.client(), "CONFIG REWRITE");
    let expected = "ERR The server is running without a config file";
    assert_eq!(refused, Reply::Error(expected.into()));
}
