//! What a file holds.

use tembo_fs::Fs;

/// All bytes of a file.
pub(crate) fn bytes(fs: &Fs, number: u64) -> Vec<u8> {
    let mut tree = fs.snapshot().unwrap();
    let mut bytes = vec![1; tree.inode(number).unwrap().size as usize + 10];
    let len = tree.read(number, 0, &mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}
