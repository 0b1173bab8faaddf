//! The machine that figures are of.

use std::fs;

use serde::{Deserialize, Serialize};

/// What stands beside every absolute number.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Processors that this process may use.
    pub processors: usize,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// The kernel's name and release.
    pub kernel: String,
    /// The instruction that flushes a line.
    pub flush: String,
    /// Average number of processes that wanted a processor in the last minute, when it was asked.
    pub load: String,
}

impl Machine {
    /// This one.
    pub fn this() -> Machine {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
        };
        let (cpu, memory) = (text("/proc/cpuinfo"), text("/proc/meminfo"));
        let kilobytes = field(&memory, "MemTotal").and_then(|value| {
            value.split(' ').next().and_then(|number| number.parse::<u64>().ok())
        });
        let first = |text: String| text.split(' ').next().unwrap_or_default().to_owned();
        let flush = tembo_pmem::FlushInstruction::detect();
        Machine {
            processor: field(&cpu, "model name").unwrap_or_else(|| "unknown".into()),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: kilobytes.unwrap_or_default() * 1024,
            kernel: format!("Linux {}", text("/proc/sys/kernel/osrelease").trim()),
            flush: flush.map_or("none".into(), |flush| format!("{flush:?}").to_lowercase()),
            load: first(text("/proc/loadavg")),
        }
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Machine { processor, processors, memory_bytes, kernel, flush, load } = self;
        let memory = memory_bytes >> 30;
        write!(f, "{processors} × {processor}, {memory} GiB, {kernel}, {flush}, load {load}")
    }
}
