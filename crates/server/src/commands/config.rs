//! CONFIG and its subcommands.

use crate::args::Args;
use crate::command::{ADMIN, Command, Context};
use crate::commands::help::help_lines;
use crate::config_file::replace_file;
use crate::error::Error;
use crate::failure::Outcome;
use crate::glob;
use crate::permission::update_all;
use crate::reply::Reply;
use crate::session::Session;
use crate::settings::Replaced;
use crate::tls::{client_config, server_config};

/// The family.
pub(super) const COMMANDS: &[Command] = &[Command::container("config", ADMIN, SUBCOMMANDS)];

const SUBCOMMANDS: &[Command] = &[
    Command::sub("config|get", "get", -3, ADMIN, get),
    Command::sub("config|set", "set", -4, ADMIN, set),
    Command::sub("config|resetstat", "resetstat", 2, ADMIN, resetstat),
    Command::sub("config|rewrite", "rewrite", 2, ADMIN, rewrite),
    Command::sub("config|help", "help", 2, 0, help),
];

fn get(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let primary = context.shared.replication.following().map(|following| &following.primary);
    let primary = primary.map_or(String::new(), |(host, port)| format!("{host} {port}"));
    let mut found: Vec<(&str, &[u8])> = Vec::new();
    for pattern in args.from(2) {
        // They change by REPLICAOF only.
        for name in ["replicaof", "slaveof"] {
            let pair = (name, primary.as_bytes());
            if glob::matches(pattern, name.as_bytes(), true) && !found.contains(&pair) {
                found.push(pair);
            }
        }
        for pair in context.shared.settings.matching(pattern) {
            if !found.contains(&pair) {
                found.push(pair);
            }
        }
    }
    reply.map(found.len());
    for (name, value) in found {
        reply.bulk(name.as_bytes());
        reply.bulk(value);
    }
    Ok(())
}

fn set(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if !args.count().is_multiple_of(2) {
        return Err("ERR wrong number of arguments for 'config|set' command".into());
    }
    let pairs: Vec<(&[u8], &[u8])> =
        (2..args.count()).step_by(2).map(|at| (args.at(at), args.at(at + 1))).collect();
    let before_tls = context.shared.settings.before_tls(&pairs);
    context.shared.settings.set(&pairs)?;
    if let Some(before) = before_tls {
        use_certificates(context, before)?;
    }
    let chosen =
        |name: &str| pairs.iter().rfind(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes()));
    if let Some((_, password)) = chosen("requirepass") {
        context.shared.acl.set_default_password(password);
        update_all(context);
    }
    if let Some((_, word)) = chosen("acl-pubsub-default") {
        context.shared.acl.all_channels = word.eq_ignore_ascii_case(b"allchannels");
    }
    if ["maxmemory", "maxmemory-policy"].iter().any(|name| chosen(name).is_some()) {
        context.data.count_footprint(context.shared.settings.maxmemory > 0);
        context.shared.begin_eviction();
    }
    if chosen("client-output-buffer-limit").is_some() {
        let settings = &context.shared.settings;
        let (normal, pubsub) = (settings.normal_output.hard, settings.pubsub_output.hard);
        let limit = |session: &Session| match session.subscriptions.is_any() {
            true => pubsub,
            false => normal,
        };
        for (_, connection) in context.clients.iter_mut() {
            connection.reply.set_limit(limit(&connection.session));
        }
        reply.set_limit(limit(context.session));
    }
    context.data.encodings = context.shared.settings.encodings;
    reply.ok();
    Ok(())
}

/// Reads the files that TLS needs again, for clients that connect from then on.
fn use_certificates(context: &mut Context<'_, '_>, before: Replaced) -> Outcome {
    let shared = &mut *context.shared;
    let Some(tls) = shared.settings.tls() else {
        if shared.settings.encrypts_replication() {
            let error = Error::Config("tls-replication needs a tls-port".to_owned());
            return Err(shared.settings.restore(before, &error).into());
        }
        return Ok(());
    };
    match server_config(&tls).and_then(|config| Ok((config, client_config(&tls)?))) {
        Ok((config, of_link)) => (shared.tls, shared.tls_of_link) = (Some(config), of_link),
        Err(error) => return Err(shared.settings.restore(before, &error).into()),
    }
    Ok(())
}

fn resetstat(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    context.shared.stats.reset();
    context.shared.observed.reset();
    reply.ok();
    Ok(())
}

/// Writes what CONFIG SET has changed into the configuration file. Durable when it returns.
fn rewrite(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let Some(file) = context.shared.config_file.clone() else {
        return Err("ERR The server is running without a config file".into());
    };
    let failed = |error| format!("ERR Rewriting config file: {error}");
    let text = std::fs::read(&file).map_err(failed)?;
    let users = context.shared.acl.config_lines(&context.shared.settings.requirepass);
    let text = context.shared.settings.rewritten(&text, users.as_deref());
    replace_file(&file, &text).map_err(failed)?;
    reply.ok();
    Ok(())
}

fn help(_: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let lines = [
        "GET <pattern>",
        "    Return parameters matching the glob-like <pattern> and their values.",
        "SET <directive> <value>",
        "    Set the configuration <directive> to <value>.",
        "RESETSTAT",
        "    Reset statistics reported by the INFO command.",
        "REWRITE",
        "    Rewrite the configuration file.",
    ];
    help_lines(reply, "CONFIG", &lines);
    Ok(())
}
