//! The password that clients must give: from a file or the environment, never from the command
//! line, which every process can read.

use std::path::Path;

use anyhow::Context;

use crate::exit::{Exit, refuse};

const VARIABLE: &str = "TEMBO_REQUIREPASS";

/// The password, if one is set; the file wins over the environment.
pub(crate) fn read(file: Option<&Path>) -> anyhow::Result<Option<Vec<u8>>> {
    let password = match file {
        Some(path) => {
            let text =
                std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
            Some(text.strip_suffix(b"\n").map(<[u8]>::to_vec).unwrap_or(text))
        }
        None => std::env::var_os(VARIABLE).map(std::ffi::OsString::into_encoded_bytes),
    };
    if password.as_ref().is_some_and(Vec::is_empty) {
        return refuse(Exit::Usage, "the password is empty");
    }
    Ok(password)
}
