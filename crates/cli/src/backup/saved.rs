//! What is reported of a backup.

use std::path::Path;

use serde::Serialize;
use tembo_kv::backup::BackupInfo;

use crate::bytes::Bytes;
use crate::output::Lines;

/// What a backup has.
#[derive(Serialize)]
pub(super) struct Saved {
    pub(super) file: String,
    pub(super) since: Option<u64>,
    pub(super) version: u64,
    pub(super) entries: u64,
    pub(super) bytes: u64,
}

impl Saved {
    pub(super) fn new(file: &Path, info: &BackupInfo) -> Saved {
        let BackupInfo { since, until, entries, bytes, .. } = *info;
        Saved { file: file.display().to_string(), since, version: until, entries, bytes }
    }

    pub(super) fn add_to(&self, lines: &mut Lines) {
        lines.add("backup", &self.file);
        if let Some(since) = self.since {
            lines.add("since version", since);
        }
        lines.add("version", self.version);
        lines.add("entries", self.entries);
        lines.add("size", Bytes(self.bytes));
    }
}
