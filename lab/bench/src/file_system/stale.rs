//! Mounts that killed processes have left.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Mounts of FUSE without a process behind them, at the same place of a folder beside that of a mount point: an earlier experiment of a
/// killed lab.
pub(super) fn stale(point: &Path, mounts: &[u8]) -> Vec<PathBuf> {
    let is_dead = |point: &PathBuf| {
        fs::metadata(point).is_err_and(|error| error.kind() == ErrorKind::NotConnected)
    };
    beside(point, mounts).filter(is_dead).collect()
}

fn beside(point: &Path, mounts: &[u8]) -> impl Iterator<Item = PathBuf> {
    let place = |point: &Path| {
        let folder = point.parent()?.parent()?.to_owned();
        Some((folder, point.file_name()?.to_owned()))
    };
    let wanted = place(point);
    mounts.split(|&byte| byte == b'\n').filter_map(move |line| {
        let mut words = line.split(|&byte| byte == b' ');
        // The system writes spaces and a few others as octal numbers: folders with such names are not found.
        let at = PathBuf::from(OsString::from_vec(words.nth(4)?.to_vec()));
        let kind = words.skip_while(|word| *word != b"-").nth(1)?;
        (kind.starts_with(b"fuse") && wanted.is_some() && place(&at) == wanted).then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_in_folders_beside_are_found() {
        let mounts = b"30 22 0:40 / /disk/.tmpA/files rw - fuse.tembo /disk/.tmpA/tembo.pool rw\n\
            31 22 0:41 / /disk/.tmpB/files rw shared:1 - fuse bindfs rw\n\
            32 22 0:42 / /disk/.tmpC/other rw - fuse.tembo /a.pool rw\n\
            33 22 0:43 / /disk/files rw - fuse.tembo /a.pool rw\n\
            34 22 0:44 / /disk/.tmpD/files rw - tmpfs none rw\n";
        let found = |point: &str| beside(Path::new(point), mounts).collect::<Vec<_>>();
        let expected = ["/disk/.tmpA/files", "/disk/.tmpB/files"].map(PathBuf::from);
        assert_eq!(found("/disk/.tmpE/files"), expected);
        assert_eq!(found("/other/.tmpE/files"), Vec::<PathBuf>::new());
        // None of them is there.
        assert_eq!(stale(Path::new("/disk/.tmpE/files"), mounts), Vec::<PathBuf>::new());
    }
}
