//! Commands that are put off: their replies come in later turns.

use super::*;

/// A command, its header in both protocols, and how it shows an element.
type Listed<'a> = (&'a str, [&'a str; 2], &'a dyn Fn(String) -> String);

/// All other clients waited while a large collection was read.
#[test]
fn elements_of_a_large_collection_are_read_beside_other_clients() {
    const COUNT: usize = 7000;
    with_loop(|event_loop, address| {
        let [mut reader, mut other] = clients(event_loop, address);
        for hundred in 0..COUNT / 100 {
            let names = (0..100).map(|number| format!("e{:05}", hundred * 100 + number));
            let (members, pairs): (String, String) =
                names.map(|name| (format!(" {name}"), format!(" {name} v"))).unzip();
            let requests = format!("SADD set{members}\r\nHSET hash{pairs}\r\n");
            reader.write_all(requests.as_bytes()).unwrap();
            assert_eq!(replies(event_loop, &mut reader, 2), ":100\r\n:100\r\n");
        }
        let member = |name: String| format!("$6\r\n{name}\r\n");
        let value = |_: String| "$1\r\nv\r\n".to_owned();
        let pair = |name: String| format!("$6\r\n{name}\r\n$1\r\nv\r\n");
        let shown: [Listed<'_>; 4] = [
            ("SMEMBERS set", ["*7000", "~7000"], &member),
            ("HGETALL hash", ["*14000", "%7000"], &pair),
            ("HKEYS hash", ["*7000", "*7000"], &member),
            ("HVALS hash", ["*7000", "*7000"], &value),
        ];
        for (protocol, (command, headers, show)) in
            [0, 1].into_iter().flat_map(|protocol| shown.map(|shown| (protocol, shown)))
        {
            reader.write_all(format!("HELLO {}\r\nPING\r\n", protocol + 2).as_bytes()).unwrap();
            while !replies(event_loop, &mut reader, 1).ends_with("+PONG\r\n") {}
            // What comes before it in its own turn is seen, what others do meanwhile is not; what comes behind it waits.
            let before = "SREM set x0\r\nHDEL hash x0\r\n";
            reader.write_all(format!("{before}{command}\r\nPING\r\n").as_bytes()).unwrap();
            replies(event_loop, &mut reader, 2);
            let mut turns = 0;
            while event_loop.turns.clients.iter_mut().any(|(_, one)| one.session.put_off.is_some())
            {
                let change =
                    "SADD set x0\r\nHSET hash x0 v\r\nSREM set e06999\r\nHDEL hash e06999\r\n";
                other.write_all(change.as_bytes()).unwrap();
                replies(event_loop, &mut other, 4);
                turns += 1;
            }
            assert!(
                turns >= COUNT / crate::element_listing::READ_AT_ONCE - 1,
                "{command}: {turns}"
            );
            let elements = (0..COUNT).map(|number| show(format!("e{number:05}")));
            let expected =
                format!("{}\r\n{}+PONG\r\n", headers[protocol], elements.collect::<String>());
            let text = replies(event_loop, &mut reader, expected.matches("\r\n").count());
            assert!(text == expected, "{command}: {} {}", text.len(), &text[..60]);
            other.write_all(b"SADD set e06999\r\nHSET hash e06999 v\r\n").unwrap();
            replies(event_loop, &mut other, 2);
        }
        // In a transaction it is not put off.
        reader.write_all(b"MULTI\r\nSMEMBERS set\r\nSCARD set\r\nEXEC\r\n").unwrap();
        let text = replies(event_loop, &mut reader, 3 + 1 + 1 + 2 * (COUNT + 1) + 1);
        assert!(text.ends_with(":7001\r\n") && text.contains("*2\r\n~7001\r\n$6\r\ne00000\r\n"));
    });
}

/// A set of so many members, as a client makes it.
fn make_set(event_loop: &mut EventLoop<'_>, client: &mut TcpStream, count: usize) {
    for hundred in 0..count / 100 {
        let names = (0..100).map(|number| format!(" e{:05}", hundred * 100 + number));
        client.write_all(format!("SADD set{}\r\n", names.collect::<String>()).as_bytes()).unwrap();
        assert_eq!(replies(event_loop, client, 1), ":100\r\n");
    }
}

/// In RESP3 a command, and then SMEMBERS, of which one turn was executed.
fn list_behind(event_loop: &mut EventLoop<'_>, client: &mut TcpStream, command: &str) {
    client.write_all(format!("HELLO 3\r\n{command}\r\nPING\r\n").as_bytes()).unwrap();
    while !replies(event_loop, client, 1).ends_with("+PONG\r\n") {}
    client.write_all(b"SMEMBERS set\r\n").unwrap();
    arrived(event_loop, 14);
    event_loop.step().unwrap();
}

/// The reply never came: no more input was there, and that the turn had no more to spend was no reason to come back.
#[test]
fn what_is_put_off_by_the_last_command_of_a_full_turn_is_replied_to() {
    const COUNT: usize = 7000;
    with_loop(|event_loop, address| {
        let mut all: [TcpStream; 10] = clients(event_loop, address);
        make_set(event_loop, &mut all[0], COUNT);
        let each = crate::turn::COMMANDS_MAX as usize / all.len();
        let pings = "PING\r\n".repeat(each - 1);
        for (number, client) in all.iter_mut().enumerate() {
            let last = if number == 9 { "SMEMBERS set\r\n" } else { "PING\r\n" };
            client.write_all(format!("{pings}{last}").as_bytes()).unwrap();
        }
        arrived(event_loop, 10 * 6 * each + "SMEMBERS set".len() - "PING".len());
        let text = replies(event_loop, &mut all[9], each + 2 * COUNT);
        let expected = format!("{}*7000\r\n$6\r\ne00000\r\n", "+PONG\r\n".repeat(each - 1));
        assert!(text.starts_with(&expected), "{}", text.len());
    });
}

/// Two clients went on in each turn, and always the same two, as long as they had commands to send.
#[test]
fn a_client_that_lists_once_is_not_kept_waiting_by_those_that_list_without_end() {
    const COUNT: usize = 7000;
    with_loop(|event_loop, address| {
        let mut all: [TcpStream; 4] = clients(event_loop, address);
        make_set(event_loop, &mut all[0], COUNT);
        let command = "SMEMBERS set\r\n";
        for client in &mut all[..3] {
            client.write_all(command.repeat(20).as_bytes()).unwrap();
        }
        arrived(event_loop, 3 * 20 * command.len());
        event_loop.step().unwrap();
        all[3].write_all(command.as_bytes()).unwrap();
        replies(event_loop, &mut all[3], 1 + 2 * COUNT);
        let waiting = event_loop.turns.clients.iter_mut();
        let waiting = waiting.filter(|(_, client)| client.session.put_off.is_some());
        assert_eq!(waiting.count(), 3);
    });
}

/// A turn read 2,048 elements of any size.
#[test]
fn few_large_elements_are_read_in_a_turn() {
    with_loop(|event_loop, address| {
        let [mut client] = clients(event_loop, address);
        let script = "for i=1,5000 do redis.call('HSET','hash','e'..i,'v') end \
            for i=1,6 do redis.call('HSET','hash','a'..i,string.rep('x',600000)) end return 6";
        let request = format!("*3\r\n$4\r\nEVAL\r\n${}\r\n{script}\r\n$1\r\n0\r\n", script.len());
        client.write_all(request.as_bytes()).unwrap();
        assert_eq!(replies(event_loop, &mut client, 1), ":6\r\n");
        client.write_all(b"HVALS hash\r\n").unwrap();
        arrived(event_loop, 12);
        let mut turns = 0;
        event_loop.step().unwrap();
        while event_loop.turns.clients.iter_mut().any(|(_, one)| one.session.put_off.is_some()) {
            event_loop.step().unwrap();
            turns += 1;
        }
        // Two of the large ones in each, and 2,048 of the others.
        assert!(turns >= 3 + 2, "{turns}");
        let mut begin = [0; 19];
        client.read_exact(&mut begin).unwrap();
        assert_eq!(&begin, b"*5006\r\n$600000\r\nxxx");
    });
}

/// A client with a cache got a message that what it had asked for had changed, and then what it had been.
#[test]
fn to_a_client_that_gets_messages_of_changes_nothing_is_listed_behind_them() {
    const COUNT: usize = 7000;
    with_loop(|event_loop, address| {
        let [mut client, mut other] = clients(event_loop, address);
        make_set(event_loop, &mut other, COUNT);
        list_behind(event_loop, &mut client, "CLIENT TRACKING ON");
        other.write_all(b"SREM set e00000\r\n").unwrap();
        assert_eq!(replies(event_loop, &mut other, 1), ":1\r\n");
        let text = replies(event_loop, &mut client, 1 + 2 * COUNT + 6);
        assert!(text.starts_with("~7000\r\n$6\r\ne00000\r\n"), "{}", &text[..60]);
        assert!(text.ends_with(">2\r\n$10\r\ninvalidate\r\n*1\r\n$3\r\nset\r\n"));
    });
}

/// A turn that fails takes the command with it that an earlier one has put off: there is an error for it, and later replies stay
/// where they belong.
#[test]
fn a_command_put_off_by_an_earlier_turn_has_an_error_if_a_turn_fails() {
    const COUNT: usize = 7000;
    with_loop(|event_loop, address| {
        let [mut client, mut other] = clients(event_loop, address);
        make_set(event_loop, &mut client, COUNT);
        list_behind(event_loop, &mut client, "SUBSCRIBE news");
        assert!(event_loop.turns.clients.iter_mut().any(|(_, one)| one.session.put_off.is_some()));
        // A message opens the turn of the client that waits for its members.
        other.write_all(b"PUBLISH news one\r\nSET a 1\r\n").unwrap();
        arrived(event_loop, 26);
        event_loop.turns.data.fault = Some(StoreError::TooManyAborts);
        assert!(replies(event_loop, &mut other, 2).starts_with("-ERR"));
        client.write_all(b"PING\r\n").unwrap();
        let text = replies(event_loop, &mut client, 2);
        assert!(text.starts_with("-ERR") && text.ends_with("+PONG\r\n"), "{text}");
    });
}

/// What a client had sent behind a command that a pause held waited for more of its input, if the turn of the command failed.
#[test]
fn what_stands_behind_a_held_command_is_executed_though_its_turn_fails() {
    with_loop(|event_loop, address| {
        let [mut client] = clients(event_loop, address);
        client.write_all(b"CLIENT PAUSE 100000 ALL\r\nINFO server\r\nPING\r\n").unwrap();
        assert_eq!(replies(event_loop, &mut client, 1), "+OK\r\n");
        let is_held = |event_loop: &mut EventLoop<'_>| {
            event_loop.turns.clients.iter_mut().any(|(_, one)| one.session.postponed.is_some())
        };
        assert!(is_held(event_loop));
        event_loop.turns.shared.pause.end();
        event_loop.turns.data.fault = Some(StoreError::TooManyAborts);
        event_loop.step().unwrap();
        assert!(!is_held(event_loop));
        for _ in 0..3 {
            event_loop.step().unwrap();
        }
        let mut text = [0; 4096];
        let size = client.read(&mut text).unwrap();
        let text = String::from_utf8_lossy(&text[..size]);
        assert!(text.starts_with("-ERR") && text.ends_with("\r\n+PONG\r\n"), "{text}");
    });
}

/// It was in no list any more.
#[test]
fn a_held_client_is_executed_though_another_pause_begins_as_the_first_one_ends() {
    with_loop(|event_loop, address| {
        let [mut client, mut other] = clients(event_loop, address);
        executed(event_loop, &mut other, "CLIENT PAUSE 100000 ALL\r\n", 1);
        client.write_all(b"PING\r\n").unwrap();
        arrived(event_loop, 6);
        event_loop.step().unwrap();
        other.write_all(b"CLIENT PAUSE 100000 ALL\r\n").unwrap();
        arrived(event_loop, 25);
        event_loop.turns.shared.pause.end();
        replies(event_loop, &mut other, 1);
        event_loop.turns.shared.pause.end();
        assert_eq!(replies(event_loop, &mut client, 1), "+PONG\r\n");
    });
}

/// The time of its first turn alone was counted, and SLOWLOG had an entry before the command had ended.
#[test]
fn a_command_that_is_put_off_has_one_entry_of_all_its_turns_in_the_slow_log() {
    const COUNT: usize = 14_000;
    with_loop(|event_loop, address| {
        let [mut client, mut other] = clients(event_loop, address);
        make_set(event_loop, &mut other, COUNT);
        client.write_all(b"CONFIG SET slowlog-log-slower-than 0\r\nSLOWLOG RESET\r\n").unwrap();
        replies(event_loop, &mut client, 2);
        let entries = |event_loop: &EventLoop<'_>| {
            let log = event_loop.turns.shared.observed.slow.iter();
            let listed = log.filter(|entry| entry.args[0] == b"SMEMBERS");
            listed.map(|entry| (entry.args.len(), entry.took_us)).collect::<Vec<_>>()
        };
        client.write_all(b"SMEMBERS set\r\nPING\r\n").unwrap();
        arrived(event_loop, 20);
        event_loop.step().unwrap();
        let took = |event_loop: &mut EventLoop<'_>| {
            let mut all = event_loop.turns.clients.iter_mut();
            all.find_map(|(_, one)| one.session.put_off.as_ref().map(|put_off| put_off.took_ns()))
        };
        let (mut last, mut turns) = (took(event_loop).unwrap(), 0);
        loop {
            assert!(entries(event_loop).is_empty());
            // What it waits is not counted.
            std::thread::sleep(Duration::from_millis(1));
            assert_eq!(took(event_loop), Some(last));
            event_loop.step().unwrap();
            let Some(now) = took(event_loop) else { break };
            assert!(now > last, "{now} {last}");
            (last, turns) = (now, turns + 1);
        }
        assert!(turns > 4, "{turns}");
        let [(args, took_us)] = entries(event_loop)[..] else {
            panic!("{:?}", entries(event_loop))
        };
        assert!(args == 2 && took_us >= last / 1000, "{args} {took_us} {last}");
        replies(event_loop, &mut client, 1 + 2 * COUNT + 1);
        assert_eq!(entries(event_loop).len(), 1);
    });
}
