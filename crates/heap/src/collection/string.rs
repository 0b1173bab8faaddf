//! A text.

use crate::{Access, Bytes, Error, Layer, Persist, Ptr};

/// A text, or bytes. It is not changed but replaced by another one.
///
/// ```
/// # use tembo_heap::{Error, HeapFile, PString};
/// # let file = HeapFile::volatile(&Default::default())?;
/// # file.enter(|heap| {
/// heap.atomic(|tx| {
///     let text = PString::new(tx, "elephant")?;
///     assert_eq!((text.to_text(tx)?.as_str(), text.len(tx)?), ("elephant", 8));
///     assert!(!text.is_empty() && PString::EMPTY.is_empty());
///     Ok::<_, Error>(())
/// })?;
/// # Ok::<(), Error>(()) })?;
/// # Ok::<(), Error>(())
/// ```
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

    /// How many bytes it has.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn len<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<u64, Error> {
        let Some(bytes) = &self.0 else { return Ok(0) };
        let mut view = tx.view();
        let bytes = view.at(bytes)?;
        view.len_of_bytes(bytes)
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
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
