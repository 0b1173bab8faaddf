//! The commands, as permissions see them.

use crate::acl::key_spec::KeySpec;

/// What a command does with channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channels {
    /// Nothing that needs a permission.
    None,
    /// Its first argument is one.
    First,
    /// All its arguments are.
    All,
    /// All its arguments are patterns of them.
    Patterns,
}

/// A command or subcommand.
pub(crate) struct Entry {
    /// Its full name.
    pub(crate) name: &'static str,
    /// The number of its command, if it is a subcommand.
    pub(crate) parent: Option<usize>,
    /// A set of categories.
    pub(crate) categories: u32,
    /// Each client may execute it, also before AUTH.
    pub(crate) no_auth: bool,
    /// Where its keys are.
    pub(crate) keys: Vec<KeySpec>,
    /// Where its channels are.
    pub(crate) channels: Channels,
}

/// All commands and subcommands by their number in the table: subcommands come behind their command.
pub(crate) struct Catalog {
    entries: Vec<Entry>,
}

impl Catalog {
    /// Of these commands.
    pub(crate) fn new(entries: Vec<Entry>) -> Catalog {
        Catalog { entries }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.entries.len()
    }

    /// The command of that number.
    pub(crate) fn entry(&self, number: usize) -> Option<&Entry> {
        self.entries.get(number)
    }

    /// The number of the command of that full name, in any case.
    pub(crate) fn find(&self, name: &[u8]) -> Option<usize> {
        self.entries.iter().position(|entry| name.eq_ignore_ascii_case(entry.name.as_bytes()))
    }

    /// Whether a command is of a category.
    pub(crate) fn is_of(&self, number: usize, category: usize) -> bool {
        self.entries[number].categories >> category & 1 == 1
    }

    /// A command and its subcommands.
    pub(crate) fn with_subcommands(&self, number: usize) -> impl Iterator<Item = usize> + '_ {
        let is_sub = move |&at: &usize| self.entries[at].parent == Some(number);
        std::iter::once(number).chain((number + 1..self.count()).take_while(is_sub))
    }

    /// Whether it has subcommands.
    pub(crate) fn is_container(&self, number: usize) -> bool {
        self.with_subcommands(number).count() > 1
    }
}
