//! The password that clients must give: from a file or the environment, never from the command
//! line, which every process can read.

use std::env::VarError;
use std::path::Path;

use anyhow::Context;

use crate::exit::{Exit, refuse};

const VARIABLE: &str = "TEMBO_REQUIREPASS";

/// The password, if one is set; the file wins over the environment.
pub(crate) fn read(file: Option<&Path>) -> anyhow::Result<Option<String>> {
    let password = match file {
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("reading {}", path.display()))?;
            Some(text.strip_suffix('\n').map(str::to_owned).unwrap_or(text))
        }
        None => match std::env::var(VARIABLE) {
            Ok(text) => Some(text),
            Err(VarError::NotPresent) => None,
            Err(error) => return Err(error).context(VARIABLE),
        },
    };
    if password.as_ref().is_some_and(String::is_empty) {
        return refuse(Exit::Usage, "the password is empty");
    }
    Ok(password)
}
