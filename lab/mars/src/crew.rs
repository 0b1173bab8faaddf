//! Threads in modelled time: always the one goes on that is furthest behind.

use crate::Error;
use crate::host::Host;

/// Some threads of a host.
#[derive(Clone, Debug)]
pub struct Crew {
    clocks_ns: Vec<u64>,
}

impl Crew {
    /// So many threads, their clocks at zero.
    pub fn new(threads: u32) -> Crew {
        Crew::at(threads, 0)
    }

    /// So many threads, their clocks at that time.
    pub fn at(threads: u32, time_ns: u64) -> Crew {
        Crew { clocks_ns: vec![time_ns; threads as usize] }
    }

    /// The clock of the thread that is furthest.
    pub fn end_ns(&self) -> u64 {
        self.clocks_ns.iter().copied().max().unwrap_or_default()
    }

    /// Carries out `count` operations: each by the thread whose clock is least. Operations a second, in modelled time.
    ///
    /// # Errors
    /// The first of an operation.
    pub fn run<T, E: From<Error>>(
        &mut self,
        count: u64,
        state: &mut T,
        host: impl Fn(&mut T) -> &mut Host,
        mut operation: impl FnMut(&mut T, u32) -> Result<(), E>,
    ) -> Result<f64, E> {
        let begun: u64 = self.clocks_ns.iter().sum();
        for _ in 0..count {
            let least = self.clocks_ns.iter().copied().enumerate().min_by_key(|(_, clock)| *clock);
            let Some((thread, clock)) = least else { break };
            host(state).forget_before(clock);
            host(state).go_on(thread as u32, clock);
            operation(state, thread as u32)?;
            self.clocks_ns[thread] = host(state).now_ns();
        }
        let sum: u64 = self.clocks_ns.iter().sum();
        let mean_ns = (sum - begun) as f64 / self.clocks_ns.len().max(1) as f64;
        Ok(count as f64 / mean_ns * 1e9)
    }
}
