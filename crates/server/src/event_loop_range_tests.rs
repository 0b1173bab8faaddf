//! Long ranges of lists and sorted sets: their replies come in later turns.

use super::*;

const COUNT: usize = 7000;
/// Elements of which the reply of a command is made in its own turn.
const AT_ONCE: usize = 2 * crate::element_listing::READ_AT_ONCE;

fn send(event_loop: &mut EventLoop<'_>, client: &mut TcpStream, request: &str) -> String {
    client.write_all(request.as_bytes()).unwrap();
    replies(event_loop, client, request.matches("\r\n").count())
}

fn waits(event_loop: &mut EventLoop<'_>) -> bool {
    event_loop.turns.clients.iter_mut().any(|(_, one)| one.session.put_off.is_some())
}

/// What `reader` is replied to a command behind which there is a PING, and in how many turns, each of which executes what `other`
/// sends and replies to it.
fn listed(
    event_loop: &mut EventLoop<'_>,
    [reader, other]: [&mut TcpStream; 2],
    (command, meanwhile): (&str, &str),
    line_ends: usize,
) -> (String, usize) {
    reader.write_all(format!("{command}\r\nPING\r\n").as_bytes()).unwrap();
    arrived(event_loop, command.len() + 8);
    event_loop.step().unwrap();
    let mut turns = 0;
    while waits(event_loop) {
        let text = send(event_loop, other, &format!("{meanwhile}PING\r\n"));
        assert!(text.ends_with("+PONG\r\n"), "{text}");
        turns += 1;
    }
    (replies(event_loop, reader, line_ends), turns)
}

/// The first elements of strips, long ones and such that lie in strips.
fn element(number: usize) -> String {
    let long = if number.is_multiple_of(50) { "x".repeat(70) } else { String::new() };
    format!("e{number:05}{long}")
}

/// All other clients waited while a long list was read.
#[test]
fn a_long_list_is_read_beside_clients_that_push_and_pop() {
    const COUNT: usize = 20_000;
    with_loop(|event_loop, address| {
        let [mut reader, mut other] = clients(event_loop, address);
        // The first position is in the middle of a strip.
        for hundred in (0..COUNT / 100).rev() {
            let elements: String =
                (0..100).rev().map(|at| " ".to_owned() + &element(hundred * 100 + at)).collect();
            send(event_loop, &mut other, &format!("LPUSH list{elements}\r\n"));
        }
        let ranges = [(0, -1), (7, -1), (0, -12), (1001, 9998), (3, AT_ONCE as i64 + 3)];
        for (protocol, (first, last)) in
            [2, 3].into_iter().flat_map(|protocol| ranges.map(|range| (protocol, range)))
        {
            reader.write_all(format!("HELLO {protocol}\r\nPING\r\n").as_bytes()).unwrap();
            while !replies(event_loop, &mut reader, 1).ends_with("+PONG\r\n") {}
            let end = if last < 0 { COUNT as i64 + last } else { last } as usize + 1;
            let shown = (first as usize..end).map(element);
            let shown = shown.map(|element| format!("${}\r\n{element}\r\n", element.len()));
            let count = end - first as usize;
            let expected = format!("*{count}\r\n{}+PONG\r\n", shown.collect::<String>());
            let command = format!("LRANGE list {first} {last}");
            let meanwhile = "LPUSH list a a a\r\nRPUSH list z\r\nRPOP list\r\nLPOP list\r\nLSET list 5000 x\r\n";
            let line_ends = expected.matches("\r\n").count();
            let both = [&mut reader, &mut other];
            let (text, turns) = listed(event_loop, both, (&command, meanwhile), line_ends);
            assert!(text == expected, "{command}: {} {}", text.len(), &text[..60]);
            assert!(
                turns >= count / crate::element_listing::READ_AT_ONCE - 1,
                "{command}: {turns}"
            );
            let mut undo = format!("LTRIM list {} -1\r\n", 2 * turns);
            for turn in 1..=turns {
                // At that index of the list as it was stood another element each time.
                let at = 5000 - 2 * turn;
                undo += &format!("LSET list {at} {}\r\n", element(at));
            }
            send(event_loop, &mut other, &undo);
        }
        let text = send(event_loop, &mut other, "LLEN list\r\n");
        assert_eq!(text, format!(":{COUNT}\r\n"));
        // As many as a turn reads come at once, and in a transaction all do.
        reader.write_all(format!("LRANGE list 1 {AT_ONCE}\r\n").as_bytes()).unwrap();
        arrived(event_loop, 20);
        event_loop.step().unwrap();
        assert!(!waits(event_loop));
        replies(event_loop, &mut reader, 1 + 2 * AT_ONCE);
        reader.write_all(b"MULTI\r\nLRANGE list 0 -1\r\nLLEN list\r\nEXEC\r\n").unwrap();
        let text = replies(event_loop, &mut reader, 3 + 1 + 1 + 2 * COUNT + 1);
        assert!(text.ends_with(":20000\r\n"));
    });
}

/// A command, and the numbers of the members that it lists.
type Query = (&'static str, Vec<usize>);

/// All other clients waited while a long range of a sorted set was read.
#[test]
fn a_long_range_of_a_sorted_set_is_read_beside_clients_that_change_it() {
    with_loop(|event_loop, address| {
        let [mut reader, mut other] = clients(event_loop, address);
        for hundred in 0..COUNT / 100 {
            let (mut scored, mut equal) = ("ZADD scored".to_owned(), "ZADD equal".to_owned());
            for number in hundred * 100..hundred * 100 + 100 {
                scored += &format!(" {} e{number:05}", number as f64 / 2.0);
                equal += &format!(" 0 e{number:05}");
            }
            send(event_loop, &mut other, &format!("{scored}\r\n{equal}\r\n"));
        }
        let queries: [Query; 8] = [
            ("ZRANGE scored 0 -1", (0..COUNT).collect()),
            ("ZRANGE scored 0 -1 WITHSCORES", (0..COUNT).collect()),
            ("ZRANGE scored 10 -11 REV WITHSCORES", (10..COUNT - 10).rev().collect()),
            ("ZREVRANGE scored 1 5000", (COUNT - 5001..COUNT - 1).rev().collect()),
            ("ZRANGEBYSCORE scored (5 +inf WITHSCORES", (11..COUNT).collect()),
            (
                "ZRANGE scored +inf (5 BYSCORE REV LIMIT 3 6000 WITHSCORES",
                (COUNT - 6003..COUNT - 3).rev().collect(),
            ),
            ("ZRANGE equal [e00010 (e06990 BYLEX", (10..6990).collect()),
            ("ZREVRANGEBYLEX equal + (e00010 LIMIT 2 -1", (11..COUNT - 2).rev().collect()),
        ];
        for (resp3, (command, numbers)) in
            [false, true].into_iter().flat_map(|resp3| queries.iter().map(move |one| (resp3, one)))
        {
            let hello = format!("HELLO {}\r\nPING\r\n", 2 + u8::from(resp3));
            reader.write_all(hello.as_bytes()).unwrap();
            while !replies(event_loop, &mut reader, 1).ends_with("+PONG\r\n") {}
            let with_scores = command.contains("WITHSCORES");
            let count = if with_scores && !resp3 { 2 * numbers.len() } else { numbers.len() };
            let mut expected = format!("*{count}\r\n");
            for number in numbers {
                let score = (*number as f64 / 2.0).to_string();
                let member = format!("$6\r\ne{number:05}\r\n");
                expected += &match (with_scores, resp3) {
                    (false, _) => member,
                    (true, false) => format!("{member}${}\r\n{score}\r\n", score.len()),
                    (true, true) => format!("*2\r\n{member},{score}\r\n"),
                };
            }
            expected += "+PONG\r\n";
            let meanwhile = "ZADD scored -1 x 2500.25 y\r\nZADD equal 0 e03000x\r\nZREM scored e06999 e00020 e05000\r\n\
                ZREM equal e06980 e00020\r\n";
            let line_ends = expected.matches("\r\n").count();
            let both = [&mut reader, &mut other];
            let (text, turns) = listed(event_loop, both, (command, meanwhile), line_ends);
            assert!(text == expected, "{command}: {} {}", text.len(), &text[..60]);
            let later = numbers.len().saturating_sub(AT_ONCE + 1);
            assert!(
                turns > 0 && turns >= later / crate::element_listing::READ_AT_ONCE,
                "{command}: {turns}"
            );
            let undo = "ZREM scored x y\r\nZREM equal e03000x\r\nZADD scored 3499.5 e06999 10 e00020 2500 e05000\r\n\
                ZADD equal 0 e06980 0 e00020\r\n";
            send(event_loop, &mut other, undo);
        }
        // As many as a turn reads come at once, and in a transaction all do.
        reader.write_all(format!("ZRANGE scored 1 {AT_ONCE}\r\n").as_bytes()).unwrap();
        arrived(event_loop, 20);
        event_loop.step().unwrap();
        assert!(!waits(event_loop));
        replies(event_loop, &mut reader, 1 + 2 * AT_ONCE);
        reader.write_all(b"MULTI\r\nZRANGE scored 0 -1\r\nZCARD scored\r\nEXEC\r\n").unwrap();
        let text = replies(event_loop, &mut reader, 3 + 1 + 1 + 2 * COUNT + 1);
        assert!(text.ends_with(":7000\r\n"));
    });
}

/// What a client that has left had listed is not kept in the store for it.
#[test]
fn a_client_that_leaves_gives_up_its_snapshot() {
    with_loop(|event_loop, address| {
        let [mut reader, mut other] = clients(event_loop, address);
        for hundred in 0..COUNT / 100 {
            let elements: String =
                (0..100).map(|at| format!(" e{:05}", hundred * 100 + at)).collect();
            send(event_loop, &mut other, &format!("RPUSH list{elements}\r\n"));
        }
        let holders = |event_loop: &mut EventLoop<'_>| {
            event_loop.turns.data.store().report().horizon.holders.len()
        };
        let before = holders(event_loop);
        reader.write_all(b"LRANGE list 0 -1\r\n").unwrap();
        arrived(event_loop, 18);
        event_loop.step().unwrap();
        assert!(waits(event_loop));
        assert_eq!(holders(event_loop), before + 1);
        drop(reader);
        let began = Instant::now();
        while event_loop.turns.clients.count() > 1 {
            send(event_loop, &mut other, "PING\r\n");
            assert!(began.elapsed() < PATIENCE);
        }
        assert_eq!(holders(event_loop), before);
    });
}
