//! Rounds of file systems, each made anew in an empty folder.

use std::time::{Duration, Instant};

use super::context::{Context, rotated};
use crate::Error;
use crate::file_system::{Opened, System, describe};
use crate::finding::{Finding, times};
use crate::rival::Medium;
use crate::sheet::Sheet;

pub(super) const LIBRARY: System = System::Library(Medium::Memory);
pub(super) const LIBRARY_DISK: System = System::Library(Medium::Disk);
pub(super) const MOUNT: System = System::Mount(Medium::Memory);
pub(super) const MOUNT_DISK: System = System::Mount(Medium::Disk);

/// With a library and all that has a directory, on the disk and in memory.
pub(super) const ALL: [System; 9] = [
    MOUNT_DISK,
    System::MountFsync,
    LIBRARY_DISK,
    System::Disk,
    System::PassThrough,
    MOUNT,
    LIBRARY,
    System::RamDisk,
    System::Tmpfs,
];

/// Does the same with each file system, round after round. What cannot be had here is a note of the finding.
pub(super) fn each(
    context: &mut Context<'_>,
    finding: &mut Finding,
    systems: &[System],
    mut work: impl FnMut(&mut Context<'_>, Opened, System) -> Result<(), Error>,
) -> Result<(), Error> {
    finding.note(&describe(context.disk()));
    for round in 0..context.rounds() {
        for system in rotated(systems, round) {
            context.trial(&format!("round {}: {}", round + 1, system.name()))?;
            let folder = context.folder(system.medium())?;
            match system.open(folder, context.tembo()) {
                Ok(opened) => work(context, opened, system)?,
                Err(error @ (Error::Absent(_) | Error::Process { .. })) => {
                    let note = format!("{} is left out: {}.", system.name(), error.reason());
                    if !finding.notes.contains(&note) {
                        finding.note(&note);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// How long it takes.
pub(super) fn timed<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<Duration, Error> {
    let begin = Instant::now();
    work()?;
    Ok(begin.elapsed())
}

/// A claim and a duel: so many times as fast as a rival at a place of a sheet of rates.
pub(super) fn faster(
    finding: &mut Finding,
    sheet: &Sheet,
    (own, rival): (System, System),
    at: &str,
    aim: &str,
) {
    let ratio = sheet.ratio(own.name(), rival.name(), at);
    finding.claim(&format!("{at}: {} to {}", own.name(), rival.name()), aim, times(ratio));
    finding.duel(&format!("{at}, {}", own.name()), rival.name(), ratio);
}
