//! What was not done, and why: a result code of SQLite's says little.

use std::ffi::CString;

use tembo_array::Error;
use tembo_kv as kv;

use crate::code::Code;
use crate::ffi::Api;

/// Something was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) code: Code,
    /// What is refused, and what to do; empty: there is no more to say than the code does.
    pub(crate) why: String,
}

impl Refused {
    /// The code, for SQLite; the program's error log gets the rest.
    pub(crate) fn logged(self, api: &Api) -> Code {
        if let Ok(why) = CString::new(self.why)
            && !why.is_empty()
        {
            api.log(self.code, &why);
        }
        self.code
    }
}

impl From<Code> for Refused {
    fn from(code: Code) -> Refused {
        Refused { code, why: String::new() }
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused { why: error.to_string(), code: error.into() }
    }
}

impl From<kv::Error> for Refused {
    fn from(error: kv::Error) -> Refused {
        Refused { why: error.to_string(), code: error.into() }
    }
}
