//! What a connection speaks.

/// What a connection speaks, with what its parser keeps from one command to the next.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Face {
    /// Redis's protocol.
    #[default]
    Redis,
    /// memcached's protocols.
    Items(ItemsFace),
    /// HTTP, for what Prometheus asks for.
    Metrics,
}

/// The state of a connection that speaks memcached's protocols.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ItemsFace {
    /// Its first byte was that of the binary protocol.
    pub(crate) is_binary: Option<bool>,
    /// So many bytes that arrive are ignored: the data of a command that was refused.
    pub(crate) ignored: usize,
}
