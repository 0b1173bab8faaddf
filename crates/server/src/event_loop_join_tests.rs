//! Unions, intersections and differences of large sets: their replies come in later turns.

use super::*;

use crate::element_listing::READ_AT_ONCE;

/// Adds the members `e` and these numbers to a set.
pub(super) fn add(
    event_loop: &mut EventLoop<'_>,
    client: &mut TcpStream,
    set: &str,
    numbers: impl Iterator<Item = usize>,
) {
    let names: Vec<String> = numbers.map(|number| format!(" e{number:06}")).collect();
    for names in names.chunks(2000) {
        client.write_all(format!("SADD {set}{}\r\n", names.concat()).as_bytes()).unwrap();
        assert_eq!(replies(event_loop, client, 1), format!(":{}\r\n", names.len()));
    }
}

/// What the client is replied to these requests.
pub(super) fn answer(
    event_loop: &mut EventLoop<'_>,
    client: &mut TcpStream,
    requests: &str,
) -> String {
    client.write_all(format!("{requests}\r\nPING\r\n").as_bytes()).unwrap();
    before_pong(event_loop, client)
}

/// What the client is replied before the reply to PING.
pub(super) fn before_pong(event_loop: &mut EventLoop<'_>, client: &mut TcpStream) -> String {
    let (mut text, mut bytes, began) = (String::new(), vec![0; 64 << 10], Instant::now());
    client.set_nonblocking(true).unwrap();
    while !text.ends_with("+PONG\r\n") {
        match client.read(&mut bytes) {
            Ok(0) => panic!("disconnected after {} bytes", text.len()),
            Ok(count) => text += &String::from_utf8_lossy(&bytes[..count]),
            Err(_) => event_loop.step().unwrap(),
        }
        assert!(began.elapsed() < PATIENCE, "{} bytes have come", text.len());
    }
    client.set_nonblocking(false).unwrap();
    text.truncate(text.len() - "+PONG\r\n".len());
    text
}

/// The command that is put off for a client: the memory of it.
pub(super) fn memory(event_loop: &mut EventLoop<'_>) -> Option<usize> {
    let mut clients = event_loop.turns.clients.iter_mut();
    clients.find_map(|(_, one)| one.session.put_off.as_ref().map(|put_off| put_off.memory()))
}

/// A seed, and random numbers below others.
pub(super) fn random_numbers() -> (u64, impl FnMut(u64) -> u64) {
    let seed = std::env::var("TEMBO_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    let mut state: u64 = seed;
    // Knuth's linear congruential generator.
    let random = move |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    (seed, random)
}

/// What the client is replied to a command in a transaction: there it is executed whole.
pub(super) fn answer_at_once(
    event_loop: &mut EventLoop<'_>,
    client: &mut TcpStream,
    command: &str,
) -> String {
    let text = answer(event_loop, client, &format!("MULTI\r\n{command}\r\nEXEC"));
    text.strip_prefix("+OK\r\n+QUEUED\r\n*1\r\n").unwrap().to_owned()
}

/// Begins a command.
pub(super) fn begin(event_loop: &mut EventLoop<'_>, client: &mut TcpStream, command: &str) {
    client.write_all(format!("{command}\r\nPING\r\n").as_bytes()).unwrap();
    arrived(event_loop, command.len() + 8);
    event_loop.step().unwrap();
}

/// All other clients waited while large sets were joined, also if they have no member in common.
#[test]
fn large_sets_are_joined_beside_other_clients() {
    const COUNT: usize = 20_000;
    with_loop(|event_loop, address| {
        let [mut client, mut other] = clients(event_loop, address);
        add(event_loop, &mut other, "even", (0..COUNT).map(|number| number * 2));
        add(event_loop, &mut other, "odd", (0..COUNT).map(|number| number * 2 + 1));
        for (protocol, empty) in [(2, "*0\r\n"), (3, "~0\r\n")] {
            answer(event_loop, &mut client, &format!("HELLO {protocol}"));
            for (command, expected) in [
                ("SINTER even odd", empty),
                ("SINTERCARD 2 even odd", ":0\r\n"),
                ("SDIFF even odd even2", "SMEMBERS even"),
                ("SUNION odd even", "SUNION nosuch odd even"),
            ] {
                begin(event_loop, &mut client, command);
                let mut turns = 0;
                while let Some(memory) = memory(event_loop) {
                    // What others do meanwhile is not seen.
                    let change = format!("SADD odd e{:06}\r\nSREM even e039998\r\n", turns * 2);
                    other.write_all(change.as_bytes()).unwrap();
                    arrived(event_loop, change.len());
                    assert!(replies(event_loop, &mut other, 2).starts_with(":1\r\n"));
                    assert!(expected.starts_with('S') || memory < 32 << 10, "{memory}");
                    turns += 1;
                }
                assert!(turns > COUNT / READ_AT_ONCE, "{command}: {turns}");
                let added: String = (0..turns).map(|turn| format!(" e{:06}", turn * 2)).collect();
                answer(event_loop, &mut other, &format!("SREM odd{added}\r\nSADD even e039998"));
                if expected.starts_with('S') {
                    let text = before_pong(event_loop, &mut client);
                    let expected = answer(event_loop, &mut client, expected);
                    assert!(text == expected, "{command}: {} {}", text.len(), expected.len());
                } else {
                    let text = replies(event_loop, &mut client, 2);
                    assert_eq!(text, format!("{expected}+PONG\r\n"), "{command}");
                }
            }
        }
    });
}

/// The reply to one command, with its members in order.
fn sorted(reply: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = reply.split_terminator("\r\n").collect();
    if lines[0].starts_with(['*', '~']) {
        // Before each member stands its size.
        lines.retain(|line| !line.starts_with('$'));
        lines[1..].sort_unstable();
    }
    lines
}

#[test]
fn what_large_sets_make_in_later_turns_is_what_they_make_at_once() {
    let (seed, mut random) = random_numbers();
    with_loop(|event_loop, address| {
        let [mut client] = clients(event_loop, address);
        // Dense and thin sets of some range of members, and small ones.
        for set in 0..9 {
            let from = random(8000);
            let (to, step) = (from + [100, 4000, 12_000][set % 3], 1 + random(3 << (set / 3 * 2)));
            let numbers = (from..to).filter(|_| random(step) == 0).map(|number| number as usize);
            let numbers: Vec<usize> = numbers.collect();
            add(event_loop, &mut client, &format!("s{set}"), numbers.into_iter());
        }
        add(event_loop, &mut client, "all", 0..24_000);
        add(event_loop, &mut client, "expired", 0..5000);
        add(event_loop, &mut client, "expires", 3000..9000);
        answer(
            event_loop,
            &mut client,
            "PEXPIRE expires 1000000\r\nPEXPIRE expired 1\r\nSET text v",
        );
        std::thread::sleep(Duration::from_millis(5));
        let mut keys: Vec<String> = (0..9).map(|set| format!("s{set}")).collect();
        keys.extend(["all", "all", "expires", "expires", "expired", "nosuch"].map(String::from));
        let mut put_off = 0;
        for round in 0..100 {
            answer(event_loop, &mut client, &format!("HELLO {}", 2 + round % 2));
            let count = 1 + random(5);
            let mut chosen: Vec<&str> =
                (0..count).map(|_| keys[random(keys.len() as u64) as usize].as_str()).collect();
            if round % 20 == 19 {
                chosen.push("text");
            }
            let names = chosen.join(" ");
            let command = match random(5) {
                0 | 1 => format!("SINTER {names}"),
                2 => format!("SUNION {names}"),
                3 => format!("SDIFF {names}"),
                _ => format!("SINTERCARD {} {names} LIMIT {}", chosen.len(), random(3) * 2500),
            };
            let at_once = answer_at_once(event_loop, &mut client, &command);
            begin(event_loop, &mut client, &command);
            let waits = memory(event_loop).is_some();
            put_off += usize::from(waits);
            let text = before_pong(event_loop, &mut client);
            let case = format!("TEMBO_SEED={seed} {command}");
            assert!(sorted(&text) == sorted(&at_once), "{case}: {} {}", text.len(), at_once.len());
            assert!(!waits || !text.starts_with('-'), "{case}: {text}");
            assert_eq!(chosen.contains(&"text"), text.starts_with("-WRONGTYPE"), "{case}");
        }
        assert!(put_off > 10, "TEMBO_SEED={seed}: {put_off}");
    });
}

#[test]
fn a_client_that_is_killed_while_sets_are_joined_takes_its_command_with_it() {
    with_loop(|event_loop, address| {
        let [mut client, mut other, mut third] = clients(event_loop, address);
        add(event_loop, &mut other, "a", 0..9000);
        add(event_loop, &mut other, "b", (0..9000).map(|number| number * 2));
        let id = answer(event_loop, &mut client, "CLIENT ID");
        begin(event_loop, &mut client, "SUNION a b");
        begin(event_loop, &mut third, "SINTER a b");
        let waiting = |event_loop: &mut EventLoop<'_>| {
            let clients = event_loop.turns.clients.iter_mut();
            clients.filter(|(_, one)| one.session.put_off.is_some()).count()
        };
        assert_eq!(waiting(event_loop), 2);
        drop(third);
        let kill = format!("CLIENT KILL ID {}", id[1..].trim_end());
        assert_eq!(answer(event_loop, &mut other, &kill), ":1\r\n");
        let began = Instant::now();
        while event_loop.turns.clients.count() > 1 {
            event_loop.step().unwrap();
            assert!(began.elapsed() < PATIENCE);
        }
        assert_eq!(last_words(&mut client), "");
        assert_eq!(answer(event_loop, &mut other, "SINTERCARD 2 a b"), ":4500\r\n");
    });
}

/// To a client with a cache nothing is shown in later turns, and in a script nothing is put off.
#[test]
fn what_cannot_wait_is_joined_at_once() {
    with_loop(|event_loop, address| {
        let [mut client] = clients(event_loop, address);
        add(event_loop, &mut client, "a", 0..9000);
        add(event_loop, &mut client, "b", (0..9000).map(|number| number * 2));
        let script = "EVAL \"return #redis.call('SINTER','a','b')\" 0";
        begin(event_loop, &mut client, script);
        assert_eq!(memory(event_loop), None);
        assert_eq!(replies(event_loop, &mut client, 2), ":4500\r\n+PONG\r\n");
        // One that has no result, whatever the set has.
        begin(event_loop, &mut client, "SDIFF a b a");
        assert_eq!(memory(event_loop), None);
        assert_eq!(replies(event_loop, &mut client, 2), "*0\r\n+PONG\r\n");
        answer(event_loop, &mut client, "HELLO 3\r\nCLIENT TRACKING ON");
        begin(event_loop, &mut client, "SINTER a b");
        assert_eq!(memory(event_loop), None);
        let text = replies(event_loop, &mut client, 1 + 2 * 4500 + 1);
        assert!(text.starts_with("~4500\r\n$7\r\ne000000\r\n"), "{}", &text[..30]);
    });
}
