//! Pages that stand in another file than the database.

use std::collections::HashMap;
use std::fs::File;

/// What a WAL, or a hot journal, has of a database.
#[derive(Debug)]
pub(super) struct Overlay {
    pub(super) file: File,
    pub(super) page_size: u32,
    /// Pages of the whole database.
    pub(super) page_count: u32,
    /// Where in the file they begin, by number; the first page is number 1.
    pub(super) pages: HashMap<u32, u64>,
}
