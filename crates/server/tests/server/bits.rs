//! Bitmaps, bit fields, common subsequences and HyperLogLogs, beside Redis: the replies and the bytes must be the same.

use crate::client::{Client, Random, Running};
use crate::differential::Redis;

type Words = Vec<Vec<u8>>;

fn words(words: &[&str]) -> Words {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

/// Makes random commands over few keys.
struct Script(Random);

impl Script {
    fn key(&mut self) -> String {
        format!("k{}", self.0.below(5))
    }

    fn offset(&mut self) -> String {
        match self.0.below(10) {
            0 => {
                self.0.pick(&["-1", "x", "4294967296", "", "9223372036854775807", "01"]).to_owned()
            }
            1 => format!("#{}", self.0.below(30)),
            _ => self.0.below(200).to_string(),
        }
    }

    fn number(&mut self) -> String {
        match self.0.below(12) {
            0 => self.0.pick(&["x", "", "1.5", "99999999999999999999"]).to_owned(),
            1 => self.0.pick(&["9223372036854775807", "-9223372036854775808"]).to_owned(),
            2..6 => {
                let shift = self.0.below(64);
                (self.0.next() as i64 >> shift).to_string()
            }
            _ => (self.0.below(60) as i64 - 30).to_string(),
        }
    }

    fn field_type(&mut self) -> String {
        match self.0.below(12) {
            0 => self.0.pick(&["u64", "i65", "u0", "i0", "x8", "", "u", "U8", "i-1"]).to_owned(),
            1 => self.0.pick(&["i64", "u63", "i1", "u1"]).to_owned(),
            _ => format!("{}{}", self.0.pick(&["i", "u"]), 1 + self.0.below(63)),
        }
    }

    fn bitfield(&mut self, name: &str) -> Words {
        let mut command = words(&[name, &self.key()]);
        for _ in 0..1 + self.0.below(4) {
            let (of, offset, number) = (self.field_type(), self.offset(), self.number());
            let part = match self.0.below(if name == "BITFIELD" { 12 } else { 5 }) {
                0 => words(&["OVERFLOW", self.0.pick(&["WRAP", "sat", "FAIL", "x"])]),
                1..4 => words(&["GET", &of, &offset]),
                4..8 => words(&["set", &of, &offset, &number]),
                8..11 => words(&["INCRBY", &of, &offset, &number]),
                _ => words(&["GET", &of]),
            };
            command.extend(part);
        }
        command
    }

    /// A range as BITCOUNT and BITPOS take it, most often a right one.
    fn range(&mut self) -> Words {
        let mut range = Words::new();
        for _ in 0..self.0.below(3) {
            range.extend(words(&[&self.number()]));
        }
        if range.len() == 2 && self.0.below(2) == 0 {
            range.extend(words(&[self.0.pick(&["BIT", "byte", "bits", "BYTE", "bit"])]));
        }
        range
    }

    fn bits(&mut self) -> Words {
        let (key, other) = (self.key(), self.key());
        match self.0.below(18) {
            0..3 => {
                words(&["SETBIT", &key, &self.offset(), self.0.pick(&["0", "1", "1", "2", "x"])])
            }
            3 => words(&["GETBIT", &key, &self.offset()]),
            4..6 => [words(&["BITCOUNT", &key]), self.range()].concat(),
            6..8 => {
                let bit = self.0.pick(&["0", "1", "0", "1", "2", "x"]);
                [words(&["BITPOS", &key, bit]), self.range()].concat()
            }
            8 | 9 => {
                let kind = self.0.pick(&["AND", "or", "XOR", "NOT", "x"]);
                let mut command = words(&["BITOP", kind, &key, &other]);
                for _ in 0..self.0.below(3) {
                    command.extend(words(&[&self.key()]));
                }
                command
            }
            10..13 => self.bitfield("BITFIELD"),
            13 => self.bitfield("BITFIELD_RO"),
            14 => {
                let size = self.0.below(40);
                let value = (0..size).map(|_| self.0.next() as u8).collect();
                [words(&["SET", &key]), vec![value]].concat()
            }
            15 => words(&["SET", &key, &self.number()]),
            16 => words(&["PEXPIREAT", &key, "99999999999123"]),
            _ => words(&["DEL", &key]),
        }
    }

    fn common(&mut self) -> Words {
        let (key, other) = (self.key(), self.key());
        if self.0.below(2) == 0 {
            let size = self.0.below(30);
            let value = (0..size).map(|_| b'a' + self.0.below(3) as u8).collect();
            return [words(&["SET", &key]), vec![value]].concat();
        }
        let mut command = words(&["LCS", &key, &other]);
        for _ in 0..self.0.below(4) {
            let option = ["IDX", "idx", "LEN", "WITHMATCHLEN", "MINMATCHLEN", "x"];
            command.extend(words(&[self.0.pick(&option)]));
            if command.last().is_some_and(|last| last == b"MINMATCHLEN") {
                command.extend(words(&[self.0.pick(&["0", "1", "3", "-2", "x"])]));
            }
        }
        command
    }

    fn distinct(&mut self) -> Words {
        let (key, other) = (self.key(), self.key());
        match self.0.below(14) {
            0..5 => {
                let mut command = words(&["PFADD", &key]);
                let bits = self.0.below(10);
                let count = self.0.below(1 << bits);
                let range = 1 << (1 + self.0.below(16));
                command.extend((0..count).map(|_| self.0.below(range).to_string().into_bytes()));
                command
            }
            5 | 6 => words(&["PFCOUNT", &key]),
            7 => words(&["PFCOUNT", &key, &other]),
            8 => words(&["PFMERGE", &key, &other]),
            9 => words(&["PFMERGE", &key, &other, &self.key()]),
            10 => words(&["PFDEBUG", self.0.pick(&["ENCODING", "DECODE", "TODENSE", "x"]), &key]),
            11 if self.0.below(4) == 0 => words(&["SETRANGE", &key, "20", "        "]),
            11 if self.0.below(4) == 0 => words(&["SET", &key, "HYLL"]),
            12 if self.0.below(4) == 0 => words(&["DEL", &key]),
            _ => words(&["PEXPIREAT", &key, "99999999999123"]),
        }
    }
}

fn call(client: &mut Client, command: &Words) -> Vec<u8> {
    let args: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
    client.send(&crate::client::encode(&args));
    client.reply_bytes().unwrap()
}

fn compare(name: &str, next: fn(&mut Script) -> Words, each_key: bool) {
    let Some(redis) = Redis::start() else { return };
    let tembo = Running::start();
    let seeds = std::env::var("TEMBO_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(6);
    for seed in 1..=seeds {
        let mut script = Script(Random(seed * 0x9e37_79b9));
        let (mut theirs, mut ours) = (Client::connect(redis.address), tembo.client());
        let hello = if seed % 2 == 0 { "HELLO 3" } else { "PING" };
        for client in [&mut theirs, &mut ours] {
            client.call(hello);
            client.call("FLUSHALL");
        }
        for step in 0..1200 {
            let command = next(&mut script);
            let shown: Vec<_> =
                command.iter().map(|word| word.escape_ascii().to_string()).collect();
            let replies = [call(&mut theirs, &command), call(&mut ours, &command)];
            let [redis, tembo] = replies.map(|reply| reply.escape_ascii().to_string());
            assert_eq!(redis, tembo, "{name}, seed {seed}, step {step}: {shown:?}");
            if tembo.starts_with("-INVALIDOBJ") {
                // Redis keeps what it has added until it meets the damage; here an error means that nothing has happened.
                let del = words(&["DEL", &String::from_utf8_lossy(&command[1])]);
                call(&mut theirs, &del);
                call(&mut ours, &del);
            }
            if each_key {
                let get = words(&["GET", &String::from_utf8_lossy(&command[1])]);
                let [redis, tembo] = [call(&mut theirs, &get), call(&mut ours, &get)];
                assert!(redis == tembo, "{name}, seed {seed}, step {step}: bytes after {shown:?}");
            }
        }
        for key in 0..5 {
            let get = words(&["GET", &format!("k{key}")]);
            let [redis, tembo] = [call(&mut theirs, &get), call(&mut ours, &get)];
            assert!(redis == tembo, "{name}, seed {seed}: bytes of k{key}");
        }
    }
}

#[test]
fn bitmaps_and_fields() {
    compare("bitmaps", Script::bits, true);
}

#[test]
fn common_subsequences() {
    compare("common subsequences", Script::common, false);
}

#[test]
fn hyperloglogs() {
    compare("HyperLogLogs", Script::distinct, true);
}

/// The bytes go to Redis and come from there, and mean the same.
#[test]
fn a_hyperloglog_can_be_carried_over() {
    let Some(redis) = Redis::start() else { return };
    let tembo = Running::start();
    let (mut theirs, mut ours) = (Client::connect(redis.address), tembo.client());
    let carry = |from: &mut Client, to: &mut Client| {
        let get = call(from, &words(&["GET", "h"]));
        let text = get.split(|&byte| byte == b'\n').next().unwrap().len() + 1;
        let payload = get[text..get.len() - 2].to_vec();
        assert_eq!(call(to, &[words(&["SET", "h"]), vec![payload]].concat()), b"+OK\r\n");
    };
    for round in 0..40 {
        let add: Words = (0..100).map(|at| format!("{round}:{at}").into_bytes()).collect();
        let add = [words(&["PFADD", "h"]), add].concat();
        let (from, to) =
            if round % 2 == 0 { (&mut theirs, &mut ours) } else { (&mut ours, &mut theirs) };
        call(from, &add);
        carry(from, to);
        assert_eq!(call(from, &words(&["PFCOUNT", "h"])), call(to, &words(&["PFCOUNT", "h"])));
    }
}
