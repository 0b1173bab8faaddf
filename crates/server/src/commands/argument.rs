//! Arguments that several commands take.

use crate::command::Context;
use crate::failure::{Failure, NOT_AN_INTEGER};
use crate::number::parse_integer;

/// An argument that is to be a number.
pub(super) fn integer(text: &[u8]) -> Result<i64, Failure> {
    parse_integer(text).ok_or(NOT_AN_INTEGER.into())
}

/// An argument that is to be the number of a database.
pub(super) fn database(context: &Context<'_, '_>, text: &[u8]) -> Result<usize, Failure> {
    let number = integer(text)?;
    if i32::try_from(number).is_err() {
        return Err(
            "ERR value is out of range, value must between -2147483648 and 2147483647".into()
        );
    }
    match usize::try_from(number) {
        Ok(db) if db < context.data.databases() => Ok(db),
        _ => Err("ERR DB index is out of range".into()),
    }
}
