//! Large sorted sets: ranks and counts, whichever way they came about.

use std::collections::BTreeSet;

use crate::client::{Client, Random, Running, encode};

fn members(client: &mut Client, command: &str) -> Vec<String> {
    let reply = client.call(command);
    reply.lines().skip(1).filter(|line| !line.starts_with('$')).map(str::to_owned).collect()
}

/// The ranks of all members, and the members of all ranks, are those of a sorted list.
fn ranks_are_right(client: &mut Client, model: &BTreeSet<(usize, String)>) {
    let names: Vec<String> = model.iter().map(|(_, member)| member.clone()).collect();
    assert_eq!(members(client, "ZRANGE z 0 -1"), names);
    assert_eq!(client.call("ZCARD z"), format!(":{}\r\n", names.len()));
    for (rank, (score, member)) in model.iter().enumerate() {
        assert_eq!(client.call(&format!("ZRANK z {member}")), format!(":{rank}\r\n"));
        let behind = names.len() - 1 - rank;
        assert_eq!(client.call(&format!("ZREVRANK z {member}")), format!(":{behind}\r\n"));
        if rank % 7 == 0 {
            assert_eq!(members(client, &format!("ZRANGE z {rank} {rank}")), [&**member]);
            assert_eq!(members(client, &format!("ZREVRANGE z {behind} {behind}")), [&**member]);
            let below = model.range(..(*score, String::new())).count();
            let count = client.call(&format!("ZCOUNT z -inf ({score}"));
            assert_eq!(count, format!(":{below}\r\n"));
        }
    }
}

#[test]
fn ranks_of_a_large_sorted_set_are_those_of_its_order() {
    let tembo = Running::start();
    let mut client = tembo.client();
    let (mut random, mut model) = (Random(7), BTreeSet::new());
    for round in 0..4 {
        for _ in 0..1500 {
            let (member, score) = (format!("m{}", random.below(4000)), random.below(500));
            model.retain(|(_, other)| *other != member);
            model.insert((score, member.clone()));
            client.call(&format!("ZADD z {score} {member}"));
        }
        ranks_are_right(&mut client, &model);
        let (from, to) = (100 * round, 100 * round + 120);
        client.call(&format!("ZREMRANGEBYSCORE z {from} ({to}"));
        model.retain(|(score, _)| !(from..to).contains(score));
        for _ in 0..500 {
            let member = format!("m{}", random.below(4000));
            model.retain(|(_, other)| *other != member);
            client.call(&format!("ZREM z {member}"));
        }
        ranks_are_right(&mut client, &model);
    }
    // Under another key they are counted by the same levels.
    client.call("COPY z y");
    client.call("DEL z");
    client.call("RENAME y z");
    ranks_are_right(&mut client, &model);
}

#[test]
fn ranks_stay_right_when_any_member_moves() {
    let server = Running::start();
    let mut client = server.client();
    let count = 2000;
    for number in 0..count {
        client.send(format!("ZADD s {number} m{number}\r\n").as_bytes());
        assert_eq!(client.reply(), ":1\r\n");
    }
    for number in 0..count - 200 {
        // It is known how many members are behind it, and it moves among them, and back.
        let behind = number + 190;
        assert_eq!(client.call(&format!("ZRANK s m{behind}")), format!(":{behind}\r\n"));
        for score in [f64::from(number) + 150.5, f64::from(number)] {
            assert_eq!(client.call(&format!("ZADD s {score} m{number}")), ":0\r\n");
            for at in [behind, count - 1] {
                let rank = client.call(&format!("ZRANK s m{at}"));
                assert_eq!(rank, format!(":{at}\r\n"), "{number} at {score}");
            }
        }
    }
    assert_eq!(client.call("ZRANGE s 500 500"), "*1\r\n$4\r\nm500\r\n");
}

/// The first members or the last ones, with their scores, as they are taken.
fn taken(model: &mut BTreeSet<(usize, String)>, is_first: bool, count: usize) -> String {
    let mut words = Vec::new();
    for _ in 0..count {
        let found = if is_first { model.pop_first() } else { model.pop_last() };
        let Some((score, member)) = found else { break };
        words.extend([member, score.to_string()]);
    }
    let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
    String::from_utf8(encode(&words)).unwrap()
}

/// A score near the least, near the greatest, or any.
fn near_an_end(random: &mut Random, model: &BTreeSet<(usize, String)>) -> usize {
    let score = |found: Option<&(usize, String)>| found.map_or(1000, |(score, _)| *score);
    match random.below(3) {
        0 => (score(model.first()) + random.below(6)).saturating_sub(3),
        1 => (score(model.last()) + random.below(6)).saturating_sub(3),
        _ => 1000 + random.below(400),
    }
}

#[test]
fn what_is_taken_from_an_end_is_what_is_there_whatever_has_changed_it() {
    let server = Running::start();
    let mut client = server.client();
    let (mut random, mut model) = (Random(23), BTreeSet::new());
    let add = |client: &mut Client, model: &mut BTreeSet<(usize, String)>, (score, member)| {
        let member = format!("m{member}");
        model.retain(|(_, other)| *other != member);
        client.call(&format!("ZADD z {score} {member}"));
        model.insert((score, member));
    };
    for number in 0..1200 {
        add(&mut client, &mut model, (1000 + number % 400, number));
    }
    for step in 0..4000 {
        match random.below(12) {
            0..4 => {
                let is_first = random.below(2) == 0;
                let count = 1 + random.below(4) * random.below(2) + random.below(30) / 29 * 30;
                let command = if is_first { "ZPOPMIN" } else { "ZPOPMAX" };
                let expected = taken(&mut model, is_first, count);
                let reply = client.call(&format!("{command} z {count}"));
                assert_eq!(reply, expected, "step {step}: {command} {count}");
            }
            // Members that come to an end, are taken from it, or leave it for the other one.
            4..7 => {
                let near = near_an_end(&mut random, &model);
                add(&mut client, &mut model, (near, random.below(2000)));
            }
            7 => {
                let at = random.below(12);
                let found =
                    if step % 2 == 0 { model.iter().nth(at) } else { model.iter().nth_back(at) };
                let Some((_, member)) = found.cloned() else { continue };
                model.retain(|(_, other)| *other != member);
                assert_eq!(client.call(&format!("ZREM z {member}")), ":1\r\n", "step {step}");
            }
            8 => {
                let (from, to) = (random.below(8), random.below(12));
                let count = (to + 1).saturating_sub(from);
                let removed: Vec<_> = model.iter().skip(from).take(count).cloned().collect();
                model.retain(|one| !removed.contains(one));
                client.call(&format!("ZREMRANGEBYRANK z {from} {to}"));
            }
            9 => {
                // One of them fails, the others do not.
                for command in ["MULTI", "ZPOPMIN z 2", "ZADD z nan x", "ZPOPMAX z", "EXEC"] {
                    client.call(command);
                }
                taken(&mut model, true, 2);
                taken(&mut model, false, 1);
            }
            10 => {
                for command in ["SWAPDB 0 1", "ZPOPMIN z", "ZADD z 5 other", "SWAPDB 0 1"] {
                    client.call(command);
                }
            }
            _ => {
                for member in 0..30 {
                    let score = 1000 + random.below(400);
                    add(&mut client, &mut model, (score, member * 60 + random.below(60)));
                }
            }
        }
    }
    ranks_are_right(&mut client, &model);
    assert!(model.len() > 200, "it was large all the time: {}", model.len());
}
