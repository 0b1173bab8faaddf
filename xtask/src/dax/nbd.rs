//! `cargo xtask dax --nbd`: a guest with ext4 on a device that `tembo device serve` serves. The server, the guest, or both are killed
//! under load; then the image is consistent, and every file that the guest has called durable is whole.
//!
//! The host's page cache survives all of that, so this shows the recovery and the order of what is written; a sync that is missing
//! is found by the adversary (`docs/crash-testing.md`).

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::chance::Chance;
use super::guest::{EMULATED, Guest, Heard, Machine, Medium};
use super::initramfs::{self, Contents};
use super::kernel::Kernel;
use super::programs;

/// Bytes of the device.
const SIZE: u64 = 192 << 20;
const DEVICE: &str = "disk";
/// Threads of the load.
const THREADS: usize = 3;
/// Software emulation takes its time.
const PATIENCE: Duration = Duration::from_secs(300);
const MODULES: [&str; 4] = ["virtio_pci", "virtio_blk", "crc32c_generic", "ext4"];

/// The programs of the host, and where the files lie.
struct Host {
    tembo: PathBuf,
    e2fsck: PathBuf,
    pool: PathBuf,
    socket: PathBuf,
    folder: PathBuf,
}

/// Makes the device and its file system, and kills what uses them some times.
pub(super) fn run(
    root: &Path,
    folder: &Path,
    kernel: Kernel,
    rounds: u32,
    seed: u64,
) -> anyhow::Result<()> {
    let mkfs = programs::installed("mkfs.ext4", "e2fsprogs")?;
    let contents = Contents {
        init: include_str!("nbd_init.sh"),
        busybox: programs::busybox()?,
        programs: vec![(programs::example(root, "tembo-nbd", "guest_load")?, "bin/load".into())],
        links: Vec::new(),
        modules: MODULES.map(str::to_owned).into(),
    };
    let initramfs = folder.join("nbd-initramfs");
    initramfs::write(&initramfs, &kernel, &contents)?;
    let host = Host {
        tembo: std::path::absolute(crate::ci::build_tembo(root)?)?,
        e2fsck: programs::installed("e2fsck", "e2fsprogs")?,
        pool: folder.join("nbd.pool"),
        socket: folder.join("nbd.sock"),
        folder: folder.to_owned(),
    };
    host.make(&mkfs)?;
    let machine = Machine {
        kernel: kernel.image,
        initramfs,
        medium: Medium::Nbd { device: DEVICE, socket: host.socket.clone() },
        filesystem: "ext4".into(),
        folder: folder.to_owned(),
        strength: EMULATED,
    };
    println!("==> dax --nbd: {rounds} rounds from seed {seed}");
    let mut load = Load {
        host: &host,
        machine: &machine,
        seed,
        chance: Chance::new(seed),
        acked: [0; THREADS],
    };
    for number in 1..=rounds {
        load.round(number)?;
    }
    load.finish(rounds)
}

/// `tembo device serve`; killed when it is forgotten.
struct Server(Child);

impl Server {
    fn kill(&mut self) -> anyhow::Result<()> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }

    /// By SIGTERM, which is a clean stop.
    fn stop(&mut self) -> anyhow::Result<()> {
        let sent = Command::new("kill").arg(self.0.id().to_string()).status()?;
        let status = self.0.wait()?;
        if !sent.success() || !status.success() {
            bail!("the server: {status}, signal {:?}", status.signal());
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Host {
    fn tembo(&self, words: &[&str], files: &[&Path]) -> anyhow::Result<String> {
        programs::output(Command::new(&self.tembo).args(words).args(files))
    }

    /// A pool with a device, and on that a file system.
    fn make(&self, mkfs: &Path) -> anyhow::Result<()> {
        let image = self.folder.join("nbd.image");
        let log = self.folder.join("nbd.pool.log");
        for old in [&self.pool, &log, &image] {
            // Of an earlier run, if there was one.
            let _ = fs::remove_file(old);
        }
        fs::File::create(&image)?.set_len(SIZE)?;
        programs::output(Command::new(mkfs).args(["-q", "-F", "-b", "4096"]).arg(&image))?;
        let mut import = Command::new(&self.tembo);
        import.args(["device", "import"]).arg(&self.pool).arg(DEVICE).arg(&image).arg("--fixed");
        programs::output(&mut import)?;
        Ok(fs::remove_file(&image)?)
    }

    fn serve(&self) -> anyhow::Result<Server> {
        let mut serve = Command::new(&self.tembo);
        serve.args(["device", "serve"]).arg(&self.pool).arg("--socket").arg(&self.socket);
        let mut server = Server(serve.stdout(Stdio::piped()).spawn().context("tembo")?);
        let output = server.0.stdout.take().context("its output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        if !line.contains("is served at") {
            bail!("tembo device serve says `{line}`");
        }
        Ok(server)
    }

    /// The pool and the file system on its device, neither of which any process has open.
    fn check(&self) -> anyhow::Result<()> {
        self.tembo(&["device", "check"], &[&self.pool])?;
        let image = self.folder.join("nbd.exported");
        // Of the round before.
        let _ = fs::remove_file(&image);
        self.tembo(&["device", "export"], &[&self.pool, Path::new(DEVICE), &image])?;
        // As the system does before it mounts: the journal, and the inodes that were about to be removed.
        self.e2fsck(&["-p"], &image, &[0, 1])?;
        // All of it is looked at, and nothing is to be mended.
        self.e2fsck(&["-f", "-n"], &image, &[0])?;
        Ok(fs::remove_file(&image)?)
    }

    fn e2fsck(&self, words: &[&str], image: &Path, codes: &[i32]) -> anyhow::Result<()> {
        let found = Command::new(&self.e2fsck).args(words).arg(image).output()?;
        if !found.status.code().is_some_and(|code| codes.contains(&code)) {
            let (text, errors) =
                (String::from_utf8_lossy(&found.stdout), String::from_utf8_lossy(&found.stderr));
            bail!("e2fsck {words:?} of {}: {}\n{text}{errors}", image.display(), found.status);
        }
        Ok(())
    }
}

/// Boots, load and kills on one device.
struct Load<'m> {
    host: &'m Host,
    machine: &'m Machine,
    seed: u64,
    chance: Chance,
    /// The last operation of each thread that a guest has called durable.
    acked: [u64; THREADS],
}

impl Load<'_> {
    fn words(&self, mode: &str) -> String {
        let acked = self.acked.map(|acked| acked.to_string()).join("x");
        format!("tembo.mode={mode} tembo.seed={} tembo.acked={acked}", self.seed)
    }

    /// Boots on what the last kill has left, goes on with the load, kills, and looks at the image.
    fn round(&mut self, number: u32) -> anyhow::Result<()> {
        let mut server = self.host.serve()?;
        let guest = self.machine.boot(&format!("nbd-{number}"), &self.words("round"))?;
        let before = self.acked;
        let found = guest.wait_for("VERIFIED", PATIENCE, &mut |_| {})?;
        self.compare(&guest, &found)?;
        let delay = Duration::from_millis(50 + self.chance.below(6000));
        self.listen(&guest, Instant::now() + delay)?;
        let between = Duration::from_millis(self.chance.below(300));
        let killed = match self.chance.below(3) {
            0 => {
                server.kill()?;
                std::thread::sleep(between);
                self.take(&guest.kill()?);
                "the server, then the guest"
            }
            1 => {
                self.take(&guest.kill()?);
                std::thread::sleep(between);
                server.kill()?;
                "the guest, then the server"
            }
            _ => {
                self.take(&guest.kill()?);
                server.stop()?;
                "the guest"
            }
        };
        self.host.check()?;
        println!(
            "    round {number}: found {found} ({before:?} were acknowledged); {killed} killed after {delay:?} of load, \
             {:?} acknowledged; e2fsck finds nothing",
            self.acked
        );
        Ok(())
    }

    /// A last boot, which ends by itself.
    fn finish(&mut self, rounds: u32) -> anyhow::Result<()> {
        let mut server = self.host.serve()?;
        let guest = self.machine.boot("nbd-last", &self.words("last"))?;
        let found = guest.wait_for("VERIFIED", PATIENCE, &mut |_| {})?;
        self.compare(&guest, &found)?;
        guest.wait_for("DONE", PATIENCE, &mut |_| {})?;
        drop(guest);
        server.stop()?;
        self.host.check()?;
        let sum: u64 = self.acked.iter().sum();
        println!(
            "==> dax --nbd: {rounds} rounds with a kill, {sum} operations with fsync; every acknowledged one found, no file torn, \
             e2fsck finds nothing"
        );
        Ok(())
    }

    /// What the guest has found is where it goes on.
    fn compare(&mut self, guest: &Guest, found: &str) -> anyhow::Result<()> {
        let numbers: Vec<u64> = found.split('x').filter_map(|number| number.parse().ok()).collect();
        match <[u64; THREADS]>::try_from(numbers) {
            Ok(numbers) if numbers.iter().zip(&self.acked).all(|(found, acked)| found >= acked) => {
                self.acked = numbers;
                Ok(())
            }
            _ => guest.give_up(&format!("it found {found}; acknowledged were {:?}", self.acked)),
        }
    }

    fn listen(&mut self, guest: &Guest, until: Instant) -> anyhow::Result<()> {
        loop {
            match guest.hear(until) {
                Heard::Line(line) if line.starts_with("ACKED ") => self.take(&[line]),
                Heard::Line(line) => return guest.give_up(&line),
                Heard::Silence => return Ok(()),
                Heard::End => return guest.give_up("it ended by itself"),
            }
        }
    }

    /// What was acknowledged. A line that was cut off by the kill has no end; that the load has failed is no wonder without the
    /// server.
    fn take(&mut self, lines: &[String]) {
        for line in lines {
            let numbers = line.strip_prefix("ACKED ").and_then(|rest| rest.strip_suffix('.'));
            let Some((thread, number)) = numbers.and_then(|numbers| numbers.split_once(' ')) else {
                continue;
            };
            if let (Ok(thread), Ok(number)) = (thread.parse::<usize>(), number.parse::<u64>()) {
                let Some(acked) = self.acked.get_mut(thread) else { continue };
                *acked = number.max(*acked);
            }
        }
    }
}
