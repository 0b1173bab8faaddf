//! The context of an experiment: its setting, its folders, the report of its trials.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Error;
use crate::clock::evict_caches;
use crate::rival::{Medium, Place};

/// How experiments are run.
#[derive(Clone, Debug)]
pub struct Setting {
    /// A folder in memory, on a tmpfs.
    pub memory: PathBuf,
    /// A folder on a disk.
    pub disk: PathBuf,
    /// The binary `tembo-lab`, which runs its `guard` under callgrind.
    pub lab: PathBuf,
    /// The binary `tembo`, for servers.
    pub tembo: PathBuf,
    /// Few keys and rounds: to see that everything works, and about how fast it is.
    pub quick: bool,
    /// With `quick`: as little as there can be, to see that it works.
    pub tiny: bool,
    /// Rounds; `None`: what the kind of run has.
    pub rounds: Option<u32>,
    /// The seed of keys and orders.
    pub seed: u64,
    /// The commit that was built, for the page.
    pub commit: String,
    /// The command that runs, for the page.
    pub command: String,
}

/// Called before each trial of an experiment: its name, and what is about to be done. False ends all.
pub type Watch<'w> = dyn FnMut(&str, &str) -> bool + 'w;

/// What an experiment works with.
pub(crate) struct Context<'c> {
    setting: &'c Setting,
    name: &'static str,
    watch: &'c mut Watch<'c>,
}

impl<'c> Context<'c> {
    pub(super) fn new(
        setting: &'c Setting,
        name: &'static str,
        watch: &'c mut Watch<'c>,
    ) -> Context<'c> {
        Context { setting, name, watch }
    }

    /// Rounds of this run.
    pub(crate) fn rounds(&self) -> u32 {
        self.setting.rounds.unwrap_or(self.extent(1, 3, 5))
    }

    /// One of three sizes: of the smallest run, of a quick one, of a full one.
    pub(crate) fn extent<T>(&self, tiny: T, quick: T, full: T) -> T {
        if self.setting.tiny { tiny } else { self.pick(quick, full) }
    }

    /// One of two sizes: of a quick run, of a full one.
    pub(crate) fn pick<T>(&self, quick: T, full: T) -> T {
        if self.setting.quick { quick } else { full }
    }

    pub(crate) fn seed(&self) -> u64 {
        self.setting.seed
    }

    /// Says what comes next.
    ///
    /// # Errors
    /// [`Error::Stopped`] if a signal asked for an end.
    pub(crate) fn trial(&mut self, what: &str) -> Result<(), Error> {
        if (self.watch)(self.name, what) { Ok(()) } else { Err(Error::Stopped) }
    }

    /// Takes what the last operations used out of the processor's caches, as the documents do between
    /// operations.
    pub(crate) fn evict(&self) {
        evict_caches();
    }

    /// The binary `tembo-lab`.
    pub(crate) fn lab(&self) -> &Path {
        &self.setting.lab
    }

    /// The binary `tembo`.
    pub(crate) fn tembo(&self) -> &Path {
        &self.setting.tembo
    }

    /// The folder on a disk.
    pub(crate) fn disk(&self) -> &Path {
        &self.setting.disk
    }

    /// An empty folder, gone when it is dropped.
    pub(crate) fn folder(&self, medium: Medium) -> Result<TempDir, Error> {
        let parent = match medium {
            Medium::Memory => &self.setting.memory,
            Medium::Disk => &self.setting.disk,
        };
        let folder = tempfile::Builder::new().prefix("tembo-bench-").tempdir_in(parent);
        folder.map_err(|source| Error::Folder { path: parent.clone(), source })
    }

    /// A place for a store.
    pub(crate) fn place<'p>(&'p self, folder: &'p Path, medium: Medium) -> Place<'p> {
        Place { folder, medium, tembo: &self.setting.tembo, share: None }
    }
}

/// The same, beginning with another one each round: none always follows the same one.
pub(crate) fn rotated<T: Copy>(all: &[T], round: u32) -> Vec<T> {
    let mut all = all.to_vec();
    let count = all.len().max(1);
    all.rotate_left(round as usize % count);
    all
}
