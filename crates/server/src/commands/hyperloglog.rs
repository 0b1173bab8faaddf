//! Counting different elements: PFADD, PFCOUNT, PFMERGE, PFDEBUG.

use tembo_kv::Error;

use crate::access::Access;
use crate::args::Args;
use crate::command::{ADMIN, Command, Context, DENY_OOM, FAST, READ, REPLICATED, WRITE};
use crate::event_class::Classes;
use crate::failure::{Failure, Outcome};
use crate::hyperloglog::{Corrupted, HyperLogLog, REGISTERS, Run, estimate, place};
use crate::notify::notify;
use crate::number::Decimal;
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] = &[
    Command::keyed("pfadd", -2, WRITE | DENY_OOM | FAST, (1, 1, 1), pfadd),
    Command::keyed("pfcount", -2, READ | REPLICATED, (1, -1, 1), pfcount),
    Command::keyed("pfmerge", -2, WRITE | DENY_OOM, (1, -1, 1), pfmerge),
    Command::new("pfselftest", 1, ADMIN, pfselftest),
    Command::keyed("pfdebug", 3, WRITE | DENY_OOM | ADMIN, (2, 2, 1), pfdebug),
];

impl From<Corrupted> for Failure {
    fn from(_: Corrupted) -> Failure {
        "INVALIDOBJ Corrupted HLL object detected".into()
    }
}

/// Elements of the self test.
const SELF_TEST_MAX: u64 = 10_000;

/// The HyperLogLog under a key, and when it expires.
fn load(
    context: &mut Context<'_, '_>,
    key: &[u8],
) -> Result<Option<(HyperLogLog, Option<u64>)>, Failure> {
    const NONE: &str = "WRONGTYPE Key is not a valid HyperLogLog string value.";
    let Some(found) = context.data.get(context.session.db, key)? else { return Ok(None) };
    let log = HyperLogLog::from_bytes(found.payload.to_vec()).ok_or(NONE)?;
    Ok(Some((log, found.expiry_ms)))
}

fn pfadd(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let found = load(context, args.at(1))?;
    let mut changed = found.is_none();
    let (mut log, expiry_ms) = found.unwrap_or_else(|| (HyperLogLog::new(), None));
    let size_max = context.shared.settings.hll_sparse_size_max;
    for element in args.from(2) {
        changed |= log.raise(place(element), size_max)?;
    }
    if changed {
        log.forget();
        context.data.put(context.session.db, args.at(1), log.as_bytes(), expiry_ms)?;
        notify(context, Classes::STRING, "pfadd", args.at(1));
    }
    reply.flag(changed);
    Ok(())
}

fn pfcount(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let mut registers = vec![0; REGISTERS];
    if args.count() > 2 {
        for key in args.from(1) {
            if let Some((log, _)) = load(context, key)? {
                raise_all(&mut registers, &log)?;
            }
        }
        reply.integer(estimate(&registers) as i64);
        return Ok(());
    }
    let Some((mut log, expiry_ms)) = load(context, args.at(1))? else {
        reply.integer(0);
        return Ok(());
    };
    if let Some(kept) = log.kept() {
        reply.integer(kept as i64);
        return Ok(());
    }
    raise_all(&mut registers, &log)?;
    let estimate = estimate(&registers);
    log.keep(estimate);
    if context.data.access() == Access::Open {
        match context.data.put(context.session.db, args.at(1), log.as_bytes(), expiry_ms) {
            // The count is right all the same; it is made again the next time.
            Err(Failure::Store(Error::Full { .. })) => {}
            kept => kept?,
        }
    }
    reply.integer(estimate as i64);
    Ok(())
}

/// Raises the registers to those of a HyperLogLog.
fn raise_all(registers: &mut [u8], log: &HyperLogLog) -> Result<(), Corrupted> {
    log.visit(|index, value| registers[index] = registers[index].max(value))
}

fn pfmerge(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (mut registers, mut is_dense, mut to) = (vec![0; REGISTERS], false, None);
    for at in 1..args.count() {
        let Some((log, expiry_ms)) = load(context, args.at(at))? else { continue };
        is_dense |= log.is_dense();
        raise_all(&mut registers, &log)?;
        if at == 1 {
            to = Some((log, expiry_ms));
        }
    }
    let (mut log, expiry_ms) = to.unwrap_or_else(|| (HyperLogLog::new(), None));
    if is_dense {
        log.make_dense()?;
    }
    let size_max = context.shared.settings.hll_sparse_size_max;
    for (index, &value) in registers.iter().enumerate() {
        if value > 0 {
            log.raise((index, value), size_max)?;
        }
    }
    log.forget();
    context.data.put(context.session.db, args.at(1), log.as_bytes(), expiry_ms)?;
    notify(context, Classes::STRING, "pfadd", args.at(1));
    reply.ok();
    Ok(())
}

fn pfdebug(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let found = load(context, args.at(2))?;
    let (mut log, expiry_ms) = found.ok_or("ERR The specified key does not exist")?;
    let was_dense = log.is_dense();
    if args.is(1, "GETREG") || args.is(1, "TODENSE") {
        log.make_dense()?;
        if !was_dense {
            context.data.put(context.session.db, args.at(2), log.as_bytes(), expiry_ms)?;
        }
    }
    if args.is(1, "GETREG") {
        let mut registers = vec![0; REGISTERS];
        raise_all(&mut registers, &log)?;
        reply.array(REGISTERS);
        registers.iter().for_each(|&register| reply.integer(i64::from(register)));
    } else if args.is(1, "DECODE") {
        if was_dense {
            return Err("ERR HLL encoding is not sparse".into());
        }
        let runs: Vec<String> = log.runs().map(run_text).collect();
        reply.bulk(runs.join(" ").as_bytes());
    } else if args.is(1, "ENCODING") {
        reply.simple(if was_dense { "dense" } else { "sparse" });
    } else if args.is(1, "TODENSE") {
        reply.flag(!was_dense);
    } else {
        let name = String::from_utf8_lossy(args.at(1)).into_owned();
        return Err(format!("ERR Unknown PFDEBUG subcommand '{name}'").into());
    }
    Ok(())
}

/// Compares a sparse and a dense HyperLogLog that get the same elements, and their estimates with how many there are.
fn pfselftest(_: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let (mut sparse, mut dense) = (HyperLogLog::new(), HyperLogLog::new());
    dense.make_dense()?;
    let mut checked = 1;
    for number in 1..=SELF_TEST_MAX {
        let place = place(Decimal::unsigned(number).as_bytes());
        if sparse.raise(place, usize::MAX)? != dense.raise(place, usize::MAX)? {
            return Err(
                format!("ERR TESTFAILED the two encodings differ at element {number}").into()
            );
        }
        if number != checked {
            continue;
        }
        checked *= 10;
        for (log, encoding) in [(&sparse, "sparse"), (&dense, "dense")] {
            let mut registers = vec![0; REGISTERS];
            raise_all(&mut registers, log)?;
            let estimate = estimate(&registers);
            // Six standard errors: the elements are always the same, and so is what comes of them.
            let error_max = (number as f64 * 6.0 * 1.04 / (REGISTERS as f64).sqrt()).ceil() as u64;
            if estimate.abs_diff(number) > error_max {
                return Err(
                    format!("ERR TESTFAILED {encoding}: {estimate} instead of {number}").into()
                );
            }
        }
    }
    reply.ok();
    Ok(())
}

fn run_text(run: Run) -> String {
    match run {
        Run::Zeros(length) if length <= 64 => format!("z:{length}"),
        Run::Zeros(length) | Run::LongZeros(length) => format!("Z:{length}"),
        Run::Value { value, length } => format!("v:{value},{length}"),
    }
}
