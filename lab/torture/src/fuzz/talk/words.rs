//! What clients say, and how it goes wrong: commands with odd arguments, in RESP and inline, whole
//! and damaged.

use tembo_sim::Random;

const COMMANDS: &str = "
    GET SET SETNX SETEX PSETEX GETSET GETEX GETDEL MSET MSETNX MGET STRLEN APPEND SETRANGE GETRANGE
    SUBSTR DEL UNLINK EXISTS TOUCH TYPE RENAME RENAMENX COPY MOVE INCR DECR INCRBY DECRBY INCRBYFLOAT
    EXPIRE PEXPIRE EXPIREAT PEXPIREAT PERSIST TTL PTTL EXPIRETIME PEXPIRETIME KEYS SCAN RANDOMKEY
    DBSIZE MULTI EXEC DISCARD WATCH UNWATCH SELECT FLUSHDB FLUSHALL SAVE BGSAVE INFO CONFIG CLIENT
    COMMAND OBJECT MEMORY HELLO AUTH PING ECHO TIME ROLE LASTSAVE RESET QUIT";

const ARGUMENTS: &str = r#"
    a b key other 0 1 -1 2 3 15 16 100 65000 1000000 4294967296 536870912 9223372036854775807
    -9223372036854775808 9223372036854775808 18446744073709551616 1e308 -1.5e-400 inf nan 0x10 +1 00
    3.0 EX PX EXAT PXAT NX XX GT LT KEEPTTL GET SET PERSIST REPLACE DB MATCH COUNT TYPE string * [a-
    [^ \ [\ h?llo*[a-z] a*a*a*a*a*a*b LIST KILL ID ADDR LADDR USER SKIPME yes no REPLY OFF ON SKIP
    SETNAME SETINFO lib-name GETNAME INFO USAGE ENCODING DOCS GETKEYS maxclients timeout requirepass
    appendonly maxmemory all server ASYNC SYNC NOSAVE default AUTH resetstat rewrite HELP "a 'b "#;

/// What the first line of something may announce.
const LENGTHS: &str = "
    0 -1 -2 1 3 65537 1048576 1048577 536870912 536870913 2147483648 4294967297 9223372036854775807
    99999999999999999999 abc +3 $ *1";

/// The bytes of one case.
pub(in crate::fuzz) fn case(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..1 + random.below(12) {
        command(random, &mut bytes);
    }
    if random.below(3) == 0 {
        for _ in 0..1 + random.below(4) {
            damage(random, &mut bytes);
        }
    }
    bytes
}

fn command(random: &mut Random, bytes: &mut Vec<u8>) {
    let mut words = vec![pick(random, COMMANDS)];
    for _ in 0..random.below(6) {
        words.push(argument(random));
    }
    if random.below(6) == 0 {
        bytes.extend(words.join(&b' '));
        bytes.extend([b"\r\n".as_slice(), b"\n"][random.below(2)]);
        return;
    }
    let odd = random.below(24) == 0;
    announce('*', words.len(), odd, (random, bytes));
    for word in words {
        let odd = random.below(48) == 0;
        announce('$', word.len(), odd, (random, bytes));
        bytes.extend(word);
        bytes.extend(b"\r\n");
    }
}

/// The line with a length, or something odd in its place.
fn announce(kind: char, len: usize, odd: bool, (random, bytes): (&mut Random, &mut Vec<u8>)) {
    let len = if odd { pick(random, LENGTHS) } else { len.to_string().into_bytes() };
    bytes.push(kind as u8);
    bytes.extend(len);
    bytes.extend(b"\r\n");
}

fn argument(random: &mut Random) -> Vec<u8> {
    match random.below(16) {
        0 => vec![random.number() as u8; random.below(3000)],
        1 => (0..random.below(20)).map(|_| random.number() as u8).collect(),
        2 => (random.number() as i64 >> random.below(64)).to_string().into_bytes(),
        _ => pick(random, ARGUMENTS),
    }
}

fn damage(random: &mut Random, bytes: &mut Vec<u8>) {
    let at = random.below(bytes.len().max(1));
    let Some(byte) = bytes.get_mut(at) else { return };
    match random.below(5) {
        0 => *byte ^= 1 << random.below(8),
        1 => *byte = b"\r\n*$\"'\\ 0-:"[random.below(11)],
        2 => drop(bytes.remove(at)),
        3 => bytes.truncate(at),
        _ => {
            let piece = bytes[at..(at + 1 + random.below(20)).min(bytes.len())].to_vec();
            let to = random.below(bytes.len());
            bytes.splice(to..to, piece);
        }
    }
}

/// One of the words.
fn pick(random: &mut Random, words: &str) -> Vec<u8> {
    let count = words.split_whitespace().count();
    let word = words.split_whitespace().nth(random.below(count));
    word.unwrap_or_default().as_bytes().to_vec()
}
