//! Source trees: tar, rm, git.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::context::Context;
use super::fs_contenders::{MOUNT, MOUNT_DISK, each, timed};
use crate::Error;
use crate::file_system::{System, run_program};
use crate::finding::{Finding, Shape, times};
use crate::keys::Random;
use crate::rival::Medium;
use crate::sheet::{Labels, Sheet};

pub(super) const TITLE: &str = "Source trees: tar, rm, git";

const SYSTEMS: [System; 7] = [
    MOUNT_DISK,
    System::MountFsync,
    System::Disk,
    System::PassThrough,
    MOUNT,
    System::RamDisk,
    System::Tmpfs,
];

/// Files in a folder of the tree.
const FOLDER: u64 = 50;

const PLACES: [&str; 4] = ["tar -x", "rm -r", "git clone", "git status"];

/// A tree, its archive and its repository.
struct Source {
    archive: PathBuf,
    repository: PathBuf,
    _folder: TempDir,
}

/// Text in which words come again, as in programs.
fn text(random: &mut Random) -> String {
    let size = 1 << (8 + random.below(8));
    let mut text = String::new();
    while text.len() < size {
        text += &format!("let value_{} = work({});\n", random.below(5000), random.below(100));
    }
    text
}

fn git(folder: &Path) -> Command {
    let mut git = Command::new("git");
    git.current_dir(folder).env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    git.args(["-c", "user.name=Tembo", "-c", "user.email=bench@localhost", "-c", "gc.auto=0"]);
    git
}

impl Source {
    fn new(context: &Context<'_>) -> Result<Source, Error> {
        let folder = context.folder(Medium::Disk)?;
        let (repository, archive) =
            (folder.path().join("source"), folder.path().join("source.tar"));
        let mut random = Random::new(context.seed());
        for number in 0..context.extent(20, 1_000, 10_000) {
            let folder = repository.join(format!("part{}", number / FOLDER));
            fs::create_dir_all(&folder)?;
            fs::write(folder.join(format!("file{number}.rs")), text(&mut random))?;
        }
        run_program(
            Command::new("tar").arg("-cf").arg(&archive).arg("-C").arg(&repository).arg("."),
        )?;
        run_program(git(&repository).args(["init", "--quiet"]))?;
        run_program(git(&repository).args(["add", "--all"]))?;
        run_program(git(&repository).args(["commit", "--quiet", "--message", "all"]))?;
        Ok(Source { archive, repository, _folder: folder })
    }

    /// Seconds of each program, in the order of the places.
    fn programs(&self, at: &Path) -> Result<[f64; 4], Error> {
        let (tree, clone) = (at.join("tree"), at.join("clone"));
        fs::create_dir(&tree)?;
        let sync = || Ok(rustix::fs::syncfs(File::open(at)?).map_err(std::io::Error::from)?);
        let unpack = timed(|| {
            run_program(Command::new("tar").arg("-xf").arg(&self.archive).arg("-C").arg(&tree))?;
            sync()
        })?;
        let remove = timed(|| {
            run_program(Command::new("rm").arg("-r").arg(&tree))?;
            sync()
        })?;
        let cloned = timed(|| {
            let mut git = git(at);
            git.args(["clone", "--quiet", "--no-hardlinks"]).arg(&self.repository).arg(&clone);
            run_program(&mut git)?;
            sync()
        })?;
        let status = timed(|| run_program(git(&clone).args(["status", "--short"])))?;
        Ok([unpack, remove, cloned, status].map(|took| took.as_secs_f64()))
    }
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("durablefs-trees", TITLE, "Tembo's own");
    context.trial("making the tree")?;
    let source = Source::new(context)?;
    let mut sheet = Sheet::default();
    each(context, &mut finding, &SYSTEMS, |_, opened, system| {
        let Some(at) = opened.directory() else { return Ok(()) };
        for (place, seconds) in PLACES.into_iter().zip(source.programs(at)?) {
            sheet.push(system.name(), place, seconds * 1e3);
        }
        Ok(())
    })?;
    let labels = Labels { title: "Less is faster", x: "", y: "milliseconds" };
    finding.charts.push(sheet.chart(Shape::LogBars, labels));
    for (own, rival) in [
        (MOUNT_DISK, System::PassThrough),
        (MOUNT_DISK, System::Disk),
        (System::MountFsync, System::PassThrough),
        (MOUNT, System::RamDisk),
    ] {
        for place in PLACES {
            // Of times: the rival's stands above.
            let ratio = sheet.ratio(rival.name(), own.name(), place);
            let what = format!("{place}: speed of {} to {}", own.name(), rival.name());
            finding.claim(&what, "", times(ratio));
            finding.duel(&format!("{place}, {}", own.name()), rival.name(), ratio);
        }
    }
    let to = |own: System, rival: System| {
        // Of times: the rival's stands above.
        let [unpack, remove, cloned, _] = PLACES.map(|place| {
            let ratio = sheet.ratio(rival.name(), own.name(), place);
            ratio.map_or("–".into(), |ratio| format!("{:.2}", ratio.median))
        });
        format!("{unpack}, {remove} and {cloned}")
    };
    finding.sentence = format!(
        "tar -x, rm -r and git clone have {} times the speed of bindfs, and {} times that of ext4; in memory {} times that of ext4 on a ram disk: requests to another process cost most, not durability.",
        to(MOUNT_DISK, System::PassThrough),
        to(MOUNT_DISK, System::Disk),
        to(MOUNT, System::RamDisk)
    );
    finding.note("tar and git close thousands of files without a sync: a mount as it comes makes each of them durable at its close, with `--durable fsync` and with the others none is before the end.");
    finding.note("The tree has 10,000 files of 256 B to 32 KiB in folders of 50 (1,000 in a quick run), made from the seed; the clone is of a repository on the disk, without hard links. tar, rm and clone end with a syncfs, which is counted.");
    Ok(finding)
}
