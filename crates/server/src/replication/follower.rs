//! A replica as clients see it, whatever server it is.

/// A replica.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Follower<'r> {
    /// Where it listens, as it says.
    pub(crate) ip: &'r str,
    /// See `ip`.
    pub(crate) port: u16,
    /// How far it is: a version, or a place in the stream of servers of Redis.
    pub(crate) reached: u64,
    /// When it was last heard of.
    pub(crate) heard_ms: u64,
    /// It has all that it was given at first.
    pub(crate) is_online: bool,
    /// It is a server of Redis.
    pub(crate) is_redis: bool,
}

impl Follower<'_> {
    /// Its state, as INFO names it.
    pub(crate) fn state(&self) -> &'static str {
        if self.is_online { "online" } else { "send_bulk" }
    }
}
