//! Libraries of functions.

use std::io::Read;

use crate::rdb::reader::{Broken, Reader};

/// Before the code of a library.
pub(super) const LIBRARY: u8 = 245;
/// Before a library of the release candidates of Redis 7.0: name, engine, description and code apart.
const LIBRARY_IN_PARTS: u8 = 246;

/// Reads the code of a library; `None`: what comes is something else.
///
/// # Errors
/// It is not in the format, or the source fails.
pub(crate) fn read_library(source: &mut Reader<impl Read>) -> Result<Option<Vec<u8>>, Broken> {
    match source.byte()? {
        LIBRARY => source.string().map(Some),
        LIBRARY_IN_PARTS => {
            let (name, engine) = (source.string()?, source.string()?);
            if source.length()? > 0 {
                source.string()?;
            }
            let code = source.string()?;
            Ok(Some([b"#!", &engine[..], b" name=", &name, b"\n", &code].concat()))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Option<Vec<u8>> {
        read_library(&mut Reader::new(bytes)).unwrap()
    }

    #[test]
    fn libraries_of_the_release_candidates_have_their_name_in_the_code() {
        assert_eq!(read(b"\xf5\x04code").unwrap(), b"code");
        assert_eq!(read(b"\xf6\x01l\x03lua\x01\x04text\x04code").unwrap(), b"#!lua name=l\ncode");
        assert_eq!(read(b"\xf6\x01l\x03lua\x00\x04code").unwrap(), b"#!lua name=l\ncode");
        assert_eq!(read(b"\x00\x01a"), None);
        assert!(read_library(&mut Reader::new(b"\xf5\x04cod".as_slice())).is_err());
    }
}
