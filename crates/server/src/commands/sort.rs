//! SORT and SORT_RO.

use std::ops::Bound;

use tembo_kv::Direction;

use crate::args::Args;
use crate::collection::{End, Hash, List, Set, SortedSet, Span};
use crate::command::{Command, Context, DENY_OOM, READ, WRITE};
use crate::commands::argument::integer;
use crate::commands::listing::{AT_ONCE_MAX, ListPart, list_part, snapshot_values};
use crate::commands::removal::remove;
use crate::effects::send_state;
use crate::element_listing::Listed;
use crate::element_source::ElementSource;
use crate::event_class::Classes;
use crate::failure::{Failure, Outcome, SYNTAX, WRONG_TYPE};
use crate::format::{Kind, Part, Spread};
use crate::notify::notify;
use crate::permission::may_read_all_keys;
use crate::put_off::PutOff;
use crate::reply::Reply;
use crate::sort_plan::{LookUp, Plan};
use crate::sort_run::{Merge, Order, Run, Weight};
use crate::sorting::{SortUse, Sorting};

/// The family.
pub(super) const COMMANDS: &[Command] = &[
    Command::keyed("sort", -2, WRITE | DENY_OOM, (1, 1, 1), sort),
    Command::keyed("sort_ro", -2, READ, (1, 1, 1), sort_ro),
];

/// What a command asks for.
struct Query<'a> {
    is_descending: bool,
    is_alphabetic: bool,
    first: i64,
    count: i64,
    by: Option<&'a [u8]>,
    /// The elements are left in the order that they have.
    keeps_order: bool,
    get: Vec<&'a [u8]>,
    target: Option<&'a [u8]>,
}

impl<'a> Query<'a> {
    /// `reads_all`: the client may read every key.
    fn parse(args: Args<'a>, stores: bool, reads_all: bool) -> Result<Query<'a>, Failure> {
        let mut query = Query {
            is_descending: false,
            is_alphabetic: false,
            first: 0,
            count: -1,
            by: None,
            keeps_order: false,
            get: Vec::new(),
            target: None,
        };
        let mut at = 2;
        while at < args.count() {
            let left = args.count() - at - 1;
            match args.at(at).to_ascii_uppercase().as_slice() {
                b"ASC" => query.is_descending = false,
                b"DESC" => query.is_descending = true,
                b"ALPHA" => query.is_alphabetic = true,
                b"LIMIT" if left >= 2 => {
                    (query.first, query.count) =
                        (integer(args.at(at + 1))?, integer(args.at(at + 2))?);
                    at += 2;
                }
                b"STORE" if stores && left >= 1 => {
                    query.target = Some(args.at(at + 1));
                    at += 1;
                }
                b"BY" if left >= 1 => {
                    if !reads_all && args.at(at + 1).contains(&b'*') {
                        return Err(denied("BY"));
                    }
                    query.by = Some(args.at(at + 1));
                    query.keeps_order |= !args.at(at + 1).contains(&b'*');
                    at += 1;
                }
                b"GET" if left >= 1 => {
                    if !reads_all {
                        return Err(denied("GET"));
                    }
                    query.get.push(args.at(at + 1));
                    at += 1;
                }
                _ => return Err(SYNTAX.into()),
            }
            at += 1;
        }
        Ok(query)
    }

    /// Which of so many elements are asked for.
    fn range(&self, count: usize) -> std::ops::Range<usize> {
        let all = count as i64;
        let first = self.first.clamp(0, all);
        let wanted = if self.count < 0 { all } else { self.count };
        first as usize..first.saturating_add(wanted).min(all) as usize
    }

    /// What is done with so many elements of a kind, and whether they are turned round first.
    fn plan(&self, (kind, count): (Option<Kind>, usize), is_repeatable: bool) -> (Plan, bool) {
        let is_set = kind == Some(Kind::Set);
        // What must not depend on the order in which a set happens to be is sorted.
        let is_ordered = self.keeps_order && is_set && is_repeatable;
        let order = match (self.keeps_order && !is_ordered, self.is_descending) {
            (true, _) => Order::Kept,
            (false, true) => Order::Descending,
            (false, false) => Order::Ascending,
        };
        let plan = Plan {
            order,
            is_alphabetic: self.is_alphabetic || is_ordered,
            by: self.by.filter(|_| !is_ordered).map(<[u8]>::to_vec),
            get: self.get.iter().map(|pattern| pattern.to_vec()).collect(),
            range: self.range(count),
        };
        (plan, order == Order::Kept && self.is_descending && !is_set)
    }
}

/// The values of the client's database, looked up in the turn itself.
struct InTurn<'c, 'a, 's>(&'c mut Context<'a, 's>);

impl InTurn<'_, '_, '_> {
    /// Of what kind the value under a key is. That it is not there is published.
    fn kind(&mut self, key: &[u8]) -> Result<Option<Kind>, Failure> {
        let kind = self.0.data.kind(self.0.session.db, key)?;
        if kind.is_none() {
            notify(self.0, Classes::MISS, "keymiss", key);
        }
        Ok(kind)
    }
}

impl LookUp for InTurn<'_, '_, '_> {
    fn string(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        if self.kind(key)? != Some(Kind::String) {
            return Ok(None);
        }
        let found = self.0.data.get(self.0.session.db, key)?;
        Ok(found.map(|value| value.payload.to_vec()))
    }

    fn field(&mut self, key: &[u8], field: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        if self.kind(key)? != Some(Kind::Hash) {
            return Ok(None);
        }
        let mut hash = Hash::open(self.0.data, (self.0.session.db, key))?;
        Ok(hash.get(field)?.map(|value| value.to_vec()))
    }
}

/// The list, set or sorted set that is sorted.
struct Sorted {
    kind: Option<Kind>,
    count: u64,
    large: Option<Large>,
}

/// A large collection.
enum Large {
    /// Its head, and whether its elements lie in strips.
    List((Spread, bool)),
    /// Its id.
    Set(u64),
    /// Its id.
    SortedSet(u64),
}

impl Large {
    /// Those of its elements that a plan needs, which has to turn them round or not.
    fn source(&self, count: u64, (plan, is_turned): (&mut Plan, &mut bool)) -> ElementSource {
        let (mut first, mut last) = (0, count);
        if plan.order == Order::Kept {
            (first, last) = (plan.range.start as u64, plan.range.end as u64);
        }
        match self {
            Large::List(head) => {
                if plan.order == Order::Kept {
                    plan.range = 0..plan.range.len();
                }
                let part = if *is_turned { count - last..count - first } else { first..last };
                match list_part(*head, &part) {
                    ListPart::Elements(rest) => ElementSource::Elements(rest),
                    ListPart::Strips(rest) => ElementSource::Strips(rest),
                }
            }
            Large::Set(id) => {
                let part = (*id, Part::Main);
                ElementSource::Members(Listed::between(part, (&[], None), Direction::Forward, last))
            }
            Large::SortedSet(id) => {
                let is_turned = std::mem::take(is_turned);
                let direction = if is_turned { Direction::Backward } else { Direction::Forward };
                let part = (*id, Part::Order);
                ElementSource::Ordered(Listed::between(part, (&[], None), direction, last))
            }
        }
    }
}

fn find(context: &mut Context<'_, '_>, key: &[u8]) -> Result<Sorted, Failure> {
    let place = (context.session.db, key);
    let kind = context.data.find(place.0, place.1)?.map(|value| value.of.kind);
    let (count, large) = match kind {
        None => (0, None),
        Some(Kind::List) => {
            let list = List::open(context.data, place)?;
            (list.count(), list.head().map(Large::List))
        }
        Some(Kind::Set) => {
            let set = Set::open(context.data, place)?;
            (set.count(), set.large().map(|(id, _)| Large::Set(id)))
        }
        Some(Kind::SortedSet) => {
            let set = SortedSet::open(context.data, place)?;
            (set.count(), set.large().map(|(id, _)| Large::SortedSet(id)))
        }
        Some(_) => return Err(WRONG_TYPE.into()),
    };
    Ok(Sorted { kind, count, large })
}

/// All elements, in their own order.
fn elements(context: &mut Context<'_, '_>, kind: Option<Kind>, key: &[u8]) -> Result<Run, Failure> {
    let (place, mut run) = ((context.session.db, key), Run::default());
    let mut push = |element: &[u8]| {
        run.push(element, Weight::Own);
        true
    };
    match kind {
        Some(Kind::List) => {
            let mut list = List::open(context.data, place)?;
            let all = 0..list.count();
            list.visit(all, Direction::Forward, &mut |_, element| element.with(&mut push))?;
        }
        Some(Kind::Set) => Set::open(context.data, place)?.visit(Bound::Unbounded, &mut push)?,
        Some(Kind::SortedSet) => {
            let mut set = SortedSet::open(context.data, place)?;
            set.visit(&Span::ALL, Direction::Forward, &mut |member, _| push(member))?;
        }
        _ => {}
    }
    Ok(run)
}

fn denied(option: &str) -> Failure {
    format!("ERR {option} option of SORT denied due to insufficient ACL permissions.").into()
}

fn run(context: &mut Context<'_, '_>, args: Args<'_>, stores: bool, reply: &mut Reply) -> Outcome {
    let found = context.take_found();
    let query = Query::parse(args, stores, may_read_all_keys(context, args))?;
    if let (Some(found), Some(target)) = (found, query.target) {
        return store(context, target, &found, reply);
    }
    let Sorted { kind, count, large } = find(context, args.at(1))?;
    let is_repeatable = query.target.is_some() || context.shared.scripts.running.is_some();
    let (mut plan, mut is_turned) = query.plan((kind, count as usize), is_repeatable);
    if let Some(large) = large
        && count > AT_ONCE_MAX
        && may_sort_later(context, &query, &plan)
    {
        let source = large.source(count, (&mut plan, &mut is_turned));
        let values = snapshot_values(context)?;
        let new = |used| PutOff::Sorting(Sorting::new(values, (source, is_turned), plan, used));
        if query.target.is_some() {
            let sorting = new(SortUse::Kept(Run::default()));
            return context.put_off_store(sorting, std::iter::once(args.at(1)));
        }
        context.put_off(new(SortUse::Shown(reply.apart())));
        return Ok(());
    }
    let run = elements(context, kind, args.at(1))?;
    let sorted = sort_at_once(context, run, (&plan, is_turned))?;
    match query.target {
        Some(target) => {
            let mut shown = Run::default();
            show(context, sorted, &plan, &mut |one| {
                shown.push(one.unwrap_or_default(), Weight::Own);
            })?;
            store(context, target, &shown, reply)
        }
        None => {
            reply.array(plan.range.len() * plan.get.len().max(1));
            show(context, sorted, &plan, &mut |one| match one {
                Some(one) => reply.bulk(one),
                None => reply.null(),
            })
        }
    }
}

/// Puts elements in order, in the turn itself.
fn sort_at_once(
    context: &mut Context<'_, '_>,
    mut run: Run,
    (plan, is_turned): (&Plan, bool),
) -> Result<Merge, Failure> {
    for at in 0..run.len() {
        plan.weigh((&mut run, at), &mut InTurn(context))?;
    }
    let mut sorted = Merge::new(plan.order);
    sorted.add(run);
    if is_turned {
        sorted.turn_round();
    }
    sorted.begin();
    Ok(sorted)
}

/// Gives to `shown` what is asked for of elements.
fn show(
    context: &mut Context<'_, '_>,
    mut sorted: Merge,
    plan: &Plan,
    shown: &mut dyn FnMut(Option<&[u8]>),
) -> Outcome {
    for at in 0..plan.range.end {
        let Some((run, next)) = sorted.next() else { break };
        if at >= plan.range.start {
            plan.show(run.element(next), &mut InTurn(context), shown)?;
        }
        sorted.pass();
    }
    Ok(())
}

/// Whether elements may be read in later turns. What is looked up there and missed is not published, and what is looked up for
/// what is stored is not watched.
fn may_sort_later(context: &Context<'_, '_>, query: &Query<'_>, plan: &Plan) -> bool {
    let looks_up = plan.looks_up_weights() || plan.looks_up_shown();
    let publishes = context.shared.settings.notified.has(Classes::MISS);
    let is_whole = looks_up && (publishes || query.target.is_some());
    context.session.may_list_later() && !is_whole
}

/// Puts a list under a key, in the place of what is there.
fn store(context: &mut Context<'_, '_>, key: &[u8], elements: &Run, reply: &mut Reply) -> Outcome {
    reply.integer(elements.len() as i64);
    if elements.len() == 0 {
        remove(context, key)?;
        return send_state(context, key);
    }
    let place = (context.session.db, key);
    context.data.atomically(elements.size(), |data| {
        let mut list = List::replace(data, place);
        elements.iter().try_for_each(|(element, _)| list.push(End::Right, element))?;
        list.save()
    })?;
    notify(context, Classes::LIST, "sortstore", key);
    send_state(context, key)
}

fn sort(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    run(context, args, true, reply)
}

fn sort_ro(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    run(context, args, false, reply)
}
