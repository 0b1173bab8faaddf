//! A WAL: which pages it has of a database.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::format::{FRAME_HEADER_SIZE, WAL_HEADER_SIZE, WalHeader};
use super::overlay::Overlay;

/// What the transactions of a WAL have made of the database; `None`: it has none that is whole.
pub(super) fn read(file: File) -> io::Result<Option<Overlay>> {
    let len = file.metadata()?.len();
    let mut head = [0; WAL_HEADER_SIZE];
    if len < head.len() as u64 {
        return Ok(None);
    }
    file.read_exact_at(&mut head, 0)?;
    let Some(header) = WalHeader::of(&head) else { return Ok(None) };
    let mut frame = vec![0; FRAME_HEADER_SIZE + header.page_size as usize];
    let (mut at, mut sum) = (WAL_HEADER_SIZE as u64, header.sum);
    // What has come since the last transaction that is whole.
    let (mut pending, mut pages, mut page_count) = (HashMap::new(), HashMap::new(), 0);
    while at + frame.len() as u64 <= len {
        file.read_exact_at(&mut frame, at)?;
        let (head, page) = frame.split_at(FRAME_HEADER_SIZE);
        let Some((number, commits)) = header.frame(&mut sum, head, page) else { break };
        pending.insert(number, at + FRAME_HEADER_SIZE as u64);
        if commits > 0 {
            pages.extend(pending.drain());
            page_count = commits;
        }
        at += frame.len() as u64;
    }
    let page_size = header.page_size;
    Ok((page_count > 0).then_some(Overlay { file, page_size, page_count, pages }))
}
