//! Which directories the file system of a pool is mounted at, by what the system says.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// The type of such a mount.
const TYPE: &[u8] = b"fuse.tembo";

/// All mounts, for [`is_mount`].
pub(crate) fn mounts() -> anyhow::Result<Vec<u8>> {
    std::fs::read("/proc/self/mountinfo").context("reading which mounts there are")
}

/// A path as `mountinfo` has it, where `\` and three octal digits are a byte.
fn unescaped(path: &[u8]) -> PathBuf {
    let (mut bytes, mut rest) = (Vec::new(), path);
    while let [first, others @ ..] = rest {
        let digits = others.get(..3).filter(|_| *first == b'\\');
        let code = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &others[3..];
            }
            None => {
                bytes.push(*first);
                rest = others;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

/// Whether a whole file system of a pool is mounted at a directory, on top of all that is mounted there. What a directory holds says
/// nothing about it: each user may make `.tembo/begin` in one that is shared.
pub(crate) fn is_mount(directory: &Path, mounts: &[u8]) -> bool {
    let mut found = mounts.split(|&byte| byte == b'\n').filter_map(|line| {
        let mut words = line.split(|&byte| byte == b' ');
        let (root, at) = (words.nth(3)?, words.next()?);
        let kind = words.skip_while(|word| *word != b"-").nth(1)?;
        (unescaped(at) == directory).then_some((root, kind))
    });
    found.next_back().is_some_and(|(root, kind)| root == b"/" && kind == TYPE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_what_the_system_says() {
        let mounts = b"22 1 8:1 / / rw - ext4 /dev/sda rw\n\
            30 22 0:40 / /srv/my\\040files rw,nosuid shared:1 - fuse.tembo /a.pool rw\n\
            31 22 0:40 /part /part rw - fuse.tembo /a.pool rw\n\
            32 22 0:41 / /over rw - fuse.tembo /b.pool rw\n\
            33 32 0:42 / /over rw - tmpfs none rw\n";
        let is_mount = |path: &str| is_mount(Path::new(path), mounts);
        assert!(is_mount("/srv/my files"));
        for other in ["/", "/srv", "/srv/my files/below", "/part", "/over", "/tmp"] {
            assert!(!is_mount(other), "{other}");
        }
        assert_eq!(unescaped(br"/a\134b\1"), Path::new(r"/a\b\1"));
    }
}
