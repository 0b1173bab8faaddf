//! A text.

use crate::{Access, Bytes, Error, Layer, Persist, Ptr};

/// A text, or bytes. It is not changed but replaced by another one.
#[derive(Persist, Clone)]
#[persist(name = "tembo.PString")]
pub struct PString<'h>(Option<Ptr<'h, Bytes>>);

impl<'h> PString<'h> {
    /// The empty text, which takes no object.
    pub const EMPTY: PString<'h> = PString(None);

    /// A text of these bytes.
    ///
    /// # Errors
    /// As [`Access::alloc`].
    pub fn new<L: Layer>(tx: &mut Access<'h, L>, text: impl AsRef<[u8]>) -> Result<Self, Error> {
        let text = text.as_ref();
        let bytes = if text.is_empty() { None } else { Some(tx.alloc_bytes(text)?) };
        Ok(PString(bytes))
    }

    /// A copy of its bytes.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn to_bytes<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<Vec<u8>, Error> {
        self.0.as_ref().map_or(Ok(Vec::new()), |bytes| tx.bytes(bytes))
    }

    /// A copy of the text; bytes that are no UTF-8 are replaced.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn to_text<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<String, Error> {
        Ok(String::from_utf8_lossy(&self.to_bytes(tx)?).into_owned())
    }
}
