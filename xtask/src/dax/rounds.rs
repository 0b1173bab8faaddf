//! Load, kill, boot again, compare.

use std::time::{Duration, Instant};

use anyhow::bail;

use super::chance::Chance;
use super::guest::{Guest, Heard, Machine};

/// Software emulation takes its time.
const PATIENCE: Duration = Duration::from_secs(300);
/// Units that may be durable although the guest could not say so any more: two batches.
const UNTOLD_MAX: u64 = 64;

/// Makes the namespace and the file system; the pool must be opened on them as on persistent memory,
/// and the tests must hold.
pub(super) fn try_medium(machine: &Machine, domain: &str) -> anyhow::Result<()> {
    let began = Instant::now();
    let guest = machine.boot("medium", &words(machine, "medium", 0, 0))?;
    let mut domains = Vec::new();
    let mut report = |line: &str| {
        println!("    {line}");
        domains.extend(line.strip_prefix("PROBED ").map(str::to_owned));
        domains.extend(line.strip_prefix("INFO ").map(str::to_owned));
    };
    guest.wait_for("DONE", PATIENCE, &mut report)?;
    drop(guest);
    let probed = format!("domain={domain} emulated=false");
    let asked = format!("tembo_domain:{domain}");
    for wanted in [&probed, &asked] {
        if !domains.iter().any(|line| line.contains(wanted.as_str())) {
            bail!("the guest does not say `{wanted}`, but {domains:?}");
        }
    }
    println!("    {:.0} s, boot and tests", began.elapsed().as_secs_f64());
    Ok(())
}

fn words(machine: &Machine, mode: &str, seed: u64, acked: u64) -> String {
    let filesystem = &machine.filesystem;
    format!("tembo.mode={mode} tembo.fs={filesystem} tembo.seed={seed} tembo.acked={acked}")
}

/// The rounds on one image.
pub(super) struct Rounds<'m> {
    machine: &'m Machine,
    seed: u64,
    chance: Chance,
    /// The last unit that a guest has called acknowledged.
    acked: u64,
    kills: u32,
    kills_early: u32,
}

impl Rounds<'_> {
    pub(super) fn new(machine: &Machine, seed: u64) -> Rounds<'_> {
        Rounds { machine, seed, chance: Chance::new(seed), acked: 0, kills: 0, kills_early: 0 }
    }

    /// Boots on what the last kill has left, compares, goes on with the load, and kills at random.
    /// One in four is killed while it boots, recovers or compares.
    pub(super) fn round(&mut self, number: u32) -> anyhow::Result<()> {
        let name = format!("round-{number}");
        let guest =
            self.machine.boot(&name, &words(self.machine, "round", self.seed, self.acked))?;
        self.kills += 1;
        if self.chance.below(4) == 0 {
            self.kills_early += 1;
            guest.wait_for("MOUNTED", PATIENCE, &mut |_| {})?;
            let delay = Duration::from_millis(self.chance.below(1500));
            self.listen(&guest, Instant::now() + delay)?;
            self.hear_all(guest.kill()?)?;
            println!("    round {number}: killed {delay:?} after the mount, {}", self.state());
            return Ok(());
        }
        let found = guest.wait_for("VERIFIED", PATIENCE, &mut |_| {})?;
        let before = self.acked;
        self.compare(&guest, &found)?;
        let delay = Duration::from_millis(50 + self.chance.below(6000));
        self.listen(&guest, Instant::now() + delay)?;
        self.hear_all(guest.kill()?)?;
        println!(
            "    round {number}: found {found} (acknowledged: {before}); killed after {delay:?} of load, {}",
            self.state()
        );
        Ok(())
    }

    /// A last boot, which ends by itself.
    pub(super) fn finish(&mut self) -> anyhow::Result<()> {
        let guest =
            self.machine.boot("last", &words(self.machine, "last", self.seed, self.acked))?;
        let found = guest.wait_for("VERIFIED", PATIENCE, &mut |_| {})?;
        self.compare(&guest, &found)?;
        guest.wait_for("DONE", PATIENCE, &mut |line| println!("    {line}"))?;
        println!(
            "==> dax: {} kills ({} of them before the load), {} units, every acknowledged one found, \
             every check clean",
            self.kills, self.kills_early, self.acked
        );
        Ok(())
    }

    /// All that was acknowledged is there, and not more than can have been sent.
    fn compare(&mut self, guest: &Guest, found: &str) -> anyhow::Result<()> {
        let unit: Option<u64> = found.split(' ').next().and_then(|word| word.parse().ok());
        match unit {
            Some(unit) if (self.acked..=self.acked + UNTOLD_MAX).contains(&unit) => {
                self.acked = unit;
                Ok(())
            }
            _ => guest.give_up(&format!("it found {found}; acknowledged were {}", self.acked)),
        }
    }

    fn listen(&mut self, guest: &Guest, until: Instant) -> anyhow::Result<()> {
        loop {
            match guest.hear(until) {
                Heard::Line(line) => self.hear(&line)?,
                Heard::Silence => return Ok(()),
                Heard::End => return guest.give_up("it ended by itself"),
            }
        }
    }

    fn hear_all(&mut self, lines: Vec<String>) -> anyhow::Result<()> {
        lines.iter().try_for_each(|line| self.hear(line))
    }

    /// A line that was cut off by the kill has no end, and is not taken for a smaller number.
    fn hear(&mut self, line: &str) -> anyhow::Result<()> {
        if line.starts_with("FAILED") {
            bail!("the guest: {line}");
        }
        let acked = line.strip_prefix("ACKED ").and_then(|rest| rest.strip_suffix('.'));
        if let Some(acked) = acked.and_then(|acked| acked.parse().ok()) {
            self.acked = self.acked.max(acked);
        }
        Ok(())
    }

    fn state(&self) -> String {
        format!("{} units acknowledged", self.acked)
    }
}
