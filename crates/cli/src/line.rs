//! The lines that `dump` writes and `load` reads: one JSON object for each key.
//!
//! ```json
//! {"keyspace":"0","key":"greeting","value":"hello","expires_at_ms":1795219200000}
//! {"keyspace":"0","key_base64":"/w==","value_base64":"AAE="}
//! ```

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// A key with its value, as the server sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) keyspace: String,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) expires_at_ms: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'l> {
    keyspace: String,
    #[serde(default, skip_serializing_if = "Option::is_none", borrow)]
    key: Option<std::borrow::Cow<'l, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", borrow)]
    value: Option<std::borrow::Cow<'l, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at_ms: Option<u64>,
}

impl Entry {
    /// The line, without its end.
    pub(crate) fn to_line(&self) -> serde_json::Result<String> {
        let (key, key_base64) = split(&self.key);
        let (value, value_base64) = split(&self.value);
        let keyspace = self.keyspace.clone();
        let expires_at_ms = self.expires_at_ms;
        serde_json::to_string(&Line {
            keyspace,
            key,
            key_base64,
            value,
            value_base64,
            expires_at_ms,
        })
    }

    pub(crate) fn from_line(line: &str) -> Result<Entry, String> {
        let line: Line<'_> = serde_json::from_str(line).map_err(|error| error.to_string())?;
        Ok(Entry {
            key: join("key", line.key, line.key_base64)?,
            value: join("value", line.value, line.value_base64)?,
            keyspace: line.keyspace,
            expires_at_ms: line.expires_at_ms,
        })
    }
}

fn split(bytes: &[u8]) -> (Option<std::borrow::Cow<'_, str>>, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Some(text.into()), None),
        Err(_) => (None, Some(STANDARD.encode(bytes))),
    }
}

fn join(
    name: &str,
    text: Option<std::borrow::Cow<'_, str>>,
    base64: Option<String>,
) -> Result<Vec<u8>, String> {
    match (text, base64) {
        (Some(text), None) => Ok(text.into_owned().into_bytes()),
        (None, Some(base64)) => {
            STANDARD.decode(base64).map_err(|error| format!("{name}_base64: {error}"))
        }
        _ => Err(format!("a line has either `{name}` or `{name}_base64`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &[u8], value: &[u8]) -> Entry {
        Entry { keyspace: "0".into(), key: key.into(), value: value.into(), expires_at_ms: None }
    }

    #[test]
    fn lines_are_as_documented() {
        let mut greeting = entry(b"greeting", b"hello");
        greeting.expires_at_ms = Some(7);
        assert_eq!(
            greeting.to_line().unwrap(),
            r#"{"keyspace":"0","key":"greeting","value":"hello","expires_at_ms":7}"#
        );
        assert_eq!(
            entry(b"\xff", &[0, 0x80]).to_line().unwrap(),
            r#"{"keyspace":"0","key_base64":"/w==","value_base64":"AIA="}"#
        );
    }

    #[test]
    fn lines_come_back() {
        for bytes in [&b""[..], b"a\"\n\\", "ä".as_bytes(), b"\0", b"\xc3("] {
            let entry = entry(bytes, bytes);
            assert_eq!(Entry::from_line(&entry.to_line().unwrap()), Ok(entry));
        }
    }

    #[test]
    fn malformed_lines_are_refused() {
        for line in [
            "",
            "{}",
            r#"{"keyspace":"0","key":"a"}"#,
            r#"{"keyspace":"0","key":"a","key_base64":"YQ==","value":""}"#,
            r#"{"keyspace":"0","key":"a","value_base64":"!"}"#,
            r#"{"keyspace":"0","key":"a","value":"","kind":"list"}"#,
        ] {
            assert!(Entry::from_line(line).is_err(), "{line}");
        }
    }
}
