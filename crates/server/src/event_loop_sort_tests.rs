//! SORT of many elements: its reply comes in later turns.

use super::joins::{add, answer, answer_at_once, before_pong, begin, memory, random_numbers};
use super::*;

use crate::element_listing::READ_AT_ONCE;

/// Executes a command for each number, its words in one piece.
pub(super) fn each(
    event_loop: &mut EventLoop<'_>,
    client: &mut TcpStream,
    numbers: std::ops::Range<usize>,
    command: impl Fn(usize) -> String,
) {
    for start in numbers.clone().step_by(500) {
        let some = start..numbers.end.min(start + 500);
        let commands: Vec<String> = some.map(&command).collect();
        answer(event_loop, client, &commands.join("\r\n"));
    }
}

/// Steps until nothing is put off; `between` is called before each. How many steps it were.
pub(super) fn turns(
    event_loop: &mut EventLoop<'_>,
    mut between: impl FnMut(&mut EventLoop<'_>, usize),
) -> usize {
    let (mut turns, began) = (0, Instant::now());
    while memory(event_loop).is_some() {
        between(event_loop, turns);
        event_loop.step().unwrap();
        turns += 1;
        assert!(began.elapsed() < PATIENCE, "it does not end");
    }
    turns
}

/// All other clients waited while many elements were sorted.
#[test]
fn many_elements_are_sorted_beside_other_clients() {
    const COUNT: usize = 20_000;
    with_loop(|event_loop, address| {
        let [mut client, mut other] = clients(event_loop, address);
        let scattered = |number: usize| number * 7919 % COUNT;
        each(event_loop, &mut other, 0..COUNT, |number| {
            let element = scattered(number);
            format!("RPUSH list {element}\r\nSET w{element} {}", COUNT - element)
        });
        let all = |show: &dyn Fn(usize) -> String, numbers: &mut dyn Iterator<Item = usize>| {
            let shown: Vec<String> = numbers.map(show).collect();
            let lines = shown.concat();
            format!("*{}\r\n{lines}", lines.matches('$').count())
        };
        let bulk = |number: usize| format!("${}\r\n{number}\r\n", number.to_string().len());
        let both = |number: usize| bulk(COUNT - number) + &bulk(number);
        let cases = [
            ("SORT list", all(&bulk, &mut (0..COUNT)), 20),
            ("SORT_RO list DESC", all(&bulk, &mut (0..COUNT).rev()), 20),
            ("SORT list BY w* GET w* GET #", all(&both, &mut (0..COUNT).rev()), 20 + 20),
            ("SORT list LIMIT 5 7", all(&bulk, &mut (5..12)), 10),
            (
                "SORT list BY nosort DESC LIMIT 3 9000",
                all(&bulk, &mut (COUNT - 9003..COUNT - 3).rev().map(scattered)),
                8,
            ),
            (
                "SORT list BY nosort GET w*",
                all(&|number| bulk(COUNT - number), &mut (0..COUNT).map(scattered)),
                20 + 8,
            ),
        ];
        for (command, expected, least) in cases {
            begin(event_loop, &mut client, command);
            // What others do meanwhile is not seen.
            let turns = turns(event_loop, |event_loop, turn| {
                let change = format!("LSET list {turn} x\r\nSET w{turn} -1\r\nRPUSH list y\r\n");
                other.write_all(change.as_bytes()).unwrap();
                arrived(event_loop, change.len());
                assert!(replies(event_loop, &mut other, 3).starts_with("+OK\r\n+OK\r\n:"));
            });
            // Each of these is one turn, and so is each step.
            assert!(2 * turns >= least * COUNT / READ_AT_ONCE / 20, "{command}: {turns}");
            let text = before_pong(event_loop, &mut client);
            assert!(text == expected, "{command}: {} {}", text.len(), expected.len());
            each(event_loop, &mut other, 0..turns, |turn| {
                let weight = COUNT - turn;
                format!("LSET list {turn} {}\r\nRPOP list\r\nSET w{turn} {weight}", scattered(turn))
            });
        }
        // The memory of what was read counts for the client.
        begin(event_loop, &mut client, "SORT list");
        let mut most = 0;
        turns(event_loop, |event_loop, _| most = memory(event_loop).unwrap_or(0).max(most));
        assert!((COUNT * 20..COUNT * 200).contains(&most), "{most}");
        before_pong(event_loop, &mut client);
    });
}

/// Keys of which patterns find something, or not.
fn make_weights(event_loop: &mut EventLoop<'_>, client: &mut TcpStream) {
    let name = |number: usize| format!("e{number:06}");
    each(event_loop, client, 0..9000, |number| match number % 7 {
        0 => format!("SET w_{} {}", name(number), number % 11),
        1 => format!("SET w_{} {}.5 PX 1", name(number), number % 5),
        2 => format!("HSET h_{} f {} g text", name(number), number * 7919 % 9000),
        3 => format!("SET w_{} {number} PX 10000000", name(number)),
        4 => format!("RPUSH w_{} a", name(number)),
        5 => format!("SET h_{} 1", name(number)),
        _ => format!("SET w_{} {}", name(number), number * 7919 % 9000),
    });
    // Large ones: with fields that have expired, and in pieces.
    let long = "x".repeat(3000);
    each(event_loop, client, 0..9, |number| {
        let hash = format!("h_{}", name(number));
        let fields = format!("f {} g {long} h 1", number + 3);
        format!(
            "DEL {hash}\r\nHSET {hash} {fields}\r\nHPEXPIRE {hash} 1 FIELDS 1 {}",
            ["f", "h"][number % 2]
        )
    });
    let script = "for i = 1, 2 do redis.call('SET', 'p_e000' .. 300 - i * 100, string.rep('7', 5000000) .. i) end";
    executed(event_loop, client, &words(&["EVAL", script, "0"]), 1);
    std::thread::sleep(Duration::from_millis(5));
}

#[test]
fn what_is_sorted_in_later_turns_is_what_is_sorted_at_once() {
    let (seed, mut random) = random_numbers();
    with_loop(|event_loop, address| {
        let [mut client] = clients(event_loop, address);
        make_weights(event_loop, &mut client);
        add(event_loop, &mut client, "set", 0..6000);
        add(event_loop, &mut client, "small", 0..100);
        let orders: Vec<u64> = (0..7000).map(|_| random(5000)).collect();
        each(event_loop, &mut client, 0..7000, |number| {
            let order = orders[number];
            let by_number = (number * 31) % 6500;
            format!(
                "RPUSH list e{order:06}\r\nRPUSH numbers {order}\r\nZADD sorted {order} e{by_number:06}\r\n\
                ZADD scored {order} {number}.5"
            )
        });
        let mut put_off = 0;
        let (keys, rests) = (
            ["set", "list", "sorted", "small", "numbers", "scored", "nosuch"],
            [
                "ALPHA",
                "",
                "BY w_*",
                "BY w_* ALPHA",
                "BY h_*->f",
                "BY h_*->g ALPHA",
                "BY h_*->h",
                "BY p_* ALPHA",
                "BY nosort",
            ],
        );
        for round in 0..120 {
            answer(event_loop, &mut client, &format!("HELLO {}", 2 + round % 2));
            let key = keys[random(7) as usize];
            let mut command = format!("SORT {key} {}", rests[random(9) as usize]);
            if random(2) == 0 {
                command += " DESC";
            }
            if random(2) == 0 {
                let (first, count) = (random(9000) as i64 - 1000, random(9000) as i64 - 1000);
                command += &format!(" LIMIT {first} {count}");
            }
            for _ in 0..random(3) {
                command +=
                    [" GET #", " GET w_*", " GET h_*->f", " GET h_*->h", " GET none", " GET h_*"]
                        [random(6) as usize];
            }
            let expected = answer_at_once(event_loop, &mut client, &command);
            begin(event_loop, &mut client, &command);
            let waits = memory(event_loop).is_some();
            assert_eq!(waits, !["small", "nosuch"].contains(&key), "{command}");
            put_off += usize::from(waits && !expected.starts_with('-'));
            let text = before_pong(event_loop, &mut client);
            let case = format!("TEMBO_SEED={seed} {command}");
            assert!(text == expected, "{case}: {} {}", text.len(), expected.len());
        }
        assert!(put_off > 30, "TEMBO_SEED={seed}: {put_off}");
    });
}

/// In scripts and transactions, to a client with a cache, and where misses are published, nothing is put off.
#[test]
fn what_cannot_wait_is_sorted_at_once() {
    with_loop(|event_loop, address| {
        let [mut client] = clients(event_loop, address);
        add(event_loop, &mut client, "set", 0..5000);
        begin(event_loop, &mut client, "EVAL \"return #redis.call('SORT','set','ALPHA')\" 0");
        assert_eq!(memory(event_loop), None);
        assert_eq!(before_pong(event_loop, &mut client), ":5000\r\n");
        answer(event_loop, &mut client, "CONFIG SET notify-keyspace-events KEm");
        for (command, waits) in [("SORT set ALPHA", true), ("SORT set BY w* LIMIT 0 1", false)] {
            begin(event_loop, &mut client, command);
            assert_eq!(memory(event_loop).is_some(), waits, "{command}");
            before_pong(event_loop, &mut client);
        }
        answer(event_loop, &mut client, "HELLO 3\r\nCLIENT TRACKING ON");
        begin(event_loop, &mut client, "SORT_RO set ALPHA");
        assert_eq!(memory(event_loop), None);
        assert!(before_pong(event_loop, &mut client).starts_with("*5000\r\n"));
    });
}
