//! How a process ends: exit codes, and the report of an error.

mod cause;
mod code;
mod refusal;

use std::io::{self, Write};

pub(crate) use code::{Exit, table};
pub(crate) use refusal::refuse;

/// The code that stands for `error`.
pub(crate) fn of(error: &anyhow::Error) -> Exit {
    error.chain().find_map(cause::exit).unwrap_or(Exit::Other)
}

/// Prints what happened and what to do, and returns the code. A pipe without a reader
/// (`tembo dump | head`) is no error.
pub(crate) fn report(error: &anyhow::Error) -> Exit {
    let is_closed = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    if error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(is_closed)) {
        return Exit::Done;
    }
    let exit = of(error);
    // If this fails, there is no other place to report it to.
    let _ = io::stderr().lock().write_all(advised(&text(error), exit).as_bytes());
    exit
}

/// The error and its causes, but for those whose text stands in it already.
fn text(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |text, cause| match cause.to_string() {
        cause if text.contains(&cause) => text,
        cause if text.is_empty() => cause,
        cause => format!("{text}: {cause}"),
    })
}

/// What has happened, and what to do.
pub(crate) fn advised(what: &str, exit: Exit) -> String {
    match exit.row().3 {
        "" => format!("tembo: {what}\n"),
        advice => format!("tembo: {what}\n  help: {advice} (exit code {})\n", exit.code()),
    }
}

#[cfg(test)]
mod tests {
    use tembo_kv as kv;
    use tembo_pool as pool;

    use super::refusal::Refusal;
    use super::*;

    #[test]
    fn errors_find_their_codes_under_their_context() {
        let io = |kind| io::Error::from(kind);
        let of = |error: anyhow::Error| super::of(&error.context("opening"));
        assert_eq!(of(io(io::ErrorKind::PermissionDenied).into()), Exit::NoPermission);
        assert_eq!(of(io(io::ErrorKind::AddrInUse).into()), Exit::AddressInUse);
        let full = pool::Error::PoolFull { size: 1, recovering: false };
        assert_eq!(of(kv::Error::from(full).into()), Exit::PoolFull);
        assert_eq!(of(anyhow::anyhow!("?")), Exit::Other);
        let refusal = Refusal { exit: Exit::Unprotected, what: String::new() };
        assert_eq!(of(refusal.into()), Exit::Unprotected);
    }

    #[test]
    fn a_cause_is_printed_once() {
        let full = pool::Error::PoolFull { size: 1, recovering: false };
        let (inner, outer) = (full.to_string(), kv::Error::from(full));
        assert!(outer.to_string().contains(&inner));
        let context = anyhow::Error::from(outer).context("loading");
        assert_eq!(text(&context).matches(&inner).count(), 1, "{}", text(&context));
        let apart = anyhow::anyhow!("b").context("a");
        assert_eq!(text(&apart), "a: b");
    }
}
