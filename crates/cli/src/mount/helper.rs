//! `mount.fuse.tembo`: how mount(8), and so a line of `/etc/fstab`, calls `tembo mount`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The name by which mount(8) finds the program for the type `fuse.tembo`.
const NAME: &str = "mount.fuse.tembo";

/// Options for mount(8) itself, and those that a mount has anyway. Others that begin with `x-` are of that kind too.
const IGNORED: [&str; 24] = [
    "defaults",
    "rw",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "owner",
    "group",
    "nofail",
    "_netdev",
    "async",
    "nodev",
    "nosuid",
    "exec",
    "atime",
    "noatime",
    "relatime",
    "strictatime",
    "nodiratime",
    "diratime",
    "lazytime",
    "default_permissions",
    "nomand",
];

/// The command line as `tembo` reads it: one of [`NAME`] becomes one of `tembo mount --background`.
pub(crate) fn command_line(words: Vec<OsString>) -> Vec<OsString> {
    let called = words.first().and_then(|first| Path::new(first).file_name());
    if called != Some(OsStr::new(NAME)) {
        return words;
    }
    let mut line = ["tembo", "mount", "--background"].map(OsString::from).to_vec();
    let mut rest = words.into_iter().skip(1);
    while let Some(word) = rest.next() {
        match word.to_str() {
            Some("-o") => {
                let list = rest.next().unwrap_or_default();
                line.extend(list.to_string_lossy().split(',').filter_map(option));
            }
            // The type and a namespace have a value.
            Some("-t" | "-N") => drop(rest.next()),
            Some("-r") => line.push("--read-only".into()),
            // Sloppy, no mtab, verbose, writable.
            Some("-s" | "-n" | "-v" | "-w") => {}
            _ => line.push(word),
        }
    }
    line
}

/// An option of mount(8) as one of `tembo mount`, which refuses what it does not know.
fn option(option: &str) -> Option<OsString> {
    let (name, value) = option.split_once('=').map_or((option, None), |(n, v)| (n, Some(v)));
    match (name, value) {
        ("", _) => None,
        ("ro", None) => Some("--read-only".into()),
        ("comment", _) => None,
        (name, _) if name.starts_with("x-") || name.starts_with("X-") => None,
        (name, None) if IGNORED.contains(&name) => None,
        (name, None) => Some(format!("--{}", name.replace('_', "-")).into()),
        (name, Some(value)) => Some(format!("--{}={value}", name.replace('_', "-")).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(line: &str) -> String {
        let words = line.split(' ').map(OsString::from).collect();
        let words: Vec<_> = command_line(words).iter().map(|w| w.display().to_string()).collect();
        words.join(" ")
    }

    #[test]
    fn a_line_of_fstab_becomes_one_of_tembo() {
        for (line, wanted) in [
            ("/sbin/mount.fuse.tembo a.pool /at", "tembo mount --background a.pool /at"),
            (
                "/sbin/mount.fuse.tembo a.pool /at -s -o ro,nofail,x-systemd.automount,comment=a",
                "tembo mount --background a.pool /at --read-only",
            ),
            (
                "mount.fuse.tembo a.pool /at -o rw,allow_other,size-max=4G,durable=fsync -t fuse.tembo",
                "tembo mount --background a.pool /at --allow-other --size-max=4G --durable=fsync",
            ),
            (
                "mount.fuse.tembo a /at -o noexec,remount",
                "tembo mount --background a /at --noexec --remount",
            ),
            ("/usr/bin/tembo stat -o ro", "/usr/bin/tembo stat -o ro"),
        ] {
            assert_eq!(translated(line), wanted);
        }
    }
}
