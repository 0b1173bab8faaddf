//! The generic tests of xfstests, from a checkout in which `make` was run, on two pools.
//!
//! Its `check` mounts by mount(8) itself, which looks for the program of a type in the system's folders. A `mount` in a folder of our
//! own, in front of the others, leads to `tembo` instead: nothing is installed.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail};

/// How long one test may take, and then how long it may take to end, in seconds.
const LIMIT: u32 = 300;
const PATIENCE: u32 = 30;

/// Durability is not what is tested, but for what a mount that was ended leaves.
const MOUNT: &str = "-o allow_other,size_max=8G,sync=os";

/// The `mount` that finds `tembo`, as words of a shell.
const SCRIPT: &str = "\
#!/bin/bash
if [ \"$1 $2\" != '-t fuse.tembo' ]; then exec PATH \"$@\"; fi
shift 2
options=() places=()
while [ $# -gt 0 ]; do
    case $1 in
        -o) options+=(-o \"$2\"); shift ;;
        -o*) options+=(-o \"${1#-o}\") ;;
        -r) options+=(-r) ;;
        *) places+=(\"$1\") ;;
    esac
    shift
done
exec FOLDER/mount.fuse.tembo \"${places[@]}\" \"${options[@]}\"
";

/// The `df` by which `check` learns the type of what is mounted, for which it has no word of its own.
const DF: &str = "#!/bin/bash\nset -o pipefail\nPATH \"$@\" | sed 's/fuse\\.tembo/fuse      /'\n";

/// Where a run happens: pools, directories, programs.
struct Bed {
    checkout: PathBuf,
    folder: PathBuf,
}

impl Bed {
    fn new(tembo: &Path, checkout: &Path) -> anyhow::Result<Bed> {
        if !checkout.join("ltp/fsstress").exists() {
            bail!("{}: no xfstests in which `make` was run", checkout.display());
        }
        let folder = std::env::temp_dir().join(format!("tembo-xfstests.{}", std::process::id()));
        fs::create_dir(&folder)?;
        for place in ["test", "scratch"] {
            fs::create_dir(folder.join(place))?;
        }
        symlink(tembo, folder.join("mount.fuse.tembo"))?;
        for (name, script) in [("mount", SCRIPT), ("df", DF)] {
            let of_system = of_system(name).with_context(|| format!("{name}, of the system"))?;
            let text = script.replace("PATH", &of_system);
            let file = folder.join(name);
            fs::write(&file, text.replace("FOLDER", &folder.display().to_string()))?;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
        }
        let at = folder.display();
        let config = format!(
            "export FSTYP=fuse FUSE_SUBTYP=.tembo MOUNT_PROG={at}/mount DF_PROG=\"{at}/df -T -P\"\n\
             export TEST_DEV={at}/test.pool TEST_DIR={at}/test TEST_FS_MOUNT_OPTS=\"{MOUNT}\"\n\
             export SCRATCH_DEV={at}/scratch.pool SCRATCH_MNT={at}/scratch MOUNT_OPTIONS=\"{MOUNT}\"\n",
        );
        fs::write(folder.join("config"), config)?;
        Ok(Bed { checkout: checkout.to_owned(), folder })
    }

    /// Runs one test; what `check` prints.
    fn run(&self, test: &str, log: &Path) -> anyhow::Result<(Option<i32>, String)> {
        let paths = std::env::var("PATH").unwrap_or_default();
        let out = File::create(log).with_context(|| log.display().to_string())?;
        let mut check = Command::new("timeout");
        check.arg(format!("--kill-after={PATIENCE}")).arg(LIMIT.to_string());
        check.args(["./check", &format!("generic/{test}")]).current_dir(&self.checkout);
        check.env("HOST_OPTIONS", self.folder.join("config"));
        check.env("PATH", format!("{}:{paths}", self.folder.display()));
        let status = check.stdout(out.try_clone()?).stderr(out).status().context("timeout")?;
        Ok((status.code(), String::from_utf8_lossy(&fs::read(log)?).into_owned()))
    }

    /// Unmounts what a test has left mounted, and checks the pools.
    fn end(self, tembo: &Path) -> anyhow::Result<()> {
        for place in ["test", "scratch"] {
            // It may be mounted or not.
            let _ = Command::new(tembo).arg("umount").arg(self.folder.join(place)).output()?;
            let pool = self.folder.join(format!("{place}.pool"));
            let mut check = Command::new(tembo);
            crate::ci::step("check of the files", check.args(["fs", "check"]).arg(&pool))?;
            crate::ci::step("check of the pool", Command::new(tembo).arg("check").arg(&pool))?;
        }
        Ok(fs::remove_dir_all(&self.folder)?)
    }
}

fn of_system(name: &str) -> Option<String> {
    let mut paths = ["/usr/bin", "/bin"].into_iter().map(|folder| format!("{folder}/{name}"));
    paths.find(|path| Path::new(path).exists())
}

/// The tests of the group `quick`, by their numbers.
fn quick(checkout: &Path) -> anyhow::Result<Vec<String>> {
    let mut tests = Vec::new();
    for entry in fs::read_dir(checkout.join("tests/generic"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !name.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let text = fs::read(checkout.join("tests/generic").join(&name))?;
        let text = String::from_utf8_lossy(&text);
        let mut begins = text.lines().filter(|line| line.starts_with("_begin_fstest"));
        if begins.any(|line| line.split_whitespace().any(|group| group == "quick")) {
            tests.push(name);
        }
    }
    tests.sort();
    Ok(tests)
}

/// What became of a test, by the code with which `check` ended and what it printed: a verdict, and why it was not run.
fn verdict(code: Option<i32>, printed: &str) -> (&'static str, String) {
    let not_run = printed.lines().find_map(|line| line.split_once("[not run]"));
    match (code, not_run) {
        (Some(0), Some((_, reason))) => ("not run", reason.trim().to_owned()),
        (Some(0), None) if printed.contains("Passed all 1 tests") => ("passed", String::new()),
        (Some(124 | 137), _) => ("too long", String::new()),
        _ => ("failed", String::new()),
    }
}

/// Runs the tests that are named, or those of the group `quick`, and notes what became of each in `results`.
pub(super) fn run(
    tembo: &Path,
    checkout: &Path,
    tests: &[String],
    results: &Path,
) -> anyhow::Result<()> {
    let all = if tests.is_empty() { quick(checkout)? } else { tests.to_vec() };
    let bed = Bed::new(tembo, checkout)?;
    let mut lines = String::new();
    for (i, test) in all.iter().enumerate() {
        let (begin, log) = (Instant::now(), results.join(format!("xfstests.{test}.txt")));
        let (code, printed) = bed.run(test, &log)?;
        let (verdict, reason) = verdict(code, &printed);
        let seconds = begin.elapsed().as_secs();
        println!(
            "==> generic/{test}, {} of {}: {verdict} {reason} ({seconds} s)",
            i + 1,
            all.len()
        );
        std::io::stdout().flush()?;
        // Names of folders of this run are none of the page.
        let of_run = [&bed.folder, &bed.checkout].map(|folder| folder.display().to_string());
        let reason = of_run.iter().fold(reason, |reason, folder| reason.replace(folder, ""));
        lines += &format!("{test}\t{verdict}\t{reason}\n");
    }
    if tests.is_empty() {
        fs::write(results.join("xfstests.tsv"), lines)?;
    }
    bed.end(tembo)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_check_prints_is_a_verdict() {
        let not_run = "generic/026  [not run] no ACLs\nRan: generic/026\nNot run: generic/026\nPassed all 1 tests";
        assert_eq!(verdict(Some(0), not_run), ("not run", "no ACLs".into()));
        assert_eq!(verdict(Some(0), "Ran: generic/001\nPassed all 1 tests\n").0, "passed");
        assert_eq!(verdict(Some(1), "Failed 1 of 1 tests").0, "failed");
        assert_eq!(verdict(Some(0), "").0, "failed");
        assert_eq!(verdict(Some(124), "").0, "too long");
        assert_eq!(verdict(None, "").0, "failed");
    }
}
