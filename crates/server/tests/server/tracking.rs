//! CLIENT TRACKING, and what the server notes about commands.

use crate::client::{Running, wait_until};

const INVALID: &str = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\n";

#[test]
fn a_client_gets_one_message_for_a_key_that_it_has_read() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    client.call("HELLO 3");
    assert_eq!(client.call("CLIENT TRACKING ON"), "+OK\r\n");
    other.call("MSET a 1 b 1");
    assert_eq!(client.call("GET a"), "$1\r\n1\r\n");
    other.call("INCR b");
    other.call("INCR a");
    other.call("INCR a");
    assert_eq!(client.reply(), format!("{INVALID}a\r\n"));
    assert_eq!(client.call("PING"), "+PONG\r\n", "of `b`, and of `a` again, nothing is said");
    client.call("GET a");
    assert_eq!(client.call("DEL a"), ":1\r\n");
    assert_eq!(client.reply(), format!("{INVALID}a\r\n"), "its own change, behind the reply");
    client.call("GET b");
    other.call("FLUSHALL");
    assert_eq!(client.reply(), ">2\r\n$10\r\ninvalidate\r\n_\r\n");
    assert_eq!(client.call("CLIENT TRACKING OFF"), "+OK\r\n");
    client.call("GET b");
    other.call("SET b 1");
    assert_eq!(client.call("PING"), "+PONG\r\n");
}

#[test]
fn messages_for_all_keys_with_a_prefix_go_to_another_client() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    let id = other.call("CLIENT ID").trim_start_matches(':').trim_end().to_owned();
    other.call("SUBSCRIBE __redis__:invalidate");
    let on = format!("CLIENT TRACKING ON REDIRECT {id} BCAST PREFIX x PREFIX y");
    assert_eq!(client.call(&on), "+OK\r\n");
    assert!(client.call("CLIENT TRACKING ON BCAST PREFIX xx").contains("overlaps"));
    client.call("MSET a 1 y 2");
    let message = "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n*1\r\n$1\r\ny\r\n";
    assert_eq!(other.reply(), message);
    assert!(client.call("CLIENT TRACKING ON OPTIN").starts_with("-ERR You can't switch BCAST"));
    assert_eq!(client.call("CLIENT GETREDIR"), format!(":{id}\r\n"));
}

#[test]
fn with_optin_only_the_command_behind_caching_yes_is_tracked() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    client.call("HELLO 3");
    client.call("CLIENT TRACKING ON OPTIN");
    client.call("GET a");
    client.call("CLIENT CACHING YES");
    client.call("GET b");
    client.call("GET c");
    other.call("MSET a 1 b 1 c 1");
    assert_eq!(client.reply(), format!("{INVALID}b\r\n"));
    assert_eq!(client.call("PING"), "+PONG\r\n");
}

#[test]
fn a_pause_holds_what_writes_until_it_ends() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    assert_eq!(other.call("CLIENT PAUSE 600000 WRITE"), "+OK\r\n");
    client.send(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n*1\r\n$4\r\nPING\r\n");
    let held = |info: &String| info.contains("blocked_clients:1");
    wait_until("a client that is held", || other.call("INFO clients"), held);
    assert_eq!(other.call("GET a"), "$-1\r\n");
    assert!(other.call("SET a").starts_with("-ERR wrong number"), "what is wrong is not held");
    assert_eq!(other.call("CLIENT UNPAUSE"), "+OK\r\n");
    assert_eq!(client.reply(), "+OK\r\n");
    assert_eq!(client.reply(), "+PONG\r\n");
}

#[test]
fn commands_are_counted_with_their_errors_and_slow_ones_kept() {
    let server = Running::start();
    let mut client = server.client();
    client.call("CONFIG SET slowlog-log-slower-than 0");
    client.call("SLOWLOG RESET");
    client.call("SET a x");
    client.call("INCR a");
    client.call("GET");
    client.call("AUTH secret");
    client.call("CONFIG SET slowlog-log-slower-than -1");
    let log = client.call("SLOWLOG GET");
    assert!(
        log.starts_with("*4\r\n")
            && log.contains("$10\r\n(redacted)\r\n")
            && !log.contains("secret")
    );
    let stats = client.call("INFO commandstats");
    let line = |name: &str| {
        let name = format!("cmdstat_{name}:");
        stats.lines().find(|line| line.starts_with(&name)).unwrap_or_default().to_owned()
    };
    assert!(line("set").contains(":calls=1,") && line("set").ends_with("failed_calls=0"));
    assert!(line("incr").ends_with("rejected_calls=0,failed_calls=1"));
    assert!(
        line("get").contains("calls=0,")
            && line("get").ends_with("rejected_calls=1,failed_calls=0")
    );
    let errors = client.call("INFO errorstats");
    assert!(errors.contains("errorstat_ERR:count=3"), "{errors}");
    client.call("GET a");
    client.call("EXISTS a b");
    let info = client.call("INFO stats");
    assert!(
        info.contains("keyspace_hits:2\r\n") && info.contains("keyspace_misses:1\r\n"),
        "{info}"
    );
    client.call("CONFIG RESETSTAT");
    assert!(!client.call("INFO commandstats").contains("cmdstat_set:"));
}

#[test]
fn encodings_follow_the_limits_that_are_set() {
    let server = Running::start();
    let mut client = server.client();
    assert_eq!(client.call("CONFIG SET hash-max-ziplist-entries 1"), "+OK\r\n");
    assert!(client.call("CONFIG GET hash-max-listpack-entries").ends_with("$1\r\n1\r\n"));
    client.call("HSET h a 1");
    assert_eq!(client.call("OBJECT ENCODING h"), "$8\r\nlistpack\r\n");
    client.call("HSET h b 1");
    assert_eq!(client.call("OBJECT ENCODING h"), "$9\r\nhashtable\r\n");
    client.call("CONFIG SET set-max-intset-entries 0");
    client.call("SADD s 1");
    assert_eq!(client.call("OBJECT ENCODING s"), "$9\r\nhashtable\r\n");
    assert!(client.call("DEBUG SLEEP 0").starts_with("-ERR DEBUG command not allowed"));
}

#[test]
fn a_transaction_that_reads_what_it_has_changed_has_it() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    for reader in [&mut client, &mut other] {
        reader.call("HELLO 3");
        reader.call("CLIENT TRACKING ON");
        reader.call("GET a");
    }
    for command in ["MULTI", "SET a 1", "GET a", "SET b 1", "GET b", "EXEC"] {
        client.call(command);
    }
    // What both had read before has changed.
    assert_eq!(client.reply(), format!("{INVALID}a\r\n"));
    assert_eq!(client.call("PING"), "+PONG\r\n", "of `b` it has what there is");
    assert_eq!(other.reply(), format!("{INVALID}a\r\n"));
    assert_eq!(other.call("SET b 2"), "+OK\r\n");
    assert_eq!(client.reply(), format!("{INVALID}b\r\n"));
    assert_eq!(other.call("SET a 2"), "+OK\r\n");
    assert_eq!(client.reply(), format!("{INVALID}a\r\n"));
    for command in ["MULTI", "GET a", "SET a 3", "EXEC"] {
        client.call(command);
    }
    assert_eq!(client.reply(), format!("{INVALID}a\r\n"), "it has read before the change");
    client.call("CLIENT TRACKING OFF");
    client.call("CLIENT TRACKING ON BCAST");
    for command in ["MULTI", "SET a 1", "GET a", "SET b 1", "EXEC"] {
        client.call(command);
    }
    let both = ">2\r\n$10\r\ninvalidate\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n";
    assert_eq!(client.reply(), both);
    assert_eq!(client.call("PING"), "+PONG\r\n");
}

#[test]
fn a_script_that_reads_tracks_its_keys_and_what_it_has_read() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    client.call("HELLO 3");
    client.call("CLIENT TRACKING ON");
    other.call("MSET a 1 b 1");
    client.call_args(&[b"EVAL", b"redis.call('PING')", b"1", b"a"]);
    other.call("INCR a");
    assert_eq!(client.call("PING"), "+PONG\r\n", "nothing was read");
    client.call_args(&[b"EVAL", b"return redis.call('GET', 'b')", b"1", b"a"]);
    for key in ["a", "b"] {
        other.call(&format!("INCR {key}"));
        assert_eq!(client.reply(), format!("{INVALID}{key}\r\n"));
    }
}
