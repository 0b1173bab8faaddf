//! FAILOVER: a replica takes the place of this server.

use crate::args::Args;
use crate::command::{ADMIN, Command, Context};
use crate::commands::argument::integer;
use crate::commands::replication::settle;
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] = &[Command::new("failover", -1, ADMIN, failover)];

/// What is asked for.
#[derive(Default)]
struct Options {
    target: Option<(String, u16)>,
    timeout_ms: Option<u64>,
    is_forced: bool,
    aborts: bool,
}

impl Options {
    fn parse(args: Args<'_>) -> Result<Options, Failure> {
        let mut options = Options::default();
        let mut at = 1;
        while at < args.count() {
            if args.is(at, "TIMEOUT") && at + 1 < args.count() && options.timeout_ms.is_none() {
                let timeout_ms = u64::try_from(integer(args.at(at + 1))?).unwrap_or(0);
                if timeout_ms == 0 {
                    return Err("ERR FAILOVER timeout must be greater than 0".into());
                }
                options.timeout_ms = Some(timeout_ms);
                at += 1;
            } else if args.is(at, "ABORT") {
                options.aborts = true;
            } else if args.is(at, "TO") && at + 2 < args.count() && options.target.is_none() {
                let host = String::from_utf8_lossy(args.at(at + 1)).into_owned();
                let port = u16::try_from(integer(args.at(at + 2))?);
                let port = port.map_err(|_| "ERR value is out of range")?;
                options.target = Some((host, port));
                at += 2;
            } else if args.is(at, "FORCE") && options.target.is_some() {
                options.is_forced = true;
            } else {
                return Err(SYNTAX.into());
            }
            at += 1;
        }
        Ok(options)
    }
}

fn failover(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let options = Options::parse(args)?;
    let shared = &mut *context.shared;
    let replication = &mut shared.replication;
    if options.aborts && args.count() > 2 {
        return Err(SYNTAX.into());
    }
    if options.aborts {
        if !replication.abort_failover(context.data, &mut shared.pause) {
            return Err("ERR No failover in progress.".into());
        }
        reply.ok();
        return settle(context);
    }
    if replication.is_failing_over() {
        return Err("ERR FAILOVER already in progress.".into());
    }
    if replication.following().is_some() {
        return Err("ERR FAILOVER is not valid when server is a replica.".into());
    }
    if replication.replicas.iter().next().is_none() {
        return Err("ERR FAILOVER requires connected replicas.".into());
    }
    if options.is_forced && (options.timeout_ms.is_none() || options.target.is_none()) {
        return Err(
            "ERR FAILOVER with force option requires both a timeout and target HOST and IP.".into(),
        );
    }
    if let Some((host, port)) = &options.target {
        let mut all = replication.replicas.iter();
        match all.find(|replica| replica.ip == *host && replica.port == *port) {
            None => return Err("ERR FAILOVER target HOST and PORT is not a replica.".into()),
            Some(replica) if !replica.is_online() => {
                return Err("ERR FAILOVER target replica is not online.".into());
            }
            Some(_) => {}
        }
    }
    let now_ms = shared.clock.steady_ms;
    let deadline_ms = options.timeout_ms.map(|timeout_ms| now_ms.saturating_add(timeout_ms));
    let held = (&mut shared.pause, now_ms);
    replication.begin_failover(options.target, (deadline_ms, options.is_forced), held);
    reply.ok();
    Ok(())
}
