//! Where clients come in, for the time in which the event loop cannot look: a script runs that takes long.

use crate::listener::Listener;
use crate::poll::Poll;

/// The sockets of the event loop.
pub(crate) struct Door {
    /// The same sockets as the event loop's.
    pub(crate) poll: Poll,
    /// The same listeners.
    pub(crate) listeners: Vec<Listener>,
}
