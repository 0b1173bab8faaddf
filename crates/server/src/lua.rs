//! Lua 5.1 as Redis's scripts see it: its sandbox, its libraries, its conversions. Knows neither commands nor data.

mod api;
mod bits;
mod engine;
mod json;
mod json_text;
mod message_pack;
mod number;
mod packed;
mod raised;
mod registered;
mod reply;
mod script_flags;
mod source;

pub(crate) use api::sha1_hex;
pub(crate) use engine::{Engine, Host, Interruption, Outcome, Refused};
pub(crate) use registered::{BAD_NAME, Registered, is_name};
pub(crate) use reply::Returned;
pub(crate) use script_flags::{ScriptFlags, of_script, shebang};
