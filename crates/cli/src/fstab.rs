//! `mount.fuse.tembo`: how mount(8), and so a line of `/etc/fstab`, calls `tembo mount`.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The name by which mount(8) finds the program for the type `fuse.tembo`.
const NAME: &str = "mount.fuse.tembo";

/// Options for mount(8) itself, and those that a mount has anyway. Others that begin with `x-` are of that kind too.
const IGNORED: [&str; 23] = [
    "defaults",
    "auto",
    "noauto",
    "nouser",
    "nofail",
    "_netdev",
    "async",
    "atime",
    "noatime",
    "relatime",
    "strictatime",
    "nodiratime",
    "diratime",
    "lazytime",
    "default_permissions",
    "nomand",
    "comment",
    // Of what is mounted, the system says these.
    "user_id",
    "group_id",
    "rootmode",
    "max_read",
    "blksize",
    "subtype",
];

/// What the system honours of files: all of it unless mount(8) says otherwise, which leaves out what is its default.
struct Flags {
    write: bool,
    suid: bool,
    dev: bool,
    exec: bool,
}

/// The words that this process was started with, as `tembo` reads them: also by mount(8).
pub(crate) fn command_line() -> Vec<OsString> {
    read(env::args_os().collect())
}

/// A command line of [`NAME`] becomes one of `tembo mount --background`.
fn read(words: Vec<OsString>) -> Vec<OsString> {
    let called = words.first().and_then(|first| Path::new(first).file_name());
    if called != Some(OsStr::new(NAME)) {
        return words;
    }
    let mut line = ["tembo", "mount", "--background"].map(OsString::from).to_vec();
    let mut given = Flags { write: true, suid: true, dev: true, exec: true };
    let mut rest = words.into_iter().skip(1);
    while let Some(word) = rest.next() {
        match word.to_str() {
            Some("-o") => {
                let list = rest.next().unwrap_or_default();
                let list = list.to_string_lossy();
                line.extend(list.split(',').filter_map(|option| translated(option, &mut given)));
            }
            // The type and a namespace have a value.
            Some("-t" | "-N") => drop(rest.next()),
            Some("-r") => given.write = false,
            // Sloppy, no mtab, verbose, writable.
            Some("-s" | "-n" | "-v" | "-w") => {}
            _ => line.push(word),
        }
    }
    let Flags { write, suid, dev, exec } = given;
    let flags = [(!write, "--read-only"), (suid, "--suid"), (dev, "--dev"), (!exec, "--noexec")];
    line.extend(flags.into_iter().filter(|(set, _)| *set).map(|(_, flag)| flag.into()));
    line
}

/// An option of mount(8) as one of `tembo mount`, which refuses what it does not know; `None`: it has no word of its own.
fn translated(option: &str, given: &mut Flags) -> Option<OsString> {
    let (name, value) = option.split_once('=').map_or((option, None), |(n, v)| (n, Some(v)));
    match name {
        "ro" | "rw" => given.write = name == "rw",
        "suid" | "nosuid" => given.suid = name == "suid",
        "dev" | "nodev" => given.dev = name == "dev",
        "exec" | "noexec" => given.exec = name == "exec",
        "owner" | "group" => (given.suid, given.dev) = (false, false),
        "user" | "users" => (given.suid, given.dev, given.exec) = (false, false, false),
        _ if name.is_empty() || IGNORED.contains(&name) => {}
        _ if name.starts_with("x-") || name.starts_with("X-") => {}
        _ => {
            let name = name.replace('_', "-");
            return Some(
                value.map_or(format!("--{name}"), |value| format!("--{name}={value}")).into(),
            );
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line_of(line: &str) -> String {
        let words = line.split(' ').map(OsString::from).collect();
        let words: Vec<_> = read(words).iter().map(|w| w.display().to_string()).collect();
        words.join(" ")
    }

    #[test]
    fn a_line_of_fstab_becomes_one_of_tembo() {
        for (line, wanted) in [
            ("/sbin/mount.fuse.tembo a.pool /at", "a.pool /at --suid --dev"),
            (
                "/sbin/mount.fuse.tembo a /at -s -o ro,nofail,x-systemd.automount,comment=a,nosuid",
                "a /at --read-only --dev",
            ),
            (
                "mount.fuse.tembo a /at -o rw,nodev,allow_other,size-max=4G,durable=fsync -t fuse.tembo",
                "a /at --allow-other --size-max=4G --durable=fsync --suid",
            ),
            ("mount.fuse.tembo a /at -o user,noauto", "a /at --noexec"),
            ("mount.fuse.tembo a /at -o users,exec,dev", "a /at --dev"),
            (
                "mount.fuse.tembo -r a /at -o noexec,remount",
                "a /at --remount --read-only --suid --dev --noexec",
            ),
        ] {
            assert_eq!(line_of(line), format!("tembo mount --background {wanted}"));
        }
        assert_eq!(line_of("/usr/bin/tembo stat -o ro"), "/usr/bin/tembo stat -o ro");
    }
}
