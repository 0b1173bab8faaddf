//! What SORT does with elements, however they are read: by what it weighs them, and what it shows of each.

use std::ops::Range;

use crate::failure::Failure;
use crate::float::{parse_double, without_spaces};
use crate::sort_run::{Order, Run, Weight};

/// What a pattern of SORT names with an element in the place of its `*`.
enum Named<'a> {
    /// The element.
    Element,
    /// Nothing.
    Nothing,
    /// The string under a key.
    String(Vec<u8>),
    /// A field of the hash under a key.
    Field(Vec<u8>, &'a [u8]),
}

/// Where SORT looks up what its patterns name.
pub(crate) trait LookUp {
    /// The string under a key, if there is one.
    ///
    /// # Errors
    /// Damage.
    fn string(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Failure>;

    /// The value of a field, if there is a hash with this one.
    ///
    /// # Errors
    /// Damage.
    fn field(&mut self, key: &[u8], field: &[u8]) -> Result<Option<Vec<u8>>, Failure>;
}

/// What is done with elements.
pub(crate) struct Plan {
    /// In which order they come.
    pub(crate) order: Order,
    /// They are sorted as texts, and not as numbers.
    pub(crate) is_alphabetic: bool,
    /// Of what they are sorted by, the pattern; `None`: by themselves.
    pub(crate) by: Option<Vec<u8>>,
    /// What is shown of each; nothing: itself.
    pub(crate) get: Vec<Vec<u8>>,
    /// Which of them are shown.
    pub(crate) range: Range<usize>,
}

impl Plan {
    /// Whether an element is weighed by something else.
    pub(crate) fn looks_up_weights(&self) -> bool {
        self.order != Order::Kept && self.by.is_some()
    }

    /// Whether it shows something else than elements.
    pub(crate) fn looks_up_shown(&self) -> bool {
        self.get.iter().any(|pattern| pattern != b"#")
    }

    /// Weighs an element of a run. Returns the bytes that were looked up.
    ///
    /// # Errors
    /// Those of `values`; the weight is no number.
    pub(crate) fn weigh(
        &self,
        (run, at): (&mut Run, usize),
        values: &mut dyn LookUp,
    ) -> Result<usize, Failure> {
        if self.order == Order::Kept {
            return Ok(0);
        }
        let Some(pattern) = &self.by else {
            if !self.is_alphabetic {
                let number = number(run.element(at))?;
                run.weigh(at, Weight::Number(number));
            }
            return Ok(0);
        };
        let found = look_up(pattern, run.element(at), values)?;
        if self.is_alphabetic {
            run.weigh(at, Weight::Text(found.as_deref()));
        } else {
            run.weigh(at, Weight::Number(found.as_deref().map_or(Ok(0.0), number)?));
        }
        Ok(found.map_or(0, |found| found.len()))
    }

    /// Gives to `show` what is shown of an element.
    ///
    /// # Errors
    /// Those of `values`.
    pub(crate) fn show(
        &self,
        element: &[u8],
        values: &mut dyn LookUp,
        show: &mut dyn FnMut(Option<&[u8]>),
    ) -> Result<(), Failure> {
        if self.get.is_empty() {
            show(Some(element));
        }
        for pattern in &self.get {
            show(look_up(pattern, element, values)?.as_deref());
        }
        Ok(())
    }
}

/// A text as a number. As of C's `strtod`, which takes nothing for zero.
fn number(text: &[u8]) -> Result<f64, Failure> {
    let number = if text.is_empty() { Some(0.0) } else { parse_double(without_spaces(text)) };
    Ok(number.ok_or("ERR One or more scores can't be converted into double")?)
}

fn named<'a>(pattern: &'a [u8], element: &[u8]) -> Named<'a> {
    if pattern == b"#" {
        return Named::Element;
    }
    let Some(star) = pattern.iter().position(|&byte| byte == b'*') else { return Named::Nothing };
    let behind = &pattern[star + 1..];
    let arrow = behind.windows(2).position(|two| two == b"->");
    let (behind, field) = match arrow {
        Some(at) if at + 2 < behind.len() => (&behind[..at], Some(&behind[at + 2..])),
        _ => (behind, None),
    };
    let key = [&pattern[..star], element, behind].concat();
    match field {
        Some(field) => Named::Field(key, field),
        None => Named::String(key),
    }
}

/// What stands under the key, or in the field, that a pattern names.
fn look_up(
    pattern: &[u8],
    element: &[u8],
    values: &mut dyn LookUp,
) -> Result<Option<Vec<u8>>, Failure> {
    match named(pattern, element) {
        Named::Element => Ok(Some(element.to_vec())),
        Named::Nothing => Ok(None),
        Named::String(key) => values.string(&key),
        Named::Field(key, field) => values.field(&key, field),
    }
}
