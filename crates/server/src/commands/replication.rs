//! Replication: REPLICAOF, ROLE, WAIT, and what replicas send.

use std::fmt::Write;

use crate::args::{Args, Kept};
use crate::command::{ADMIN, BLOCKING, Command, Context, FAST, NO_MULTI};
use crate::commands::argument::integer;
use crate::failure::{Failure, Outcome};
use crate::format::Kind;
use crate::goal::Goal;
use crate::number::parse_integer;
use crate::replication::{Follower, HOST_SIZE_MAX, Mark, Stage};
use crate::reply::Reply;
use crate::waiting::{Wait, WaitEnd};

/// The family.
pub(super) const COMMANDS: &[Command] = &[
    Command::new("replicaof", 3, ADMIN, replicaof),
    Command::new("slaveof", 3, ADMIN, replicaof),
    Command::new("role", 1, FAST, role),
    Command::new("replconf", -1, ADMIN, replconf),
    Command::new("tembo.sync", -1, ADMIN | NO_MULTI, tembo_sync),
    Command::new("wait", 3, BLOCKING, wait),
    Command::new("waitaof", 4, BLOCKING, waitaof),
];

fn replicaof(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let client = Some(context.session.token);
    let replication = &mut context.shared.replication;
    if replication.is_failing_over() {
        return Err("ERR REPLICAOF not allowed while failing over.".into());
    }
    if args.is(1, "NO") && args.is(2, "ONE") {
        replication.promote_later(context.data, client);
        reply.ok();
        return settle(context);
    }
    let port = parse_integer(args.at(2)).and_then(|port| u16::try_from(port).ok());
    let port = port.ok_or("ERR Invalid master port")?;
    if context.data.is_read_only() {
        return Err("ERR a server that serves its pool read-only cannot be a replica".into());
    }
    let host = std::str::from_utf8(args.at(1)).ok().filter(|host| host.len() <= HOST_SIZE_MAX);
    let host = host.ok_or("ERR Invalid master host")?;
    if replication.follow_later(context.data, (host.to_owned(), port), client) {
        reply.ok();
    } else {
        reply.simple("OK Already connected to specified master");
    }
    settle(context)
}

/// Does at once what was asked for; within EXEC nothing may be committed, and the end of the turn does it.
pub(super) fn settle(context: &mut Context<'_, '_>) -> Outcome {
    if !context.session.executing {
        context.commit_early()?;
        let now_ms = context.shared.clock.steady_ms;
        // Nothing of the turn is open: if it is refused, so is this command alone.
        context.shared.replication.settle(context.data, now_ms)?;
    }
    Ok(())
}

fn role(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let shared = &*context.shared;
    if let Some(following) = shared.replication.following() {
        reply.array(5);
        reply.bulk(b"slave");
        reply.bulk(following.primary.0.as_bytes());
        reply.integer(i64::from(following.primary.1));
        reply.bulk(following.stage.name().as_bytes());
        let is_known = following.stage == Stage::Connected;
        reply.integer(if is_known { following.shown_version() as i64 } else { -1 });
        return Ok(());
    }
    let online: Vec<Follower<'_>> =
        shared.replication.followers().filter(|replica| replica.is_online).collect();
    reply.array(3);
    reply.bulk(b"master");
    reply.integer(shared.replication.shown_offset(shared.report.durable) as i64);
    reply.array(online.len());
    for replica in online {
        reply.array(3);
        reply.bulk(replica.ip.as_bytes());
        reply.bulk(replica.port.to_string().as_bytes());
        reply.bulk(replica.reached.to_string().as_bytes());
    }
    Ok(())
}

/// What a server of Redis says of itself and is not needed.
const IGNORED: [&str; 4] = ["GETACK", "RDB-FILTER-ONLY", "RDB-ONLY", "VERSION"];

fn replconf(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.count().is_multiple_of(2) {
        return Err("ERR syntax error".into());
    }
    for at in (1..args.count()).step_by(2) {
        let value = args.at(at + 1);
        if args.is(at, "ACK") {
            if context.session.is_replica {
                let reached = u64::try_from(integer(value)?);
                let reached = reached.map_err(|_| "ERR value is out of range")?;
                let durable =
                    if args.is(at + 2, "FACK") { integer(args.at(at + 3)).ok() } else { None };
                let durable = durable.and_then(|place| u64::try_from(place).ok());
                let (token, now_ms) = (context.session.token, context.shared.clock.steady_ms);
                let replication = &mut context.shared.replication;
                let met = replication.acknowledge(token, (reached, durable), now_ms);
                context.shared.released.extend(met.into_iter().map(|token| (token, WaitEnd::Due)));
            }
            // It is never replied to.
            return Ok(());
        }
        if args.is(at, "LISTENING-PORT") {
            let port = u16::try_from(integer(value)?);
            context.session.replica_port = port.map_err(|_| "ERR value is out of range")?;
        } else if args.is(at, "IP-ADDRESS") {
            if value.len() > HOST_SIZE_MAX {
                let what = "REPLCONF ip-address provided by replica instance is too long";
                return Err(format!("ERR {what}: {} bytes", value.len()).into());
            }
            context.session.replica_ip = Some(String::from_utf8_lossy(value).into_owned());
        } else if args.is(at, "CAPA") {
            context.session.takes_unsized |= args.is(at + 1, "EOF");
        } else if !IGNORED.iter().any(|option| args.is(at, option)) {
            let option = String::from_utf8_lossy(args.at(at)).into_owned();
            return Err(format!("ERR Unrecognized REPLCONF option: {option}").into());
        }
    }
    reply.ok();
    Ok(())
}

/// `TEMBO.SYNC [history version]...`: everything after one of the versions that the replica holds, or all. What is replied
/// is no RESP from here on: see docs/formats/replication.md.
fn tembo_sync(context: &mut Context<'_, '_>, args: Args<'_>, _: &mut Reply) -> Outcome {
    if args.count().is_multiple_of(2) {
        return Err("ERR syntax error".into());
    }
    if !context.session.can_be_fed() {
        return Err("ERR the connection cannot be a replica's".into());
    }
    let mark = |at: usize| {
        let version =
            u64::try_from(integer(args.at(at + 1))?).map_err(|_| "ERR invalid version")?;
        Ok(Mark { id: String::from_utf8_lossy(args.at(at)).into_owned(), version })
    };
    let held: Result<Vec<Mark>, Failure> = (1..args.count()).step_by(2).map(mark).collect();
    let session = &mut *context.session;
    context.shared.replication.feed_later(session.token, held?);
    session.become_replica();
    Ok(())
}

/// What a WAIT waits for.
struct Wanted {
    replicas: usize,
    timeout_ms: u64,
    /// A replica must have it on its disk. Replicas that are servers of Tembo say nothing else.
    durably: bool,
}

fn wanted(count: &[u8], timeout: &[u8], durably: bool) -> Result<Wanted, Failure> {
    let replicas = integer(count)?;
    let timeout_ms =
        parse_integer(timeout).ok_or("ERR timeout is not an integer or out of range")?;
    let timeout_ms = u64::try_from(timeout_ms).map_err(|_| "ERR timeout is negative")?;
    let replicas = usize::try_from(replicas);
    Ok(Wanted {
        replicas: replicas.map_err(|_| "ERR value is out of range, must be positive")?,
        timeout_ms,
        durably,
    })
}

const WAIT_ON_REPLICA: &str = "ERR WAIT cannot be used with replica instances. Please also note that since Redis \
    4.0 if a replica is configured to be writable (which is not the default) writes to replicas are just local and are \
    not propagated.";
const WAITAOF_ON_REPLICA: &str = "ERR WAITAOF cannot be used with replica instances. Please also note that writes to \
    replicas are just local and are not propagated.";

/// How many replicas hold all that was written before; `None`: the client waits for more.
fn count_or_wait(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    wanted: &Wanted,
) -> Result<Option<usize>, Failure> {
    if context.shared.replication.following().is_some() {
        return Err(if args.is(0, "WAITAOF") { WAITAOF_ON_REPLICA } else { WAIT_ON_REPLICA }.into());
    }
    let (session, shared) = (&mut *context.session, &mut *context.shared);
    if session.served.is_some() {
        // The wait is over: how far they have come by its end.
        return Ok(Some(shared.replication.count(session.wait_goal)));
    }
    let (_, place) = shared.replication.redis.bounds();
    let durably = wanted.durably;
    if session.executing {
        // What the transaction itself has written does not count, and is not in the turn's effects yet.
        let place = place + shared.propagation.size() as u64;
        let goal = Goal { version: session.wait_goal.version, place, durably };
        return Ok(Some(shared.replication.count(goal)));
    }
    let version = context.commit_early()?.visible();
    let (session, shared) = (&mut *context.session, &mut *context.shared);
    let place = place + shared.propagation.size() as u64;
    let goal = Goal { version, place, durably };
    let count = shared.replication.count(goal);
    if count >= wanted.replicas || !session.may_wait || !session.can_wait {
        return Ok(Some(count));
    }
    if shared.replication.redis.iter().next().is_some() {
        shared.propagation.send(&[b"REPLCONF", b"GETACK", b"*"]);
    }
    shared.replication.await_goal(session.token, goal, wanted.replicas);
    session.wait_goal = goal;
    let deadline_ms = context.shared.clock.steady_ms.saturating_add(wanted.timeout_ms);
    session.waits_for = Some(Box::new(Wait {
        command: Kept::new(args),
        kind: Kind::String,
        db: session.db,
        keys: Vec::new(),
        deadline_ms: (wanted.timeout_ms > 0).then_some(deadline_ms),
        needs_key: false,
    }));
    Ok(None)
}

fn wait(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let wanted = wanted(args.at(1), args.at(2), false)?;
    if let Some(count) = count_or_wait(context, args, &wanted)? {
        reply.integer(count as i64);
    }
    Ok(())
}

/// Here no reply leaves before what it shows is durable in this store: the first number is 1, where durability is promised.
fn waitaof(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let local = match integer(args.at(1))? {
        local @ 0..=1 => local,
        _ => return Err("ERR value is out of range, must be between 0 and 1".into()),
    };
    let wanted = wanted(args.at(2), args.at(3), true)?;
    let is_durable = context.shared.report.domain != "volatile";
    if local == 1 && !is_durable {
        return Err(
            "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.".into()
        );
    }
    if let Some(count) = count_or_wait(context, args, &wanted)? {
        reply.array(2);
        reply.integer(i64::from(is_durable));
        reply.integer(count as i64);
    }
    Ok(())
}

/// The section of INFO.
pub(super) fn info(context: &Context<'_, '_>, text: &mut String) {
    let shared = &*context.shared;
    let (replication, now_ms) = (&shared.replication, shared.clock.steady_ms);
    let mut put = |line: std::fmt::Arguments<'_>| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{line}\r\n");
    };
    let offset = replication.shown_offset(shared.report.durable);
    put(format_args!(
        "role:{}",
        if replication.following().is_some() { "slave" } else { "master" }
    ));
    if let Some(following) = replication.following() {
        let is_up = following.stage == Stage::Connected;
        let seconds = |since_ms: u64| now_ms.saturating_sub(since_ms) / 1000;
        let heard_s = if is_up { seconds(following.heard_ms) as i64 } else { -1 };
        put(format_args!("master_host:{}", following.primary.0));
        put(format_args!("master_port:{}", following.primary.1));
        put(format_args!("master_link_status:{}", if is_up { "up" } else { "down" }));
        put(format_args!("master_last_io_seconds_ago:{heard_s}"));
        put(format_args!("master_sync_in_progress:{}", u8::from(following.stage == Stage::Sync)));
        put(format_args!("slave_read_repl_offset:{offset}"));
        put(format_args!("slave_repl_offset:{offset}"));
        if !is_up {
            put(format_args!("master_link_down_since_seconds:{}", seconds(following.down_ms)));
        }
        put(format_args!("slave_priority:{}", shared.settings.replica_priority()));
        put(format_args!("slave_read_only:1"));
        let is_announced = shared.settings.is_announced();
        put(format_args!("replica_announced:{}", u8::from(is_announced)));
        put(format_args!("tembo_full_syncs:{}", following.full_syncs));
        if let Some(lost) = &following.lost {
            put(format_args!("tembo_link_error:{lost}"));
        }
    }
    put(format_args!("connected_slaves:{}", replication.followers().count()));
    for (number, replica) in replication.followers().enumerate() {
        let lag_s = now_ms.saturating_sub(replica.heard_ms) / 1000;
        let Follower { ip, port, reached, .. } = replica;
        let state = replica.state();
        put(format_args!(
            "slave{number}:ip={ip},port={port},state={state},offset={reached},lag={lag_s}"
        ));
    }
    put(format_args!("master_failover_state:{}", replication.failover_state()));
    put(format_args!("master_replid:{}", replication.shown_id()));
    put(format_args!("master_replid2:{}", "0".repeat(40)));
    put(format_args!("master_repl_offset:{offset}"));
    put(format_args!("second_repl_offset:-1"));
    let (redis, limits) = (&replication.redis, shared.settings.stream_limits());
    let (first, end) = redis.bounds();
    put(format_args!("repl_backlog_active:{}", u8::from(redis.is_on())));
    put(format_args!("repl_backlog_size:{}", if redis.is_on() { limits.backlog } else { 0 }));
    put(format_args!("repl_backlog_first_byte_offset:{}", first + u64::from(redis.is_on())));
    put(format_args!("repl_backlog_histlen:{}", end - first));
}
