//! Permissions: users, their passwords, commands, keys and channels, as in Redis.
//!
//! ```text
//!   session ── user ──► selectors ── commands, keys, channels
//!                          ▲
//!   catalog: each command's categories, keys and channels
//! ```
//! A session of a user that may do everything is *unrestricted*: its commands pass with one look at a flag. Each change of
//! a user looks through the sessions, so that the flag is always right.
//!
//! Users live in memory. They are durable in the file that `aclfile` names (ACL SAVE) or in the configuration file (CONFIG REWRITE),
//! and are read from there when the server starts; they are not in the pool, and replicas and backups do not have them.

mod bits;
mod catalog;
mod category;
mod denials;
mod guesses;
mod key_spec;
mod rule_error;
mod selector;
mod user;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::args::Args;
use crate::config::Config;
use crate::config_file::replace_file;
use crate::error::Error;

pub(crate) use catalog::{Catalog, Channels, Entry};
pub(crate) use category::{CATEGORIES, category, category_set};
pub(crate) use denials::Denial;
pub(crate) use guesses::{Attempt, Guesses};
pub(crate) use key_spec::KeySpec;
pub(crate) use selector::{Denied, Selector, has_spaces};
pub(crate) use user::User;

use denials::Denials;
use user::{Rules, merge_selectors};

/// The user of clients that have not authenticated.
pub(crate) const DEFAULT_USER: &[u8] = b"default";

/// All users, and what they may do.
pub(crate) struct Acl {
    catalog: Catalog,
    users: BTreeMap<Vec<u8>, User>,
    file: Option<PathBuf>,
    /// A user that is made may use all channels: `acl-pubsub-default`.
    pub(crate) all_channels: bool,
    /// ACL LOG.
    pub(crate) denials: Denials,
    /// Wrong passwords.
    pub(crate) guesses: Guesses,
}

impl Acl {
    /// The users of the configuration, or of the file that it names.
    ///
    /// # Errors
    /// A rule that cannot be obeyed; a file that cannot be read; users in both places.
    pub(crate) fn new(catalog: Catalog, config: &Config) -> Result<Acl, Error> {
        let all_channels = config.directives.iter().rfind(|one| one.name == "acl-pubsub-default");
        let mut acl = Acl {
            catalog,
            users: BTreeMap::new(),
            file: config.aclfile.clone(),
            all_channels: all_channels.is_some_and(|one| one.value() == b"allchannels"),
            denials: Denials::default(),
            guesses: Guesses::default(),
        };
        let mut default_user = User::default_user(acl.rules());
        default_user.set_password(config.requirepass.as_deref().unwrap_or_default().as_bytes());
        acl.users.insert(DEFAULT_USER.to_vec(), default_user);
        let mut seen: Vec<&[u8]> = Vec::new();
        for directive in &config.users {
            let [name, words @ ..] = &directive.args[..] else {
                return Err(directive.wrong("a user has a name"));
            };
            if seen.contains(&name.as_slice()) {
                let name = String::from_utf8_lossy(name);
                return Err(directive.wrong(format!("Duplicate user '{name}' found")));
            }
            seen.push(name);
            let user = acl.built(name, None, words).map_err(|reason| directive.wrong(reason))?;
            acl.users.insert(name.clone(), user);
        }
        if let Some(file) = acl.file.clone() {
            if let Some(directive) = config.users.first() {
                return Err(directive.wrong(
                    "users are either in the configuration file or in the aclfile, not in both",
                ));
            }
            acl.load_from(&file).map_err(Error::Config)?;
        }
        Ok(acl)
    }

    fn rules(&self) -> Rules<'_> {
        Rules { catalog: &self.catalog, all_channels: self.all_channels }
    }

    /// The commands.
    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// A user.
    pub(crate) fn user(&self, name: &[u8]) -> Option<&User> {
        self.users.get(name)
    }

    /// All users, by name.
    pub(crate) fn users(&self) -> impl ExactSizeIterator<Item = (&Vec<u8>, &User)> {
        self.users.iter()
    }

    /// Whether clients need no password.
    pub(crate) fn is_open(&self) -> bool {
        self.user(DEFAULT_USER).is_some_and(User::is_open)
    }

    /// The user that the words make of another, or of none; the error is a text.
    fn built(&self, name: &[u8], from: Option<&User>, words: &[Vec<u8>]) -> Result<User, String> {
        if has_spaces(name) {
            return Err("Usernames can't contain spaces or null characters".to_owned());
        }
        let rules = merge_selectors(words).map_err(|first| {
            let first = String::from_utf8_lossy(&first).into_owned();
            format!("Unmatched parenthesis in acl selector starting at '{first}'.")
        })?;
        let mut user = from.cloned().unwrap_or_else(|| User::new(self.rules()));
        for rule in rules {
            user.apply(self.rules(), &rule).map_err(|error| {
                let rule = String::from_utf8_lossy(&rule).into_owned();
                format!("Error in ACL SETUSER modifier '{rule}': {}", error.text())
            })?;
        }
        Ok(user)
    }

    /// Makes or changes a user by all of the rules, or by none. Returns what the user was.
    ///
    /// # Errors
    /// A text that says which rule is wrong, and why.
    pub(crate) fn set_user(
        &mut self,
        name: &[u8],
        words: &[Vec<u8>],
    ) -> Result<Option<User>, String> {
        let user = self.built(name, self.users.get(name), words)?;
        Ok(self.users.insert(name.to_vec(), user))
    }

    /// Removes a user; whether there was one.
    pub(crate) fn remove_user(&mut self, name: &[u8]) -> bool {
        self.users.remove(name).is_some()
    }

    /// The password of the default user; empty: it needs none.
    pub(crate) fn set_default_password(&mut self, password: &[u8]) {
        if let Some(user) = self.users.get_mut(DEFAULT_USER) {
            user.set_password(password);
        }
    }

    /// Whether a user may have a request executed.
    pub(crate) fn check(&self, user: &[u8], number: usize, args: Args<'_>) -> Result<(), Denied> {
        match (self.users.get(user), self.catalog.entry(number)) {
            (Some(user), Some(entry)) => user.check((number, entry), args),
            // The user was removed, and its clients are about to end.
            _ => Err(Denied::Command),
        }
    }

    /// Whether a user may have a request executed that reads any key.
    pub(crate) fn may_read_all_keys(&self, user: &[u8], number: usize, args: Args<'_>) -> bool {
        match (self.users.get(user), self.catalog.entry(number)) {
            (Some(user), Some(entry)) => user.may_read_all_keys((number, entry), args),
            _ => false,
        }
    }

    /// The lines that make all users, as they stand in files.
    pub(crate) fn lines(&self) -> Vec<Vec<u8>> {
        let line = |(name, user): (&Vec<u8>, &User)| {
            [b"user ", &name[..], b" ", &user.describe(&self.catalog)].concat()
        };
        self.users.iter().map(line).collect()
    }

    /// The lines for a configuration file; none if users are kept in a file of their own, or nothing but the default
    /// user is there, as it is without rules.
    pub(crate) fn config_lines(&self, requirepass: &[u8]) -> Option<Vec<Vec<u8>>> {
        let mut plain = User::default_user(self.rules());
        plain.set_password(requirepass);
        let is_plain = self.users.len() == 1 && self.user(DEFAULT_USER) == Some(&plain);
        if self.file.is_some() {
            return None;
        }
        Some(if is_plain { Vec::new() } else { self.lines() })
    }

    /// Whether users are kept in a file of their own.
    pub(crate) fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Writes all users to their file. Durable when it returns.
    ///
    /// # Errors
    /// The system's: the file is as it was.
    pub(crate) fn save(&self) -> std::io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let mut text = self.lines().join(&b'\n');
        text.push(b'\n');
        replace_file(file, &text)
    }

    /// Takes all users from their file, or none if it is wrong; the error says where.
    pub(crate) fn load(&mut self) -> Result<(), String> {
        match self.file.clone() {
            Some(file) => self.load_from(&file),
            None => Ok(()),
        }
    }

    fn load_from(&mut self, file: &Path) -> Result<(), String> {
        let shown = file.display();
        let text = std::fs::read(file)
            .map_err(|error| format!("Error loading ACLs, opening file '{shown}': {error}"))?;
        let (mut users, mut errors) = (BTreeMap::new(), String::new());
        for (line, at) in text.split(|&byte| byte == b'\n').zip(1..) {
            let line = line.trim_ascii();
            let words: Vec<Vec<u8>> =
                line.split(|&byte| byte == b' ').map(<[u8]>::to_vec).collect();
            let [word, name, rules @ ..] = &words[..] else {
                if !line.is_empty() {
                    errors += &format!(
                        "{shown}:{at} should start with user keyword followed by the username. "
                    );
                }
                continue;
            };
            let name_shown = String::from_utf8_lossy(name);
            if word != b"user" {
                errors += &format!(
                    "{shown}:{at} should start with user keyword followed by the username. "
                );
            } else if users.contains_key(name) {
                errors += &format!("WARNING: Duplicate user '{name_shown}' found on line {at}. ");
            } else {
                match self.built(name, None, rules) {
                    Ok(user) => drop(users.insert(name.clone(), user)),
                    Err(reason) => errors += &format!("{shown}:{at}: {reason}. "),
                }
            }
        }
        if !errors.is_empty() {
            return Err(errors
                + "WARNING: ACL errors detected, no change to the previously active ACL rules was performed");
        }
        users.entry(DEFAULT_USER.to_vec()).or_insert_with(|| User::default_user(self.rules()));
        self.users = users;
        Ok(())
    }
}
