//! HyperLogLog: how many different elements there are, estimated from 16,384 small registers, in the bytes that Redis
//! uses for it.
//!
//! P. Flajolet et al., "HyperLogLog: the analysis of a near-optimal cardinality estimation algorithm"; the estimate is
//! that of O. Ertl, "New cardinality estimation algorithms for HyperLogLog sketches" (arXiv:1702.01284).

mod dense;
mod estimate;
mod hash;
mod sparse;

use dense::DENSE_SIZE;
pub(crate) use estimate::estimate;
pub(crate) use hash::{REGISTERS, place};
pub(crate) use sparse::{Corrupted, Run};

/// Bytes before the registers: `HYLL`, the encoding, three zeros, the estimate kept from the last count.
const HEADER_SIZE: usize = 16;
const MAGIC: &[u8; 4] = b"HYLL";
/// Where the encoding is.
const ENCODING: usize = 4;
/// Where the kept estimate is, little-endian; its highest bit says that it does not hold any more.
const KEPT: usize = 8;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;

/// A HyperLogLog in Redis's bytes.
#[derive(Clone, Debug)]
pub(crate) struct HyperLogLog(Vec<u8>);

impl HyperLogLog {
    /// No elements.
    pub(crate) fn new() -> HyperLogLog {
        let mut bytes = vec![0; HEADER_SIZE];
        bytes[..MAGIC.len()].copy_from_slice(MAGIC);
        bytes[ENCODING] = SPARSE;
        sparse::push_run(&mut bytes, Run::Zeros(REGISTERS));
        HyperLogLog(bytes)
    }

    /// Takes a string; `None` if that is no HyperLogLog.
    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Option<HyperLogLog> {
        let is_one = bytes.len() >= HEADER_SIZE
            && bytes.starts_with(MAGIC)
            && match bytes[ENCODING] {
                DENSE => bytes.len() == HEADER_SIZE + DENSE_SIZE,
                SPARSE => true,
                _ => false,
            };
        is_one.then_some(HyperLogLog(bytes))
    }

    /// The string.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether each register has a place of its own.
    pub(crate) fn is_dense(&self) -> bool {
        self.0[ENCODING] == DENSE
    }

    /// Raises a register to `value`, if it is lower; true if it was. A sparse HyperLogLog becomes dense when it would
    /// need more than `sparse_size_max` bytes.
    pub(crate) fn raise(
        &mut self,
        (index, value): (usize, u8),
        sparse_size_max: usize,
    ) -> Result<bool, Corrupted> {
        if !self.is_dense() {
            match sparse::raise(&mut self.0, HEADER_SIZE, (index, value), sparse_size_max)? {
                sparse::Raised::No => return Ok(false),
                sparse::Raised::Yes => return Ok(true),
                sparse::Raised::TooLong => self.make_dense()?,
            }
        }
        Ok(dense::raise(&mut self.0[HEADER_SIZE..], index, value))
    }

    /// Gives each register a place of its own; the kept estimate goes with it.
    pub(crate) fn make_dense(&mut self) -> Result<(), Corrupted> {
        if self.is_dense() {
            return Ok(());
        }
        let mut bytes = self.0[..HEADER_SIZE].to_vec();
        bytes[ENCODING] = DENSE;
        bytes.resize(HEADER_SIZE + DENSE_SIZE, 0);
        let registers = &mut bytes[HEADER_SIZE..];
        self.visit(|index, value| {
            dense::raise(registers, index, value);
        })?;
        self.0 = bytes;
        Ok(())
    }

    /// Calls `visit` with each register that is not 0.
    pub(crate) fn visit(&self, mut visit: impl FnMut(usize, u8)) -> Result<(), Corrupted> {
        if self.is_dense() {
            for index in 0..REGISTERS {
                match dense::register(&self.0[HEADER_SIZE..], index) {
                    0 => {}
                    value => visit(index, value),
                }
            }
            return Ok(());
        }
        let mut first = 0;
        for run in self.runs() {
            let end = first + run.length();
            if end > REGISTERS {
                return Err(Corrupted);
            }
            if let Run::Value { value, .. } = run {
                (first..end).for_each(|index| visit(index, value));
            }
            first = end;
        }
        if first == REGISTERS { Ok(()) } else { Err(Corrupted) }
    }

    /// The runs of a sparse HyperLogLog.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        sparse::Runs::new(self.0.get(HEADER_SIZE..).unwrap_or_default())
    }

    /// The estimate that was kept, if it holds.
    pub(crate) fn kept(&self) -> Option<u64> {
        let bytes = self.0[KEPT..].first_chunk()?;
        let kept = u64::from_le_bytes(*bytes);
        (kept >> 63 == 0).then_some(kept)
    }

    /// Keeps an estimate until something is added.
    pub(crate) fn keep(&mut self, estimate: u64) {
        self.0[KEPT..HEADER_SIZE].copy_from_slice(&estimate.to_le_bytes());
    }

    /// Something was added: the kept estimate does not hold any more.
    pub(crate) fn forget(&mut self) {
        self.0[HEADER_SIZE - 1] |= 0x80;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE_MAX: usize = 3000;

    fn registers(of: &HyperLogLog) -> Vec<u8> {
        let mut registers = vec![0; REGISTERS];
        of.visit(|index, value| registers[index] = value).unwrap();
        registers
    }

    #[test]
    fn sparse_and_dense_hold_the_same_registers() {
        let (mut sparse, mut dense) = (HyperLogLog::new(), HyperLogLog::new());
        dense.make_dense().unwrap();
        let mut expected = vec![0; REGISTERS];
        for element in 0..3000u32 {
            let (index, value) = place(&element.to_le_bytes());
            let is_raised = value > expected[index];
            expected[index] = expected[index].max(value);
            assert_eq!(sparse.raise((index, value), SIZE_MAX), Ok(is_raised));
            assert_eq!(dense.raise((index, value), SIZE_MAX), Ok(is_raised));
            if element == 500 {
                assert!(!sparse.is_dense());
                assert_eq!(registers(&sparse), expected);
            }
        }
        assert!(sparse.is_dense());
        assert_eq!(registers(&sparse), expected);
        assert_eq!(sparse.as_bytes(), dense.as_bytes());
    }

    #[test]
    fn estimates_are_near() {
        let mut log = HyperLogLog::new();
        for (count, elements) in
            [(100, 0..100u32), (10_000, 100..10_000), (200_000, 10_000..200_000)]
        {
            for element in elements {
                log.raise(place(&element.to_le_bytes()), SIZE_MAX).unwrap();
            }
            let estimate = estimate(&registers(&log)) as f64 / f64::from(count);
            assert!((0.96..1.04).contains(&estimate), "{estimate} of {count}");
        }
    }

    #[test]
    fn what_is_kept_holds_until_it_is_forgotten() {
        let mut log = HyperLogLog::new();
        assert_eq!(log.kept(), Some(0));
        log.keep(77);
        assert_eq!(log.kept(), Some(77));
        log.forget();
        assert_eq!(log.kept(), None);
    }

    #[test]
    fn any_bytes_are_taken_or_refused() {
        assert!(HyperLogLog::from_bytes(b"HYLL".to_vec()).is_none());
        assert!(HyperLogLog::from_bytes(b"HYLL\0\0\0\0\0\0\0\0\0\0\0\0".to_vec()).is_none());
        let mut state = 1u64;
        for size in 16..200 {
            let mut bytes = b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\0".to_vec();
            bytes.extend((16..size).map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            }));
            let mut log = HyperLogLog::from_bytes(bytes).unwrap();
            let _ = log.visit(|index, _| assert!(index < REGISTERS));
            for element in 0..50u32 {
                if log.raise(place(&element.to_le_bytes()), SIZE_MAX).is_err() {
                    break;
                }
            }
        }
    }
}
