//! A user: its passwords, and what it may do.

use sha2::{Digest, Sha256};

use crate::acl::catalog::{Catalog, Entry};
use crate::acl::key_spec::keys_of;
use crate::acl::rule_error::RuleError;
use crate::acl::selector::{Denied, Selector};
use crate::args::Args;
use crate::inline;

/// What rules need to know.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    /// All commands.
    pub(crate) catalog: &'a Catalog,
    /// A new selector may use all channels.
    pub(crate) all_channels: bool,
}

/// A user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    is_enabled: bool,
    is_without_password: bool,
    /// Whether RESTORE checks what it gives; `None`: not said. It is checked always.
    sanitizes: Option<bool>,
    /// SHA-256 of the passwords, in hexadecimal.
    passwords: Vec<String>,
    /// The first one is the user's own.
    selectors: Vec<Selector>,
}

impl User {
    /// A user that may do nothing.
    pub(crate) fn new(rules: Rules<'_>) -> User {
        User {
            is_enabled: false,
            is_without_password: false,
            sanitizes: None,
            passwords: Vec::new(),
            selectors: vec![Selector::new(rules.catalog, rules.all_channels)],
        }
    }

    /// The user of clients that have not authenticated: it may do everything, without a password.
    pub(crate) fn default_user(rules: Rules<'_>) -> User {
        let mut user = User::new(rules);
        for rule in ["+@all", "~*", "&*", "on", "nopass"] {
            // These rules are right.
            let _ = user.apply(rules, rule.as_bytes());
        }
        user
    }

    /// Whether it needs no password.
    pub(crate) fn is_open(&self) -> bool {
        self.is_enabled && self.is_without_password
    }

    /// Whether AUTH needs no password for it.
    pub(crate) fn is_without_password(&self) -> bool {
        self.is_without_password
    }

    /// Whether it may do everything.
    pub(crate) fn is_unrestricted(&self) -> bool {
        self.selectors.iter().any(Selector::is_unrestricted)
    }

    /// Whether it may come in with this password. Compares in a time that does not depend on how much of it is right.
    pub(crate) fn admits(&self, password: &[u8]) -> bool {
        if !self.is_enabled || self.is_without_password {
            return self.is_enabled;
        }
        let given = hash(password);
        let is_equal = |known: &String| {
            let pairs = known.bytes().zip(given.bytes());
            let difference = pairs.fold(0, |all, (known, given)| all | known ^ given);
            std::hint::black_box(difference) == 0
        };
        // All of them are compared, whichever is right.
        self.passwords.iter().filter(|known| is_equal(known)).count() > 0
    }

    /// Replaces all passwords: by this one, or by none that is needed.
    pub(crate) fn set_password(&mut self, password: &[u8]) {
        self.is_without_password = password.is_empty();
        self.passwords.clear();
        if !password.is_empty() {
            self.passwords.push(hash(password));
        }
    }

    /// Applies a rule of ACL SETUSER. Rules of a selector stand in parentheses, in one rule.
    pub(crate) fn apply(&mut self, rules: Rules<'_>, rule: &[u8]) -> Result<(), RuleError> {
        match rule.to_ascii_lowercase().as_slice() {
            b"" => {}
            b"on" => self.is_enabled = true,
            b"off" => self.is_enabled = false,
            b"skip-sanitize-payload" => self.sanitizes = Some(false),
            b"sanitize-payload" => self.sanitizes = Some(true),
            b"nopass" => (self.is_without_password, self.passwords) = (true, Vec::new()),
            b"resetpass" => (self.is_without_password, self.passwords) = (false, Vec::new()),
            b"clearselectors" => self.selectors.truncate(1),
            b"reset" => *self = User { sanitizes: Some(true), ..User::new(rules) },
            _ => return self.apply_other(rules, rule),
        }
        Ok(())
    }

    fn apply_other(&mut self, rules: Rules<'_>, rule: &[u8]) -> Result<(), RuleError> {
        match rule {
            [b'>', password @ ..] => self.add_password(hash(password)),
            [b'#', text @ ..] => self.add_password(check_hash(text)?),
            [b'<', password @ ..] => return self.remove_password(&hash(password)),
            [b'!', text @ ..] => return self.remove_password(&check_hash(text)?),
            [b'(', inner @ .., b')'] => {
                let mut selector = Selector::new(rules.catalog, rules.all_channels);
                for word in inline::split(inner).ok_or(RuleError::Syntax)? {
                    selector.apply(rules.catalog, &word)?;
                }
                self.selectors.push(selector);
            }
            _ => return self.selectors[0].apply(rules.catalog, rule),
        }
        Ok(())
    }

    fn add_password(&mut self, hash: String) {
        self.is_without_password = false;
        if !self.passwords.contains(&hash) {
            self.passwords.push(hash);
        }
    }

    fn remove_password(&mut self, hash: &str) -> Result<(), RuleError> {
        let at = self.passwords.iter().position(|known| known == hash);
        self.passwords.remove(at.ok_or(RuleError::NoSuchPassword)?);
        Ok(())
    }

    /// Whether it may have a request executed: one of its selectors must allow all of it. Of several reasons, that of
    /// the selector which has come furthest is given.
    pub(crate) fn check(
        &self,
        (number, entry): (usize, &Entry),
        args: Args<'_>,
    ) -> Result<(), Denied> {
        let keys = keys_of(entry.name, &entry.keys, args);
        let mut denied = Denied::Command;
        for selector in &self.selectors {
            match selector.check((number, entry), args, &keys) {
                Ok(()) => return Ok(()),
                Err(reason) => denied = denied.max(reason),
            }
        }
        Err(denied)
    }

    /// Whether one selector allows the request, and to read every key there is.
    pub(crate) fn may_read_all_keys(
        &self,
        (number, entry): (usize, &Entry),
        args: Args<'_>,
    ) -> bool {
        let keys = keys_of(entry.name, &entry.keys, args);
        self.selectors.iter().any(|selector| {
            selector.reads_all_keys() && selector.check((number, entry), args, &keys).is_ok()
        })
    }

    /// Whether it may subscribe to a channel, or to a pattern of channels.
    pub(crate) fn has_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.selectors.iter().any(|selector| selector.has_channel(channel, is_pattern))
    }

    /// Its flags, as ACL GETUSER shows them.
    pub(crate) fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.is_enabled { "on" } else { "off" }];
        if self.is_without_password {
            flags.push("nopass");
        }
        match self.sanitizes {
            Some(true) => flags.push("sanitize-payload"),
            Some(false) => flags.push("skip-sanitize-payload"),
            None => {}
        }
        flags
    }

    /// The hashes of its passwords.
    pub(crate) fn passwords(&self) -> &[String] {
        &self.passwords
    }

    /// Its selectors, its own first.
    pub(crate) fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    /// The rules that make it.
    pub(crate) fn describe(&self, catalog: &Catalog) -> Vec<u8> {
        let mut words: Vec<Vec<u8>> =
            self.flags().iter().map(|flag| flag.as_bytes().to_vec()).collect();
        words.extend(self.passwords.iter().map(|hash| format!("#{hash}").into_bytes()));
        for (at, selector) in self.selectors.iter().enumerate() {
            let rules = selector.describe(catalog);
            words.push(if at == 0 { rules } else { [b"(".as_slice(), &rules, b")"].concat() });
        }
        words.join(&b' ')
    }
}

/// SHA-256 in hexadecimal.
fn hash(password: &[u8]) -> String {
    Sha256::digest(password).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn check_hash(text: &[u8]) -> Result<String, RuleError> {
    let is_hash =
        text.len() == 64 && text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if !is_hash {
        return Err(RuleError::BadHash);
    }
    Ok(String::from_utf8_lossy(text).into_owned())
}

/// The rules with each selector as one: its rules may stand in several words. The error is the first word of one that is not
/// closed.
pub(crate) fn merge_selectors(words: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, Vec<u8>> {
    let mut rules = Vec::new();
    let mut open: Option<(Vec<u8>, Vec<u8>)> = None;
    for word in words {
        if word.first() == Some(&b'(') && word.last() != Some(&b')') {
            open = Some((word.clone(), word.clone()));
            continue;
        }
        match open.take() {
            None => rules.push(word.clone()),
            Some((first, rest)) => {
                let rest = [&rest[..], b" ", word].concat();
                match word.last() {
                    Some(b')') => rules.push(rest),
                    _ => open = Some((first, rest)),
                }
            }
        }
    }
    match open {
        Some((first, _)) => Err(first),
        None => Ok(rules),
    }
}
