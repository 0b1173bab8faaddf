//! What SCAN and its kin share: options, and the reply.

use crate::args::Args;
use crate::commands::argument::integer;
use crate::failure::{Failure, SYNTAX};
use crate::format::Kind;
use crate::glob;
use crate::number::Decimal;
use crate::reply::Reply;
use crate::shared::Shared;

/// The options of SCAN and its kin.
pub(super) struct ScanOptions<'a> {
    /// MATCH.
    pub(super) pattern: &'a [u8],
    /// COUNT.
    pub(super) count: usize,
    kind: Option<&'a [u8]>,
}

impl<'a> ScanOptions<'a> {
    /// The options from an argument on.
    pub(super) fn parse(
        args: Args<'a>,
        first: usize,
        of_keys: bool,
    ) -> Result<ScanOptions<'a>, Failure> {
        let mut options = ScanOptions { pattern: b"*", count: 10, kind: None };
        let mut at = first;
        while at < args.count() {
            if at + 1 >= args.count() {
                return Err(SYNTAX.into());
            }
            if args.is(at, "COUNT") {
                let count = integer(args.at(at + 1))?;
                if count < 1 {
                    return Err(SYNTAX.into());
                }
                options.count = count as usize;
            } else if args.is(at, "MATCH") {
                options.pattern = args.at(at + 1);
            } else if of_keys && args.is(at, "TYPE") {
                options.kind = Some(args.at(at + 1));
            } else {
                return Err(SYNTAX.into());
            }
            at += 2;
        }
        Ok(options)
    }

    /// Whether keys of that kind are asked for.
    pub(super) fn takes(&self, kind: Kind) -> bool {
        self.kind.is_none_or(|name| name.eq_ignore_ascii_case(kind.name().as_bytes()))
    }

    /// Whether the pattern matches.
    pub(super) fn matches(&self, name: &[u8]) -> bool {
        self.pattern == b"*" || glob::matches(self.pattern, name, false)
    }
}

/// Replies with the cursor of the place behind `last`, 0 without one, and so many replies made before.
pub(super) fn reply_page(
    shared: &mut Shared,
    last: Option<Vec<u8>>,
    (count, found): (usize, &Reply),
    reply: &mut Reply,
) {
    let next = last.map_or(0, |last| shared.scans.remember(&last));
    reply.array(2);
    reply.bulk(Decimal::unsigned(next).as_bytes());
    reply.array(count);
    reply.raw(found.unsent());
}
