//! A server in a thread, a client that shows replies as they came over the wire, and patience.

use std::fmt::Debug;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tembo_kv::{Options, Store};
use tembo_server::{Config, Error, Server};

/// Many times what anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server in a thread; it is stopped when this is dropped.
pub struct Running {
    pub address: SocketAddr,
    pub memcached: Option<SocketAddr>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<(Store, Result<(), Error>)>>,
}

impl Running {
    pub fn start() -> Running {
        Running::with(Config::default())
    }

    pub fn with(config: Config) -> Running {
        Running::over(Store::volatile(&Options::default()).unwrap(), config)
    }

    pub fn over(store: Store, config: Config) -> Running {
        Running::of(Server::bind(store, Config { port: 0, ..config }).unwrap())
    }

    pub fn of(mut server: Server) -> Running {
        let (address, memcached) = (server.local_addr(), server.memcached_addr());
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let thread = std::thread::spawn(move || {
            let result = server.run(&seen);
            (server.into_store(), result)
        });
        Running { address, memcached, stop, thread: Some(thread) }
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// A client of a server that listens at all addresses.
    pub fn client_at_loopback(&self) -> Client {
        Client::connect((Ipv4Addr::LOCALHOST, self.address.port()).into())
    }

    /// Stops the server and hands its store over.
    pub fn stop(mut self) -> (Store, Result<(), Error>) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }

    /// Waits until the server stops by itself.
    pub fn join(mut self) -> Result<(), Error> {
        self.thread.take().unwrap().join().unwrap().1
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub struct Client {
    pub stream: BufReader<TcpStream>,
}

/// A command in RESP.
pub fn encode(args: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend(format!("${}\r\n", arg.len()).bytes());
        bytes.extend_from_slice(arg);
        bytes.extend(b"\r\n");
    }
    bytes
}

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client { stream: BufReader::new(stream) }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// Executes a command whose words are separated by spaces.
    pub fn call(&mut self, command: &str) -> String {
        let args: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        self.call_args(&args)
    }

    pub fn call_args(&mut self, args: &[&[u8]]) -> String {
        self.send(&encode(args));
        self.reply()
    }

    /// The next reply, as it came.
    pub fn reply(&mut self) -> String {
        String::from_utf8_lossy(&self.reply_bytes().unwrap()).into_owned()
    }

    /// The next reply; None when the server has closed the connection.
    pub fn reply_bytes(&mut self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        let count = self.stream.read_until(b'\n', &mut line).unwrap_or(0);
        if count == 0 {
            return None;
        }
        let number =
            || -> i64 { std::str::from_utf8(&line[1..]).unwrap().trim_end().parse().unwrap() };
        match line[0] {
            b'$' | b'=' if number() >= 0 => {
                let mut rest = vec![0; number() as usize + 2];
                self.stream.read_exact(&mut rest).ok()?;
                line.extend(rest);
            }
            b'*' | b'~' | b'>' => {
                for _ in 0..number().max(0) {
                    line.extend(self.reply_bytes()?);
                }
            }
            b'%' => {
                for _ in 0..number() * 2 {
                    line.extend(self.reply_bytes()?);
                }
            }
            _ => {}
        }
        Some(line)
    }

    /// The bytes of the next reply, which is a bulk.
    pub fn stream_bulk(&mut self) -> Vec<u8> {
        let reply = self.reply_bytes().unwrap();
        let begin = reply.iter().position(|&byte| byte == b'\n').unwrap() + 1;
        reply[begin..reply.len() - 2].to_vec()
    }

    /// Whether the server closes the connection and sends nothing more.
    pub fn is_closed(&mut self) -> bool {
        loop {
            match self.stream.read(&mut [0]) {
                Ok(count) => return count == 0,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// Looks until what is seen is right, or panics with what was seen last.
pub fn wait_until<T: Debug>(
    what: &str,
    mut look: impl FnMut() -> T,
    is_right: impl Fn(&T) -> bool,
) {
    let began = Instant::now();
    loop {
        let seen = look();
        if is_right(&seen) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "waited in vain for {what}: {seen:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A random number generator that can be repeated.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }
}
