//! The guest: booted, listened to, killed.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// Bytes of an NVDIMM for the rounds: xfs wants more than 300 MiB.
pub(super) const IMAGE_SIZE: u64 = 512 << 20;
const MARK: &str = "TEMBO ";

/// What is booted.
pub(super) struct Machine {
    pub(super) kernel: PathBuf,
    pub(super) initramfs: PathBuf,
    pub(super) medium: Medium,
    /// What is made on the medium.
    pub(super) filesystem: String,
    /// Where the consoles are kept.
    pub(super) folder: PathBuf,
    pub(super) strength: Strength,
}

/// What executes the guest, and the memory that it has.
pub(super) struct Strength {
    pub(super) accelerator: &'static str,
    pub(super) processor: &'static str,
    pub(super) memory: &'static str,
}

/// Software emulation, which is everywhere: what takes how long in it says little.
pub(super) const EMULATED: Strength =
    Strength { accelerator: "tcg,thread=multi", processor: "max", memory: "768M" };

/// What the guest keeps its files on.
pub(super) enum Medium {
    /// A file of the host; with `eadr` the platform's caches survive too.
    Nvdimm { image: PathBuf, size: u64, eadr: bool },
    /// A device that is served at this socket.
    Nbd { device: &'static str, socket: PathBuf },
}

impl Medium {
    /// The machine that has it, and its own words of the command line.
    fn words(&self) -> (String, Vec<String>) {
        match self {
            Medium::Nvdimm { image, size, eadr } => {
                let persistence = if *eadr { ",nvdimm-persistence=cpu" } else { "" };
                let image = image.display();
                let file = format!("share=on,mem-path={image},size={size}");
                let words = [
                    "-object".to_owned(),
                    format!("memory-backend-file,id=medium,{file}"),
                    "-device".to_owned(),
                    "nvdimm,id=nvdimm0,memdev=medium".to_owned(),
                ];
                (format!("pc,nvdimm=on{persistence}"), words.into())
            }
            Medium::Nbd { device, socket } => {
                let uri = format!("nbd+unix:///{device}?socket={}", socket.display());
                let drive = format!("file={uri},format=raw,if=virtio,discard=unmap");
                ("pc".to_owned(), ["-drive".to_owned(), drive].into())
            }
        }
    }
}

/// An NVDIMM that was never used.
pub(super) fn new_image(path: &Path, size: u64) -> anyhow::Result<()> {
    let file = File::create(path).with_context(|| format!("creating {}", path.display()))?;
    Ok(file.set_len(size)?)
}

/// A running guest; killed when it is forgotten.
pub(super) struct Guest {
    qemu: Child,
    lines: Receiver<String>,
    console: PathBuf,
}

impl Machine {
    /// Boots; `words` go to the guest's init by the kernel's command line.
    pub(super) fn boot(&self, name: &str, words: &str) -> anyhow::Result<Guest> {
        let (kind, medium) = self.medium.words();
        let mut command = Command::new("qemu-system-x86_64");
        command
            .args(["-accel", self.strength.accelerator, "-cpu", self.strength.processor])
            .args(["-smp", "2"])
            .args(["-machine", &kind])
            .args(["-m", &format!("{},slots=2,maxmem=16G", self.strength.memory)])
            .args(medium)
            .arg("-kernel")
            .arg(&self.kernel)
            .arg("-initrd")
            .arg(&self.initramfs)
            // Where the host is busy, the emulated timer does not pass the kernel's check of it.
            .args(["-append", &format!("console=ttyS0 quiet panic=-1 no_timer_check {words}")])
            .args(["-nic", "none", "-display", "none", "-monitor", "none", "-serial", "stdio"])
            .arg("-no-reboot")
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut qemu = command.spawn().with_context(|| format!("{command:?}"))?;
        let stdout = qemu.stdout.take().context("the console")?;
        let console = self.folder.join(format!("console-{name}"));
        let mut kept = File::create(&console)?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).trim_end().to_owned();
                // The kept console is only for a look afterwards.
                let _ = writeln!(kept, "{line}");
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Guest { qemu, lines, console })
    }
}

/// What a guest said.
#[derive(Debug)]
pub(super) enum Heard {
    /// A line for us, without the mark.
    Line(String),
    /// Nothing more within the time.
    Silence,
    /// The guest has ended.
    End,
}

impl Guest {
    /// The next line for us before `deadline`; other lines are in the console's file.
    pub(super) fn hear(&self, deadline: Instant) -> Heard {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    if let Some(rest) = line.strip_prefix(MARK) {
                        return Heard::Line(rest.to_owned());
                    }
                }
                Err(RecvTimeoutError::Timeout) => return Heard::Silence,
                Err(RecvTimeoutError::Disconnected) => return Heard::End,
            }
        }
    }

    /// Waits for a line that begins with `word`; the others go to `other`.
    pub(super) fn wait_for(
        &self,
        word: &str,
        patience: Duration,
        other: &mut dyn FnMut(&str),
    ) -> anyhow::Result<String> {
        let deadline = Instant::now() + patience;
        loop {
            match self.hear(deadline) {
                Heard::Line(line) if line.starts_with("FAILED") => return self.give_up(&line),
                Heard::Line(line) => match line.strip_prefix(word) {
                    Some(rest) => return Ok(rest.trim().to_owned()),
                    None => other(&line),
                },
                Heard::Silence => return self.give_up(&format!("no {word} in {patience:?}")),
                Heard::End => return self.give_up(&format!("it ended before {word}")),
            }
        }
    }

    /// The guest has gone wrong.
    pub(super) fn give_up<T>(&self, what: &str) -> anyhow::Result<T> {
        bail!("the guest: {what}; its console: {}", self.console.display())
    }

    /// SIGKILL for qemu: the guest stops between two instructions. What it has still said.
    pub(super) fn kill(mut self) -> anyhow::Result<Vec<String>> {
        self.qemu.kill()?;
        self.qemu.wait()?;
        let mut said = Vec::new();
        while let Heard::Line(line) = self.hear(Instant::now() + Duration::from_secs(10)) {
            said.push(line);
        }
        Ok(said)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}
