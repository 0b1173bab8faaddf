//! A file in memory.

use crate::code::Code;

/// Bytes for which it makes room when it begins: what a journal of a transaction of two pages needs.
const RESERVED: usize = 16 << 10;

/// The bytes of a file that lies nowhere else.
#[derive(Default)]
pub(crate) struct Bytes(Vec<u8>);

impl Bytes {
    /// Reads; how many bytes: fewer at the end.
    pub(crate) fn read(&self, offset: u64, to: &mut [u8]) -> usize {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.0.len());
        let part = &self.0[from..self.0.len().min(from.saturating_add(to.len()))];
        to[..part.len()].copy_from_slice(part);
        part.len()
    }

    /// # Errors
    /// [`Code::FULL`]: there is no memory.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Code> {
        let from = usize::try_from(offset).map_err(|_| Code::FULL)?;
        let end = from.checked_add(bytes.len()).ok_or(Code::FULL)?;
        if from == self.0.len() {
            // SQLite writes from the begin on, and mostly not much.
            let more = if from == 0 { bytes.len().max(RESERVED) } else { bytes.len() };
            self.0.try_reserve(more).map_err(|_| Code::FULL)?;
            self.0.extend_from_slice(bytes);
            return Ok(());
        }
        if end > self.0.len() {
            let more = end - self.0.len();
            self.0.try_reserve(more).map_err(|_| Code::FULL)?;
            self.0.resize(end, 0);
        }
        self.0[from..end].copy_from_slice(bytes);
        Ok(())
    }

    pub(crate) fn truncate(&mut self, len: u64) {
        self.0.truncate(usize::try_from(len).unwrap_or(usize::MAX));
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.len() as u64
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.0
    }
}
