//! A reply that is made in several turns.

use crate::element_listing::ElementListing;
use crate::failure::Failure;
use crate::key_search::KeySearch;
use crate::reply::Reply;

/// What is under way for a client.
pub(crate) enum PutOff {
    /// KEYS.
    Keys(KeySearch),
    /// The elements of a large collection.
    Elements(ElementListing),
}

impl PutOff {
    /// Does some more of it; true: it has come to its end.
    ///
    /// # Errors
    /// Damage; what another server has written.
    pub(crate) fn advance(&mut self) -> Result<bool, Failure> {
        match self {
            PutOff::Keys(search) => search.advance(),
            PutOff::Elements(listing) => listing.advance(),
        }
    }

    /// Replies with what was found.
    pub(crate) fn reply(self, reply: &mut Reply) {
        match self {
            PutOff::Keys(search) => search.reply(reply),
            PutOff::Elements(listing) => listing.reply(reply),
        }
    }
}
