//! The parameters of CONFIG GET and CONFIG SET.

mod parameter;
mod rewrite;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::config::Config;
use crate::config_file::Directive;
use crate::encoding::EncodingLimits;
use crate::error::Error;
use crate::event_class::Classes;
use crate::eviction::{Policy, eviction_time};
use crate::glob;
use crate::number::parse_integer;
use crate::recency::Decay;
use crate::replication::{Greeting, Limits};
pub use crate::settings::parameter::Parameter;
use crate::settings::parameter::{BULK_SIZE_MAX, Kind, PARAMETERS, find, resolved};
use crate::tls::{ClientCertificates, TlsConfig};

/// Why CONFIG SET does not take the last protection away.
const UNPROTECTED: &str =
    "the server listens beyond loopback: it needs a password while protected-mode is yes";

const IMMUTABLE: &str = "can't set immutable config";

/// How many bytes may wait for a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutputLimit {
    /// With more it is disconnected at once; 0: with no number.
    pub(crate) hard: usize,
    /// With more it is disconnected after `seconds`; 0: never.
    pub(crate) soft: usize,
    /// See `soft`.
    pub(crate) seconds: u64,
}

/// Values of parameters, by their places.
pub(crate) type Replaced = Vec<(usize, Vec<u8>)>;

/// Redis's limit for replicas.
const REPLICA_OUTPUT: &str = "slave 268435456 67108864 60";
/// The same for subscribers.
const PUBSUB_OUTPUT: &str = "pubsub 33554432 8388608 60";

/// The parameters with their values; those that the server acts on also as numbers.
pub(crate) struct Settings {
    values: Vec<Vec<u8>>,
    /// What they were when the server started.
    started: Vec<Vec<u8>>,
    /// The server listens beyond loopback.
    is_exposed: bool,
    /// Nothing is durable.
    is_volatile: bool,
    /// Protected mode.
    pub(crate) protected: bool,
    /// Entries of ACL LOG.
    pub(crate) denials_max: usize,
    /// The password; none if empty.
    pub(crate) requirepass: Vec<u8>,
    /// Most clients at a time.
    pub(crate) maxclients: usize,
    /// Seconds after which the system asks a silent client whether it is there; 0 never.
    pub(crate) keepalive_s: u64,
    /// Milliseconds after which an idle client is disconnected; 0 never.
    pub(crate) timeout_ms: u64,
    /// Seconds of the past that are kept.
    pub(crate) retain_s: u64,
    /// Seconds of the past that are kept for replicas that are away.
    pub(crate) repl_retain_s: u64,
    /// Milliseconds after which a silent primary or replica is lost.
    pub(crate) repl_timeout_ms: u64,
    /// Milliseconds that a script runs before other clients are refused; 0: they wait.
    pub(crate) busy_reply_ms: u64,
    /// Writes are refused while fewer replicas than this have been heard of lately; 0: they are not.
    pub(crate) min_replicas: usize,
    /// A replica is read from while its primary is out of reach.
    pub(crate) serves_stale: bool,
    /// For so many milliseconds a replica that is not heard of counts.
    pub(crate) replica_lag_ms: u64,
    /// Longest bulk.
    pub(crate) bulk_size_max: usize,
    /// How many bytes may wait for a client that does not subscribe.
    pub(crate) normal_output: OutputLimit,
    /// The same for one that does.
    pub(crate) pubsub_output: OutputLimit,
    /// Most bytes that a client has sent and that were not executed.
    pub(crate) input_size_max: usize,
    /// Most bytes of memory of all clients together; 0: any number.
    pub(crate) clients_size_max: usize,
    /// The classes of events that are published.
    pub(crate) notified: Classes,
    /// Most bytes of a HyperLogLog whose registers are not all laid out.
    pub(crate) hll_sparse_size_max: usize,
    /// How large collections of the smaller encodings are.
    pub(crate) encodings: EncodingLimits,
    /// A command that takes as many microseconds is kept in the slow log; `None`: none is.
    pub(crate) slow_us: Option<u64>,
    /// Entries of the slow log.
    pub(crate) slow_len_max: usize,
    /// An event that takes as many milliseconds is kept; 0: none is.
    pub(crate) latency_threshold_ms: u64,
    /// Whether times are kept by command.
    pub(crate) tracks_latency: bool,
    /// The percentiles that INFO shows of them.
    pub(crate) percentiles: Vec<f64>,
    /// Most keys that are kept for clients which track them; 0: any number.
    pub(crate) tracked_keys_max: usize,
    /// Bytes of memory beyond which what needs room is refused; 0: none are refused.
    pub(crate) maxmemory: u64,
    /// Which keys are evicted when the data takes more; `None`: none.
    pub(crate) eviction: Option<Policy>,
    /// Keys of a database that are looked at for one that is evicted.
    pub(crate) samples: usize,
    /// How long keys are evicted for one command.
    pub(crate) eviction_time: Duration,
    /// How the counts of uses rise and fall.
    pub(crate) decay: Decay,
    /// DEBUG is allowed.
    pub(crate) debug: bool,
    /// Entries of a stream that an inexact trim removes together.
    pub(crate) stream_block: u64,
}

impl Settings {
    /// What the operator chose.
    pub(crate) fn new(config: &Config, port: u16) -> Settings {
        let mut settings = Settings {
            values: PARAMETERS.iter().map(|(_, value, _)| value.as_bytes().to_vec()).collect(),
            started: Vec::new(),
            is_exposed: config.exposed().is_some(),
            is_volatile: false,
            protected: true,
            denials_max: 0,
            keepalive_s: 0,
            requirepass: Vec::new(),
            maxclients: config.maxclients,
            timeout_ms: 0,
            retain_s: 0,
            repl_retain_s: 0,
            repl_timeout_ms: 0,
            busy_reply_ms: 0,
            min_replicas: 0,
            serves_stale: true,
            replica_lag_ms: 0,
            bulk_size_max: BULK_SIZE_MAX as usize,
            normal_output: OutputLimit::default(),
            pubsub_output: OutputLimit::default(),
            input_size_max: 0,
            clients_size_max: 0,
            notified: Classes::default(),
            hll_sparse_size_max: 0,
            encodings: EncodingLimits::default(),
            slow_us: None,
            slow_len_max: 0,
            latency_threshold_ms: 0,
            tracks_latency: true,
            percentiles: Vec::new(),
            tracked_keys_max: 0,
            maxmemory: 0,
            eviction: None,
            samples: 0,
            eviction_time: Duration::ZERO,
            decay: Decay::default(),
            debug: config.debug,
            stream_block: 0,
        };
        settings.put_places(config, port);
        settings.put("databases", config.databases.to_string());
        settings.put("maxclients", config.maxclients.to_string());
        settings.put("retain-seconds", config.retain_s.to_string());
        settings.put("timeout", config.timeout_s.to_string());
        settings.put("requirepass", config.requirepass.clone().unwrap_or_default());
        settings.put("masterauth", config.masterauth.clone().unwrap_or_default());
        settings.put("protected-mode", if config.protected { "yes" } else { "no" }.to_owned());
        let limit = config.output_size_max;
        let limits = format!("normal {limit} 0 0 {REPLICA_OUTPUT} {PUBSUB_OUTPUT}");
        settings.put("client-output-buffer-limit", limits);
        if config.debug {
            settings.put("enable-debug-command", "yes".to_owned());
        }
        if let Some(folder) = &config.backup_dir {
            settings.put("backup-dir", folder.display().to_string());
        }
        if let Some(pool) = &config.pool {
            let part = |part: Option<&std::ffi::OsStr>| {
                part.map(|part| part.to_string_lossy().into_owned()).unwrap_or_default()
            };
            settings.put("dir", part(pool.parent().map(std::path::Path::as_os_str)));
            settings.put("dbfilename", part(pool.file_name()));
        }
        // Those of the configuration file were checked when the server was bound.
        let _ = settings.obey(&config.directives);
        settings.started.clone_from(&settings.values);
        settings
    }

    /// Where the server listens, and where its users are.
    fn put_places(&mut self, config: &Config, port: u16) {
        let optional = config.bind_optional.iter().map(|address| format!("-{address}"));
        let bind = config.bind.iter().map(ToString::to_string).chain(optional);
        self.put("bind", bind.collect::<Vec<_>>().join(" "));
        self.put("port", port.to_string());
        if let Some(path) = &config.unixsocket {
            self.put("unixsocket", path.display().to_string());
        }
        self.put("unixsocketperm", format!("{:o}", config.unixsocketperm.unwrap_or(0)));
        if let Some(tls) = &config.tls {
            let shown = |path: &std::path::Path| path.display().to_string();
            self.put("tls-port", tls.port.to_string());
            self.put("tls-cert-file", shown(&tls.certificate));
            self.put("tls-key-file", shown(&tls.key));
            self.put("tls-ca-cert-file", tls.authorities.as_deref().map_or(String::new(), shown));
            self.put("tls-auth-clients", tls.clients.name().to_owned());
            let replication = if tls.replication { "yes" } else { "no" };
            self.put("tls-replication", replication.to_owned());
        }
        if let Some(file) = &config.aclfile {
            self.put("aclfile", file.display().to_string());
        }
    }

    /// Takes over what a configuration file says, in its order.
    ///
    /// # Errors
    /// The first directive that cannot be obeyed.
    fn obey(&mut self, directives: &[Directive]) -> Result<(), Error> {
        let mut save: Option<Vec<u8>> = None;
        for directive in directives {
            let Some(index) = find(directive.name.as_bytes()) else {
                return Err(directive.wrong("it is not known"));
            };
            let mut value = directive.value();
            if PARAMETERS[index].2 == Kind::SavePoints {
                // Each line adds to those before; an empty one takes them away.
                let before = save.take().filter(|_| !value.is_empty());
                value = before.into_iter().chain([value]).collect::<Vec<_>>().join(&b' ');
                save = Some(value.clone());
            }
            self.values[index] =
                self.check(index, &value).map_err(|reason| directive.wrong(reason))?;
        }
        self.mirror();
        Ok(())
    }

    /// Whether the server can obey the directives of a configuration file.
    ///
    /// # Errors
    /// The first that it cannot.
    pub(crate) fn check_directives(config: &Config) -> Result<(), Error> {
        let plain = Config { directives: Vec::new(), ..config.clone() };
        Settings::new(&plain, 0).obey(&config.directives)
    }

    /// The text of the configuration file as it is to be, from what it is: with the parameters that have changed, and
    /// these lines for users in place of those that are there, if there are any.
    pub(crate) fn rewritten(&self, text: &[u8], users: Option<&[Vec<u8>]>) -> Vec<u8> {
        let is_current = |index: usize, value: &[u8]| {
            self.check(index, value).is_ok_and(|value| value == self.values[index])
        };
        let values: Vec<rewrite::Value<'_>> = self
            .values
            .iter()
            .zip(&self.started)
            .map(|(value, started)| rewrite::Value { value, is_changed: value != started })
            .collect();
        rewrite::rewrite(text, &values, users, &is_current)
    }

    /// The parameters whose name matches the pattern.
    pub(crate) fn matching<'a>(
        &'a self,
        pattern: &'a [u8],
    ) -> impl Iterator<Item = (&'static str, &'a [u8])> + 'a {
        PARAMETERS
            .iter()
            .enumerate()
            .filter(move |(_, (name, ..))| glob::matches(pattern, name.as_bytes(), true))
            .map(|(at, (name, ..))| (*name, self.values[resolved(at)].as_slice()))
    }

    /// Sets all of the pairs or none; the error is the reply.
    pub(crate) fn set(&mut self, pairs: &[(&[u8], &[u8])]) -> Result<(), String> {
        let mut checked: Vec<(usize, Vec<u8>)> = Vec::new();
        let shown = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        if let Some((name, _)) = pairs.iter().find(|(name, _)| find(name).is_none()) {
            let name = shown(name);
            // They change by REPLICAOF only.
            if ["replicaof", "slaveof"].iter().any(|known| known.eq_ignore_ascii_case(&name)) {
                return Err(failed(&name, IMMUTABLE));
            }
            return Err(format!(
                "ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
            ));
        }
        for &(name, value) in pairs {
            let Some(index) = find(name) else { continue };
            let shown = shown(name);
            if checked.iter().any(|(other, _)| *other == index) {
                return Err(failed(&shown, "duplicate parameter"));
            }
            let value = self.check(index, value).map_err(|reason| failed(&shown, &reason))?;
            checked.push((index, value));
        }
        let before = self.values.clone();
        for (index, value) in checked {
            self.values[index] = value;
        }
        let is_about_protection = pairs.iter().any(|(name, _)| {
            [b"requirepass".as_slice(), b"protected-mode"]
                .iter()
                .any(|known| name.eq_ignore_ascii_case(known))
        });
        if is_about_protection && self.is_unprotected() {
            self.values = before;
            let name = pairs.first().map_or_else(String::new, |(name, _)| shown(name));
            return Err(failed(&name, UNPROTECTED));
        }
        self.mirror();
        Ok(())
    }

    /// Whether protected mode is on, and yet everything that reaches the server may read and write.
    fn is_unprotected(&self) -> bool {
        self.is_exposed
            && self.value("protected-mode") == b"yes"
            && self.value("requirepass").is_empty()
    }

    /// The values that CONFIG SET of these pairs would replace, if one of them is about TLS.
    pub(crate) fn before_tls(&self, pairs: &[(&[u8], &[u8])]) -> Option<Replaced> {
        let is_of_tls = |(name, _): &(&[u8], &[u8])| name.to_ascii_lowercase().starts_with(b"tls-");
        let found = pairs.iter().filter_map(|(name, _)| find(name));
        let before = || found.map(|index| (index, self.values[index].clone())).collect();
        pairs.iter().any(is_of_tls).then(before)
    }

    /// Takes back what CONFIG SET has changed, as TLS cannot use it. Returns the reply.
    pub(crate) fn restore(&mut self, before: Replaced, reason: &Error) -> String {
        for (index, value) in before {
            self.values[index] = value;
        }
        self.mirror();
        failed("tls-cert-file", &reason.to_string())
    }

    /// The connection to a primary is to be encrypted.
    pub(crate) fn encrypts_replication(&self) -> bool {
        self.value("tls-replication") == b"yes"
    }

    /// What TLS needs, if there is a port for it.
    pub(crate) fn tls(&self) -> Option<TlsConfig> {
        let path = |name: &str| PathBuf::from(OsStr::from_bytes(self.value(name)));
        let port = u16::try_from(self.number("tls-port")).unwrap_or(0);
        (port > 0).then(|| TlsConfig {
            port,
            certificate: path("tls-cert-file"),
            key: path("tls-key-file"),
            authorities: Some(path("tls-ca-cert-file")).filter(|path| !path.as_os_str().is_empty()),
            clients: ClientCertificates::of(self.value("tls-auth-clients")),
            replication: self.encrypts_replication(),
        })
    }

    /// `appendfsync` as Redis calls what the store's domain and sync policy promise.
    pub(crate) fn set_sync(&mut self, domain: &str, policy: &str) {
        let appendfsync = match (domain, policy) {
            ("volatile", _) | ("logged", "os") => "no",
            ("logged", "interval") => "everysec",
            _ => "always",
        };
        self.is_volatile = domain == "volatile";
        self.put("appendfsync", appendfsync.to_owned());
    }

    /// The value as it is to be kept.
    fn check(&self, index: usize, value: &[u8]) -> Result<Vec<u8>, String> {
        let text = String::from_utf8_lossy(value);
        match PARAMETERS[index].2 {
            Kind::Fixed if value == self.values[index] => Ok(value.to_vec()),
            Kind::Fixed => Err(IMMUTABLE.to_owned()),
            Kind::Text | Kind::Alias => Ok(value.to_vec()),
            Kind::Word(words) => match words.iter().find(|word| word.eq_ignore_ascii_case(&text)) {
                Some(word) => Ok(word.as_bytes().to_vec()),
                None => Err(none_of(words)),
            },
            Kind::Shutdown => check_shutdown(&text),
            Kind::Default(_) if text.eq_ignore_ascii_case(PARAMETERS[index].1) => {
                Ok(PARAMETERS[index].1.as_bytes().to_vec())
            }
            Kind::Default(reason) => Err(reason.to_owned()),
            Kind::Scores => check_scores(&text),
            Kind::Percentiles => check_percentiles(&text),
            Kind::SavePoints => check_save_points(&text),
            Kind::Events => match Classes::parse(&text) {
                Some(classes) => Ok(classes.text().into_bytes()),
                None => Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".to_owned()),
            },
            Kind::OutputLimits => {
                check_output_limits(&String::from_utf8_lossy(&self.values[index]), &text)
            }
            Kind::Appending if self.is_volatile && text.eq_ignore_ascii_case("yes") => {
                Err("nothing is durable in the domain volatile".to_owned())
            }
            Kind::Flag | Kind::Appending => match text.to_ascii_lowercase().as_str() {
                "yes" => Ok(b"yes".to_vec()),
                "no" => Ok(b"no".to_vec()),
                _ => Err("argument must be 'yes' or 'no'".to_owned()),
            },
            Kind::Number(low, high) => match parse_integer(value) {
                Some(number) if (low..=high).contains(&number) => {
                    Ok(number.to_string().into_bytes())
                }
                Some(_) => Err(out_of_range(low, high)),
                None => Err("argument couldn't be parsed into an integer".to_owned()),
            },
            Kind::SizeOrShare => {
                let percent = text.strip_suffix('%').map(|share| parse_integer(share.as_bytes()));
                match (percent, parse_size(&text)) {
                    (Some(Some(0..=100)), _) => Ok(value.to_vec()),
                    (Some(Some(101..)), _) => {
                        Err("percentage argument must be less or equal to 100".to_owned())
                    }
                    (None, Some(number @ 0..)) => Ok(number.to_string().into_bytes()),
                    _ => Err("argument must be a memory or percent value".to_owned()),
                }
            }
            Kind::Size(low, high) => match parse_size(&text) {
                Some(number) if (low..=high).contains(&number) => {
                    Ok(number.to_string().into_bytes())
                }
                Some(_) => Err(out_of_range(low, high)),
                None => Err("argument must be a memory value".to_owned()),
            },
        }
    }

    fn put(&mut self, name: &str, value: String) {
        if let Some(index) = find(name.as_bytes()) {
            self.values[index] = value.into_bytes();
        }
    }

    /// What a replica says of itself to its primary.
    pub(crate) fn greeting(&self, port: u16) -> Greeting {
        let password = [self.value("masterauth"), &self.requirepass[..]];
        let password = password.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
        let announced = self.number("replica-announce-port") as u16;
        let port = if self.encrypts_replication() { self.number("tls-port") as u16 } else { port };
        Greeting {
            password: password.to_vec(),
            port: if announced == 0 { port } else { announced },
            patience_ms: self.repl_timeout_ms,
            tls: None,
        }
    }

    /// How much is kept for servers of Redis that follow.
    pub(crate) fn stream_limits(&self) -> Limits {
        let output = output_limit(self.value("client-output-buffer-limit"), 1);
        let ms = |name: &str| self.number(name).saturating_mul(1000);
        Limits {
            backlog: self.number("repl-backlog-size"),
            hard: output.hard as u64,
            soft: output.soft as u64,
            soft_ms: output.seconds.saturating_mul(1000),
            kept_ms: match ms("repl-backlog-ttl") {
                0 => u64::MAX,
                kept_ms => kept_ms,
            },
            ping_ms: ms("repl-ping-replica-period"),
            silent_ms: self.repl_timeout_ms,
        }
    }

    /// The priority with which Sentinel chooses a replica.
    pub(crate) fn replica_priority(&self) -> u64 {
        self.number("replica-priority")
    }

    /// Sentinel shows the replica to its clients.
    pub(crate) fn is_announced(&self) -> bool {
        self.value("replica-announced") == b"yes"
    }

    fn value(&self, name: &str) -> &[u8] {
        find(name.as_bytes()).map_or(b"", |index| &self.values[index])
    }

    fn number(&self, name: &str) -> u64 {
        let value = parse_integer(self.value(name)).unwrap_or(0);
        u64::try_from(value).unwrap_or(0)
    }

    /// Takes over what the server acts on.
    fn mirror(&mut self) {
        self.requirepass = self.value("requirepass").to_vec();
        self.denials_max = self.number("acllog-max-len") as usize;
        self.protected = self.value("protected-mode") == b"yes";
        self.keepalive_s = self.number("tcp-keepalive");
        self.maxclients = self.number("maxclients") as usize;
        self.timeout_ms = self.number("timeout").saturating_mul(1000);
        self.retain_s = self.number("retain-seconds");
        self.repl_retain_s = self.number("repl-retain-seconds");
        self.repl_timeout_ms = self.number("repl-timeout").saturating_mul(1000);
        self.bulk_size_max = self.number("proto-max-bulk-len") as usize;
        self.bulk_size_max = self.number("proto-max-bulk-len").min(BULK_SIZE_MAX as u64) as usize;
        self.notified =
            Classes::parse(&String::from_utf8_lossy(self.value("notify-keyspace-events")))
                .unwrap_or_default();
        self.normal_output = output_limit(self.value("client-output-buffer-limit"), 0);
        self.pubsub_output = output_limit(self.value("client-output-buffer-limit"), 2);
        self.input_size_max = self.number("client-query-buffer-limit") as usize;
        self.hll_sparse_size_max = self.number("hll-sparse-max-bytes") as usize;
        let pair = |kind: &str| {
            let of = |what: &str| self.number(&format!("{kind}-max-listpack-{what}"));
            (of("entries"), of("value"))
        };
        let numbers = self.number("set-max-intset-entries");
        self.encodings = EncodingLimits { hash: pair("hash"), numbers, sorted_set: pair("zset") };
        let slow_us = parse_integer(self.value("slowlog-log-slower-than")).unwrap_or(-1);
        self.slow_us = u64::try_from(slow_us).ok();
        self.slow_len_max = self.number("slowlog-max-len") as usize;
        self.latency_threshold_ms = self.number("latency-monitor-threshold");
        self.tracks_latency = self.value("latency-tracking") == b"yes";
        let percentiles = String::from_utf8_lossy(self.value("latency-tracking-info-percentiles"));
        let percentiles = percentiles.split(' ').filter_map(|number| number.parse().ok());
        self.percentiles = percentiles.collect();
        self.busy_reply_ms = self.number("busy-reply-threshold");
        self.maxmemory = self.number("maxmemory");
        self.clients_size_max = match self.value("maxmemory-clients").strip_suffix(b"%") {
            Some(percent) => {
                let percent = parse_integer(percent).unwrap_or(0).unsigned_abs();
                (u128::from(self.maxmemory) * u128::from(percent) / 100) as usize
            }
            None => self.number("maxmemory-clients") as usize,
        };
        self.eviction = Policy::of(self.value("maxmemory-policy"));
        self.samples = self.number("maxmemory-samples") as usize;
        self.eviction_time = eviction_time(self.number("maxmemory-eviction-tenacity") as u32);
        let (log_factor, minutes) = (self.number("lfu-log-factor"), self.number("lfu-decay-time"));
        self.decay = Decay { log_factor, minutes };
        self.replica_lag_ms = self.number("min-replicas-max-lag") * 1000;
        let min_replicas = self.number("min-replicas-to-write") as usize;
        self.min_replicas = if self.replica_lag_ms > 0 { min_replicas } else { 0 };
        self.serves_stale = self.value("replica-serve-stale-data") == b"yes";
        self.tracked_keys_max = self.number("tracking-table-max-keys") as usize;
        self.stream_block = self.number("stream-node-max-entries");
    }
}

fn failed(name: &str, reason: &str) -> String {
    format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}")
}

fn out_of_range(low: i64, high: i64) -> String {
    format!("argument must be between {low} and {high} inclusive")
}

fn none_of(words: &[&str]) -> String {
    format!("argument(s) must be one of the following: {}", words.join(", "))
}

/// Options of SHUTDOWN as they are to be kept: in this order, `default` only where it stands alone.
fn check_shutdown(text: &str) -> Result<Vec<u8>, String> {
    const OPTIONS: [&str; 5] = ["default", "save", "nosave", "now", "force"];
    let mut chosen = [false; OPTIONS.len()];
    for word in text.split(' ') {
        let at = OPTIONS.iter().position(|option| option.eq_ignore_ascii_case(word));
        chosen[at.ok_or_else(|| none_of(&OPTIONS))?] = true;
    }
    if chosen[1] && chosen[2] {
        return Err("shutdown options SAVE and NOSAVE can't be used simultaneously".to_owned());
    }
    chosen[0] = !chosen[1..].contains(&true);
    let kept = OPTIONS.iter().zip(chosen).filter(|(_, is_chosen)| *is_chosen);
    Ok(kept.map(|(option, _)| *option).collect::<Vec<_>>().join(" ").into_bytes())
}

/// Scores of the system's choice of what to kill.
fn check_scores(text: &str) -> Result<Vec<u8>, String> {
    let words: Vec<&str> = text.split(' ').collect();
    if words.len() != 3 {
        return Err("wrong number of arguments".to_owned());
    }
    let is_score =
        |word: &&str| parse_integer(word.as_bytes()).is_some_and(|n| (-2000..=2000).contains(&n));
    if !words.iter().all(is_score) {
        return Err("Invalid oom-score-adj-values, elements must be between -2000 and 2000.".into());
    }
    Ok(text.as_bytes().to_vec())
}

/// The limits as they are to be kept. That of replicas is for servers of Redis: what others are sent waits in the store.
fn check_output_limits(now: &str, wanted: &str) -> Result<Vec<u8>, String> {
    let mut kept: Vec<String> = now.split(' ').map(str::to_owned).collect();
    let words: Vec<&str> = wanted.split_ascii_whitespace().collect();
    let (limits, []) = words.as_chunks::<4>() else {
        return Err("Wrong number of arguments in buffer limit configuration.".to_owned());
    };
    for [class, hard, soft, seconds] in limits {
        let at = match class.to_ascii_lowercase().as_str() {
            "normal" => 0,
            "slave" | "replica" => 4,
            "pubsub" => 8,
            _ => {
                return Err(
                    "Invalid client class specified in buffer limit configuration.".to_owned()
                );
            }
        };
        let numbers = [parse_size(hard), parse_size(soft), parse_integer(seconds.as_bytes())];
        let [Some(hard @ 0..), Some(soft @ 0..), Some(seconds @ 0..)] = numbers else {
            return Err(
                "Error in hard, soft or soft_seconds setting in buffer limit configuration."
                    .to_owned(),
            );
        };
        let limit = [hard, soft, seconds].map(|number| number.to_string());
        kept[at + 1..at + 4].clone_from_slice(&limit);
    }
    Ok(kept.join(" ").into_bytes())
}

/// Percentiles as they are to be kept.
fn check_percentiles(text: &str) -> Result<Vec<u8>, String> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    for word in &words {
        match word.parse::<f64>() {
            Ok(number) if (0.0..=100.0).contains(&number) => {}
            Ok(_) => {
                return Err(
                    "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]"
                        .to_owned(),
                );
            }
            Err(_) => return Err("Invalid latency-tracking-info-percentiles parameters".to_owned()),
        }
    }
    Ok(words.join(" ").into_bytes())
}

/// Save points as they are to be kept.
fn check_save_points(text: &str) -> Result<Vec<u8>, String> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let (pairs, []) = words.as_chunks::<2>() else {
        return Err("Invalid save parameters".to_owned());
    };
    for [seconds, changes] in pairs {
        let (seconds, changes) =
            (parse_integer(seconds.as_bytes()), parse_integer(changes.as_bytes()));
        if seconds.is_none_or(|seconds| seconds < 1) || changes.is_none_or(|changes| changes < 0) {
            return Err("Invalid save parameters".to_owned());
        }
    }
    Ok(words.join(" ").into_bytes())
}

/// The limit of a class, counted from 0 on, from the value of `client-output-buffer-limit`.
fn output_limit(limits: &[u8], class: usize) -> OutputLimit {
    let text = String::from_utf8_lossy(limits);
    let mut numbers = text.split(' ').skip(class * 4 + 1).map(|number| number.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    OutputLimit { hard: next() as usize, soft: next() as usize, seconds: next() }
}

/// A number of bytes: `1024`, `1k` (1000), `1kb` (1024), `512mb`, …
fn parse_size(text: &str) -> Option<i64> {
    let text = text.to_ascii_lowercase();
    let split = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let unit: i64 = match &text[split..] {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    text[..split].parse::<i64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_default_is_a_value_that_its_parameter_takes() {
        let settings = Settings::new(&Config::default(), 6379);
        for (at, (name, ..)) in PARAMETERS.iter().enumerate() {
            let value = &settings.values[resolved(at)];
            assert_eq!(settings.check(resolved(at), value).as_ref(), Ok(value), "{name}");
        }
    }

    #[test]
    fn a_promise_that_is_not_kept_is_refused() {
        let mut settings = Settings::new(&Config::default(), 6379);
        for (name, value) in [
            ("tls-ciphers", "HIGH"),
            ("tls-protocols", "TLSv1.3"),
            ("tls-client-cert-file", "a.crt"),
            ("tls-cluster", "yes"),
            ("bind-source-addr", "127.0.0.1"),
        ] {
            let refused = settings.set(&[(name.as_bytes(), value.as_bytes())]).unwrap_err();
            let expected = format!("(possibly related to argument '{name}') - ");
            assert!(refused.contains(&expected), "{refused}");
            let default = PARAMETERS[find(name.as_bytes()).unwrap()].1.to_owned();
            assert_eq!(settings.set(&[(name.as_bytes(), default.as_bytes())]), Ok(()), "{name}");
        }
    }
}
