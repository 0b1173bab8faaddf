//! A control group that limits memory, of version 1 or 2, where this user may make one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// The groups of version 1 that limit memory.
const FIRST: &str = "/sys/fs/cgroup/memory";
/// The folder of all groups of version 2.
const SECOND: &str = "/sys/fs/cgroup";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    First,
    Second,
}

/// A group that this process has made, gone when this is dropped; or one that it is in.
pub struct Group {
    path: PathBuf,
    version: Version,
    is_own: bool,
    /// This process is in it.
    has_entered: bool,
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.is_own {
            if let Some(parent) = self.path.parent().filter(|_| self.has_entered) {
                // It stays where it is, then.
                let _ = fs::write(parent.join("cgroup.procs"), std::process::id().to_string());
            }
            // A process that is still ending keeps it; the next run has another name.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

impl Group {
    /// Makes a group whose memory is limited to so many bytes.
    ///
    /// # Errors
    /// Why there can be none.
    pub fn new(memory: u64) -> io::Result<Group> {
        let name = format!("tembo-bench-{}", std::process::id());
        let (parent, version) = if Path::new(FIRST).is_dir() {
            (PathBuf::from(FIRST), Version::First)
        } else {
            (PathBuf::from(SECOND), Version::Second)
        };
        if version == Version::Second {
            // It may be on already; if it is not and cannot be, the limit below does not exist, which is reported.
            let _ = fs::write(parent.join("cgroup.subtree_control"), "+memory +io");
        }
        let group = Group { path: parent.join(name), version, is_own: true, has_entered: false };
        fs::create_dir(&group.path)?;
        group.limit(memory)?;
        Ok(group)
    }

    fn limit(&self, memory: u64) -> io::Result<()> {
        let (limit, swap) = match self.version {
            Version::First => ("memory.limit_in_bytes", "memory.swappiness"),
            Version::Second => ("memory.max", "memory.swap.max"),
        };
        fs::write(self.path.join(limit), memory.to_string())?;
        // A machine without swap has no such limit, and needs none.
        let _ = fs::write(self.path.join(swap), "0");
        Ok(())
    }

    /// The name in the report.
    pub fn name(&self) -> &'static str {
        match self.version {
            Version::First => "memory group (cgroup v1)",
            Version::Second => "memory group (cgroup v2)",
        }
    }

    /// Puts this process into the group, until the group is dropped. What it has in memory already counts elsewhere.
    ///
    /// # Errors
    /// Those of the system.
    pub fn enter(&mut self) -> io::Result<()> {
        fs::write(self.path.join("cgroup.procs"), std::process::id().to_string())?;
        self.has_entered = true;
        Ok(())
    }

    /// A command whose process is in the group from its first instruction on.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]);
        command.arg(self.path.join("cgroup.procs")).arg(program);
        command
    }

    /// Gives back what the group has of clean pages.
    pub(super) fn drop_pages(&self) {
        // All that can go goes; that not everything can is reported as an error, and is none.
        let _ = match self.version {
            Version::First => fs::write(self.path.join("memory.force_empty"), "0"),
            Version::Second => fs::write(self.path.join("memory.reclaim"), u32::MAX.to_string()),
        };
    }

    /// Kills the processes of the group, and waits until they are gone.
    pub(super) fn kill_all(&self) {
        for _ in 0..100 {
            let text = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
            let processes = text.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?));
            let mut count = 0;
            for process in processes {
                count += 1;
                // If the process has ended meanwhile, nothing is left to do.
                let _ = kill_process(process, Signal::KILL);
            }
            if count == 0 {
                return;
            }
            sleep(Duration::from_millis(20));
        }
    }

    /// The file by which a process of the group asks for [`drop_pages`](Group::drop_pages).
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The group whose folder that is.
    pub(super) fn at(path: &Path) -> Group {
        let version = if path.starts_with(FIRST) { Version::First } else { Version::Second };
        Group { path: path.to_owned(), version, is_own: false, has_entered: false }
    }
}
