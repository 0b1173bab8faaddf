//! Unions, intersections and differences of large sorted sets: their replies come in later turns.

use super::joins::{add, answer, answer_at_once, before_pong, begin, memory, random_numbers};
use super::sorting::{each, turns};
use super::*;

use crate::element_listing::READ_AT_ONCE;

/// All other clients waited while large sorted sets were joined and sorted.
#[test]
fn large_sorted_sets_are_joined_beside_other_clients() {
    const COUNT: usize = 10_000;
    with_loop(|event_loop, address| {
        let [mut client, mut other] = clients(event_loop, address);
        let score = |number: usize| number * 7919 % COUNT;
        each(event_loop, &mut other, 0..COUNT, |number| {
            format!(
                "ZADD a {} {number}\r\nZADD b {} {}",
                score(number),
                score(number),
                number + COUNT / 2
            )
        });
        for (protocol, (command, least)) in [2, 3].into_iter().flat_map(|protocol| {
            [
                ("ZUNION 2 a b", 3 * COUNT + COUNT / 2),
                ("ZUNION 2 a b WEIGHTS -1 2 AGGREGATE MAX WITHSCORES", 3 * COUNT + COUNT / 2),
                ("ZINTER 2 b a WITHSCORES", COUNT + COUNT / 2),
                ("ZDIFF 2 a b WITHSCORES", COUNT + COUNT / 2),
                ("ZINTERCARD 2 a b", COUNT),
                ("ZINTERCARD 2 a b LIMIT 3000", COUNT / 2),
            ]
            .map(|case| (protocol, case))
        }) {
            answer(event_loop, &mut client, &format!("HELLO {protocol}"));
            let expected = answer_at_once(event_loop, &mut client, command);
            begin(event_loop, &mut client, command);
            // What others do meanwhile is not seen.
            let turns = turns(event_loop, |event_loop, turn| {
                let change = format!("ZADD a -5 {turn}\r\nZREM b {}\r\n", COUNT + turn);
                other.write_all(change.as_bytes()).unwrap();
                arrived(event_loop, change.len());
                assert_eq!(replies(event_loop, &mut other, 2), ":0\r\n:1\r\n");
            });
            assert!(2 * turns >= least / READ_AT_ONCE, "{command}: {turns}");
            let text = before_pong(event_loop, &mut client);
            assert!(text == expected, "{command}: {} {}", text.len(), expected.len());
            each(event_loop, &mut other, 0..turns, |turn| {
                let (a, b) = (score(turn), score(COUNT / 2 + turn));
                format!("ZADD a {a} {turn}\r\nZADD b {b} {}", COUNT + turn)
            });
        }
    });
}

#[test]
fn what_large_sorted_sets_make_in_later_turns_is_what_they_make_at_once() {
    let (seed, mut random) = random_numbers();
    with_loop(|event_loop, address| {
        let [mut client] = clients(event_loop, address);
        // Dense and thin ones of some range of members, small ones, and sets.
        for set in 0..9 {
            let from = random(4000) as usize;
            let (to, step) = (from + [50, 3000, 7000][set % 3], 1 + random(2 << (set / 3 * 2)));
            let numbers: Vec<usize> = (from..to).filter(|_| random(step) == 0).collect();
            let scores: Vec<i64> = numbers.iter().map(|_| random(900) as i64 - 450).collect();
            each(event_loop, &mut client, 0..numbers.len(), |at| {
                format!("ZADD z{set} {}.1 e{:06}", scores[at], numbers[at])
            });
        }
        add(event_loop, &mut client, "set", 2000..9000);
        add(event_loop, &mut client, "small", 5000..5040);
        each(event_loop, &mut client, 0..5000, |number| {
            let score = ["inf", "-inf", "0", "-0", "1e308"][number % 5];
            format!(
                "ZADD ends {score} e{number:06}\r\nZADD starts {} e{number:06}",
                ["-inf", "inf"][number % 2]
            )
        });
        answer(event_loop, &mut client, "SET text v");
        let mut keys: Vec<String> = (0..9).map(|set| format!("z{set}")).collect();
        keys.extend(["set", "set", "small", "ends", "starts", "nosuch"].map(String::from));
        let mut put_off = 0;
        for round in 0..120 {
            answer(event_loop, &mut client, &format!("HELLO {}", 2 + round % 2));
            let count = 1 + random(4) as usize;
            let mut chosen: Vec<&str> =
                (0..count).map(|_| keys[random(keys.len() as u64) as usize].as_str()).collect();
            if round % 30 == 29 {
                chosen[count - 1] = "text";
            }
            let sources = format!("{count} {}", chosen.join(" "));
            let kind = random(5);
            let mut command = match kind {
                0 => format!("ZINTERCARD {sources} LIMIT {}", random(3) * 1500),
                1 => format!("ZDIFF {sources}"),
                2 => format!("ZUNION {sources}"),
                _ => format!("ZINTER {sources}"),
            };
            if kind > 1 && random(2) == 0 {
                let weights =
                    (0..count).map(|_| [" 1", " -2.5", " 0", " 0.1", " inf"][random(5) as usize]);
                command += &format!(" WEIGHTS{}", weights.collect::<String>());
            }
            if kind > 1 {
                command +=
                    ["", " AGGREGATE SUM", " AGGREGATE MIN", " AGGREGATE MAX"][random(4) as usize];
            }
            if kind > 0 && random(2) == 0 {
                command += " WITHSCORES";
            }
            let expected = answer_at_once(event_loop, &mut client, &command);
            begin(event_loop, &mut client, &command);
            put_off += usize::from(memory(event_loop).is_some());
            let text = before_pong(event_loop, &mut client);
            let case = format!("TEMBO_SEED={seed} {command}");
            assert!(text == expected, "{case}: {} {}", text.len(), expected.len());
            assert_eq!(chosen.contains(&"text"), text.starts_with("-WRONGTYPE"), "{case}");
        }
        assert!(put_off > 40, "TEMBO_SEED={seed}: {put_off}");
    });
}
