//! What SCAN and its kin share: options, and the reply.

use crate::args::Args;
use crate::collection::{Collection, Family};
use crate::command::Context;
use crate::commands::argument::integer;
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::format::Kind;
use crate::glob;
use crate::number::{Decimal, parse_cursor};
use crate::reply::Reply;
use crate::shared::Shared;

/// The options of SCAN and its kin.
pub(super) struct ScanOptions<'a> {
    /// MATCH.
    pub(super) pattern: &'a [u8],
    /// COUNT.
    count: usize,
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
    fn matches(&self, name: &[u8]) -> bool {
        self.pattern == b"*" || glob::matches(self.pattern, name, false)
    }
}

/// What one call of SCAN or its kin has found.
pub(super) struct Page<'o> {
    options: &'o ScanOptions<'o>,
    /// Whether it ends only where everything was visited.
    is_whole: bool,
    found: Reply,
    count: usize,
    visited: usize,
    last: Option<Vec<u8>>,
    has_more: bool,
}

impl<'o> Page<'o> {
    /// Nothing is found yet.
    pub(super) fn new(options: &'o ScanOptions<'o>, is_whole: bool) -> Page<'o> {
        let found = Reply::new(usize::MAX);
        Page { options, is_whole, found, count: 0, visited: 0, last: None, has_more: false }
    }

    /// Visits a name; `show` appends what is replied for it, in so many parts (0: it is left out). False: the page is
    /// full, and the name belongs to the next one.
    pub(super) fn visit(&mut self, name: &[u8], show: impl FnOnce(&mut Reply) -> usize) -> bool {
        if self.visited == self.options.count && !self.is_whole {
            self.has_more = true;
            return false;
        }
        self.visited += 1;
        if self.options.matches(name) {
            self.count += show(&mut self.found);
        }
        if self.visited == self.options.count {
            self.last = Some(name.to_vec());
        }
        true
    }

    /// Replies.
    pub(super) fn reply(self, shared: &mut Shared, reply: &mut Reply) {
        let last = self.last.filter(|_| self.has_more);
        reply_page(shared, last, (self.count, &self.found), reply);
    }
}

/// HSCAN and its kin: `visit` has the page visit the elements behind one.
pub(super) fn scan_collection<F: Family>(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
    visit: impl FnOnce(&mut Collection<'_, '_, F>, Option<&[u8]>, &mut Page<'_>) -> Outcome,
) -> Outcome {
    let cursor = parse_cursor(args.at(2)).ok_or("ERR invalid cursor")?;
    let mut collection = Collection::open(context.data, (context.session.db, args.at(1)))?;
    if collection.count() == 0 {
        reply_page(context.shared, None, (0, &Reply::new(usize::MAX)), reply);
        return Ok(());
    }
    let options = ScanOptions::parse(args, 3, false)?;
    let mut page = Page::new(&options, collection.is_small());
    visit(&mut collection, context.shared.scans.position(cursor), &mut page)?;
    page.reply(context.shared, reply);
    Ok(())
}

/// Replies with the cursor of the place behind `last`, 0 without one, and so many replies made before.
fn reply_page(
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
