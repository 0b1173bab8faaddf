//! Random numbers that nothing can guess.

use std::fs::File;
use std::io::{Error, Read};

/// So many random hexadecimal digits, from the system.
///
/// # Errors
/// The system's.
pub(crate) fn secret_digits(count: usize) -> Result<String, Error> {
    let mut bytes = vec![0; count.div_ceil(2)];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let mut text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    text.truncate(count);
    Ok(text)
}
