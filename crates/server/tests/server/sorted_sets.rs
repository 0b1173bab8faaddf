//! Large sorted sets: ranks and counts, whichever way they came about.

use std::collections::BTreeSet;

use crate::client::{Client, Random, Running};

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
