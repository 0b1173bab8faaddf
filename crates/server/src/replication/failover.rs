//! FAILOVER: a primary hands its place over to a replica, and loses nothing.
//!
//! ```text
//!   writes are held ──► a replica holds everything ──► this server follows it, and asks it to be a primary ──► writes go on,
//!                                                                                        and are refused here
//! ```
//! If that does not happen in time, or is refused, this server goes on as the primary.

/// A failover under way.
pub(super) struct Failover {
    /// The replica that is to be the primary; `None`: the first that holds everything.
    pub(super) target: Option<(String, u16)>,
    /// When it is given up, or forced, by the server's clock.
    pub(super) deadline_ms: Option<u64>,
    /// At the deadline the target becomes the primary, whatever it holds.
    pub(super) is_forced: bool,
    /// What the replica has to hold: the last version that was written.
    pub(super) version: Option<u64>,
    /// This server found no room, or no descriptor, to follow the replica.
    pub(super) is_refused: bool,
}

impl Failover {
    /// Whether it may be that replica.
    pub(super) fn takes(&self, ip: &str, port: u16) -> bool {
        self.target.as_ref().is_none_or(|(host, wanted)| host == ip && *wanted == port)
    }

    /// Whether its time is over.
    pub(super) fn is_late(&self, now_ms: u64) -> bool {
        self.deadline_ms.is_some_and(|deadline_ms| now_ms >= deadline_ms)
    }
}
