//! The server that is tested.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};

/// Times that a server which starts is asked whether it listens, a tenth of a second apart.
const ASKED_MAX: u32 = 600;

/// Which server is tested; both are programs.
pub(super) enum Subject {
    /// Ours.
    Tembo(PathBuf),
    /// What it is compared with.
    Redis(PathBuf),
}

/// A running server in a folder of its own. Both end with it.
pub(super) struct Running {
    child: Child,
    folder: PathBuf,
    pub(super) port: u16,
}

impl Subject {
    /// Its name in the results.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Subject::Tembo(_) => "tembo",
            Subject::Redis(_) => "redis",
        }
    }

    /// Starts it on a free port of loopback, without data.
    pub(super) fn start(&self) -> anyhow::Result<Running> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = parent.join(format!("redis-suite-{}-{port}", std::process::id()));
        std::fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        let port_text = port.to_string();
        let mut command = match self {
            Subject::Tembo(program) => {
                let mut command = Command::new(program);
                command.args(["serve", "--pool", "tembo.pool", "--domain", "flush"]);
                command.args(["--enable-debug-command", "--port", &port_text]);
                command
            }
            Subject::Redis(program) => {
                let mut command = Command::new(program);
                command.args(["--save", "", "--enable-debug-command", "yes"]);
                command.args(["--port", &port_text]);
                command
            }
        };
        let log = std::fs::File::create(folder.join("log"))?;
        command.current_dir(&folder).stdin(Stdio::null()).stderr(log.try_clone()?).stdout(log);
        let child = command.spawn().with_context(|| format!("starting {}", self.name()))?;
        let mut running = Running { child, folder, port };
        running.wait_until_it_listens()?;
        Ok(running)
    }
}

impl Running {
    fn wait_until_it_listens(&mut self) -> anyhow::Result<()> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        for _ in 0..ASKED_MAX {
            if TcpStream::connect(address).is_ok() {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                bail!("the server ended at once ({status}): {log}");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        bail!("the server does not listen")
    }

    /// Whether it still runs.
    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself, and a folder that stays is seen by the caller.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
