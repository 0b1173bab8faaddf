//! The memory of clients: what they send and do not have executed, what they do not read, and all together.

use std::io::Write;

use crate::client::{Client, Running, encode, wait_until};

fn stat(client: &mut Client, name: &str) -> u64 {
    let text = client.call("INFO everything");
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap().trim_end().parse().unwrap()
}

fn set(client: &mut Client, name: &str, value: &str) {
    let words = [b"CONFIG".as_slice(), b"SET", name.as_bytes(), value.as_bytes()];
    assert_eq!(client.call_args(&words), "+OK\r\n", "{name} {value}");
}

/// Sends what the server may refuse.
fn push(client: &mut Client, bytes: &[u8]) {
    // A connection that has ended is what the test looks for.
    let _ = client.stream.get_mut().write_all(bytes);
}

#[test]
fn a_queue_of_short_commands_counts_with_all_that_keeps_it() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    set(&mut client, "client-query-buffer-limit", "1mb");
    assert_eq!(client.call("MULTI"), "+OK\r\n");
    for _ in 0..1000 {
        assert_eq!(client.call("PING"), "+QUEUED\r\n");
    }
    assert!(client.call("EXEC").starts_with("*1000\r\n"));
    // 140,000 bytes on the wire are more than a megabyte of memory.
    assert_eq!(client.call("MULTI"), "+OK\r\n");
    push(&mut client, &encode(&[b"PING"]).repeat(10_000));
    let mut replies = std::iter::from_fn(|| client.reply_bytes());
    assert!(replies.all(|reply| reply == b"+QUEUED\r\n"));
    assert_eq!(stat(&mut other, "client_query_buffer_limit_disconnections"), 1);
    assert!(other.call("CONFIG SET client-query-buffer-limit 1000").starts_with("-ERR"));
}

#[test]
fn a_client_that_sends_no_whole_command_is_disconnected() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    set(&mut other, "client-query-buffer-limit", "1mb");
    push(&mut client, b"*2\r\n$3\r\nGET\r\n$8000000\r\n");
    push(&mut client, &vec![b'x'; 4 << 20]);
    assert!(client.is_closed());
    assert_eq!(stat(&mut other, "client_query_buffer_limit_disconnections"), 1);
}

#[test]
fn replies_that_are_not_read_have_a_limit() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    let value = vec![b'v'; 16 << 20];
    other.call_args(&[b"SET", b"a", &value]);
    set(&mut other, "client-output-buffer-limit", "normal 1000000 0 0 replica 1 2 3");
    client.send(b"GET a\r\n");
    assert!(client.is_closed());
    assert_eq!(stat(&mut other, "client_output_buffer_limit_disconnections"), 1);
    // More than a soft limit, for as long as it allows.
    set(&mut other, "client-output-buffer-limit", "normal 0 100000 0");
    let mut client = server.client();
    client.send(b"GET a\r\n");
    let closed = || stat(&mut other, "client_output_buffer_limit_disconnections");
    wait_until("the end of a client that does not read", closed, |&closed| closed == 2);
    let shown = other.call("CONFIG GET client-output-buffer-limit");
    assert!(shown.contains("normal 0 100000 0 slave 1 2 3 pubsub 33554432 8388608 60"), "{shown}");
}

#[test]
fn of_all_clients_those_go_first_that_take_most() {
    let server = Running::start();
    let mut control = server.client();
    assert_eq!(control.call("CLIENT NO-EVICT on"), "+OK\r\n");
    let waiting = |size: usize| {
        let mut client = server.client();
        push(&mut client, format!("*2\r\n$3\r\nGET\r\n${}\r\n", 8 << 20).as_bytes());
        push(&mut client, &vec![b'x'; size]);
        client
    };
    let (mut small, mut large, mut protected) =
        (waiting(100_000), waiting(3 << 20), server.client());
    protected.call("CLIENT NO-EVICT on");
    push(&mut protected, format!("*2\r\n$3\r\nGET\r\n${}\r\n", 8 << 20).as_bytes());
    push(&mut protected, &vec![b'x'; 1 << 20]);
    let used = || stat(&mut control, "mem_clients_normal");
    wait_until("all to have arrived", used, |&used| used > 4_300_000);
    set(&mut control, "maxmemory-clients", "4mb");
    assert!(large.is_closed());
    wait_until("the count", || stat(&mut control, "evicted_clients"), |&count| count == 1);
    // The other ones are still there, and can go on.
    set(&mut control, "maxmemory-clients", "0");
    for (client, sent) in [(&mut small, 100_000), (&mut protected, 1 << 20)] {
        push(client, &vec![b'x'; (8 << 20) - sent]);
        push(client, b"\r\nPING\r\n");
        assert_eq!(client.reply(), "$-1\r\n");
        assert_eq!(client.reply(), "+PONG\r\n");
    }
    set(&mut control, "maxmemory-clients", "5%");
    assert!(control.call("CONFIG GET maxmemory-clients").ends_with("$2\r\n5%\r\n"));
    assert!(control.call("CONFIG SET maxmemory-clients x").contains("memory or percent value"));
}

/// Bytes of memory that are held for a client beside its buffers, as CLIENT LIST shows them.
fn held(control: &mut Client, id: u64) -> u64 {
    let line = control.call(&format!("CLIENT LIST ID {id}"));
    let number = |name: &str| -> u64 {
        let found = line.split(' ').find_map(|word| word.strip_prefix(&format!("{name}=")));
        found.unwrap_or_else(|| panic!("{line}")).parse().unwrap()
    };
    number("tot-mem") - number("qbuf") - number("qbuf-free") - number("rbs")
}

#[test]
fn what_a_client_waits_for_watches_and_subscribes_to_counts() {
    let server = Running::start();
    let (mut client, mut control) = (server.client(), server.client());
    let id: u64 = client.call("CLIENT ID")[1..].trim_end().parse().unwrap();
    let plain = held(&mut control, id);
    let names: Vec<String> = (0..1000).map(|nth| format!("{nth:0>100}")).collect();
    let all = names.join(" ");
    assert_eq!(client.call(&format!("WATCH {all}")), "+OK\r\n");
    assert!(held(&mut control, id) > plain + 200_000);
    assert_eq!(client.call("UNWATCH"), "+OK\r\n");
    assert_eq!(held(&mut control, id), plain);
    for (subscribe, unsubscribe) in [("SUBSCRIBE", "UNSUBSCRIBE"), ("PSUBSCRIBE", "PUNSUBSCRIBE")] {
        for command in [format!("{subscribe} {all}"), format!("{subscribe} {}", names[0])] {
            client.send(&encode(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>()));
        }
        (0..=names.len()).for_each(|_| drop(client.reply()));
        assert!(held(&mut control, id) > plain + 200_000);
        client.send(&encode(&[unsubscribe.as_bytes()]));
        names.iter().for_each(|_| drop(client.reply()));
        assert_eq!(held(&mut control, id), plain);
    }
    let command = format!("BLPOP {all} 0");
    client.send(&encode(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>()));
    wait_until("the wait", || held(&mut control, id), |&size| size > plain + 200_000);
    assert_eq!(control.call(&format!("RPUSH {} v", names[7])), ":1\r\n");
    assert!(client.call("PING").starts_with("*2\r\n"));
    assert_eq!(client.reply(), "+PONG\r\n");
    assert_eq!(held(&mut control, id), plain);
    // One that subscribes to much goes, if all take too much.
    assert_eq!(control.call("CLIENT NO-EVICT on"), "+OK\r\n");
    for round in 0..10 {
        let names = names.iter().map(|name| format!("{round}{name}"));
        let command = format!("SSUBSCRIBE {}", names.collect::<Vec<_>>().join(" "));
        client.send(&encode(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>()));
        (0..1000).for_each(|_| drop(client.reply()));
    }
    set(&mut control, "maxmemory-clients", "2mb");
    assert!(client.is_closed());
}
