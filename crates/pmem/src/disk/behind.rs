//! Writing behind: the disk is asked to take in what was written to a file, much of it at a time.
//!
//! The disk is to begin before the sync that waits for it. But each request takes the processor some ten microseconds, as long
//! as copying 64 KiB, and a queue that is full makes the thread wait that fills it. So what was written is gathered, and asked
//! for by one call over all of it: what lies between was either written too, or costs nothing.

/// Bytes that are worth a request.
const WORTH: u64 = 512 << 10;

/// What was written, and not asked for. Volatile.
#[derive(Debug, Default)]
pub(crate) struct Behind {
    start: u64,
    end: u64,
    /// Bytes between them that were written.
    written: u64,
}

impl Behind {
    /// Notes that `len` bytes were written at `offset`; the range, as offset and length, that the disk is to be
    /// [asked](crate::DiskFile::begin_writing) for now, if there is one.
    pub(crate) fn note(&mut self, offset: u64, len: u64) -> Option<(u64, u64)> {
        let end = offset.saturating_add(len);
        (self.start, self.end) = match self.written {
            0 => (offset, end),
            _ => (self.start.min(offset), self.end.max(end)),
        };
        self.written += len;
        if self.written >= WORTH { self.take() } else { None }
    }

    /// The range of all that was noted and not asked for.
    pub(crate) fn take(&mut self) -> Option<(u64, u64)> {
        let Behind { start, end, written } = std::mem::take(self);
        (written > 0).then_some((start, end - start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_asked_for_once_and_many_at_a_time() {
        let mut behind = Behind::default();
        assert_eq!(behind.take(), None);
        // Scattered, in any order; the last of each range makes it worth a request.
        let page = 4096;
        let pages: Vec<u64> = (0..1000_u64).map(|number| number * 7919 % 5000 * page).collect();
        let (mut noted, mut asked) = (Vec::new(), 0);
        for &offset in &pages {
            noted.push(offset);
            if let Some((start, len)) = behind.note(offset, page) {
                assert_eq!(noted.len() as u64 * page, WORTH);
                assert_eq!(Some(&start), noted.iter().min());
                assert_eq!(Some(start + len - page), noted.iter().max().copied());
                noted.clear();
                asked += 1;
            }
        }
        assert_eq!(asked, 1000 * page / WORTH);
        let rest = behind.take();
        assert_eq!(rest.map(|(start, _)| start), noted.iter().min().copied());
        assert_eq!(behind.take(), None);
        assert_eq!(behind.note(3 * WORTH, 2 * WORTH), Some((3 * WORTH, 2 * WORTH)));
    }
}
