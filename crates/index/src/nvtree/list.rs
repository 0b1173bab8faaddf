//! The list of leaves. What it says is not to be trusted: a damaged one may go round, but a low key that
//! rises at every step does so only so often.

use super::leaf::Leaf;
use crate::Error;
use crate::error::damaged;

impl<'f> Leaf<'f> {
    /// The next leaf, which has keys above those here.
    pub(crate) fn following(&self) -> Result<Option<Leaf<'f>>, Error> {
        let Some(next) = self.next()? else { return Ok(None) };
        if next.low()? <= self.low()? {
            return damaged(next.offset(), "leaves in the order of their low keys");
        }
        Ok(Some(next))
    }
}
