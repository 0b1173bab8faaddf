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

/// A count of which the sign has a meaning.
pub(super) fn count_in_range(text: &[u8]) -> Result<i64, Failure> {
    match integer(text)? {
        i64::MIN => Err(
            "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807"
                .into(),
        ),
        count => Ok(count),
    }
}

/// A count that is not negative.
pub(super) fn positive(text: &[u8]) -> Result<u64, Failure> {
    let count = parse_integer(text).and_then(|count| u64::try_from(count).ok());
    count.ok_or("ERR value is out of range, must be positive".into())
}

/// How many keys follow: at least one.
pub(super) fn key_count(text: &[u8]) -> Result<usize, Failure> {
    at_least_one(text).ok_or("ERR numkeys should be greater than 0".into())
}

/// A number of at least one.
pub(super) fn at_least_one(text: &[u8]) -> Option<usize> {
    parse_integer(text).filter(|&number| number > 0).map(|number| number as usize)
}

/// The arguments come in groups, and one is not whole.
pub(super) fn wrong_arity(name: &str) -> Failure {
    format!("ERR wrong number of arguments for '{name}' command").into()
}
