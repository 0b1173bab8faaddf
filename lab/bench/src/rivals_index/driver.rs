//! The drivers in C++: their texts, and how they are compiled when the command runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;

use super::candidate::Candidate;

/// Checkouts of rivals, which the person names.
#[derive(Clone, Debug, Default)]
pub struct RivalSources {
    /// Of LB+-Tree.
    pub lbtree: Option<PathBuf>,
    /// Of FAST&FAIR.
    pub fastfair: Option<PathBuf>,
    /// Of RECIPE, which has P-ART.
    pub recipe: Option<PathBuf>,
}

/// A driver that was compiled.
#[derive(Clone, Debug, Serialize)]
pub struct DriverBuild {
    /// Whose driver.
    pub candidate: Candidate,
    /// The commit of the checkout, where it has one.
    pub commit: String,
    /// The command that compiled it.
    pub command: String,
    /// The program.
    pub program: PathBuf,
}

/// The drivers' texts by their paths.
const TEXTS: [(&str, &str); 8] = [
    ("rival.h", include_str!("drivers/rival.h")),
    ("lbtree.cpp", include_str!("drivers/lbtree.cpp")),
    ("fastfair.cpp", include_str!("drivers/fastfair.cpp")),
    ("part.cpp", include_str!("drivers/part.cpp")),
    ("abseil.cpp", include_str!("drivers/abseil.cpp")),
    ("shim/libpmem.h", include_str!("drivers/shim/libpmem.h")),
    ("shim/tbb/combinable.h", include_str!("drivers/shim/tbb/combinable.h")),
    (
        "shim/tbb/enumerable_thread_specific.h",
        include_str!("drivers/shim/tbb/enumerable_thread_specific.h"),
    ),
];

/// Of all drivers. Rivals say -O3.
const FLAGS: [&str; 7] =
    ["-std=c++17", "-O3", "-mclwb", "-fno-strict-aliasing", "-DNDEBUG", "-w", "-pthread"];

/// Large pages for what a driver allocates (glibc 2.35 and later).
pub(super) const LARGE_PAGES: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");

/// What a driver is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Timed,
    /// Under Valgrind, which does not know every instruction that flushes.
    Counted,
}

/// Whether the processor has transactional memory.
pub(super) fn has_rtm() -> bool {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|line| line.split_whitespace().any(|flag| flag == "rtm"))
}

impl RivalSources {
    fn of(&self, candidate: Candidate) -> Result<Option<&Path>, String> {
        let (path, option, file) = match candidate {
            Candidate::Lbtree => (&self.lbtree, "--lbtree", "lbtree-src/lbtree.cc"),
            Candidate::Fastfair => (&self.fastfair, "--fastfair", "single/src/btree.h"),
            Candidate::Part => (&self.recipe, "--recipe", "P-ART/Tree.cpp"),
            _ => return Ok(None),
        };
        let path = path.as_deref().ok_or_else(|| format!("no {option} was given"))?;
        if path.join(file).is_file() {
            return Ok(Some(path));
        }
        Err(format!("{} has no {file}", path.display()))
    }

    /// Compiles the driver of a rival into `folder`.
    ///
    /// # Errors
    /// Why it is not there, for the report.
    pub(super) fn build(
        &self,
        candidate: Candidate,
        purpose: Purpose,
        folder: &Path,
    ) -> Result<DriverBuild, String> {
        let source = self.of(candidate)?;
        if !cfg!(target_arch = "x86_64") {
            return Err("its sources are for x86-64".into());
        }
        let (mut definitions, mut includes, mut last): (Vec<&str>, Vec<PathBuf>, Vec<&str>) =
            Default::default();
        if purpose == Purpose::Counted {
            definitions.push("-DRIVAL_COUNTED");
        }
        match candidate {
            Candidate::Lbtree if has_rtm() && purpose == Purpose::Timed => {
                definitions.extend(["-mrtm", "-DRIVAL_RTM"]);
            }
            Candidate::Part if purpose == Purpose::Counted => {
                definitions.extend(["-mcx16", "-DCLFLUSH"]);
            }
            Candidate::Part => definitions.extend(["-mcx16", "-DCLWB"]),
            Candidate::Abseil => {
                last.extend(["-labsl_throw_delegate", "-labsl_raw_logging_internal"])
            }
            _ => {}
        }
        if let Some(source) = source {
            includes.push(source.to_owned());
            if candidate == Candidate::Lbtree {
                includes.push(source.join("common"));
            }
        }
        let commit = source.map_or_else(|| "Debian's libabsl-dev".into(), commit_of);
        let (command, program) = compile(candidate.name(), purpose, folder, |command| {
            command.args(definitions).args(includes.iter().map(|path| {
                let mut flag = std::ffi::OsString::from("-I");
                flag.push(path);
                flag
            }));
            last
        })?;
        Ok(DriverBuild { candidate, commit, command, program })
    }
}

/// Compiles the driver of that name; `add` puts its flags and returns what comes last.
pub(super) fn compile<'l>(
    name: &str,
    purpose: Purpose,
    folder: &Path,
    add: impl FnOnce(&mut Command) -> Vec<&'l str>,
) -> Result<(String, PathBuf), String> {
    let texts = folder.join("drivers");
    for (path, text) in TEXTS {
        write(&texts.join(path), text)?;
    }
    let (suffix, processor) = match purpose {
        Purpose::Timed => ("", "-march=native"),
        // The vectors that Valgrind knows.
        Purpose::Counted => ("-counted", "-march=x86-64-v3"),
    };
    let program = folder.join(format!("{name}{suffix}"));
    let mut command = Command::new(std::env::var_os("CXX").unwrap_or_else(|| "g++".into()));
    command.arg(processor).args(FLAGS).arg("-I").arg(&texts).arg("-I").arg(texts.join("shim"));
    let last = add(&mut command);
    command.arg(texts.join(format!("{name}.cpp"))).arg("-o").arg(&program).args(last);
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let text = words.join(" ");
    let output =
        command.output().map_err(|error| format!("{} does not start: {error}", words[0]))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let line = said.lines().find(|line| line.contains("error") || line.contains("undefined"));
        let why = line.or_else(|| said.lines().next()).unwrap_or("no word");
        return Err(format!("its driver does not compile: {why}"));
    }
    Ok((text, program))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::write(path, text))
        .map_err(|error| format!("{}: {error}", path.display()))
}

fn commit_of(path: &Path) -> String {
    let git =
        Command::new("git").arg("-C").arg(path).args(["rev-parse", "--short", "HEAD"]).output();
    let output = git.ok().filter(|output| output.status.success());
    output.map_or_else(
        || "a checkout without git".into(),
        |output| format!("commit {}", String::from_utf8_lossy(&output.stdout).trim()),
    )
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::candidate::Shape;
    use super::super::plan::{self, Source};
    use super::super::process::Process;
    use super::*;
    use crate::Operation;
    use crate::keys::Keys;

    const MODEL: &str = include_str!("drivers/model.cpp");

    fn model(folder: &Path) -> Option<PathBuf> {
        let compiler = std::env::var_os("CXX").unwrap_or_else(|| "g++".into());
        if Command::new(compiler).arg("--version").output().is_err() {
            return None;
        }
        write(&folder.join("drivers/model.cpp"), MODEL).unwrap();
        let none = |_: &mut Command| Vec::new();
        Some(compile("model", Purpose::Counted, folder, none).unwrap().1)
    }

    /// Both sides have one order of the same keys, and the drivers' loops judge answers as ours do. Without a
    /// compiler for C++ there is no driver to judge.
    #[test]
    fn drivers_read_the_keys_that_our_loops_read_and_count_right_answers_alike() {
        let folder = tempfile::tempdir().unwrap();
        let Some(program) = model(folder.path()) else { return };
        for shape in [Shape::Numbers, Shape::Strings] {
            let mut command = Command::new(&program);
            command.args([shape.word(), "unused", "1000"]);
            let mut process = Process::start("model", command).unwrap();
            let source = Source::new(Keys { count: 1000, seed: 5 }, shape, folder.path());
            for operation in Operation::ALL {
                if operation == Operation::ZipfUpdate || operation == Operation::SequentialInsert {
                    continue;
                }
                let plan = source.plan(operation, 3).unwrap();
                assert_eq!(process.sum(&plan).unwrap(), sum_of(shape, &plan.path));
                let timed = process.trial(operation, &plan).unwrap();
                assert_eq!((timed.right, timed.operations), (plan.expected, plan.count));
                if operation == Operation::Scan {
                    assert_eq!(process.scan_sum(&plan).unwrap(), source.scan_sum(3));
                }
            }
            // Of the keys that were removed none is there any more.
            let removed = source.plan(Operation::Remove, 3).unwrap();
            let missing = process.trial(Operation::MissingLookup, &removed).unwrap();
            assert_eq!(missing.right, removed.count);
            // The sum sees that half of the keys were removed.
            let scans = source.plan(Operation::Scan, 3).unwrap();
            assert_ne!(process.scan_sum(&scans).unwrap(), source.scan_sum(3));
            // As `trial`, in two steps.
            process.ready(Operation::MissingLookup, &removed).unwrap();
            process.go().unwrap();
            assert_eq!(process.end(removed.count).unwrap().right, removed.count);
            let found = process.trial(Operation::ZipfLookup, &removed).unwrap();
            assert_eq!(found.right, 0);
            process.finish().unwrap();
        }
    }

    fn sum_of(shape: Shape, path: &Path) -> u64 {
        if shape == Shape::Numbers {
            return plan::sum(plan::numbers(path).unwrap());
        }
        plan::sum(plan::names(path).unwrap().iter().flat_map(|name| {
            let bytes = name.bytes().iter().map(|byte| u64::from(*byte)).collect::<Vec<_>>();
            [name.number, bytes.len() as u64].into_iter().chain(bytes)
        }))
    }

    #[test]
    fn a_rival_without_a_checkout_or_with_another_one_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let sources = RivalSources { lbtree: Some(folder.path().to_owned()), ..Default::default() };
        let why = |candidate| sources.build(candidate, Purpose::Timed, folder.path()).unwrap_err();
        assert!(why(Candidate::Lbtree).ends_with("has no lbtree-src/lbtree.cc"));
        assert_eq!(why(Candidate::Part), "no --recipe was given");
        // There, and no C++.
        std::fs::create_dir(folder.path().join("lbtree-src")).unwrap();
        std::fs::write(folder.path().join("lbtree-src/lbtree.cc"), "this is no program").unwrap();
        assert!(!why(Candidate::Lbtree).is_empty());
    }
}
