//! memcached's protocols: what its document says, and the same random commands to memcached itself.

use std::fmt::Write as _;
use std::io::{BufRead, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use tembo_kv::{Options, Store};
use tembo_server::Config;

use crate::client::{Client, Random, Running, wait_until};

fn config() -> Config {
    Config { memcached_port: Some(0), ..Config::default() }
}

fn client(server: &Running) -> Client {
    Client::connect(server.memcached.unwrap())
}

/// Sends what `sent` says and expects exactly `expected` back.
#[track_caller]
fn exchange(client: &mut Client, sent: &str, expected: &str) {
    client.send(sent.as_bytes());
    let mut got = vec![0; expected.len()];
    client.stream.read_exact(&mut got).unwrap();
    assert_eq!(String::from_utf8_lossy(&got), expected, "{sent:?}");
}

fn line(client: &mut Client) -> String {
    let mut line = String::new();
    client.stream.read_line(&mut line).unwrap();
    line
}

/// The CAS value that `gets` shows.
fn cas_of(client: &mut Client, key: &str) -> u64 {
    client.send(format!("gets {key}\r\n").as_bytes());
    let head = line(client);
    let cas = head.trim_end().rsplit(' ').next().unwrap().parse().unwrap();
    let size: usize = head.trim_end().split(' ').nth(3).unwrap().parse().unwrap();
    let mut rest = vec![0; size + 2 + 5];
    client.stream.read_exact(&mut rest).unwrap();
    cas
}

#[test]
fn items_are_stored_and_read() {
    let server = Running::with(config());
    let client = &mut client(&server);
    exchange(client, "set a 7 0 5\r\nhello\r\n", "STORED\r\n");
    exchange(client, "get a b\r\n", "VALUE a 7 5\r\nhello\r\nEND\r\n");
    exchange(client, "add a 0 0 1\r\nx\r\n", "NOT_STORED\r\n");
    exchange(client, "append a 9 0 1\r\n!\r\nprepend a 9 0 2\r\n, \r\n", "STORED\r\nSTORED\r\n");
    exchange(client, "get a\r\n", "VALUE a 7 8\r\n, hello!\r\nEND\r\n");
    exchange(client, "replace b 0 0 1\r\nx\r\n", "NOT_STORED\r\n");
    exchange(client, "set n 0 0 2\r\n10\r\ndecr n 1\r\nincr n 5\r\n", "STORED\r\n9\r\n14\r\n");
    exchange(
        client,
        "decr n 100\r\nincr n 18446744073709551615\r\nincr n 1\r\n",
        "0\r\n18446744073709551615\r\n0\r\n",
    );
    exchange(
        client,
        "touch a 0\r\ndelete a\r\ndelete a\r\n",
        "TOUCHED\r\nDELETED\r\nNOT_FOUND\r\n",
    );
    exchange(client, "set q 0 0 1 noreply\r\nx\r\nget q\r\n", "VALUE q 0 1\r\nx\r\nEND\r\n");
    exchange(client, "flush_all\r\nget q\r\n", "OK\r\nEND\r\n");
    exchange(client, "verbosity 1\r\nmn\r\nnone\r\n", "OK\r\nMN\r\nERROR\r\n");
    // Clients of Redis do not see them.
    assert_eq!(server.client().call("DBSIZE"), ":0\r\n");
}

#[test]
fn a_cas_value_is_of_one_change() {
    let server = Running::with(config());
    let client = &mut client(&server);
    exchange(client, "cas a 0 0 1 1\r\nx\r\n", "NOT_FOUND\r\n");
    exchange(client, "set a 0 0 1\r\nx\r\n", "STORED\r\n");
    let cas = cas_of(client, "a");
    exchange(client, &format!("cas a 0 0 1 {cas}\r\ny\r\n"), "STORED\r\n");
    exchange(client, &format!("cas a 0 0 1 {cas}\r\nz\r\n"), "EXISTS\r\n");
    // Two changes in one turn differ.
    exchange(client, "set a 0 0 1\r\nx\r\nset a 0 0 1\r\ny\r\n", "STORED\r\nSTORED\r\n");
    let last = cas_of(client, "a");
    exchange(client, &format!("cas a 0 0 1 {}\r\nz\r\n", last - 1), "EXISTS\r\n");
    exchange(client, &format!("cas a 0 0 1 {last}\r\nz\r\n"), "STORED\r\n");
}

#[test]
fn meta_commands_have_flags() {
    let server = Running::with(config());
    let client = &mut client(&server);
    exchange(client, "ms a 2 T600000 F5\r\nhi\r\n", "HD\r\n");
    exchange(client, "mg a s v f Oq k h\r\n", "VA 2 s2 f5 Oq ka h0\r\nhi\r\n");
    client.send(b"mg a t l\r\n");
    let reply = line(client);
    let numbers: Vec<u64> =
        reply.trim_end().split(' ').skip(1).map(|word| word[1..].parse().unwrap()).collect();
    assert!(numbers[0] <= 600_000 && numbers[1] < 600_000, "{reply}");
    exchange(client, "mg a h\r\nmg none v\r\nmg none q\r\nmn\r\n", "HD h1\r\nEN\r\nMN\r\n");
    exchange(
        client,
        "ms a 1 MA\r\n!\r\nms b 1 MA N0\r\nx\r\nmg b t v\r\n",
        "HD\r\nHD\r\nVA 1 t-1\r\nx\r\n",
    );
    exchange(client, "ms a S\r\n", "CLIENT_ERROR bad command line format\r\n");
    exchange(client, "ms a 1 ME\r\nx\r\nms c 1 MR\r\nx\r\n", "NS\r\nNS\r\n");
    // A miss makes an item, and one client is to fill it.
    exchange(client, "mg v N3000 v\r\nmg v N3000 v\r\n", "VA 0 W\r\n\r\nVA 0 Z\r\n\r\n");
    exchange(client, "ms v 1 T6000\r\nx\r\nmd v I T0\r\n", "HD\r\nHD\r\n");
    exchange(client, "mg v v t\r\nmg v v\r\n", "VA 1 t-1 X W\r\nx\r\nVA 1 Z X\r\nx\r\n");
    exchange(client, "md v q\r\nmd v\r\n", "NF\r\n");
    exchange(
        client,
        "ma n\r\nma n N0 J10 v\r\nma n v t\r\nma n MD D20 v\r\n",
        "NF\r\nVA 2\r\n10\r\nVA 2 t-1\r\n11\r\nVA 1\r\n0\r\n",
    );
    exchange(
        client,
        "ms Zm9v 1 b\r\nx\r\nmg foo v\r\nmg Zm9v b k v\r\n",
        "HD\r\nVA 1\r\nx\r\nVA 1 kZm9v b\r\nx\r\n",
    );
    exchange(
        client,
        "mg a v v\r\nmg a !\r\n",
        "CLIENT_ERROR duplicate flag\r\nCLIENT_ERROR invalid flag\r\n",
    );
    exchange(
        client,
        "ms e 1 E77 c\r\nx\r\nmg e c\r\nms e 1 C76\r\ny\r\n",
        "HD c77\r\nHD c77\r\nEX\r\n",
    );
    exchange(client, "ms e 1 C77 I\r\ny\r\nmd e x\r\nmg e v\r\n", "HD\r\nHD\r\nVA 0\r\n\r\n");
}

#[test]
fn errors_leave_the_connection_in_step() {
    let server = Running::with(Config { memcached_item_size: 10_000, ..config() });
    let client = &mut client(&server);
    let large = "x".repeat(20_000);
    exchange(client, "set a 0 0 1\r\nx\r\n", "STORED\r\n");
    let set = format!("set a 0 0 20000\r\n{large}\r\nget a\r\n");
    // The old value is not kept for the one that was to replace it.
    exchange(client, &set, "SERVER_ERROR object too large for cache\r\nEND\r\n");
    exchange(client, "set a 0 0 1\r\nxyz\r\n", "CLIENT_ERROR bad data chunk\r\nERROR\r\n");
    exchange(
        client,
        &format!("get {}\r\n", "k".repeat(251)),
        "CLIENT_ERROR bad command line format\r\n",
    );
    exchange(client, "set a 0 0 -1\r\n", "CLIENT_ERROR bad command line format\r\n");
    exchange(client, "set a x 0 1\r\n", "CLIENT_ERROR bad command line format\r\n");
    exchange(
        client,
        "incr a x\r\ntouch a x\r\n",
        "CLIENT_ERROR invalid numeric delta argument\r\nCLIENT_ERROR invalid exptime argument\r\n",
    );
    exchange(
        client,
        "set a 0 0 1\r\nx\r\nincr a 1\r\n",
        "STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
    );
    client.send(&b"x".repeat(3000));
    assert_eq!(client.stream.read(&mut [0; 1]).unwrap_or(0), 0, "the connection is closed");
}

#[test]
fn items_expire() {
    let server = Running::with(config());
    let client = &mut client(&server);
    exchange(client, "set a 0 -1 1\r\nx\r\nget a\r\n", "STORED\r\nEND\r\n");
    exchange(client, "set b 0 1000000000 1\r\nx\r\nget b\r\n", "STORED\r\nEND\r\n");
    exchange(
        client,
        "set c 0 2000000000 1\r\nx\r\nget c\r\n",
        "STORED\r\nVALUE c 0 1\r\nx\r\nEND\r\n",
    );
    exchange(
        client,
        "set d 0 1 1\r\nx\r\ngat 0 c\r\nmg c t\r\n",
        "STORED\r\nVALUE c 0 1\r\nx\r\nEND\r\nHD t-1\r\n",
    );
    let gone = |client: &mut Client| {
        client.send(b"mg d\r\n");
        line(client)
    };
    wait_until("the item expires", || gone(client), |reply| reply == "EN\r\n");
}

#[test]
fn a_flush_waits_for_its_time() {
    let server = Running::with(config());
    let client = &mut client(&server);
    exchange(client, "set a 0 0 1\r\nx\r\nflush_all 1\r\n", "STORED\r\nOK\r\n");
    let read = |client: &mut Client| {
        client.send(b"mg a\r\n");
        line(client)
    };
    wait_until("the items are flushed", || read(client), |reply| reply == "EN\r\n");
    exchange(client, "set a 0 0 1\r\nx\r\nget a\r\n", "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
}

#[test]
fn a_password_is_given_as_an_item() {
    let password = Some("secret".to_owned());
    let server = Running::with(Config { requirepass: password, ..config() });
    let client = &mut client(&server);
    exchange(client, "get a\r\n", "CLIENT_ERROR unauthenticated\r\n");
    exchange(client, "set a 0 0 10\r\nuser wrong\r\n", "CLIENT_ERROR authentication failure\r\n");
    exchange(client, "set a 0 0 11\r\nuser secret\r\nget a\r\n", "STORED\r\nEND\r\n");
}

#[test]
fn items_survive_and_move_on() {
    let server = Running::with(config());
    let large = "x".repeat(900_000);
    let set = format!("set a 3 0 900000\r\n{large}\r\n");
    exchange(&mut client(&server), &set, "STORED\r\n");
    let (store, stopped) = server.stop();
    stopped.unwrap();
    let server = Running::over(store, config());
    let expected = format!("VALUE a 3 900000\r\n{large}\r\nEND\r\n");
    exchange(&mut client(&server), "get a\r\n", &expected);
}

#[test]
fn the_binary_protocol_has_the_same_items() {
    let server = Running::with(config());
    let (text, client) = (&mut client(&server), &mut client(&server));
    let request = |opcode: u8, extras: &[u8], key: &[u8], value: &[u8]| {
        let mut bytes = vec![0x80, opcode, 0, key.len() as u8, extras.len() as u8, 0, 0, 0];
        let body = (extras.len() + key.len() + value.len()) as u32;
        bytes.extend_from_slice(&body.to_be_bytes());
        bytes.extend_from_slice(&[1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0]);
        [&bytes, extras, key, value].concat()
    };
    let mut call = |sent: Vec<u8>| {
        client.send(&sent);
        let mut head = [0; 24];
        client.stream.read_exact(&mut head).unwrap();
        assert_eq!((head[0], &head[12..16]), (0x81, &[1, 2, 3, 4][..]));
        let size = u32::from_be_bytes(head[8..12].try_into().unwrap());
        let mut body = vec![0; size as usize];
        client.stream.read_exact(&mut body).unwrap();
        (u16::from_be_bytes([head[6], head[7]]), body)
    };
    let set = request(1, &[0, 0, 0, 9, 0, 0, 0, 0], b"a", b"hello");
    assert_eq!(call(set).0, 0);
    exchange(text, "get a\r\n", "VALUE a 9 5\r\nhello\r\nEND\r\n");
    assert_eq!(call(request(0, &[], b"a", b"")), (0, b"\0\0\0\x09hello".to_vec()));
    assert_eq!(call(request(0x0c, &[], b"a", b"")), (0, b"\0\0\0\x09ahello".to_vec()));
    // Quiet requests say nothing, so that the next answer is that of the one behind them.
    let quiet = [request(0x09, &[], b"none", b""), request(0x0a, &[], b"", b"")].concat();
    assert_eq!(call(quiet), (0, Vec::new()));
    let incr = [&[0; 7][..], &[2], &[0; 7], &[40], &[0; 4]].concat();
    assert_eq!(call(request(5, &incr, b"n", b"")), (0, 40_u64.to_be_bytes().to_vec()));
    assert_eq!(call(request(5, &incr, b"n", b"")), (0, 42_u64.to_be_bytes().to_vec()));
    assert_eq!(call(request(4, &[], b"n", b"")).0, 0);
    assert_eq!(call(request(4, &[], b"n", b"")).0, 1);
    assert_eq!(call(request(0x77, &[], b"", b"")).0, 0x81);
    assert_eq!(call(request(1, &[], b"a", b"")).0, 4);
}

/// memcached, as installed.
struct Memcached {
    child: Child,
    address: SocketAddr,
}

impl Memcached {
    fn start() -> Option<Memcached> {
        for _ in 0..100 {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let address = free.local_addr().unwrap();
            drop(free);
            let port = address.port().to_string();
            let mut command = Command::new("memcached");
            command.args(["-u", "nobody", "-U", "0", "-l", "127.0.0.1", "-p", &port]);
            let Ok(mut child) = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
                println!(
                    "SKIPPED: memcached is not installed, so there is nothing to compare with"
                );
                return None;
            };
            let begun = || {
                let ended = child.try_wait().unwrap().is_some();
                (ended, TcpStream::connect(address).is_ok())
            };
            wait_until("memcached", begun, |&(ended, answers)| ended || answers);
            if child.try_wait().unwrap().is_none() {
                return Some(Memcached { child, address });
            }
        }
        None
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A random command. `n` is only counted and never read: memcached leaves spaces behind a number that has become shorter, or not,
/// as its background work has it.
fn command(random: &mut Random) -> String {
    let mut pick = |words: &[&'static str]| words[random.below(words.len())];
    let key = pick(&["a", "b", "c"]);
    let data = pick(&["", "x", "hello", "1", "99", "18446744073709551615", "12 "]);
    let time = pick(&["0", "0", "10000", "-1", "2592001", "2000000000"]);
    let flags = pick(&["0", "7", "4294967295"]);
    let quiet = pick(&["", "", " noreply"]);
    let delta = pick(&["1", "3", "100", "18446744073709551615", "x"]);
    let ttl = pick(&["0", "5000", "-1"]);
    let kind = pick(&["set", "add", "replace", "append", "prepend"]);
    let meta = pick(&["v", "v s", "f v k", "s", "N3000 v", "R4000 v", "T7000", "q v", "Oabc k"]);
    let mode = pick(&["", " ME", " MA", " MP", " MR", " MS", " T3000", " F5", " q", " Oxy k"]);
    let size = data.len();
    match pick(&[
        "store", "store", "store", "get", "get", "incr", "decr", "delete", "touch", "gat", "mg",
        "mg", "ms", "ms", "md", "ma", "wrong", "cas", "flush",
    ]) {
        "store" if kind == "set" && time == "-1" => {
            format!("set n 0 0 2\r\n{}\r\n", pick(&["17", "xy"]))
        }
        "store" => format!("{kind} {key} {flags} {time} {size}{quiet}\r\n{data}\r\n"),
        "get" => format!("get {key} a b\r\n"),
        "incr" => format!("incr n {delta}{quiet}\r\n"),
        "decr" => format!("decr n {delta}{quiet}\r\n"),
        "delete" => format!("delete {}{quiet}\r\n", pick(&["a", "b", "n"])),
        "touch" => format!("touch {key} {ttl}{quiet}\r\n"),
        "gat" => format!("gat {ttl} {key} b\r\n"),
        "mg" => format!("mg {key} {meta}\r\n"),
        "ms" => format!("ms {key} {size}{mode}\r\n{data}\r\n"),
        "md" => format!("md {key}{}\r\n", pick(&["", " q", " I", " I T3000", " Oz k"])),
        "ma" => format!("ma n{}\r\n", pick(&["", " v", " MD v", " D5 v", " N0 J9 v", " q"])),
        "wrong" => pick(&["get\r\n", "set a\r\n", "foo\r\n", "mg\r\n", "ms a\r\n", "incr a\r\n"])
            .to_owned(),
        "cas" => format!("cas {key} 0 0 {size} 1\r\n{data}\r\n"),
        _ => "flush_all\r\n".to_owned(),
    }
}

/// Everything that a server answers to some commands.
fn answers(address: SocketAddr, commands: &[String]) -> Vec<String> {
    let mut client = Client::connect(address);
    commands
        .iter()
        .map(|command| {
            client.stream.get_mut().write_all(command.as_bytes()).unwrap();
            client.send(b"version\r\n");
            let mut answer = String::new();
            loop {
                let line = line(&mut client);
                assert!(!line.is_empty(), "the connection has ended after {command:?}");
                if line.starts_with("VERSION ") {
                    return answer;
                }
                answer.write_str(&line).unwrap();
            }
        })
        .collect()
}

#[test]
fn random_commands_are_answered_as_memcached_does() {
    let Some(memcached) = Memcached::start() else { return };
    let server = Running::over(Store::volatile(&Options::default()).unwrap(), config());
    let seed = 0x6d65_6d63_6163_6865;
    println!("seed {seed}");
    let mut random = Random(seed);
    let commands: Vec<String> = (0..3000).map(|_| command(&mut random)).collect();
    let theirs = answers(memcached.address, &commands);
    let ours = answers(server.memcached.unwrap(), &commands);
    for (at, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        if ours != theirs {
            let before = &commands[at.saturating_sub(12)..=at];
            panic!("seed {seed}: {before:#?}\nours   {ours:?}\ntheirs {theirs:?}");
        }
    }
}

/// The conformance test of libmemcached; newer versions of it have another name.
#[test]
fn memcapable_finds_nothing() {
    let server = Running::with(config());
    let port = server.memcached.unwrap().port().to_string();
    for tool in ["memcapable", "memccapable"] {
        let mut command = Command::new(tool);
        let Ok(done) = command.args(["-h", "127.0.0.1", "-v", "-t", "60", "-p", &port]).output()
        else {
            continue;
        };
        let shown = String::from_utf8_lossy(&done.stdout).into_owned();
        println!("{shown}{}", String::from_utf8_lossy(&done.stderr));
        assert!(done.status.success() && !shown.contains("[FAIL]"), "{tool} has found something");
        return;
    }
    println!("SKIPPED: memcapable is not installed (apt install libmemcached-tools)");
}
