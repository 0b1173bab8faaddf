//! Kernel functions in one system call, counted by the kernel's own tracer (table 3.1 of the thesis).

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the tracer is, mounted for as long as this lives if it was not.
struct Tracing {
    root: PathBuf,
    mounted: bool,
}

impl Tracing {
    fn open() -> Option<Tracing> {
        let root = PathBuf::from("/sys/kernel/tracing");
        let mut mounted = false;
        if !root.join("current_tracer").exists() {
            let status = Command::new("mount").args(["-t", "tracefs", "none"]).arg(&root).status();
            mounted = status.is_ok_and(|status| status.success());
        }
        let tracing = Tracing { root, mounted };
        let tracers = fs::read_to_string(tracing.root.join("available_tracers")).ok()?;
        tracers.split_whitespace().any(|tracer| tracer == "function").then_some(tracing)
    }

    fn set(&self, name: &str, value: &str) -> Option<()> {
        fs::write(self.root.join(name), value).ok()
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        // The machine is left as it was; what fails here was not changed either.
        let _ = self.set("tracing_on", "0");
        let _ = self.set("current_tracer", "nop");
        let _ = self.set("set_ftrace_pid", "");
        if self.mounted {
            let _ = Command::new("umount").arg(&self.root).status();
        }
    }
}

/// Functions that the kernel enters in one write of a line to a file that is cached; `None`: this user
/// or this kernel cannot say.
pub(super) fn functions_of_write(path: &Path) -> Option<usize> {
    let file = OpenOptions::new().write(true).open(path).ok()?;
    let tracing = Tracing::open()?;
    tracing.set("tracing_on", "0")?;
    tracing.set("set_ftrace_pid", &rustix::thread::gettid().as_raw_nonzero().to_string())?;
    tracing.set("current_tracer", "function")?;
    let switch = OpenOptions::new().write(true).open(tracing.root.join("tracing_on")).ok()?;
    // The first time touches what later ones find.
    file.write_all_at(&[1; 64], 0).ok()?;
    let empty = counted(&tracing, &switch, || Some(()))?;
    let whole = counted(&tracing, &switch, || file.write_all_at(&[2; 64], 0).ok())?;
    whole.checked_sub(empty).filter(|count| *count > 0)
}

/// Functions entered while `work` runs, those of switching the tracer on and off included.
fn counted(tracing: &Tracing, switch: &File, work: impl Fn() -> Option<()>) -> Option<usize> {
    tracing.set("trace", "")?;
    switch.write_all_at(b"1", 0).ok()?;
    work()?;
    switch.write_all_at(b"0", 0).ok()?;
    let trace = fs::read_to_string(tracing.root.join("trace")).ok()?;
    Some(trace.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).count())
}
