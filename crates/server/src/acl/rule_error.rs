//! Why a rule is not accepted.

/// Why a rule is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleError {
    /// There is no such command or category.
    Unknown,
    /// It cannot be understood.
    Syntax,
    /// All keys are allowed already.
    AfterAllKeys,
    /// All channels are allowed already.
    AfterAllChannels,
    /// The user has no such password.
    NoSuchPassword,
    /// It is no hash of a password.
    BadHash,
    /// A subcommand with a first argument.
    ArgumentOfSubcommand,
}

impl RuleError {
    /// The text, as Redis has it.
    pub(crate) fn text(self) -> &'static str {
        match self {
            RuleError::Unknown => "Unknown command or category name in ACL",
            RuleError::Syntax => "Syntax error",
            RuleError::AfterAllKeys => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. \
                 Try 'resetkeys' to start with an empty list of patterns"
            }
            RuleError::AfterAllChannels => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any \
                 effect. Try 'resetchannels' to start with an empty list of channels"
            }
            RuleError::NoSuchPassword => {
                "The password you are trying to remove from the user does not exist"
            }
            RuleError::BadHash => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            RuleError::ArgumentOfSubcommand => {
                "Allowing first-arg of a subcommand is not supported"
            }
        }
    }
}
