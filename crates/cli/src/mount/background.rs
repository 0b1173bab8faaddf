//! `tembo mount --background`: returns when the mount is there, and leaves a process that serves it.

use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::Context;

use crate::exit::Exit;
use crate::fstab;

/// The option that asks for it.
const OPTION: &str = "--background";

/// Starts a process with the same command line but for that option. It has no terminal: nothing reads what it prints once it serves.
/// As mount(8), it prints nothing if all is well.
pub(super) fn start() -> anyhow::Result<Exit> {
    let words = fstab::command_line().into_iter().skip(1).filter(|word| word != OPTION);
    let program = env::current_exe().context("the program tembo")?;
    let mut child = Command::new(program)
        .args(words)
        // A signal of the terminal is for the foreground.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("starting the process that serves")?;
    let mut line = String::new();
    let out = child.stdout.take().context("its output")?;
    // Its first line says that it is mounted; if there is none, it has failed.
    if BufReader::new(out).read_line(&mut line)? == 0 {
        return failed(child);
    }
    Ok(Exit::Done)
}

/// Hands on why the process has ended, and its code.
fn failed(mut child: Child) -> anyhow::Result<Exit> {
    let mut error = Vec::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_end(&mut error)?;
    }
    std::io::stderr().lock().write_all(&error)?;
    let code = child.wait()?.code().and_then(|code| u8::try_from(code).ok());
    Ok(Exit::Program(code.unwrap_or(Exit::Other.code())))
}
