//! The same scripts to Redis and to Tembo: the replies must be the same, byte for byte.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::client::{Client, Random, Running, wait_until};
use crate::collection_script::{self, is_unordered};

/// Redis 7, as installed.
pub struct Redis {
    child: Child,
    pub address: SocketAddr,
    /// Its folder: a replica keeps there what it is given.
    folder: PathBuf,
}

impl Redis {
    /// None if it is not installed.
    pub fn start() -> Option<Redis> {
        // Its port was free when it was asked for: another process may have taken it since.
        (0..100).find_map(|_| match Redis::try_start() {
            Ok(mut redis) => redis.is_there().then_some(Some(redis)),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
                println!(
                    "SKIPPED: redis-server is not installed, so there is nothing to compare with"
                );
                Some(None)
            }
        })?
    }

    fn try_start() -> std::io::Result<Redis> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let port = address.port().to_string();
        let name = format!("tembo-redis-{}-{port}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder)?;
        let arguments = [
            "--dir",
            folder.to_str().unwrap(),
            "--port",
            &port,
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
            "--enable-protected-configs",
            "yes",
            "--enable-debug-command",
            "yes",
        ];
        let mut command = Command::new("redis-server");
        // SORT compares texts as the locale says.
        command.env("LC_ALL", "C");
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn();
        if child.is_err() {
            let _ = std::fs::remove_dir_all(&folder);
        }
        Ok(Redis { child: child?, address, folder })
    }

    /// Waits until it answers; false if its port was taken.
    fn is_there(&mut self) -> bool {
        let begun = || {
            let has_ended = self.child.try_wait().unwrap().is_some();
            (has_ended, TcpStream::connect(self.address).is_ok())
        };
        wait_until("redis-server", begun, |&(has_ended, answers)| has_ended || answers);
        if self.child.try_wait().unwrap().is_some() {
            return false;
        }
        // Or it is about to end, and another one answers.
        let info = Client::connect(self.address).call("INFO server");
        info.contains(&format!("process_id:{}\r\n", self.child.id()))
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Makes random commands over few keys.
pub struct Script(pub Random);

impl Script {
    fn key(&mut self) -> String {
        format!("k{}", self.0.below(8))
    }

    fn value(&mut self) -> String {
        let below = self.0.below(12);
        match below {
            0 => "10".into(),
            1 => "-7".into(),
            2 => "9223372036854775807".into(),
            3 => "3.25".into(),
            4 => "hello world".into(),
            5 => String::new(),
            6 => "x".repeat(100),
            7 => "007".into(),
            8 => "1e3".into(),
            _ => self.0.below(1000).to_string(),
        }
    }

    fn number(&mut self) -> String {
        let choices = [
            "0",
            "1",
            "-1",
            "5",
            "-3",
            "100",
            "9223372036854775807",
            "-9223372036854775808",
            "x",
            "",
            "1.5",
            "99999999999999999999",
            "2",
        ];
        self.0.pick(&choices).to_owned()
    }

    /// Far enough away not to pass, and absolute, so that both servers see the same.
    fn expiry(&mut self) -> Vec<String> {
        let choices: [&[&str]; 11] = [
            &["EXAT", "99999999999"],
            &["PXAT", "99999999999123"],
            &["EXAT", "88888888888"],
            &["PXAT", "88888888888123"],
            &["EX", "0"],
            &["PX", "-1"],
            &["EX", "x"],
            &["EX"],
            &["PX", "9223372036854775807"],
            &["EX", "9223372036854775807"],
            &["EX", "5", "PX", "5"],
        ];
        self.0.pick(&choices).iter().map(|word| (*word).to_owned()).collect()
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn options(&mut self, command: &mut Vec<String>, choices: &[&str]) {
        for _ in 0..self.0.below(3) {
            command.push(self.0.pick(choices).to_owned());
        }
    }

    pub fn command(&mut self) -> Vec<String> {
        match self.0.below(20) {
            0..5 => self.string(),
            5..8 => self.keys(),
            8..10 => self.expire(),
            10..12 => self.session(),
            _ => collection_script::command(&mut self.0),
        }
    }

    fn string(&mut self) -> Vec<String> {
        let (key, value, number) = (self.key(), self.value(), self.number());
        let (other, other_value) = (self.key(), self.value());
        match self.0.below(24) {
            0 | 1 => {
                let mut command = Script::words(&["SET", &key, &value]);
                self.options(&mut command, &["NX", "xx", "GET", "KEEPTTL", "BOGUS", "nx"]);
                if self.0.below(2) == 0 {
                    command.extend(self.expiry());
                }
                command
            }
            2 => {
                let mut command = Script::words(&["GETEX", &key]);
                command.extend(match self.0.below(3) {
                    0 => Script::words(&["PERSIST"]),
                    1 => Vec::new(),
                    _ => self.expiry(),
                });
                command
            }
            3 => Script::words(&["GETSET", &key, &value]),
            4 => Script::words(&["GETDEL", &key]),
            5 => Script::words(&["MGET", &key, &other, "nosuch"]),
            6 => Script::words(&["MSET", &key, &value, &other, &other_value]),
            7 => Script::words(&["MSET", &key, &value, &other]),
            8 => Script::words(&["MSETNX", &key, &value, &other, &other_value]),
            9 => Script::words(&["APPEND", &key, &value]),
            10 => Script::words(&["STRLEN", &key]),
            11 => Script::words(&["SETRANGE", &key, &number, &value]),
            12 => Script::words(&["GETRANGE", &key, &number, &self.number()]),
            13 => Script::words(&["INCR", &key]),
            14 => Script::words(&["DECR", &key]),
            15 => Script::words(&["INCRBY", &key, &number]),
            16 => Script::words(&["DECRBY", &key, &number]),
            17 => {
                Script::words(&["INCRBYFLOAT", "f", self.0.pick(&["1.5", "x", "-0.25", "3", ""])])
            }
            18 => Script::words(&["SETNX", &key, &value]),
            19 => Script::words(&["SETEX", &key, self.0.pick(&["0", "-1", "x", "100000"]), &value]),
            20 => Script::words(&["PSETEX", &key, self.0.pick(&["0", "x", "100000000"]), &value]),
            21 => Script::words(&["SUBSTR", &key, &number, "3"]),
            _ => Script::words(&["GET", &key]),
        }
    }

    fn keys(&mut self) -> Vec<String> {
        let (key, other) = (self.key(), self.key());
        let db = self.0.pick(&["0", "1", "2", "15", "16", "-1", "x", "99999999999"]).to_owned();
        match self.0.below(20) {
            0 => Script::words(&["DEL", &key, &other]),
            1 => Script::words(&["UNLINK", &key]),
            2 => Script::words(&["EXISTS", &key, &key, &other]),
            3 => Script::words(&["TYPE", &key]),
            4 => {
                Script::words(&["KEYS", self.0.pick(&["*", "k[0-3]", "k?", "x*", "k[^1]", "\\k1"])])
            }
            5 => Script::words(&["TOUCH", &key, &other]),
            6 | 7 => Script::words(&["RENAME", &key, &other]),
            8 => Script::words(&["RENAMENX", &key, &other]),
            9 | 10 => {
                let mut command = Script::words(&["COPY", &key, &other]);
                self.options(&mut command, &["REPLACE", "replace", "BOGUS", "DB"]);
                if self.0.below(2) == 0 {
                    command.extend(["DB".to_owned(), db]);
                }
                command
            }
            11 => Script::words(&["MOVE", &key, &db]),
            12 => Script::words(&["DBSIZE"]),
            13 => Script::words(&["OBJECT", "REFCOUNT", "nosuch"]),
            14 if self.0.below(10) == 0 => Script::words(&["FLUSHDB"]),
            15 if self.0.below(10) == 0 => Script::words(&["FLUSHALL", "ASYNC"]),
            16 => Script::words(&["FLUSHALL", "BOGUS"]),
            _ => Script::words(&["EXISTS", &key]),
        }
    }

    fn expire(&mut self) -> Vec<String> {
        let key = self.key();
        match self.0.below(12) {
            0..3 => {
                let at = ["99999999999", "88888888888", "1", "-5", "x", "9223372036854775807"];
                let mut command = Script::words(&["EXPIREAT", &key, self.0.pick(&at)]);
                self.options(&mut command, &["NX", "XX", "GT", "LT", "BOGUS", "gt"]);
                command
            }
            3 => {
                let at = ["99999999999123", "88888888888123", "0", "x", "-9223372036854775808"];
                let mut command = Script::words(&["PEXPIREAT", &key, self.0.pick(&at)]);
                self.options(&mut command, &["NX", "XX", "GT", "LT"]);
                command
            }
            // None that passes while the script runs, and sooner on one server than on the other.
            4 => match self.number().as_str() {
                "1" | "2" | "5" | "100" => Script::words(&["EXPIRE", &key, "100000"]),
                number => Script::words(&["EXPIRE", &key, number]),
            },
            5 => {
                Script::words(&["PEXPIRE", &key, self.0.pick(&["-1", "x", "9223372036854775807"])])
            }
            6 => Script::words(&["PERSIST", &key]),
            7 | 8 => Script::words(&["PEXPIREAT", &key, "77777777777123"]),
            9 => Script::words(&["PEXPIRETIME", "nosuch"]),
            _ => Script::words(&["PEXPIRETIME", "absolute"]),
        }
    }

    fn session(&mut self) -> Vec<String> {
        let key = self.key();
        let choices: [&[&str]; 26] = [
            &["MULTI"],
            &["EXEC"],
            &["EXEC"],
            &["DISCARD"],
            &["WATCH", &key],
            &["UNWATCH"],
            &["WATCH"],
            &["MULTI", "x"],
            &["SELECT", "1"],
            &["SELECT", "0"],
            &["SELECT", "0"],
            &["SELECT", "16"],
            &["SELECT", "x"],
            &["PING"],
            &["PING", "a"],
            &["PING", "a", "b"],
            &["ECHO", "a b"],
            &["NOSUCH", "a", "b"],
            &["GET"],
            &["CLIENT"],
            &["CLIENT", "NOSUCH"],
            &["CONFIG", "NOSUCH", "x"],
            &["CLIENT", "SETNAME", "a b"],
            &["CLIENT", "GETNAME"],
            &["OBJECT", "HELP", "x"],
            &["AUTH", "x"],
        ];
        let choice = self.0.below(choices.len());
        Script::words(choices[choice])
    }
}

/// Executes the command; what the servers may order as they like is put in order.
fn call(client: &mut Client, command: &[String], any_order: &mut bool) -> String {
    let args: Vec<&[u8]> = command.iter().map(String::as_bytes).collect();
    let reply = client.call_args(&args);
    // The replies of what is queued come with EXEC.
    let queued = *any_order && command[0] == "EXEC";
    match command[0].as_str() {
        name if is_unordered(name) => *any_order |= reply.starts_with("+QUEUED"),
        "EXEC" | "DISCARD" => *any_order = false,
        _ => {}
    }
    if command[0] == "OBJECT" {
        // By a string's history in Redis.
        return reply.replace("$3\r\nraw", "$6\r\nembstr");
    }
    if !queued && !is_unordered(&command[0]) {
        return reply;
    }
    let mut lines: Vec<&str> = reply.lines().collect();
    lines[1..].sort_unstable();
    lines.join("\n")
}

fn compare(redis: SocketAddr, tembo: SocketAddr, seed: u64, count: usize, hello: &str) {
    let mut script = Script(Random(seed));
    let mut pairs: Vec<(Client, Client)> =
        (0..2).map(|_| (Client::connect(redis), Client::connect(tembo))).collect();
    for (theirs, ours) in &mut pairs {
        ours.call(hello);
        theirs.call(hello);
        ours.call("FLUSHALL");
        theirs.call("FLUSHALL");
    }
    let mut history = Vec::new();
    let mut any_order = [[false; 2]; 2];
    for step in 0..count {
        let pair = script.0.below(2);
        let command = script.command();
        let theirs = call(&mut pairs[pair].0, &command, &mut any_order[pair][0]);
        let ours = call(&mut pairs[pair].1, &command, &mut any_order[pair][1]);
        history.push(format!("{pair}: {command:?}\n    redis {theirs:?}\n    tembo {ours:?}"));
        let from = history.len().saturating_sub(25);
        assert_eq!(theirs, ours, "seed {seed}, step {step}\n{}", history[from..].join("\n"));
    }
}

#[test]
fn random_scripts() {
    let Some(redis) = Redis::start() else { return };
    let tembo = Running::start();
    let seeds =
        std::env::var("TEMBO_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(12);
    for seed in 1..=seeds {
        let hello = if seed % 2 == 0 { "HELLO 3" } else { "PING" };
        compare(redis.address, tembo.address, seed * 0x9e37_79b9, 1500, hello);
    }
}

#[test]
fn texts() {
    let Some(redis) = Redis::start() else { return };
    let tembo = Running::start();
    let (mut theirs, mut ours) = (Client::connect(redis.address), tembo.client());
    let mut differences = String::new();
    for line in include_str!("texts.txt").lines().filter(|line| !line.is_empty()) {
        let (theirs, ours) = (theirs.call(line), ours.call(line));
        if theirs != ours {
            differences += &format!("{line}\n    redis {theirs:?}\n    tembo {ours:?}\n");
        }
    }
    assert!(differences.is_empty(), "{differences}");
    for inline in
        ["PING\r\n", "  echo  'a b'  \r\n", "SET \"\\x00k\" \"\\\"q\\\"\"\r\n", "nosuch\n"]
    {
        theirs.send(inline.as_bytes());
        ours.send(inline.as_bytes());
        assert_eq!(theirs.reply(), ours.reply(), "{inline:?}");
    }
    for broken in
        ["*x\r\n", "*1\r\n$-1\r\n", "*1\r\nx\r\n", "echo \"a\r\n", "*1\r\n$99999999999\r\n"]
    {
        let (mut theirs, mut ours) = (Client::connect(redis.address), tembo.client());
        theirs.send(broken.as_bytes());
        ours.send(broken.as_bytes());
        assert_eq!(theirs.reply(), ours.reply(), "{broken:?}");
        assert!(theirs.is_closed() && ours.is_closed());
    }
}

/// Parameters of which one server takes other values than the other: docs/redis-differences.md.
const OTHER_VALUES: &[&str] = &[
    "activedefrag",
    "appendfsync",
    "bind",
    "bind-source-addr",
    "dbfilename",
    "dir",
    "maxmemory-samples",
    "port",
    "replica-read-only",
    "slave-read-only",
    "tls-ca-cert-dir",
    "tls-ciphers",
    "tls-ciphersuites",
    "tls-client-cert-file",
    "tls-client-key-file",
    "tls-client-key-file-pass",
    "tls-cluster",
    "tls-key-file-pass",
    "tls-port",
    "tls-protocols",
];

#[test]
fn parameters() {
    let Some(redis) = Redis::start() else { return };
    let tembo = Running::start();
    let (mut theirs, mut ours) = (Client::connect(redis.address), tembo.client());
    let names = theirs.call("CONFIG GET *");
    let names: Vec<&str> = names.lines().filter(|line| !line.starts_with('$')).collect();
    let mut differences = String::new();
    for pair in names[1..].chunks(2).filter(|pair| !OTHER_VALUES.contains(&pair[0])) {
        let (name, default) = (pair[0], pair.get(1).copied().unwrap_or_default());
        for value in [default, "xx", "-1"] {
            let words = [b"CONFIG", b"SET".as_slice(), name.as_bytes(), value.as_bytes()];
            let (theirs, ours) = (theirs.call_args(&words), ours.call_args(&words));
            // The value that a fixed one has is taken.
            let is_same = theirs.contains("can't set immutable config") && ours == "+OK\r\n";
            if theirs != ours && !(is_same && value == default) {
                differences += &format!("{name} {value}\n    redis {theirs}    tembo {ours}");
            }
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

/// Fields of INFO of what is not here, or is not counted: docs/redis-differences.md.
const OTHER_FIELDS: &[&str] = &[
    "allocator_active",
    "allocator_allocated",
    "allocator_frag_bytes",
    "allocator_frag_ratio",
    "allocator_resident",
    "allocator_rss_bytes",
    "allocator_rss_ratio",
    "dump_payload_sanitizations",
    "expire_cycle_cpu_milliseconds",
    "instantaneous_input_repl_kbps",
    "instantaneous_output_repl_kbps",
    "migrate_cached_sockets",
    "reply_buffer_expands",
    "reply_buffer_shrinks",
    "sync_partial_err",
    "total_net_repl_input_bytes",
    "total_net_repl_output_bytes",
    "used_memory_dataset_perc",
    "used_memory_functions",
    "used_memory_scripts",
    "used_memory_scripts_human",
    "used_memory_startup",
];

#[test]
fn fields_of_info() {
    let Some(redis) = Redis::start() else { return };
    let tembo = Running::start();
    let fields = |client: &mut Client| -> Vec<String> {
        let text = client.call("INFO");
        let names = text.lines().filter_map(|line| line.split_once(':'));
        names.map(|(name, _)| name.to_owned()).collect()
    };
    let ours = fields(&mut tembo.client());
    let theirs = fields(&mut Client::connect(redis.address));
    let is_missing =
        |name: &&String| !ours.contains(name) && !OTHER_FIELDS.contains(&name.as_str());
    let missing: Vec<&String> = theirs.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
