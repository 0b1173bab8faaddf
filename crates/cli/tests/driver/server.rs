//! A `tembo` process: started, spoken to, killed.

// Each test uses a part of it.
#![allow(dead_code)]

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::resp::Client;

/// How long a server may take until it is ready, or to stop.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a server is started.
#[derive(Clone, Debug)]
pub struct Setup {
    pub pool: PathBuf,
    /// Words behind `serve --pool POOL --port PORT`; a later one wins.
    pub words: Vec<String>,
    pub port: u16,
    pub binary: PathBuf,
    /// Another user to run as.
    pub user: Option<u32>,
}

impl Setup {
    pub fn new(pool: &Path, words: &[&str]) -> Setup {
        let words = words.iter().map(|&word| word.to_owned()).collect();
        let binary = env!("CARGO_BIN_EXE_tembo").into();
        Setup { pool: pool.to_owned(), words, port: 0, binary, user: None }
    }

    /// Starts the server and does not wait.
    pub fn spawn(&self) -> Process {
        let errors = self.pool.with_extension("stderr");
        let errors = OpenOptions::new().create(true).append(true).open(errors);
        let mut command = Command::new(&self.binary);
        command.arg("serve").arg("--pool").arg(&self.pool);
        command.args(["--port", &self.port.to_string()]).args(&self.words);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        // A directory that may not be written to has no file for them.
        command.stderr(errors.map_or_else(|_| Stdio::inherit(), File::into));
        if let Some(user) = self.user {
            std::os::unix::process::CommandExt::uid(&mut command, user);
        }
        for _ in 0..1000 {
            match command.spawn() {
                Ok(child) => return Process { child },
                // A test that forks meanwhile still holds a copied binary open, until it has exec'ed.
                Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                    thread::sleep(Duration::from_millis(5));
                }
                Err(error) => panic!("{command:?}: {error}"),
            }
        }
        panic!("{command:?}: the binary stays busy");
    }

    /// Starts the server and waits until it is ready.
    pub fn start(&self) -> Server {
        self.try_start().unwrap_or_else(|status| {
            panic!("{:?} did not start: {status}\n{}", self, self.errors());
        })
    }

    /// As [`start`](Setup::start); the status if it ends instead.
    pub fn try_start(&self) -> Result<Server, ExitStatus> {
        let mut process = self.spawn();
        let stdout = process.child.stdout.take().unwrap();
        let (send, receive) = mpsc::channel();
        thread::spawn(move || {
            let mut lines = BufReader::new(stdout).lines();
            // The receiver is gone when the process was killed meanwhile.
            let _ = send.send(lines.next().and_then(Result::ok));
            // What follows is read, so that the server never waits for it.
            lines.for_each(drop);
        });
        match receive.recv_timeout(PATIENCE) {
            Ok(Some(ready)) => Ok(Server { process, address: address(&ready), ready }),
            Ok(None) => Err(process.wait()),
            Err(_) => panic!("{self:?} is not ready after {PATIENCE:?}\n{}", self.errors()),
        }
    }

    /// What servers of this pool have written to their standard error.
    pub fn errors(&self) -> String {
        std::fs::read_to_string(self.pool.with_extension("stderr")).unwrap_or_default()
    }
}

/// The address in the line that says that the server is ready.
fn address(ready: &str) -> SocketAddr {
    let words = ready.split(|c: char| c.is_whitespace() || c == ',');
    words.filter_map(|word| word.parse().ok()).next().unwrap_or_else(|| {
        panic!("no address in `{ready}`");
    })
}

/// A process that is killed when it is forgotten.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    /// SIGKILL, and waits.
    pub fn kill(mut self) -> ExitStatus {
        self.child.kill().unwrap();
        self.child.wait().unwrap()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, signal).unwrap();
    }

    pub fn wait(&mut self) -> ExitStatus {
        for _ in 0..PATIENCE.as_millis() {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("the server does not stop");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server that is ready.
#[derive(Debug)]
pub struct Server {
    pub process: Process,
    pub address: SocketAddr,
    pub ready: String,
}

impl Server {
    pub fn client(&self) -> Client {
        Client::connect(self.address).unwrap()
    }

    pub fn kill(self) -> ExitStatus {
        self.process.kill()
    }

    /// SIGTERM, and waits for the clean stop.
    pub fn stop(mut self) -> ExitStatus {
        self.process.signal(rustix::process::Signal::TERM);
        self.process.wait()
    }
}

/// The binary.
pub fn tembo() -> Command {
    Command::new(env!("CARGO_BIN_EXE_tembo"))
}

/// Runs a command that ends by itself.
pub fn run(words: &[&str]) -> Output {
    tembo().args(words).stdin(Stdio::null()).output().unwrap()
}
