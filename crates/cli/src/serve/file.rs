//! `tembo serve --config`: what a configuration file in Redis's syntax chooses.
//!
//! A directive is one of four things: an option of this command line, which the command line itself goes before; a parameter of
//! CONFIG SET; something of Redis's that has no meaning here, about which a line is printed; or an error, with its place and
//! what to do.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tembo_server::{Directive, Parameter, read_config_file};

use crate::exit::{Exit, refuse};

/// What a configuration file chooses that is no option.
#[derive(Default)]
pub(super) struct Chosen {
    pub(super) requirepass: Option<String>,
    pub(super) masterauth: Option<String>,
    pub(super) databases: Option<usize>,
    /// The file itself.
    pub(super) file: Option<PathBuf>,
    /// Users.
    pub(super) users: Vec<Directive>,
    /// Parameters of CONFIG SET.
    pub(super) directives: Vec<Directive>,
}

/// Directives of Redis that have no meaning here, and why.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("always-show-logo", "there is none"),
    ("aof-load-truncated", "the pool is recovered after every crash"),
    ("aof-rewrite-incremental-fsync", "there is no file of commands to rewrite"),
    ("aof-timestamp-enabled", "there is no file of commands"),
    ("aof_rewrite_cpulist", "no process is forked"),
    ("bgsave_cpulist", "no process is forked"),
    ("bio_cpulist", "use taskset or systemd's CPUAffinity"),
    ("crash-log-enabled", "a crash shows what the system shows"),
    ("crash-memcheck-enabled", "a crash shows what the system shows"),
    ("disable-thp", "no process is forked"),
    ("ignore-warnings", "there are none of Redis's"),
    ("jemalloc-bg-thread", "the allocator is the system's"),
    ("locale-collate", "texts are compared by their bytes"),
    ("oom-score-adj", "use systemd's OOMScoreAdjust"),
    ("oom-score-adj-values", "use systemd's OOMScoreAdjust"),
    ("pidfile", "tembo stays in the foreground: its starter knows its number"),
    ("proc-title-template", "the title stays"),
    ("rdb-del-sync-files", "a replica writes no such file"),
    ("rdb-save-incremental-fsync", "no RDB file is written"),
    ("repl-disable-tcp-nodelay", "changes leave at once"),
    ("repl-diskless-load", "a replica writes no such file"),
    ("repl-diskless-sync", "a full synchronisation always goes from a snapshot to the socket"),
    ("repl-diskless-sync-delay", "a full synchronisation begins at once"),
    ("repl-diskless-sync-max-replicas", "a full synchronisation begins at once"),
    ("replica-lazy-flush", "emptying costs the same in both ways"),
    ("server_cpulist", "use taskset or systemd's CPUAffinity"),
    ("set-proc-title", "the title stays"),
    ("slave-lazy-flush", "emptying costs the same in both ways"),
    ("supervised", "systemd is notified when it has set NOTIFY_SOCKET"),
    ("syslog-enabled", "systemd and others take what is printed"),
    ("syslog-facility", "systemd and others take what is printed"),
    ("syslog-ident", "systemd and others take what is printed"),
    ("tls-dh-params-file", "keys are exchanged by elliptic curves"),
    ("tls-prefer-server-ciphers", "all ciphers that are offered are safe"),
    ("tls-session-cache-size", "rustls chooses it"),
    ("tls-session-cache-timeout", "rustls chooses it"),
    ("tls-session-caching", "rustls chooses it"),
];

/// Directives of Redis that promise something which the server would not keep, and what to do.
const REFUSED: &[(&str, &str)] = &[
    ("loadmodule", "there are no modules: remove the line"),
    ("rename-command", "commands keep their names: take them from a user with ACL SETUSER"),
];

/// Reads a configuration file, and the command line once more: with the file's options before its own.
pub(super) fn read<Args: clap::Args>(path: &Path) -> anyhow::Result<(Args, Chosen)> {
    let path = std::path::absolute(path).with_context(|| path.display().to_string())?;
    let words = std::env::args_os().skip_while(|word| word != "serve").skip(1);
    let given: Vec<OsString> = words.collect();
    let serve = Args::augment_args(clap::Command::new("tembo serve"));
    let mut chosen = Chosen { file: Some(path.clone()), ..Chosen::default() };
    let (mut words, mut wrong) = (Vec::new(), Vec::new());
    let directives = read_config_file(&path)?;
    let is_appending = directives.iter().rfind(|one| one.name == "appendonly");
    let is_appending = is_appending.is_some_and(|one| one.value().eq_ignore_ascii_case(b"yes"));
    for directive in directives {
        match take(&directive, (&serve, is_appending), &mut chosen) {
            Ok(Taken::Options(mut options)) => {
                let is_given = |name: &OsString| {
                    given.iter().any(|word| {
                        let (word, name) = (word.as_encoded_bytes(), name.as_encoded_bytes());
                        word.strip_prefix(name).is_some_and(|rest| matches!(rest, [] | [b'=', ..]))
                    })
                };
                // A port that is given is listened at, whatever the file says of ports.
                let first = options.first().map(|first| match first.to_str() {
                    Some("--no-tcp") => "--port".into(),
                    _ => first.clone(),
                });
                if !first.as_ref().is_some_and(is_given) {
                    words.append(&mut options);
                }
            }
            Ok(Taken::Parameter) if directive.name == "user" => chosen.users.push(directive),
            Ok(Taken::Parameter) => chosen.directives.push(directive),
            Ok(Taken::WithoutEffect(why)) => {
                note(&directive, &why);
                // CONFIG GET shows it, and CONFIG REWRITE leaves it.
                if Parameter::of(&directive.name) == Some(Parameter::Settable) {
                    chosen.directives.push(directive);
                }
            }
            Err(what) => wrong.push(directive.wrong(what).to_string()),
        }
    }
    if !wrong.is_empty() {
        return refuse(Exit::Usage, format!("the configuration file:\n  {}", wrong.join("\n  ")));
    }
    let words = std::iter::once("tembo serve".into()).chain(words).chain(given);
    let args = Args::from_arg_matches(&serve.try_get_matches_from(words)?)?;
    Ok((args, chosen))
}

fn note(directive: &Directive, why: &str) {
    let Directive { file, line, name, .. } = directive;
    eprintln!("tembo: {}:{line}: {name} has no effect: {why}", file.display());
}

/// What a directive is.
enum Taken {
    Options(Vec<OsString>),
    Parameter,
    WithoutEffect(String),
}

/// Finds out what a directive is; the error says what to do.
fn take(
    directive: &Directive,
    (serve, is_appending): (&clap::Command, bool),
    chosen: &mut Chosen,
) -> Result<Taken, String> {
    let name = directive.name.as_str();
    if name == "user" {
        return Ok(Taken::Parameter);
    }
    let text = String::from_utf8(directive.value()).map_err(|_| "it is not UTF-8".to_owned())?;
    let nothing = Ok(Taken::Options(Vec::new()));
    match name {
        "requirepass" => chosen.requirepass = Some(text).filter(|text| !text.is_empty()),
        "masterauth" => chosen.masterauth = Some(text).filter(|text| !text.is_empty()),
        "databases" => {
            let number = text.parse().ok().filter(|number| (1..=16).contains(number));
            chosen.databases = Some(number.ok_or("databases must be between 1 and 16")?);
        }
        "dir" => std::env::set_current_dir(&text).map_err(|error| format!("{text}: {error}"))?,
        "tls-port" if text == "0" => {}
        "port" if text == "0" => return Ok(Taken::Options(vec!["--no-tcp".into()])),
        "protected-mode" => {
            return match yes(&text)? {
                true => nothing,
                false => Ok(Taken::Options(vec!["--unprotected".into()])),
            };
        }
        "replicaof" | "slaveof" if text.eq_ignore_ascii_case("no one") => {}
        "replicaof" | "slaveof" => return option(serve, directive, "replicaof"),
        "appendfsync" if !is_appending => {
            return Ok(Taken::WithoutEffect(
                "without `appendonly yes`; see `--sync`, by default always".to_owned(),
            ));
        }
        "appendfsync" => {
            let sync = match text.to_ascii_lowercase().as_str() {
                "always" => "always",
                "everysec" => "interval",
                "no" => "os",
                _ => return Err("it is always, everysec or no".to_owned()),
            };
            return Ok(Taken::Options(vec!["--sync".into(), sync.into()]));
        }
        "appendonly" => {
            yes(&text)?;
            return Ok(Taken::WithoutEffect("what is acknowledged is durable always".to_owned()));
        }
        "daemonize" if yes(&text)? => {
            return Ok(Taken::WithoutEffect("tembo stays in the foreground".to_owned()));
        }
        "cluster-enabled" if yes(&text)? => {
            return Err("there is no cluster: let clients or a proxy spread the keys".to_owned());
        }
        _ => return other(serve, directive, &text),
    }
    nothing
}

/// A directive that needs nothing of its own.
fn other(serve: &clap::Command, directive: &Directive, text: &str) -> Result<Taken, String> {
    let name = directive.name.as_str();
    let of = |table: &[(&str, &'static str)]| {
        table.iter().find(|(known, _)| *known == name).map(|(_, why)| *why)
    };
    if let Some(why) = of(WITHOUT_EFFECT) {
        return Ok(Taken::WithoutEffect(why.to_owned()));
    }
    if let Some(what) = of(REFUSED) {
        return Err(what.to_owned());
    }
    let is_option = serve.get_arguments().any(|argument| argument.get_long() == Some(name));
    if is_option && name != "config" {
        return option(serve, directive, name);
    }
    match Parameter::of(name) {
        Some(Parameter::Settable) => Ok(Taken::Parameter),
        Some(Parameter::Fixed(value)) if value == text => Ok(Taken::Options(Vec::new())),
        Some(Parameter::Fixed(_)) => {
            Ok(Taken::WithoutEffect("the server has no use for it".to_owned()))
        }
        None => {
            Err("tembo does not know it: remove the line, or see `tembo serve --help`".to_owned())
        }
    }
}

/// The words of an option, checked.
fn option(serve: &clap::Command, directive: &Directive, name: &str) -> Result<Taken, String> {
    let argument = serve.get_arguments().find(|argument| argument.get_long() == Some(name));
    let takes_value = argument.is_some_and(|argument| argument.get_action().takes_values());
    let args: Vec<String> =
        directive.args.iter().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect();
    let mut words = vec![format!("--{name}")];
    match (takes_value, name) {
        (false, _) => match yes(&args.join(" "))? {
            true => {}
            false => words.clear(),
        },
        // Its arguments are one value of the command line.
        (true, "bind") => words = vec![format!("--bind={}", args.join(","))],
        (true, _) => words.extend(args),
    }
    let tried = std::iter::once("tembo serve").chain(words.iter().map(String::as_str));
    if let Err(error) = serve.clone().try_get_matches_from(tried) {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        return Err(first.trim_start_matches("error: ").to_owned());
    }
    Ok(Taken::Options(words.into_iter().map(OsString::from).collect()))
}

/// Reads `yes` or `no`; some directives of Redis are `local` for yes.
fn yes(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "yes" | "local" => Ok(true),
        "no" => Ok(false),
        _ => Err("it is yes or no".to_owned()),
    }
}
