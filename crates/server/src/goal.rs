//! How far replicas must be for a client that waits for them.

/// What a replica must have reached.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Goal {
    /// Of a server of Tembo: everything up to this version is durable there.
    pub(crate) version: u64,
    /// Of a server of Redis: the stream was executed up to this place.
    pub(crate) place: u64,
    /// That counts only if it is on that server's disk.
    pub(crate) durably: bool,
}
