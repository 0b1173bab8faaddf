//! The protocol, byte by byte: what a client may send, and what it may not.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tembo_array::{Array, DeviceOptions};
use tembo_kv::{Durability, Options, Store};
use tembo_nbd::{Exports, Listen, Server, Stopper, Timeouts};

const LEN: u64 = 1 << 20;

struct Fixture {
    folder: tempfile::TempDir,
    array: Array,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl Fixture {
    /// A device `disk` that begins with sevens, and nines from 8 KiB on in the snapshot `monday`.
    fn new(only: Option<&str>, read_only: bool) -> Fixture {
        Fixture::with(only, read_only, Timeouts::default())
    }

    /// The same, with a server that waits for clients for other times.
    fn with(only: Option<&str>, read_only: bool, timeouts: Timeouts) -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::volatile(&Options::new().size(8 << 20)).unwrap();
        let array = Array::open(&store).unwrap();
        let options =
            DeviceOptions { len: LEN, grows: false, run_blocks: 8, ..DeviceOptions::default() };
        let disk = array.create("disk", options).unwrap();
        array.create("other", options).unwrap();
        array.write(&disk, 8192, &[9; 4096], Durability::Strict).unwrap();
        store.save_snapshot("monday").unwrap();
        array.write(&disk, 8192, &[0; 4096], Durability::Strict).unwrap();
        array.write(&disk, 0, &[7; 4096], Durability::Strict).unwrap();
        let exports = Exports::new(&array, only, read_only);
        let listen = Listen::Unix(folder.path().join("socket"));
        let server = Server::bind(&listen, exports).unwrap().with_timeouts(timeouts);
        let stopper = server.stopper();
        let thread = Some(std::thread::spawn(move || server.run().unwrap()));
        Fixture { folder, array, stopper, thread }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn connect(&self) -> Client {
        Client::new(&self.path())
    }

    /// A client of an export, with all extensions.
    fn client(&self, export: &str) -> Client {
        let mut client = self.connect();
        assert_eq!(client.option(8, b"").last().unwrap().0, 1);
        let mut query = text(export);
        query.extend(1_u32.to_be_bytes());
        query.extend(text("base:allocation"));
        assert_eq!(client.option(10, &query)[0].0, 4);
        client.go(export);
        client
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.stopper.stop();
        let ended = self.thread.take().unwrap().join();
        assert!(std::thread::panicking() || ended.is_ok() && !self.path().exists());
    }
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u32).to_be_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

struct Client(UnixStream);

/// A reply: its error, or its data.
type Reply = Result<Vec<u8>, u32>;

impl Client {
    fn new(path: &std::path::Path) -> Client {
        let mut client = Client(UnixStream::connect(path).unwrap());
        assert_eq!(&client.take::<18>(), b"NBDMAGICIHAVEOPT\0\x03");
        client.send(&3_u32.to_be_bytes());
        client
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    fn word(&mut self) -> u32 {
        u32::from_be_bytes(self.take())
    }

    fn bytes(&mut self, len: u32) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// The answers to an option: kind and data, up to the one that ends it.
    fn option(&mut self, option: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.send(b"IHAVEOPT");
        self.send(&option.to_be_bytes());
        self.send(&(data.len() as u32).to_be_bytes());
        self.send(data);
        let mut answers = Vec::new();
        loop {
            assert_eq!(u64::from_be_bytes(self.take()), 0x0003_e889_0455_65a9);
            assert_eq!(self.word(), option);
            let (kind, len) = (self.word(), self.word());
            answers.push((kind, self.bytes(len)));
            if kind == 1 || kind >> 31 == 1 {
                return answers;
            }
        }
    }

    /// Length and flags of an export.
    fn go(&mut self, export: &str) -> (u64, u16) {
        let mut data = text(export);
        data.extend(0_u16.to_be_bytes());
        let answers = self.option(7, &data);
        assert_eq!(answers.len(), 2, "{answers:?}");
        let about = &answers[0].1;
        let len = u64::from_be_bytes(about[2..10].try_into().unwrap());
        (len, u16::from_be_bytes(about[10..12].try_into().unwrap()))
    }

    fn request(&mut self, command: u16, flags: u16, offset: u64, len: u32, payload: &[u8]) {
        let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(command.to_be_bytes());
        bytes.extend((offset ^ 0xabcd).to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(len.to_be_bytes());
        bytes.extend(payload);
        self.send(&bytes);
    }

    /// A reply of either kind, to the request at that offset.
    fn reply(&mut self, offset: u64) -> Reply {
        match self.word() {
            0x6744_6698 => {
                let error = self.word();
                assert_eq!(u64::from_be_bytes(self.take()), offset ^ 0xabcd);
                if error == 0 { Ok(Vec::new()) } else { Err(error) }
            }
            0x668e_33ef => {
                let [_, done, a, b] = self.take();
                assert_eq!(done, 1);
                assert_eq!(u64::from_be_bytes(self.take()), offset ^ 0xabcd);
                let len = self.word();
                let mut data = self.bytes(len);
                match u16::from_be_bytes([a, b]) {
                    1 => {
                        assert_eq!(data[..8], offset.to_be_bytes());
                        Ok(data.split_off(8))
                    }
                    5 => Ok(data.split_off(4)),
                    _ => Err(u32::from_be_bytes(data[..4].try_into().unwrap())),
                }
            }
            other => panic!("{other:x}"),
        }
    }

    fn call(&mut self, command: u16, flags: u16, offset: u64, len: u32, payload: &[u8]) -> Reply {
        self.request(command, flags, offset, len, payload);
        self.reply(offset)
    }

    fn read(&mut self, offset: u64, len: u32) -> Reply {
        self.call(0, 0, offset, len, b"")
    }

    /// The parts of a range: bytes, and whether they are stored.
    fn parts(&mut self, flags: u16, offset: u64, len: u32) -> Vec<(u32, bool)> {
        let bytes = self.call(7, flags, offset, len, b"").unwrap();
        let word = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
        bytes.chunks_exact(8).map(|part| (word(&part[..4]), word(&part[4..]) == 0)).collect()
    }

    fn has_ended(&mut self) -> bool {
        matches!(self.0.read(&mut [0]), Ok(0) | Err(_))
    }
}

const INVALID: Reply = Err(22);

#[test]
fn what_is_written_is_read_zeroed_and_described() {
    let fixture = Fixture::new(None, false);
    let mut client = fixture.client("disk");
    assert_eq!(client.read(4000, 100).unwrap(), [[7; 96].to_vec(), [0; 4].to_vec()].concat());
    client.call(1, 0, 5000, 8000, &[5; 8000]).unwrap();
    client.call(1, 1, LEN - 3, 3, &[6; 3]).unwrap();
    client.call(3, 0, 0, 0, b"").unwrap();
    // Another connection sees it.
    let mut other = fixture.client("disk");
    assert_eq!(other.read(12_999, 2).unwrap(), [5, 0]);
    assert_eq!(other.read(LEN - 4, 4).unwrap(), [0, 6, 6, 6]);
    let end = LEN as u32;
    assert_eq!(other.parts(0, 0, end), [(16384, true), (end - 16384 - 4096, false), (4096, true)]);
    assert_eq!(other.parts(8, 100, 20_000), [(16284, true)]);
    // A hole, and zeros that are none.
    other.call(4, 0, 0, 8192, b"").unwrap();
    other.call(6, 2, 4096, 4096, b"").unwrap();
    other.call(6, 16, LEN - 4096, 4096, b"").unwrap();
    assert_eq!(other.parts(0, 0, end), [(4096, false), (12288, true), (end - 16384, false)]);
    assert!(other.read(0, 8192).unwrap().iter().all(|byte| *byte == 0));
    assert_eq!(other.read(8192, 1).unwrap(), [5]);
    assert_eq!(other.call(6, 2 | 16, 0, 4096, b""), Err(95));
}

#[test]
fn a_snapshot_is_read_only_and_stays() {
    let fixture = Fixture::new(None, false);
    let names: Vec<_> =
        fixture.connect().option(3, b"").into_iter().map(|(_, name)| name).collect();
    let text = |name: &str| [(name.len() as u32).to_be_bytes().to_vec(), name.into()].concat();
    let expected = ["disk", "disk@monday", "other", "other@monday"].map(text);
    assert_eq!(names[..4], expected);
    let mut client = fixture.client("disk@monday");
    assert_eq!(client.read(8191, 2).unwrap(), [0, 9]);
    for command in [1, 4, 6] {
        let payload: &[u8] = if command == 1 { &[1; 512] } else { b"" };
        assert_eq!(client.call(command, 0, 0, 512, payload), Err(1));
    }
    client.call(3, 0, 0, 0, b"").unwrap();
    let (len, flags) = fixture.connect().go("disk@monday");
    assert_eq!((len, flags & 2), (LEN, 2));
    assert_eq!(fixture.connect().go("disk").1 & (2 | 256), 256);
}

#[test]
fn a_snapshot_of_a_removed_device_is_served() {
    let fixture = Fixture::new(None, false);
    let disk = fixture.array.device("disk").unwrap();
    let copy = fixture.array.clone_device(&disk.snapshot().unwrap(), "copy").unwrap();
    fixture.array.remove(&disk).unwrap();
    let listed = || -> Vec<String> {
        let names = fixture.connect().option(3, b"").into_iter().map(|(_, name)| name);
        let names = names.filter(|name| !name.is_empty());
        names.map(|name| String::from_utf8_lossy(&name[4..]).into_owned()).collect()
    };
    assert_eq!(listed(), ["copy", "disk@monday", "other", "other@monday"]);
    assert_eq!(fixture.client("disk@monday").read(8191, 2).unwrap(), [0, 9]);
    // So it is when another device has the name.
    let options = DeviceOptions { len: 512, block_size: 512, ..DeviceOptions::default() };
    fixture.array.create("disk", options).unwrap();
    assert_eq!(fixture.connect().go("disk@monday").0, LEN);
    assert_eq!(fixture.connect().go("disk").0, 512);
    assert_eq!(fixture.client("disk@monday").read(8191, 2).unwrap(), [0, 9]);
    // A clone whose origin is not there is no export, and the others are.
    let own = |name: &&(String, u64)| tembo_kv::is_own_name(&name.0);
    let names = fixture.array.store().snapshots();
    let (kept, _) = names.iter().find(own).unwrap();
    fixture.array.store().drop_snapshot(kept).unwrap();
    let disk = fixture.array.device("disk").unwrap();
    fixture.array.write(&disk, 0, &[1; 512], Durability::Strict).unwrap();
    assert!(copy.snapshot().is_err());
    assert_eq!(listed(), ["disk", "disk@monday", "other", "other@monday"]);
    let mut client = fixture.connect();
    let name = [text("copy"), vec![0, 0]].concat();
    assert_eq!(client.option(7, &name).pop().unwrap().0, 0x8000_0006);
    assert_eq!(client.go("disk").0, 512);
}

#[test]
fn a_request_out_of_range_or_of_no_meaning_is_an_error_and_the_next_one_is_served() {
    let fixture = Fixture::new(None, false);
    let mut client = fixture.client("disk");
    assert_eq!(client.read(LEN - 1, 2), INVALID);
    assert_eq!(client.read(u64::MAX, 2), INVALID);
    assert_eq!(client.call(1, 0, LEN - 1, 2, &[1; 2]), Err(28));
    assert_eq!(client.call(4, 0, u64::MAX - 1, u32::MAX, b""), INVALID);
    assert_eq!(client.call(0, 0x80, 0, 1, b""), INVALID);
    assert_eq!(client.call(3, 0x80, 0, 0, b""), INVALID);
    assert_eq!(client.call(77, 0, 0, 0, b""), INVALID);
    assert_eq!(client.call(7, 0, 0, 0, b""), INVALID);
    assert_eq!(client.read(0, u32::MAX), Err(75));
    let too_much = (32 << 20) + 1;
    assert_eq!(client.call(1, 0, 0, too_much, &vec![1; too_much as usize]), INVALID);
    assert_eq!(client.read(0, 2).unwrap(), [7, 7]);
    assert_eq!(client.read(0, 0).unwrap(), []);
    client.call(1, 0, 9, 0, b"").unwrap();
    client.request(2, 0, 0, 0, b"");
    assert!(client.has_ended());
}

#[test]
fn options_of_any_kind_are_answered() {
    let fixture = Fixture::new(Some("disk"), false);
    let mut client = fixture.connect();
    let kind =
        |client: &mut Client, option, data: &[u8]| client.option(option, data).pop().unwrap().0;
    for option in [5, 11, 0, 99, u32::MAX] {
        assert_eq!(kind(&mut client, option, b"abc"), 0x8000_0001);
    }
    assert_eq!(kind(&mut client, 99, &vec![0; 100_000]), 0x8000_0009);
    for option in [3, 6, 7, 8, 9, 10] {
        assert_eq!(kind(&mut client, option, b"\0\0\0\x09short"), 0x8000_0003, "{option}");
    }
    let name = |name: &str| [text(name), vec![0, 0]].concat();
    assert_eq!(kind(&mut client, 7, &name("other")), 0x8000_0006);
    assert_eq!(kind(&mut client, 7, &name("other@monday")), 0x8000_0006);
    // A context needs structured replies.
    assert_eq!(kind(&mut client, 10, &[text(""), vec![0; 4]].concat()), 0x8000_0003);
    // What is asked for beside the export; INFO changes nothing.
    let about = client.option(6, &[text(""), vec![0, 3, 0, 1, 0, 3, 0, 9]].concat());
    let kinds: Vec<_> = about.iter().map(|(kind, data)| (*kind, data.get(1).copied())).collect();
    assert_eq!(kinds, [(3, Some(0)), (3, Some(1)), (3, Some(3)), (1, None)]);
    // Without structured replies a read has a simple one.
    assert_eq!(client.go("").0, LEN);
    client.request(0, 0, 0, 4, b"");
    assert_eq!(client.reply(0), Ok(Vec::new()));
    assert_eq!(client.take::<4>(), [7; 4]);
    // The way of old clients.
    let mut old = fixture.connect();
    old.send(b"IHAVEOPT\0\0\0\x01\0\0\0\x04disk");
    assert_eq!(u64::from_be_bytes(old.take()), LEN);
    old.take::<2>();
    assert_eq!(old.call(3, 0, 0, 0, b""), Ok(Vec::new()));
    let mut unknown = fixture.connect();
    unknown.send(b"IHAVEOPT\0\0\0\x01\0\0\0\x04none");
    assert!(unknown.has_ended());
    let mut client = fixture.connect();
    assert_eq!(kind(&mut client, 2, b""), 1);
    assert!(client.has_ended());
}

#[test]
fn a_server_that_changes_nothing_has_exports_to_be_read() {
    let fixture = Fixture::new(None, true);
    let mut client = fixture.client("disk");
    assert_eq!(client.call(1, 0, 0, 1, b"x"), Err(1));
    assert_eq!(client.read(0, 1).unwrap(), [7]);
}

/// A small generator, so that a failure can be repeated.
fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

#[test]
fn any_bytes_end_at_most_their_own_connection() {
    let fixture = Fixture::new(None, false);
    let mut seed = std::env::var("TEMBO_SEED").map_or(77, |seed| seed.parse().unwrap());
    println!("TEMBO_SEED={seed}");
    for round in 0..300 {
        let mut bytes: Vec<u8> =
            (0..random(&mut seed) % 200).map(|_| random(&mut seed) as u8).collect();
        let mut socket = if round % 2 == 0 {
            // After the greeting, with or without a word that makes sense.
            let stream = UnixStream::connect(fixture.path()).unwrap();
            let option = (random(&mut seed) % 12) as u32;
            let len = bytes.len() as u32;
            let head = [&[0, 0, 0, 3][..], b"IHAVEOPT", &option.to_be_bytes(), &len.to_be_bytes()];
            if round % 4 == 0 {
                bytes.splice(0..0, head.concat());
            }
            stream
        } else {
            let client = fixture.client("other");
            let head =
                [&0x2560_9513_u32.to_be_bytes()[..], &[0, 0, 0, random(&mut seed) as u8 % 9]];
            if round % 4 == 1 {
                bytes.splice(0..0, head.concat());
            }
            client.0
        };
        // The server may have closed it.
        let _ = socket.write_all(&bytes).and_then(|()| socket.shutdown(Shutdown::Write));
        // Whatever the bytes were, the connection comes to its end.
        let _ = socket.read_to_end(&mut Vec::new());
    }
    assert_eq!(fixture.client("disk").read(0, 1).unwrap(), [7]);
    assert_eq!(fixture.array.check().unwrap().stray, 0);
}

#[test]
fn a_write_is_seen_whole_or_not_at_all() {
    let fixture = Fixture::new(None, false);
    let writer = {
        let mut client = fixture.client("other");
        std::thread::spawn(move || {
            for n in 1..=200_u8 {
                client.call(1, 0, 4000, 40_000, &vec![n; 40_000]).unwrap();
            }
        })
    };
    let mut reader = fixture.client("other");
    while !writer.is_finished() {
        let seen = reader.read(4000, 40_000).unwrap();
        assert!(seen.iter().all(|byte| *byte == seen[0]));
    }
    writer.join().unwrap();
    assert_eq!(reader.read(43_999, 2).unwrap(), [200, 0]);
}

/// Connections that the server has at a time.
const CONNECTIONS: usize = 64;

/// A second for the handshake, or for a client that does not read; the other time is long.
fn a_second_for(handshake: bool) -> Timeouts {
    let (short, long) = (Duration::from_secs(1), Duration::from_secs(600));
    let (handshake, send) = if handshake { (short, long) } else { (long, short) };
    Timeouts { handshake, send }
}

/// Waits until the server greets one more client.
fn wait_for_a_place(path: &std::path::Path) {
    let patience = Instant::now() + Duration::from_secs(60);
    while UnixStream::connect(path).unwrap().read_exact(&mut [0; 18]).is_err() {
        assert!(Instant::now() < patience, "no place is free");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn clients_that_say_nothing_keep_no_others_out() {
    let fixture = Fixture::with(None, false, a_second_for(true));
    let silent: Vec<_> =
        (0..CONNECTIONS).map(|_| UnixStream::connect(fixture.path()).unwrap()).collect();
    wait_for_a_place(&fixture.path());
    drop(silent);
    // A handshake that goes on, byte by byte, ends too.
    let mut slow = UnixStream::connect(fixture.path()).unwrap();
    let patience = Instant::now() + Duration::from_secs(60);
    let option = b"\0\0\0\x03IHAVEOPT\0\0\0\x63\0\0\xff\xff";
    let mut sent = slow.write_all(option);
    while sent.is_ok() {
        assert!(Instant::now() < patience, "the handshake goes on");
        std::thread::sleep(Duration::from_millis(20));
        sent = slow.write_all(b"x");
    }
}

/// So many FLUSH requests.
fn flushes(count: usize) -> Vec<u8> {
    let request = [&0x2560_9513_u32.to_be_bytes()[..], &[0, 0, 0, 3], &[0; 20]].concat();
    request.repeat(count)
}

#[test]
fn a_client_that_sends_requests_and_reads_no_replies_is_ended() {
    let fixture = Fixture::with(None, false, a_second_for(false));
    let mut client = fixture.client("disk").0;
    let some = flushes(1000);
    let sent = (0..1000).take_while(|_| client.write_all(&some).is_ok()).count();
    assert!(sent < 1000, "the server has taken a million requests whose replies were not read");
}

#[test]
fn clients_that_end_and_read_no_replies_keep_no_others_out() {
    let fixture = Fixture::with(None, false, a_second_for(false));
    let disconnect = [&0x2560_9513_u32.to_be_bytes()[..], &[0, 0, 0, 2], &[0; 20]].concat();
    let ended: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let mut client = fixture.client("disk").0;
            // The server may have ended it already.
            let _ = client.write_all(&[flushes(1000), disconnect.clone()].concat());
            client
        })
        .collect();
    wait_for_a_place(&fixture.path());
    drop(ended);
}
