//! The scripts of a structure, in the order in which they are explored, and their names.

use tembo_sim::Random;

use crate::subject::{Script, Subject};

/// Operations in a sequence made by chance.
const RANDOM_OPS: usize = 25;

/// The script of short sequence `ops`, by their numbers in the alphabet.
fn short<S: Subject>(subject: &S, start: usize, ops: &[usize]) -> Option<Script<S::Op>> {
    let alphabet = subject.alphabet();
    let numbers: Vec<String> = ops.iter().map(usize::to_string).collect();
    let name = format!("short.{start}.{}", numbers.join("."));
    let chosen = ops.iter().map(|&op| alphabet.get(op).cloned()).collect::<Option<Vec<_>>>()?;
    // What comes before the last operation is explored by a shorter sequence; the opening by one.
    let first = if ops == [0] { 0 } else { ops.len() };
    Some(Script { first, ..Script::new(name, start, chosen) })
}

/// A sequence made by chance.
fn random<S: Subject>(subject: &S, seed: u64) -> Script<S::Op> {
    let mut random = Random::new(seed);
    let starts = subject.starts().len();
    let start = if starts > 1 { 1 + random.below(starts - 1) } else { 0 };
    let ops = (0..RANDOM_OPS).map(|_| subject.random_op(&mut random)).collect();
    Script::new(format!("random.{seed}"), start, ops)
}

/// Every short sequence of `len` operations.
fn all_short<S: Subject>(subject: &S, len: u32) -> impl Iterator<Item = Script<S::Op>> + Send {
    let (starts, letters) = (subject.starts().len(), subject.alphabet().len());
    (1..starts).flat_map(move |start| {
        (0..letters.pow(len)).filter_map(move |number| {
            let digits = (0..len).rev().map(|digit| number / letters.pow(digit) % letters);
            short(subject, start, &digits.collect::<Vec<_>>())
        })
    })
}

/// All workloads: what once found something, all sequences of up to three operations among
/// sequences made by chance, then only those, without end.
pub(crate) fn all<S: Subject>(
    subject: &S,
    seed: u64,
) -> impl Iterator<Item = Script<S::Op>> + Send + use<'_, S>
where
    S::Op: Send,
{
    let first = subject.scripts().into_iter().chain(all_short(subject, 1));
    let mut exhaustive = all_short(subject, 2).chain(all_short(subject, 3));
    let mut chance = (seed..).map(move |seed| random(subject, seed));
    let mut number = 0_u64;
    let mixed = std::iter::from_fn(move || {
        number += 1;
        if number.is_multiple_of(8) {
            return chance.next();
        }
        exhaustive.next().or_else(|| chance.next())
    });
    first.chain(mixed)
}

/// A few of each kind: what a proof looks at.
pub(crate) fn some<S: Subject>(subject: &S, seed: u64) -> Vec<Script<S::Op>> {
    let mut list = subject.scripts();
    list.extend(all_short(subject, 1).map(from_opening));
    list.extend((seed..seed + 30).map(|seed| random(subject, seed)));
    list
}

fn from_opening<Op>(script: Script<Op>) -> Script<Op> {
    Script { first: 0, ..script }
}

/// The workload of that name.
pub(crate) fn named<S: Subject>(subject: &S, name: &str) -> Option<Script<S::Op>> {
    if let Some(seed) = name.strip_prefix("random.") {
        return Some(random(subject, seed.parse().ok()?));
    }
    if let Some(numbers) = name.strip_prefix("short.") {
        let numbers: Vec<usize> =
            numbers.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
        let (start, ops) = numbers.split_first()?;
        return short(subject, *start, ops);
    }
    subject.scripts().into_iter().find(|script| script.name == name)
}
