//! The contenders of `bench` by the names that the command line takes.

use tembo_bench::Kind;

/// The names, in the order of a run.
pub(crate) fn names() -> [&'static str; Kind::ALL.len()] {
    Kind::ALL.map(Kind::name)
}

/// The contender of that name.
pub(crate) fn parse(name: &str) -> Result<Kind, String> {
    Kind::named(name).ok_or_else(|| format!("known are {}", names().join(", ")))
}
