//! Commands that wait for a key.

use std::time::Duration;

use crate::client::{Client, Running, encode, wait_until};
use crate::differential::Redis;

fn send(client: &mut Client, command: &str) {
    let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
    client.send(&encode(&words));
}

/// Waits until so many clients wait.
fn waiting(client: &mut Client, count: usize) {
    let line = format!("blocked_clients:{count}\r\n");
    wait_until("waiting clients", || client.call("INFO clients"), |info| info.contains(&line));
}

/// The replies of a pop, as it comes over the wire.
fn popped(key: &str, element: &str) -> String {
    format!("*2\r\n${}\r\n{key}\r\n${}\r\n{element}\r\n", key.len(), element.len())
}

#[test]
fn the_longest_waiting_is_served_first() {
    let server = Running::start();
    let mut other = server.client();
    let mut clients: Vec<Client> = (0..3).map(|_| server.client()).collect();
    for (at, client) in clients.iter_mut().enumerate() {
        send(client, "BLPOP none list 0");
        waiting(&mut other, at + 1);
    }
    assert_eq!(other.call("RPUSH list a b"), ":2\r\n");
    assert_eq!(clients[0].reply(), popped("list", "a"));
    assert_eq!(clients[1].reply(), popped("list", "b"));
    assert_eq!(other.call("EXISTS list"), ":0\r\n");
    waiting(&mut other, 1);
    other.call("LPUSH list c");
    assert_eq!(clients[2].reply(), popped("list", "c"));
}

#[test]
fn commands_behind_one_that_waits_come_after_it() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    let mut sent = Vec::new();
    for command in ["BLPOP list 0", "LPUSH list mine", "BRPOP list 0", "PING"] {
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        sent.extend(encode(&words));
    }
    client.send(&sent);
    waiting(&mut other, 1);
    send(&mut client, "ECHO last");
    other.call("LPUSH list theirs");
    assert_eq!(client.reply(), popped("list", "theirs"));
    assert_eq!(client.reply(), ":1\r\n");
    assert_eq!(client.reply(), popped("list", "mine"));
    assert_eq!(client.reply() + &client.reply(), "+PONG\r\n$4\r\nlast\r\n");
}

#[test]
fn a_transaction_serves_when_it_is_whole() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    send(&mut client, "BLPOP first second 0");
    waiting(&mut other, 1);
    other.call("MULTI");
    other.call("LPUSH first gone");
    other.call("DEL first");
    other.call("LPUSH second a");
    other.call("LPUSH first b");
    other.call("RPUSH second c");
    other.call("LPOP nosuch");
    assert!(other.call("EXEC").starts_with("*6\r\n:1\r\n:1\r\n:1\r\n:1\r\n:2\r\n"));
    // Of both keys, the first was ready first.
    assert_eq!(client.reply(), popped("first", "b"));
}

#[test]
fn another_type_serves_no_client_that_waits_for_a_list() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    send(&mut client, "BLPOP key 0");
    waiting(&mut other, 1);
    other.call("SADD key a");
    other.call("DEL key");
    other.call("RPUSH elsewhere x");
    assert_eq!(other.call("RENAME elsewhere key"), "+OK\r\n");
    assert_eq!(client.reply(), popped("key", "x"));
}

#[test]
fn a_client_waits_for_members_of_sorted_sets() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    send(&mut client, "BZPOPMIN none set 0");
    waiting(&mut other, 1);
    other.call("RPUSH none a");
    other.call("ZADD set 2 b 1.5 a 3 c");
    assert_eq!(client.reply(), "*3\r\n$3\r\nset\r\n$1\r\na\r\n$3\r\n1.5\r\n");
    other.call("DEL none");
    assert_eq!(client.call("BZPOPMAX none set 0"), "*3\r\n$3\r\nset\r\n$1\r\nc\r\n$1\r\n3\r\n");
    assert_eq!(client.call("BZPOPMIN set 0"), "*3\r\n$3\r\nset\r\n$1\r\nb\r\n$1\r\n2\r\n");
    send(&mut client, "BZMPOP 0 2 none set MAX COUNT 2");
    waiting(&mut other, 1);
    other.call("ZADD set 1 a 2 b 3 c");
    let popped = "*2\r\n*2\r\n$1\r\nc\r\n$1\r\n3\r\n*2\r\n$1\r\nb\r\n$1\r\n2\r\n";
    assert_eq!(client.reply(), format!("*2\r\n$3\r\nset\r\n{popped}"));
}

#[test]
fn a_chain_of_moves_runs_to_its_end() {
    let server = Running::start();
    let (mut first, mut second, mut other) = (server.client(), server.client(), server.client());
    send(&mut second, "BLPOP b 0");
    waiting(&mut other, 1);
    send(&mut first, "BLMOVE a b LEFT LEFT 0");
    waiting(&mut other, 2);
    other.call("LPUSH a x");
    assert_eq!(first.reply(), "$1\r\nx\r\n");
    assert_eq!(second.reply(), popped("b", "x"));
    assert_eq!(other.call("EXISTS a b"), ":0\r\n");
}

#[test]
fn a_wait_ends_with_its_time_or_by_a_client() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    assert_eq!(client.call("BLPOP nosuch 0.01"), "*-1\r\n");
    let id = client.call("CLIENT ID").trim_matches([':', '\r', '\n']).to_owned();
    assert_eq!(other.call(&format!("CLIENT UNBLOCK {id}")), ":0\r\n");
    for (reason, reply) in
        [("TIMEOUT", "*-1\r\n"), ("ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n")]
    {
        send(&mut client, "BLMOVE nosuch b LEFT LEFT 0");
        waiting(&mut other, 1);
        assert_eq!(other.call(&format!("CLIENT UNBLOCK {id} {reason}")), ":1\r\n");
        assert_eq!(client.reply(), reply);
    }
    waiting(&mut other, 0);
    assert_eq!(client.call("PING"), "+PONG\r\n");
}

/// As in Redis.
#[test]
fn commands_that_wait_are_not_replied_to_where_no_reply_is_wanted() {
    let (server, redis) = (Running::start(), Redis::start());
    for address in [Some(server.address), redis.as_ref().map(|redis| redis.address)] {
        let Some(address) = address else { continue };
        let (mut client, mut other) = (Client::connect(address), Client::connect(address));
        let id = client.call("CLIENT ID").trim_matches([':', '\r', '\n']).to_owned();
        send(&mut client, "CLIENT REPLY SKIP");
        send(&mut client, "BLPOP list 0.01");
        assert_eq!(client.call("PING"), "+PONG\r\n", "{address}");
        send(&mut client, "CLIENT REPLY SKIP");
        for end in [format!("CLIENT UNBLOCK {id} ERROR"), "LPUSH list a".into()] {
            send(&mut client, "BLPOP list 0");
            waiting(&mut other, 1);
            assert_eq!(other.call(&end), ":1\r\n");
            waiting(&mut other, 0);
            assert_eq!(client.call("PING"), "+PONG\r\n", "{address} {end}");
            send(&mut client, "CLIENT REPLY SKIP");
        }
        send(&mut client, "PING");
        send(&mut client, "CLIENT REPLY OFF");
        send(&mut client, "BLPOP list 0");
        send(&mut client, "WAIT 1 1");
        waiting(&mut other, 1);
        assert_eq!(other.call("LPUSH list b"), ":1\r\n");
        assert_eq!(client.call("CLIENT REPLY ON"), "+OK\r\n", "{address}");
        assert_eq!(other.call("EXISTS list"), ":0\r\n");
    }
}

/// As in Redis.
#[test]
fn a_client_that_was_killed_leaves_what_it_waited_for() {
    let (server, redis) = (Running::start(), Redis::start());
    for address in [Some(server.address), redis.as_ref().map(|redis| redis.address)] {
        let Some(address) = address else { continue };
        let (mut client, mut other) = (Client::connect(address), Client::connect(address));
        let id = client.call("CLIENT ID").trim_matches([':', '\r', '\n']).to_owned();
        send(&mut client, "BLPOP list 0");
        waiting(&mut other, 1);
        let commands = [format!("CLIENT KILL ID {id}"), "LPUSH list a".into(), "LLEN list".into()];
        let words =
            |command: &String| encode(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        other.send(&commands.iter().flat_map(words).collect::<Vec<u8>>());
        let replies: String = commands.iter().map(|_| other.reply()).collect();
        assert_eq!(replies, ":1\r\n:1\r\n:1\r\n", "{address}");
    }
}

#[test]
fn a_client_that_disconnects_waits_no_longer() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    send(&mut client, "BLPOP list 0");
    waiting(&mut other, 1);
    drop(client);
    waiting(&mut other, 0);
    other.call("LPUSH list a");
    std::thread::sleep(Duration::from_millis(1));
    assert_eq!(other.call("LLEN list"), ":1\r\n");
}
