//! What the system honours of the files of a mount.

/// By the names that mount(8) has for it.
#[derive(Debug, clap::Args)]
pub(super) struct Honoured {
    /// Programs with the bit of another user's rights get them
    #[arg(long)]
    pub(super) suid: bool,
    /// Special files lead to their devices
    #[arg(long)]
    pub(super) dev: bool,
    /// No file is executed
    #[arg(long)]
    pub(super) noexec: bool,
}
