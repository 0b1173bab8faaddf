//! Strings that lie in pieces: what clients see of them is what they see of any other, and a change of a part, of the
//! expiry or of the key writes no more than that.

use tembo_kv::pmem::Counters;
use tembo_kv::{IndexKind, Options, Store};
use tembo_server::Local;

const LARGE: usize = 5 << 20;
const PIECE: usize = 64 << 10;

fn server(index: IndexKind) -> Local {
    let options = Options::new().index(index).background(false);
    Local::open(Store::volatile(&options).unwrap(), 16).unwrap()
}

fn call(server: &mut Local, now_ms: u64, request: &[&[u8]]) -> Vec<u8> {
    let request = request.iter().map(|word| word.to_vec()).collect();
    server.turn(now_ms, &[request]).unwrap()
}

fn bulk(bytes: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| ((at * 2_654_435_761 + seed * 97) >> 13) as u8).collect()
}

#[test]
fn a_large_string_is_seen_as_any_other() {
    for index in IndexKind::ORDERED {
        let mut server = server(index);
        let mut ask = |request: &[&[u8]]| call(&mut server, 1000, request);
        let mut string = bytes(1, LARGE);
        assert_eq!(ask(&[b"SET", b"k", &string]), b"+OK\r\n");
        assert!(ask(&[b"GET", b"k"]) == bulk(&string));
        assert_eq!(ask(&[b"STRLEN", b"k"]), format!(":{LARGE}\r\n").as_bytes());
        assert_eq!(ask(&[b"TYPE", b"k"]), b"+string\r\n");
        assert_eq!(ask(&[b"OBJECT", b"ENCODING", b"k"]), b"$3\r\nraw\r\n");
        assert_eq!(ask(&[b"INCR", b"k"]), b"-ERR value is not an integer or out of range\r\n");
        assert_eq!(ask(&[b"SETNX", b"k", b"v"]), b":0\r\n");
        // Within a piece, over the end of one, of several whole ones, and beyond the end.
        let changes = [(17, 5), (PIECE - 2, 4), (3 * PIECE - 1, 3 * PIECE + 2), (LARGE + 70, 9)];
        for (number, (offset, len)) in changes.into_iter().enumerate() {
            let part = bytes(number as u64 + 2, len);
            string.resize(string.len().max(offset + len), 0);
            string[offset..offset + len].copy_from_slice(&part);
            let offset_text = offset.to_string();
            let reply = ask(&[b"SETRANGE", b"k", offset_text.as_bytes(), &part]);
            assert_eq!(reply, format!(":{}\r\n", string.len()).as_bytes());
            let (from, to) = (offset.saturating_sub(3), (offset + len + 2).min(string.len() - 1));
            let (from_text, to_text) = (from.to_string(), to.to_string());
            let got = ask(&[b"GETRANGE", b"k", from_text.as_bytes(), to_text.as_bytes()]);
            assert!(got == bulk(&string[from..=to]), "{offset} {len}");
        }
        string.extend_from_slice(b"tail");
        let reply = ask(&[b"APPEND", b"k", b"tail"]);
        assert_eq!(reply, format!(":{}\r\n", string.len()).as_bytes());
        assert_eq!(ask(&[b"GETRANGE", b"k", b"-4", b"-1"]), bulk(b"tail"));
        let bit = (string.len() - 1) * 8 + 7;
        let bit = bit.to_string();
        assert_eq!(ask(&[b"GETBIT", b"k", bit.as_bytes()]), b":0\r\n");
        assert_eq!(ask(&[b"SETBIT", b"k", bit.as_bytes(), b"1"]), b":0\r\n");
        assert_eq!(ask(&[b"GETBIT", b"k", bit.as_bytes()]), b":1\r\n");
        *string.last_mut().unwrap() |= 1;
        assert!(ask(&[b"GET", b"k"]) == bulk(&string));
        // Its name and its expiry.
        assert_eq!(ask(&[b"PEXPIREAT", b"k", b"5000"]), b":1\r\n");
        assert_eq!(ask(&[b"COPY", b"k", b"copy"]), b":1\r\n");
        assert_eq!(ask(&[b"RENAME", b"k", b"l"]), b"+OK\r\n");
        assert_eq!(ask(&[b"PTTL", b"l"]), b":4000\r\n");
        assert_eq!(ask(&[b"SETRANGE", b"copy", b"0", b"another"])[0], b':');
        assert!(ask(&[b"GETEX", b"l", b"PERSIST"]) == bulk(&string));
        assert_eq!(ask(&[b"PTTL", b"l"]), b":-1\r\n");
        assert_eq!(ask(&[b"MOVE", b"l", b"1"]), b":1\r\n");
        assert_eq!(ask(&[b"SELECT", b"1"]), b"+OK\r\n");
        assert!(ask(&[b"GETDEL", b"l"]) == bulk(&string));
        assert_eq!(ask(&[b"EXISTS", b"l"]), b":0\r\n");
        assert_eq!(ask(&[b"SELECT", b"0"]), b"+OK\r\n");
        string[..7].copy_from_slice(b"another");
        assert!(ask(&[b"GETSET", b"copy", b"small"]) == bulk(&string));
        assert_eq!(ask(&[b"APPEND", b"copy", b"er"]), b":7\r\n");
    }
}

/// Keys in a keyspace of the server's.
fn keys(server: &Local, keyspace: &str) -> usize {
    let store = server.store();
    while store.maintain(64).unwrap() == tembo_kv::Progress::More {}
    store.range::<[u8]>(store.keyspace(keyspace).unwrap(), ..).unwrap().count()
}

#[test]
fn pieces_go_with_their_string() {
    for index in IndexKind::ORDERED {
        let mut server = server(index);
        let string = bytes(1, LARGE);
        let pieces = LARGE / PIECE;
        // One key holds the last id.
        call(&mut server, 1000, &[b"MSET", b"a", &string, b"b", &string, b"c", b"small"]);
        assert_eq!(keys(&server, "db0.elements"), 1 + 2 * pieces);
        call(&mut server, 1000, &[b"SET", b"a", b"small"]);
        assert_eq!(keys(&server, "db0.elements"), 1 + pieces);
        call(&mut server, 1000, &[b"SET", b"b", &string, b"PX", b"500"]);
        assert_eq!(keys(&server, "db0.elements"), 1 + pieces);
        call(&mut server, 2000, &[b"PING"]);
        assert_eq!((keys(&server, "db0"), keys(&server, "db0.elements")), (2, 1));
        // What is skipped is not written.
        let far = [&b"SETRANGE"[..], b"far", b"500000000", b"x"];
        assert_eq!(call(&mut server, 2000, &far), b":500000001\r\n");
        assert_eq!(keys(&server, "db0.elements"), 1 + 1);
        assert_eq!(
            call(&mut server, 2000, &[b"GETRANGE", b"far", b"499999999", b"-1"]),
            bulk(b"\0x")
        );
        call(&mut server, 2000, &[b"DEL", b"far"]);
        assert_eq!(keys(&server, "db0.elements"), 1);
    }
}

/// EXPIRE on 512 MiB held all clients for eight seconds, since the value was written anew.
#[test]
fn a_change_beside_the_bytes_writes_little() {
    let mut server = server(IndexKind::Nvtree);
    let string = bytes(1, 32 << 20);
    call(&mut server, 1000, &[b"SET", b"k", &string]);
    let requests: [&[&[u8]]; 7] = [
        &[b"EXPIRE", b"k", b"100"],
        &[b"PERSIST", b"k"],
        &[b"RENAME", b"k", b"l"],
        &[b"SETRANGE", b"l", b"1000000", b"some bytes"],
        &[b"APPEND", b"l", b"some bytes"],
        &[b"SETBIT", b"l", b"7", b"1"],
        &[b"GETEX", b"l", b"EX", b"100"],
    ];
    for request in requests {
        let before = Counters::thread().bytes;
        call(&mut server, 1000, request);
        let written = Counters::thread().bytes - before;
        assert!(written < 256 << 10, "{written} bytes by {}", request[0].escape_ascii());
    }
}

/// A store whose keys have no order is refused before anything is made in it.
#[test]
fn a_store_without_an_order_has_no_server() {
    let store = Store::volatile(&Options::new().index(IndexKind::Hash)).unwrap();
    let refused = Local::open(store.clone(), 16).map(drop);
    let unordered = tembo_kv::Error::Unordered.to_string();
    assert!(matches!(refused, Err(error) if error.to_string().contains(&unordered)));
    assert!(store.keyspaces().is_empty());
}

#[test]
fn no_string_becomes_longer_than_the_longest() {
    const TOO_FAR: &[u8] = b"-ERR bit offset is not an integer or out of range\r\n";
    for index in IndexKind::ORDERED {
        let mut server = server(index);
        let mut ask = |request: &[&[u8]]| call(&mut server, 1000, request);
        // Of each field the first bit lies in the last byte of the longest string, and others behind it.
        for key in [b"missing", b"shorter", b"longest"] {
            match key {
                b"missing" => {}
                b"shorter" => assert_eq!(ask(&[b"SET", key, b"ab"]), b"+OK\r\n"),
                _ => assert_eq!(ask(&[b"SETRANGE", key, b"536870911", b"x"]), b":536870912\r\n"),
            }
            let len = ask(&[b"STRLEN", key]);
            assert_eq!(ask(&[b"BITFIELD", key, b"SET", b"i8", b"4294967295", b"1"]), TOO_FAR);
            assert_eq!(ask(&[b"BITFIELD", key, b"INCRBY", b"u63", b"4294967290", b"1"]), TOO_FAR);
            assert_eq!(ask(&[b"STRLEN", key]), len);
        }
        // What lies there can be read.
        let field = ask(&[b"BITFIELD", b"longest", b"GET", b"u16", b"4294967288"]);
        assert_eq!(field, format!("*1\r\n:{}\r\n", u16::from(b'x') << 8).as_bytes());
        assert_eq!(ask(&[b"DEL", b"longest", b"shorter", b"missing"]), b":2\r\n");
    }
}

/// Sources are read in parts: of strings in pieces, of a short one, of one that is not there.
#[test]
fn bits_of_large_strings_are_combined() {
    type Combine = fn(u8, u8) -> u8;
    let combine: [(&[u8], Combine); 3] =
        [(b"AND", |a, b| a & b), (b"OR", |a, b| a | b), (b"XOR", |a, b| a ^ b)];
    let sources =
        [bytes(1, LARGE), bytes(2, 999_999), Vec::new(), bytes(3, 7), bytes(4, LARGE + 3)];
    let padded = |source: &[u8]| {
        let mut padded = source.to_vec();
        padded.resize(LARGE + 3, 0);
        padded
    };
    for index in IndexKind::ORDERED {
        let mut server = server(index);
        let mut ask = |request: &[&[u8]]| call(&mut server, 1000, request);
        let keys = [b"0", b"1", b"2", b"3", b"4"];
        for (key, source) in keys.iter().zip(&sources).filter(|(_, source)| !source.is_empty()) {
            ask(&[b"SET", *key, source]);
        }
        for (kind, combine) in combine {
            let mut request: Vec<&[u8]> = vec![b"BITOP", kind, b"to"];
            request.extend(keys.iter().map(|key| key.as_slice()));
            assert_eq!(ask(&request), format!(":{}\r\n", LARGE + 3).as_bytes());
            let mut expected = padded(&sources[0]);
            for source in &sources[1..] {
                let other = padded(source);
                expected
                    .iter_mut()
                    .zip(other)
                    .for_each(|(byte, other)| *byte = combine(*byte, other));
            }
            assert!(ask(&[b"GET", b"to"]) == bulk(&expected), "{index:?}");
        }
        ask(&[b"BITOP", b"NOT", b"0", b"0"]);
        let expected: Vec<u8> = sources[0].iter().map(|byte| !byte).collect();
        assert!(ask(&[b"GET", b"0"]) == bulk(&expected), "{index:?}");
    }
}

/// As BITFIELD of earlier releases made it.
#[test]
fn a_string_that_is_a_few_bytes_longer_is_read_and_removed() {
    for index in IndexKind::ORDERED {
        let mut server = server(index);
        let longest = [&b"SETRANGE"[..], b"far", b"536870911", b"x"];
        assert_eq!(call(&mut server, 1000, &longest), b":536870912\r\n");
        let (store, key) = (server.store(), b"far");
        let keyspace = store.keyspace("db0").unwrap();
        let mut value = store.get(keyspace, key).unwrap().unwrap();
        let count = 536_870_912_u64.to_be_bytes();
        let at = value.windows(8).position(|bytes| bytes == count).unwrap();
        value[at..at + 8].copy_from_slice(&536_870_913_u64.to_be_bytes());
        store.put(keyspace, key, &value, tembo_kv::Durability::Strict).unwrap();
        let mut ask = |request: &[&[u8]]| call(&mut server, 1000, request);
        assert_eq!(ask(&[b"STRLEN", key]), b":536870913\r\n");
        assert_eq!(ask(&[b"GETRANGE", key, b"536870911", b"-1"]), bulk(b"x\0"));
        assert_eq!(ask(&[b"DEL", key]), b":1\r\n");
        assert_eq!(keys(&server, "db0.elements"), 1);
    }
}
