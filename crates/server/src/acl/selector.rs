//! A selector: commands, keys and channels that are allowed together.

use std::collections::BTreeMap;

use crate::acl::bits::Bits;
use crate::acl::catalog::{Catalog, Channels, Entry};
use crate::acl::category::{CATEGORIES, category};
use crate::acl::key_spec::KeyUse;
use crate::acl::rule_error::RuleError;
use crate::args::Args;
use crate::glob;

/// Keys that are allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyPattern {
    pattern: Vec<u8>,
    used: KeyUse,
}

/// Why a request is not allowed. The later, the further a selector has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Denied {
    /// The command.
    Command,
    /// The key at this argument.
    Key(usize),
    /// The channel at this argument.
    Channel(usize),
}

/// Commands, keys and channels that are allowed together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selector {
    commands: Bits,
    /// All commands, also those of later versions.
    future_commands: bool,
    /// No command was taken out since.
    all_commands: bool,
    /// Commands that are allowed with one of these first arguments.
    first_args: BTreeMap<usize, Vec<Vec<u8>>>,
    all_keys: bool,
    keys: Vec<KeyPattern>,
    all_channels: bool,
    channels: Vec<Vec<u8>>,
}

impl Selector {
    /// Nothing is allowed, but all channels if that is the default.
    pub(crate) fn new(catalog: &Catalog, all_channels: bool) -> Selector {
        Selector {
            commands: Bits::new(catalog.count(), false),
            future_commands: false,
            all_commands: false,
            first_args: BTreeMap::new(),
            all_keys: false,
            keys: Vec::new(),
            all_channels,
            channels: Vec::new(),
        }
    }

    /// Whether everything is allowed.
    pub(crate) fn is_unrestricted(&self) -> bool {
        self.all_commands && self.all_keys && self.all_channels
    }

    /// Applies a rule.
    pub(crate) fn apply(&mut self, catalog: &Catalog, rule: &[u8]) -> Result<(), RuleError> {
        match rule.to_ascii_lowercase().as_slice() {
            b"allkeys" | b"~*" => (self.all_keys, self.keys) = (true, Vec::new()),
            b"resetkeys" => (self.all_keys, self.keys) = (false, Vec::new()),
            b"allchannels" | b"&*" => (self.all_channels, self.channels) = (true, Vec::new()),
            b"resetchannels" => (self.all_channels, self.channels) = (false, Vec::new()),
            b"allcommands" | b"+@all" => self.set_all(catalog, true),
            b"nocommands" | b"-@all" => self.set_all(catalog, false),
            _ => return self.apply_other(catalog, rule),
        }
        Ok(())
    }

    fn apply_other(&mut self, catalog: &Catalog, rule: &[u8]) -> Result<(), RuleError> {
        match rule {
            [b'~' | b'%', ..] => self.add_keys(rule),
            [b'&', pattern @ ..] => {
                if self.all_channels {
                    return Err(RuleError::AfterAllChannels);
                }
                check_pattern(pattern)?;
                if !self.channels.iter().any(|known| known == pattern) {
                    self.channels.push(pattern.to_vec());
                }
                Ok(())
            }
            [sign @ (b'+' | b'-'), b'@', name @ ..] => {
                let category = category(name).ok_or(RuleError::Unknown)?;
                self.set_category(catalog, category, *sign == b'+');
                Ok(())
            }
            [b'+', name @ ..] => self.allow(catalog, name),
            [b'-', name @ ..] => {
                let number = catalog.find(name).ok_or(RuleError::Unknown)?;
                self.set_command(catalog, number, false);
                Ok(())
            }
            _ => Err(RuleError::Syntax),
        }
    }

    fn set_all(&mut self, catalog: &Catalog, is_allowed: bool) {
        self.commands = Bits::new(catalog.count(), is_allowed);
        (self.future_commands, self.all_commands) = (is_allowed, is_allowed);
        self.first_args.clear();
    }

    fn set_category(&mut self, catalog: &Catalog, category: usize, is_allowed: bool) {
        for number in (0..catalog.count()).filter(|&number| catalog.is_of(number, category)) {
            self.set_command(catalog, number, is_allowed);
        }
    }

    /// Allows or denies a command with its subcommands.
    fn set_command(&mut self, catalog: &Catalog, number: usize, is_allowed: bool) {
        self.first_args.remove(&number);
        for one in catalog.with_subcommands(number) {
            self.commands.set(one, is_allowed);
        }
        self.all_commands &= is_allowed;
    }

    /// Allows a command, a subcommand, or a command with a first argument.
    fn allow(&mut self, catalog: &Catalog, name: &[u8]) -> Result<(), RuleError> {
        let Some(bar) = name.iter().rposition(|&byte| byte == b'|') else {
            let number = catalog.find(name).ok_or(RuleError::Unknown)?;
            self.set_command(catalog, number, true);
            return Ok(());
        };
        let (command, rest) = (&name[..bar], &name[bar + 1..]);
        let number = catalog.find(command).ok_or(RuleError::Unknown)?;
        if catalog.entry(number).is_some_and(|entry| entry.parent.is_some()) {
            return Err(RuleError::ArgumentOfSubcommand);
        }
        if rest.is_empty() {
            return Err(RuleError::Syntax);
        }
        if catalog.is_container(number) {
            let number = catalog.find(name).ok_or(RuleError::Unknown)?;
            self.set_command(catalog, number, true);
            return Ok(());
        }
        let args = self.first_args.entry(number).or_default();
        if !args.iter().any(|known| known.eq_ignore_ascii_case(rest)) {
            args.push(rest.to_vec());
        }
        Ok(())
    }

    fn add_keys(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        if self.all_keys {
            return Err(RuleError::AfterAllKeys);
        }
        let (used, pattern) = match rule {
            [b'%', rest @ ..] => permissions(rest)?,
            _ => (KeyUse { reads: true, writes: true }, &rule[1..]),
        };
        if used == KeyUse::default() {
            return Err(RuleError::Syntax);
        }
        check_pattern(pattern)?;
        match self.keys.iter_mut().find(|known| known.pattern == pattern) {
            Some(known) => {
                known.used.reads |= used.reads;
                known.used.writes |= used.writes;
            }
            None => self.keys.push(KeyPattern { pattern: pattern.to_vec(), used }),
        }
        Ok(())
    }

    /// Whether a request is allowed; `keys` are its keys.
    pub(super) fn check(
        &self,
        (number, entry): (usize, &Entry),
        args: Args<'_>,
        keys: &[(usize, KeyUse)],
    ) -> Result<(), Denied> {
        if !self.all_commands && !entry.no_auth && !self.commands.has(number) {
            let at = if entry.parent.is_some() { 2 } else { 1 };
            let is_first = |first: &Vec<u8>| args.at(at).eq_ignore_ascii_case(first);
            let listed = self.first_args.get(&number);
            if args.count() < 2 || !listed.is_some_and(|listed| listed.iter().any(is_first)) {
                return Err(Denied::Command);
            }
        }
        if !self.all_keys
            && let Some((at, _)) = keys.iter().find(|(at, used)| !self.has_key(args.at(*at), *used))
        {
            return Err(Denied::Key(*at));
        }
        let channels = match entry.channels {
            _ if self.all_channels => 0..0,
            Channels::None => 0..0,
            Channels::First => 1..2.min(args.count()),
            Channels::All | Channels::Patterns => 1..args.count(),
        };
        let is_pattern = entry.channels == Channels::Patterns;
        for at in channels {
            if !self.has_channel(args.at(at), is_pattern) {
                return Err(Denied::Channel(at));
            }
        }
        Ok(())
    }

    fn has_key(&self, key: &[u8], used: KeyUse) -> bool {
        self.keys.iter().any(|allowed| {
            (allowed.used.reads || !used.reads)
                && (allowed.used.writes || !used.writes)
                && glob::matches(&allowed.pattern, key, false)
        })
    }

    /// Whether every key there is may be read.
    pub(super) fn reads_all_keys(&self) -> bool {
        self.all_keys || self.keys.iter().any(|one| one.used.reads && one.pattern == b"*")
    }

    /// Whether a channel is allowed, or a pattern of channels: it must be one that is allowed itself.
    pub(super) fn has_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.all_channels
            || self.channels.iter().any(|allowed| match is_pattern {
                true => allowed == channel,
                false => glob::matches(allowed, channel, false),
            })
    }

    /// The rules that allow its commands.
    pub(crate) fn describe_commands(&self, catalog: &Catalog) -> String {
        let mut rules = Selector::new(catalog, false);
        rules.set_all(catalog, self.future_commands);
        let (sign, opposite) = if self.future_commands { ("-", true) } else { ("+", false) };
        let mut words = vec![format!("{}@all", if opposite { "+" } else { "-" })];
        // Categories that fit best come first; what they cover is not counted again.
        let mut left = self.clone();
        let mut applied = [false; CATEGORIES.len()];
        while let Some(best) = left.best_category(catalog, opposite, &applied) {
            applied[best] = true;
            rules.set_category(catalog, best, !opposite);
            left.set_category(catalog, best, opposite);
            words.push(format!("{sign}@{}", CATEGORIES[best]));
        }
        for number in 0..catalog.count() {
            let Some(entry) = catalog.entry(number) else { continue };
            let is_allowed = self.commands.has(number);
            if is_allowed != rules.commands.has(number) {
                words.push(format!("{}{}", if is_allowed { "+" } else { "-" }, entry.name));
                rules.set_command(catalog, number, is_allowed);
            }
            for first in self.first_args.get(&number).into_iter().flatten() {
                words.push(format!("+{}|{}", entry.name, String::from_utf8_lossy(first)));
            }
        }
        words.join(" ")
    }

    /// The category of which most commands are such as those that are looked for, and fewest are not.
    fn best_category(
        &self,
        catalog: &Catalog,
        are_denied: bool,
        applied: &[bool; CATEGORIES.len()],
    ) -> Option<usize> {
        let mut best: Option<(usize, usize, usize)> = None;
        for category in (0..CATEGORIES.len()).filter(|&category| !applied[category]) {
            let numbers = (0..catalog.count()).filter(|&number| catalog.is_of(number, category));
            let (mut same, mut different) = (0, 0);
            for number in numbers {
                match self.commands.has(number) != are_denied {
                    true => same += 1,
                    false => different += 1,
                }
            }
            let is_better = best.is_none_or(|(_, fewest, most)| {
                different < fewest || different == fewest && same > most
            });
            if same > different && is_better {
                best = Some((category, different, same));
            }
        }
        best.map(|(category, ..)| category)
    }

    /// The rules that allow its keys.
    pub(crate) fn describe_keys(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let rule = |one: &KeyPattern| {
            let prefix = match (one.used.reads, one.used.writes) {
                (true, false) => "%R~",
                (false, true) => "%W~",
                _ => "~",
            };
            [prefix.as_bytes(), &one.pattern].concat()
        };
        self.keys.iter().map(rule).collect::<Vec<_>>().join(&b' ')
    }

    /// The rules that allow its channels.
    pub(crate) fn describe_channels(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        let rules = self.channels.iter().map(|channel| [b"&", channel.as_slice()].concat());
        rules.collect::<Vec<_>>().join(&b' ')
    }

    /// All its rules.
    pub(crate) fn describe(&self, catalog: &Catalog) -> Vec<u8> {
        let mut words = vec![self.describe_keys()];
        if !self.all_channels {
            words.push(b"resetchannels".to_vec());
        }
        words.push(self.describe_channels());
        words.push(self.describe_commands(catalog).into_bytes());
        words.retain(|word| !word.is_empty());
        words.join(&b' ')
    }
}

/// The permissions before a pattern: `R`, `W` or both, and `~`.
fn permissions(mut text: &[u8]) -> Result<(KeyUse, &[u8]), RuleError> {
    let mut used = KeyUse::default();
    while let [letter, rest @ ..] = text {
        text = rest;
        match letter.to_ascii_uppercase() {
            b'R' if !used.reads => used.reads = true,
            b'W' if !used.writes => used.writes = true,
            b'~' => return Ok((used, text)),
            _ => return Err(RuleError::Syntax),
        }
    }
    Err(RuleError::Syntax)
}

/// A pattern has no spaces and no null bytes, so that it can be written as one word.
fn check_pattern(pattern: &[u8]) -> Result<(), RuleError> {
    if has_spaces(pattern) { Err(RuleError::Syntax) } else { Ok(()) }
}

/// Whether a text has spaces or null bytes.
pub(crate) fn has_spaces(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b'\t'..=b'\r' | b' ' | 0))
}
