//! What is prefetched changes no reply: commands that arrive together are answered as those that arrive one by one.

use super::*;

/// Keys, each of one type, and names of fields and members: so many that each collection becomes a large one.
const KEYS: u64 = 3;
const NAMES: u64 = 700;
const COMMANDS: usize = 3000;

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }
}

/// A command whose reply depends on what is there alone.
fn command(random: &mut Random) -> String {
    let number = random.below(KEYS);
    let [hash, set, sorted, string] = ["h", "s", "z", "k"].map(|kind| format!("{kind}{number}"));
    let name = format!("name:{:04}", random.below(NAMES));
    let other = format!("name:{:04}", random.below(NAMES));
    let score = random.below(50).to_string();
    let request: Vec<&str> = match random.below(26) {
        0..4 => vec!["HSET", &hash, &name, &score],
        4 => vec!["HMGET", &hash, &name, &other],
        5 => vec!["hget", &hash, &name],
        6 => vec!["HDEL", &hash, &name],
        7 => vec!["HINCRBY", &hash, &name, &score],
        8..11 => vec!["SADD", &set, &name],
        11 => vec!["SISMEMBER", &set, &name],
        12 => vec!["SREM", &set, &name, &other],
        13..17 => vec!["ZADD", &sorted, &score, &name],
        17 => vec!["ZINCRBY", &sorted, &score, &name],
        18 => vec!["ZRANK", &sorted, &name],
        19 => vec!["ZREM", &sorted, &name],
        20 => vec!["ZPOPMIN", &sorted],
        21 => vec!["ZPOPMAX", &sorted, "2"],
        22 => vec!["MSET", &string, &name, &other, &name, &string, &other],
        23 => vec!["MGET", &string, &name, &other, &hash],
        24 => vec!["EXISTS", &string, &name, &other, &string],
        // Rarely, so that the collections grow between.
        _ => match random.below(40) {
            0 => vec!["DEL", &hash, &set, &string, &name],
            1 => vec!["DEL", &sorted],
            2 => vec!["RENAME", &hash, "h0"],
            3 => vec!["COPY", &sorted, "z1", "REPLACE"],
            _ => vec!["DEL", &string, &name, &other],
        },
    };
    words(&request)
}

/// What a client is sent up to so many replies to PING.
fn until_pongs(event_loop: &mut EventLoop<'_>, client: &mut TcpStream, count: usize) -> String {
    const PONG: &str = "+PONG\r\n";
    let (mut text, mut pongs) = (String::new(), 0);
    while pongs < count {
        let more = replies(event_loop, client, 1);
        // One may come in two parts.
        let from = text.len().saturating_sub(PONG.len() - 1);
        text += &more;
        pongs += text[from..].matches(PONG).count();
    }
    text
}

#[test]
fn commands_that_arrive_together_are_answered_as_one_by_one() {
    let seed = std::env::var("TEMBO_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(11);
    for index in IndexKind::ORDERED {
        let mut random = Random(seed);
        let requests: Vec<String> = (0..COMMANDS).map(|_| command(&mut random)).collect();
        let store = Store::volatile(&Options::new().index(index)).unwrap();
        with_loop_over(store, |event_loop, address| {
            let [mut single, mut together] = clients(event_loop, address);
            together.write_all(b"SELECT 1\r\n").unwrap();
            assert_eq!(replies(event_loop, &mut together, 1), "+OK\r\n");
            for requests in requests.chunks(100) {
                let mut expected = String::new();
                for request in requests {
                    single.write_all(format!("{request}PING\r\n").as_bytes()).unwrap();
                    expected += &until_pongs(event_loop, &mut single, 1);
                }
                let all: String = requests.concat() + "PING\r\n";
                together.write_all(all.as_bytes()).unwrap();
                arrived(event_loop, all.len());
                let found = until_pongs(event_loop, &mut together, 1);
                let expected = expected.replace("+PONG\r\n", "") + "+PONG\r\n";
                assert_eq!(found, expected, "TEMBO_SEED={seed} {index:?} {requests:?}");
            }
        });
    }
}
