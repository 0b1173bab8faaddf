//! Publish and subscribe: SUBSCRIBE, PSUBSCRIBE, SSUBSCRIBE and their opposites, PUBLISH, SPUBLISH, PUBSUB.

use crate::args::Args;
use crate::command::{Command, Context, FAST, REPLICATED, SESSION, SUBSCRIBED};
use crate::commands::help::help_lines;
use crate::failure::Outcome;
use crate::reply::Reply;
use crate::session::Topic;

/// The family.
pub(super) const COMMANDS: &[Command] = &[
    Command::new("subscribe", -2, SESSION | SUBSCRIBED, subscribe),
    Command::new("unsubscribe", -1, SESSION | SUBSCRIBED, unsubscribe),
    Command::new("psubscribe", -2, SESSION | SUBSCRIBED, psubscribe),
    Command::new("punsubscribe", -1, SESSION | SUBSCRIBED, punsubscribe),
    Command::new("ssubscribe", -2, SESSION | SUBSCRIBED, ssubscribe),
    Command::new("sunsubscribe", -1, SESSION | SUBSCRIBED, sunsubscribe),
    Command::new("publish", 3, FAST | REPLICATED, publish),
    Command::new("spublish", 3, FAST | REPLICATED, spublish),
    Command::container("pubsub", 0, SUBCOMMANDS),
];

const SUBCOMMANDS: &[Command] = &[
    Command::sub("pubsub|channels", "channels", -2, 0, channels),
    Command::sub("pubsub|numsub", "numsub", -2, 0, numsub),
    Command::sub("pubsub|numpat", "numpat", 2, 0, numpat),
    Command::sub("pubsub|shardchannels", "shardchannels", -2, 0, shardchannels),
    Command::sub("pubsub|shardnumsub", "shardnumsub", -2, 0, shardnumsub),
    Command::sub("pubsub|help", "help", 2, 0, help),
];

fn subscribe(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    add(context, args, reply, Topic::Channel)
}

fn psubscribe(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    add(context, args, reply, Topic::Pattern)
}

fn ssubscribe(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    add(context, args, reply, Topic::Shard)
}

fn add(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply, topic: Topic) -> Outcome {
    let kind = match topic {
        Topic::Channel => "subscribe",
        Topic::Pattern => "psubscribe",
        Topic::Shard => "ssubscribe",
    };
    for name in args.from(1) {
        context.shared.pubsub.subscribe(context.session, topic, name);
        context.shared.pubsub.confirm(context.session, reply, (kind, Some(name)), topic);
    }
    reply.set_limit(context.shared.settings.pubsub_output.hard);
    Ok(())
}

fn unsubscribe(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    remove(context, args, reply, Topic::Channel)
}

fn punsubscribe(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    remove(context, args, reply, Topic::Pattern)
}

fn sunsubscribe(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    remove(context, args, reply, Topic::Shard)
}

fn remove(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
    topic: Topic,
) -> Outcome {
    let kind = match topic {
        Topic::Channel => "unsubscribe",
        Topic::Pattern => "punsubscribe",
        Topic::Shard => "sunsubscribe",
    };
    let names: Vec<Vec<u8>> = if args.count() > 1 {
        args.from(1).map(<[u8]>::to_vec).collect()
    } else {
        context.session.subscriptions.of(topic).iter().cloned().collect()
    };
    for name in &names {
        context.shared.pubsub.unsubscribe(context.session, topic, name);
        context.shared.pubsub.confirm(context.session, reply, (kind, Some(name)), topic);
    }
    if names.is_empty() {
        context.shared.pubsub.confirm(context.session, reply, (kind, None), topic);
    }
    if !context.session.subscriptions.is_any() {
        reply.set_limit(context.shared.settings.normal_output.hard);
    }
    Ok(())
}

fn publish(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let count = context.shared.pubsub.publish(context.clients, args.at(1), args.at(2));
    reply.integer(count as i64);
    Ok(())
}

fn spublish(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let pubsub = &mut context.shared.pubsub;
    let count = pubsub.publish_to_shard(context.clients, args.at(1), args.at(2));
    reply.integer(count as i64);
    Ok(())
}

fn channels(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    names(context, args, reply, Topic::Channel)
}

fn shardchannels(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    names(context, args, reply, Topic::Shard)
}

fn names(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
    topic: Topic,
) -> Outcome {
    let pattern = match args.count() {
        2 => b"*",
        3 => args.at(2),
        _ => {
            let name = String::from_utf8_lossy(args.at(1)).into_owned();
            return Err(format!(
                "ERR unknown subcommand or wrong number of arguments for '{name}'. Try PUBSUB HELP."
            )
            .into());
        }
    };
    let names = context.shared.pubsub.names(topic, pattern);
    reply.array(names.len());
    names.iter().for_each(|name| reply.bulk(name));
    Ok(())
}

fn numsub(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    counts(context, args, reply, Topic::Channel)
}

fn shardnumsub(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    counts(context, args, reply, Topic::Shard)
}

fn counts(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
    topic: Topic,
) -> Outcome {
    reply.array((args.count() - 2) * 2);
    for name in args.from(2) {
        reply.bulk(name);
        reply.integer(context.shared.pubsub.subscriber_count(topic, name) as i64);
    }
    Ok(())
}

fn numpat(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.integer(context.shared.pubsub.pattern_count() as i64);
    Ok(())
}

fn help(_: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let lines = [
        "CHANNELS [<pattern>]",
        "    Return the currently active channels matching a <pattern> (default: '*').",
        "NUMPAT",
        "    Return number of subscriptions to patterns.",
        "NUMSUB [<channel> ...]",
        "    Return the number of subscribers for the specified channels, excluding",
        "    pattern subscriptions(default: no channels).",
        "SHARDCHANNELS [<pattern>]",
        "    Return the currently active shard level channels matching a <pattern> (default: '*').",
        "SHARDNUMSUB [<shardchannel> ...]",
        "    Return the number of subscribers for the specified shard level channel(s)",
    ];
    help_lines(reply, "PUBSUB", &lines);
    Ok(())
}
