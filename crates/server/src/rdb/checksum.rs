//! What stands behind the value of a DUMP: the version of the format and a checksum.

/// The version that is written: that of Redis 7.0.
const VERSION: u16 = 10;
/// The latest version that is read: that of Redis 7.2.
const VERSION_MAX: u16 = 11;
/// Bytes of the version and the checksum.
const TAIL_SIZE: usize = 10;
/// CRC-64 by D. T. Jones, its bits reversed.
const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

const TABLE: [u64; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let (mut crc, mut bit) = (byte as u64, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// Redis's checksum of what `before` is that of, and of these bytes behind it; of nothing it is 0.
pub(crate) fn crc64(before: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(before, |crc, byte| TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8))
}

/// Appends version and checksum.
pub(crate) fn seal(value: &mut Vec<u8>) {
    value.extend_from_slice(&VERSION.to_le_bytes());
    let checksum = crc64(0, value);
    value.extend_from_slice(&checksum.to_le_bytes());
}

/// Whether a value that can be unsealed is of no later version than what is written.
pub(crate) fn is_of_our_version(dump: &[u8]) -> bool {
    let version = dump.len().checked_sub(TAIL_SIZE).and_then(|at| dump[at..].first_chunk());
    version.is_some_and(|version| u16::from_le_bytes(*version) <= VERSION)
}

/// What stands before version and checksum; `None`: one of them is wrong.
pub(crate) fn unseal(dump: &[u8]) -> Option<&[u8]> {
    let (value, tail) = dump.split_at_checked(dump.len().checked_sub(TAIL_SIZE)?)?;
    let (version, checksum) = tail.split_first_chunk()?;
    let checksum = u64::from_le_bytes(checksum.try_into().ok()?);
    let is_right = u16::from_le_bytes(*version) <= VERSION_MAX
        && checksum == crc64(0, dump.get(..value.len() + version.len())?);
    is_right.then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_byte_is_found() {
        assert_eq!(crc64(0, b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        let mut dump = b"value".to_vec();
        seal(&mut dump);
        assert_eq!(unseal(&dump), Some(b"value".as_slice()));
        for at in 0..dump.len() {
            let mut other = dump.clone();
            other[at] ^= 1;
            assert_eq!(unseal(&other), None);
            assert_eq!(unseal(&dump[..at]), None);
        }
    }
}
