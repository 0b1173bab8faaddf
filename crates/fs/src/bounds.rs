//! How long names, links, files and extended attributes may be, and what a name is.

/// The inode number of the root directory.
pub const ROOT: u64 = 1;

/// Longest name of a directory entry, in bytes.
pub const NAME_LEN_MAX: usize = 255;

/// Longest target of a symbolic link, in bytes.
pub const TARGET_LEN_MAX: usize = 4095;

/// Greatest size of a file, in bytes.
pub const FILE_SIZE_MAX: u64 = i64::MAX as u64;

/// Greatest number of names of a file, and of subdirectories of a directory.
pub const LINKS_MAX: u32 = u32::MAX - 2;

/// Longest name of an extended attribute, in bytes.
pub const ATTRIBUTE_NAME_LEN_MAX: usize = 255;

/// Longest value of an extended attribute, in bytes.
pub const ATTRIBUTE_SIZE_MAX: usize = 64 << 10;

/// Smallest size of a piece of a file, in bytes.
pub const PIECE_SIZE_MIN: usize = 512;

/// Greatest size of a piece of a file, in bytes.
pub const PIECE_SIZE_MAX: usize = 64 << 10;

/// Whether bytes can be a name of a directory entry, but for their number.
pub(crate) fn is_name(name: &[u8]) -> bool {
    let is_bad = |&byte: &u8| byte == 0 || byte == b'/';
    !matches!(name, b"" | b"." | b"..") && !name.iter().any(is_bad)
}
