//! A cpio archive, as the kernel unpacks it into its first file system.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Context;

/// An archive in the making.
#[derive(Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    folders: BTreeSet<String>,
    entries: u32,
}

const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_777;
const CHARACTERS: u32 = 0o020_600;

impl Archive {
    /// A folder, and those above it.
    pub(super) fn folder(&mut self, path: &str) {
        let path = path.trim_matches('/');
        for (at, _) in path.match_indices('/').chain([(path.len(), "")]) {
            if at > 0 && self.folders.insert(path[..at].to_owned()) {
                self.entry(&path[..at], FOLDER, (0, 0), &[]);
            }
        }
    }

    /// A file with these bytes.
    pub(super) fn file(&mut self, path: &str, permissions: u32, bytes: &[u8]) {
        self.room_for(path);
        self.entry(path.trim_matches('/'), FILE | permissions, (0, 0), bytes);
    }

    /// A file of the host, at another place if `to` names one.
    pub(super) fn copy(&mut self, from: &Path, to: &str) -> anyhow::Result<()> {
        let bytes = std::fs::read(from).with_context(|| format!("reading {}", from.display()))?;
        let mode = std::fs::metadata(from)?.permissions().mode();
        self.file(to, mode & 0o777, &bytes);
        Ok(())
    }

    /// A symbolic link.
    pub(super) fn link(&mut self, path: &str, to: &str) {
        self.room_for(path);
        self.entry(path.trim_matches('/'), LINK, (0, 0), to.as_bytes());
    }

    /// A device of characters.
    pub(super) fn device(&mut self, path: &str, number: (u32, u32)) {
        self.room_for(path);
        self.entry(path.trim_matches('/'), CHARACTERS, number, &[]);
    }

    /// The whole archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    fn room_for(&mut self, path: &str) {
        if let Some((folder, _)) = path.trim_matches('/').rsplit_once('/') {
            self.folder(folder);
        }
    }

    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        self.entries += 1;
        let numbers = [
            self.entries,
            mode,
            0,
            0,
            1,
            0,
            content.len() as u32,
            0,
            0,
            device.0,
            device.1,
            name.len() as u32 + 1,
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for number in numbers {
            self.bytes.extend_from_slice(format!("{number:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_before_what_is_in_them_and_only_once() {
        let mut archive = Archive::default();
        archive.file("/a/b/one", 0o644, b"12345");
        archive.file("a/b/two", 0o755, b"");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        let heads: Vec<usize> = bytes
            .windows(6)
            .enumerate()
            .filter(|(_, six)| *six == b"070701")
            .map(|(at, _)| at)
            .collect();
        let name = |at: &usize| {
            let rest = &bytes[at + 110..];
            String::from_utf8_lossy(&rest[..rest.iter().position(|&byte| byte == 0).unwrap()])
                .into_owned()
        };
        let names: Vec<String> = heads.iter().map(name).collect();
        assert_eq!(names, ["a", "a/b", "a/b/one", "a/b/two", "TRAILER!!!"]);
    }
}
