//! Which arguments of a command are keys, and whether it reads or writes them: Redis's key specifications.

use crate::args::Args;
use crate::number::parse_integer;

/// What a command does with a key. One that does neither, such as EXISTS, needs either permission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyUse {
    /// It reads what is there.
    pub(crate) reads: bool,
    /// It changes it.
    pub(crate) writes: bool,
}

const READS: KeyUse = KeyUse { reads: true, writes: false };
const WRITES: KeyUse = KeyUse { reads: false, writes: true };
const BOTH: KeyUse = KeyUse { reads: true, writes: true };

/// Where some keys of a command are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeySpec {
    used: KeyUse,
    begin: Begin,
    find: Find,
    /// Nothing can be concluded from it alone.
    is_incomplete: bool,
    /// What is done with the key depends on the options.
    is_variable: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Begin {
    Index(usize),
    /// Behind a word, which is looked for from an argument on; if it is negative, from the end towards the beginning.
    Keyword(String, i32),
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Find {
    /// Up to the last key (negative: from the end), so many arguments apart; in the first part of as many as the limit says.
    Range {
        last: i32,
        step: usize,
        limit: usize,
    },
    /// Where the number of keys is, and the first of them; both from the beginning.
    Number {
        at: usize,
        first: usize,
    },
    Unknown,
}

impl KeySpec {
    /// The specifications of one command, from the text in `facts.tsv`: `notes|flags|begin|find`, separated by `;`.
    pub(crate) fn parse_all(text: &str) -> Vec<KeySpec> {
        text.split(';').filter_map(KeySpec::parse).collect()
    }

    /// None if the arguments that it finds are no keys.
    fn parse(text: &str) -> Option<KeySpec> {
        let mut columns = text.split('|').skip(1);
        let flags: Vec<&str> = columns.next()?.split(',').collect();
        let has = |flag: &str| flags.contains(&flag);
        if has("not_key") {
            return None;
        }
        let begin: Vec<&str> = columns.next()?.split(':').collect();
        let find: Vec<&str> = columns.next()?.split(':').collect();
        let number = |words: &[&str], at: usize| -> i32 {
            words.get(at).and_then(|word| word.parse().ok()).unwrap_or(0)
        };
        let from_zero = |words: &[&str], at: usize| number(words, at).max(0) as usize;
        Some(KeySpec {
            used: KeyUse {
                reads: has("access"),
                writes: has("insert") || has("delete") || has("update"),
            },
            begin: match begin[0] {
                "index" => Begin::Index(from_zero(&begin, 1)),
                "keyword" => Begin::Keyword(begin.get(1)?.to_string(), number(&begin, 2)),
                _ => Begin::Unknown,
            },
            find: match find[0] {
                "range" => Find::Range {
                    last: number(&find, 1),
                    step: from_zero(&find, 2).max(1),
                    limit: from_zero(&find, 3),
                },
                "keynum" => Find::Number { at: from_zero(&find, 1), first: from_zero(&find, 2) },
                _ => Find::Unknown,
            },
            is_incomplete: has("incomplete"),
            is_variable: has("variable_flags"),
        })
    }

    /// The specification of keys that are read and written, from first key, last key and step.
    pub(crate) fn of_range((first, last, step): (i32, i32, i32)) -> Vec<KeySpec> {
        let (Ok(from), Ok(step @ 1..)) = (usize::try_from(first), usize::try_from(step)) else {
            return Vec::new();
        };
        let last = if last < 0 { last } else { last - first };
        let find = Find::Range { last, step, limit: 0 };
        let begin = Begin::Index(from);
        let spec = KeySpec { used: BOTH, begin, find, is_incomplete: false, is_variable: false };
        if from == 0 { Vec::new() } else { vec![spec] }
    }

    /// Appends the keys that it finds; none if the arguments do not fit it.
    fn find(&self, args: Args<'_>, keys: &mut Vec<(usize, KeyUse)>) -> Option<()> {
        let count = args.count();
        let begin = match &self.begin {
            Begin::Index(at) => *at,
            Begin::Keyword(word, from) => match behind_keyword(args, word, *from) {
                Some(at) => at,
                // The option is not there.
                None => return Some(()),
            },
            Begin::Unknown => return None,
        };
        let (first, last, step) = match self.find {
            Find::Range { last, step, limit } => {
                let from_end = usize::try_from(last.unsigned_abs()).ok()?;
                let last = match last {
                    0.. => begin + from_end,
                    _ if limit == 0 => count.checked_sub(from_end)?,
                    _ => (begin + count.checked_sub(begin)? / limit).checked_sub(from_end)?,
                };
                (begin, last, step)
            }
            Find::Number { at, first } => {
                if begin + at >= count {
                    return None;
                }
                let number = usize::try_from(parse_integer(args.at(begin + at))?).ok()?;
                let first = begin + first;
                (first, first.checked_add(number)?.checked_sub(1)?, 1)
            }
            Find::Unknown => return None,
        };
        if last >= count || last < first {
            return None;
        }
        keys.extend((first..=last).step_by(step).map(|at| (at, self.used)));
        (!self.is_incomplete).then_some(())
    }
}

/// The place behind a word.
fn behind_keyword(args: Args<'_>, word: &str, from: i32) -> Option<usize> {
    let count = args.count();
    let is_it = |at: &usize| args.at(*at).eq_ignore_ascii_case(word.as_bytes());
    let found = match usize::try_from(from) {
        Ok(from) => (from.max(1)..count.saturating_sub(1)).find(is_it),
        Err(_) => {
            let from = count.checked_sub(from.unsigned_abs() as usize)?;
            (2..=from).rev().find(is_it)
        }
    };
    found.map(|at| at + 1)
}

/// The keys of a request, and what its command does with each. A request whose arguments do not fit has none: its command
/// refuses it.
pub(crate) fn keys_of(name: &str, specs: &[KeySpec], args: Args<'_>) -> Vec<(usize, KeyUse)> {
    let mut keys = Vec::new();
    match name {
        // The last destination counts, and each specification finds the first.
        "georadius" => return keys_of_georadius(args, GEORADIUS_OPTIONS),
        "georadiusbymember" => return keys_of_georadius(args, GEORADIUS_OPTIONS - 1),
        _ => {}
    }
    if !specs.iter().any(|spec| spec.is_variable) {
        let fits = specs.iter().try_for_each(|spec| spec.find(args, &mut keys));
        if fits.is_some() {
            return keys;
        }
    }
    keys.clear();
    match name {
        "set" => keys.push((1, use_of_set(args))),
        "bitfield" => keys.push((1, use_of_bitfield(args))),
        "sort" | "sort_ro" => keys_of_sort(args, &mut keys),
        "migrate" => keys_of_migrate(args, &mut keys),
        _ => {}
    }
    keys
}

fn use_of_set(args: Args<'_>) -> KeyUse {
    if (3..args.count()).any(|at| args.is(at, "GET")) { BOTH } else { WRITES }
}

fn use_of_bitfield(args: Args<'_>) -> KeyUse {
    let mut at = 2;
    while at < args.count() {
        let left = args.count() - at - 1;
        if args.is(at, "GET") && left >= 2 {
            at += 3;
        } else if args.is(at, "OVERFLOW") && left >= 1 {
            at += 2;
        } else {
            return BOTH;
        }
    }
    READS
}

/// Where the options of GEORADIUS begin.
const GEORADIUS_OPTIONS: usize = 6;

fn keys_of_georadius(args: Args<'_>, options: usize) -> Vec<(usize, KeyUse)> {
    let is_option = |at: &usize| args.is(*at, "STORE") || args.is(*at, "STOREDIST");
    let destinations = (options..args.count().saturating_sub(1)).filter(is_option);
    let mut keys = vec![(1, READS)];
    keys.extend(destinations.map(|at| (at + 1, WRITES)));
    keys
}

fn keys_of_sort(args: Args<'_>, keys: &mut Vec<(usize, KeyUse)>) {
    keys.push((1, READS));
    let (mut at, mut store) = (2, None);
    while at < args.count() {
        if args.is(at, "LIMIT") {
            at += 2;
        } else if args.is(at, "GET") || args.is(at, "BY") {
            at += 1;
        } else if args.is(at, "STORE") && at + 1 < args.count() {
            store = Some(at + 1);
        }
        at += 1;
    }
    keys.extend(store.map(|at| (at, WRITES)));
}

fn keys_of_migrate(args: Args<'_>, keys: &mut Vec<(usize, KeyUse)>) {
    let mut at = 6;
    while at < args.count() {
        if args.is(at, "KEYS") {
            // With a key beside them the command refuses the request.
            if args.at(3).is_empty() {
                keys.extend((at + 1..args.count()).map(|at| (at, BOTH)));
            }
            return;
        }
        at += match () {
            () if args.is(at, "AUTH") => 2,
            () if args.is(at, "AUTH2") => 3,
            () => 1,
        };
    }
    keys.push((3, BOTH));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Kept;

    fn keys(name: &str, specs: &str, request: &str) -> Vec<String> {
        let words = request.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        let kept = Kept::of(words);
        let args = kept.args();
        let shown = |(at, used): (usize, KeyUse)| {
            let key = String::from_utf8_lossy(args.at(at)).into_owned();
            let letter = |is: bool, letter: &'static str| if is { letter } else { "" };
            format!("{key}:{}{}", letter(used.reads, "r"), letter(used.writes, "w"))
        };
        keys_of(name, &KeySpec::parse_all(specs), args).into_iter().map(shown).collect()
    }

    #[test]
    fn keys_are_found_where_the_specifications_say() {
        let get = "|RO,access|index:1|range:0:1:0";
        assert_eq!(keys("get", get, "get a"), ["a:r"]);
        assert_eq!(keys("mset", "|OW,update|index:1|range:-1:2:0", "mset a 1 b 2"), ["a:w", "b:w"]);
        let store = "|OW,update|index:1|range:0:1:0;|RO,access|index:2|keynum:0:1:1";
        assert_eq!(keys("zunionstore", store, "zunionstore d 2 a b"), ["d:w", "a:r", "b:r"]);
        assert!(keys("zunionstore", store, "zunionstore d 3 a b").is_empty());
        assert!(keys("zunionstore", store, "zunionstore d -1 a b").is_empty());
        let read = "|RO,access|keyword:STREAMS:1|range:-1:1:2";
        assert_eq!(keys("xread", read, "xread COUNT 5 streams a b 0 0"), ["a:r", "b:r"]);
        let group = "|RO,access|keyword:STREAMS:4|range:-1:1:2";
        assert_eq!(keys("xreadgroup", group, "xreadgroup GROUP streams c STREAMS a >"), ["a:r"]);
        assert_eq!(keys("exists", "|RO|index:1|range:-1:1:0", "exists a b"), ["a:", "b:"]);
        assert!(keys("publish", "|not_key|index:1|range:0:1:0", "spublish a b").is_empty());
    }

    /// Of several destinations the command takes the last: a user that may write the first may not write that by it.
    #[test]
    fn each_destination_of_georadius_is_a_key() {
        let one = "|RO,access|index:1|range:0:1:0;|OW,update|keyword:STORE:6|range:0:1:0";
        let found = keys("georadius", one, "georadius a 0 0 1 km store b STOREDIST c store d");
        assert_eq!(found, ["a:r", "b:w", "c:w", "d:w"]);
        let found = keys("georadiusbymember", one, "georadiusbymember a store 1 km store b store");
        assert_eq!(found, ["a:r", "b:w"]);
    }

    #[test]
    fn options_decide_what_is_done_with_the_key() {
        let set = "|RW,access,update,variable_flags|index:1|range:0:1:0";
        assert_eq!(keys("set", set, "set a get"), ["a:w"]);
        assert_eq!(keys("set", set, "set a b ex 5 Get"), ["a:rw"]);
        assert_eq!(keys("bitfield", set, "bitfield a get u4 0 overflow sat"), ["a:r"]);
        assert_eq!(keys("bitfield", set, "bitfield a get u4 0 incrby u4 0 1"), ["a:rw"]);
        let sort = "|RO,access|index:1|range:0:1:0;|RO,access|unknown|unknown";
        assert_eq!(keys("sort", sort, "sort a by store get store store b"), ["a:r", "b:w"]);
        let migrate = "|RW,access,delete|index:3|range:0:1:0;\
                       |RW,access,delete,incomplete|keyword:KEYS:-2|range:-1:1:0";
        assert_eq!(keys("migrate", migrate, "migrate h p k 0 5"), ["k:rw"]);
        assert_eq!(
            keys("migrate", migrate, "migrate h p  0 5 AUTH keys keys a b"),
            ["a:rw", "b:rw"]
        );
    }
}
