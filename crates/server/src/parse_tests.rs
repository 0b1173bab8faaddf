//! Tests of the parser: every truncation, byte by byte, hostile lengths, random bytes.

use super::*;

const LIMITS: Limits = Limits { bulk_size_max: 512 << 20, unauthenticated: false };

type Command = Vec<Vec<u8>>;

/// Feeds `input` in pieces of `size` bytes, as a connection does.
fn parse(input: &[u8], size: usize) -> Result<Vec<Command>, ProtocolError> {
    let mut parser = Parser::default();
    let mut buffer: Vec<u8> = Vec::new();
    let mut commands = Vec::new();
    for piece in input.chunks(size) {
        let mut piece = piece;
        loop {
            if let Some((bulk, lacking)) = parser.fill() {
                let take = lacking.min(piece.len());
                bulk.extend_from_slice(&piece[..take]);
                piece = &piece[take..];
                if take == lacking {
                    parser.filled();
                }
            } else {
                buffer.extend_from_slice(piece);
                piece = &[];
            }
            match parser.step(&buffer, LIMITS)? {
                Parsed::Command => {
                    commands.push(parser.args(&buffer).from(0).map(<[u8]>::to_vec).collect());
                    let used = parser.finish();
                    buffer.drain(..used);
                }
                Parsed::Nothing => {
                    let used = parser.finish();
                    buffer.drain(..used);
                }
                Parsed::Incomplete if piece.is_empty() => break,
                Parsed::Incomplete => {}
                Parsed::Long => {
                    let rest = buffer.split_off(parser.cursor());
                    let (bulk, _) = parser.fill().unwrap();
                    bulk.extend_from_slice(&rest);
                }
            }
        }
    }
    Ok(commands)
}

fn encode(commands: &[Command]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for command in commands {
        bytes.extend(format!("*{}\r\n", command.len()).bytes());
        for arg in command {
            bytes.extend(format!("${}\r\n", arg.len()).bytes());
            bytes.extend_from_slice(arg);
            bytes.extend(b"\r\n");
        }
    }
    bytes
}

#[test]
fn pieces_of_every_size() {
    let commands: Vec<Command> = vec![
        vec![b"SET".to_vec(), b"a\r\nb".to_vec(), Vec::new()],
        vec![b"GET".to_vec()],
        vec![b"SET".to_vec(), b"k".to_vec(), vec![b'*'; 300]],
    ];
    let bytes = encode(&commands);
    for size in 1..=bytes.len() {
        assert_eq!(parse(&bytes, size).unwrap(), commands, "{size}");
    }
}

#[test]
fn long_bulks_in_pieces() {
    let big = vec![7u8; BULK_SIZE_INLINE_MAX * 3 + 5];
    let commands: Vec<Command> = vec![
        vec![
            b"MSET".to_vec(),
            b"a".to_vec(),
            big.clone(),
            b"b".to_vec(),
            big,
            b"c".to_vec(),
            vec![1],
        ],
        vec![b"PING".to_vec()],
    ];
    let bytes = encode(&commands);
    for size in [1000, 4096, 65_537, 100_000, bytes.len()] {
        assert_eq!(parse(&bytes, size).unwrap(), commands, "{size}");
    }
}

#[test]
fn every_truncation_waits() {
    let command = vec![b"SET".to_vec(), b"key".to_vec(), b"value".to_vec()];
    let bytes = encode(&[command]);
    for size in 0..bytes.len() {
        assert_eq!(parse(&bytes[..size], size.max(1)).unwrap(), Vec::<Command>::new(), "{size}");
    }
}

#[test]
fn hostile_lengths() {
    for (input, text) in [
        ("*9223372036854775808\r\n", "invalid multibulk length"),
        ("*1048577\r\n", "invalid multibulk length"),
        ("*x\r\n", "invalid multibulk length"),
        ("*\r\n", "invalid multibulk length"),
        ("*1\r\n$9223372036854775808\r\n", "invalid bulk length"),
        ("*1\r\n$-1\r\n", "invalid bulk length"),
        ("*1\r\n$536870913\r\n", "invalid bulk length"),
        ("*1\r\n$\r\n", "invalid bulk length"),
        ("*1\r\n:1\r\n", "expected '$', got ':'"),
        ("*1\r\n\r\n\r\n", "expected '$', got '\r'"),
        ("*3\r\n$400000000\r\n", ""),
        ("\"abc\n", "unbalanced quotes in request"),
    ] {
        match parse(input.as_bytes(), input.len()) {
            Ok(commands) => assert!(text.is_empty() && commands.is_empty(), "{input:?}"),
            Err(error) => assert_eq!(error.0, text, "{input:?}"),
        }
    }
    for (first, text) in [
        ("*", "too big mbulk count string"),
        ("*1\r\n$", "too big bulk count string"),
        ("a", "too big inline request"),
    ] {
        let input = [first.as_bytes(), &[b'1'; LINE_SIZE_MAX + 10]].concat();
        assert_eq!(parse(&input, 1000).unwrap_err().0, text);
    }
    assert_eq!(parse(b"*-1\r\n*0\r\n\r\n", 3).unwrap(), Vec::<Command>::new());
}

#[test]
fn unauthenticated_clients_are_held_short() {
    let limits = Limits { unauthenticated: true, ..LIMITS };
    let step = |input: &[u8]| Parser::default().step(input, limits).unwrap_err().0;
    assert_eq!(step(b"*11\r\n"), "unauthenticated multibulk length");
    assert_eq!(step(b"*1\r\n$16385\r\n"), "unauthenticated bulk length");
}

#[test]
fn random_bytes_never_panic() {
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let alphabet = b"*$\r\n0123456789-:\"'\\xSETGET \0\xff";
    for _ in 0..20_000 {
        let size = next() % 60 + 1;
        let bytes: Vec<u8> =
            (0..size).map(|_| alphabet[(next() % alphabet.len() as u64) as usize]).collect();
        let whole = parse(&bytes, bytes.len());
        let pieces = parse(&bytes, 1 + (next() % 7) as usize);
        assert_eq!(whole.is_err(), pieces.is_err(), "{bytes:?}");
        if let (Ok(whole), Ok(pieces)) = (whole, pieces) {
            assert_eq!(whole, pieces, "{bytes:?}");
        }
    }
}
