//! Bytes as a pool that a server serves: what its values say is not to be trusted either.

use std::io::{self, ErrorKind};

use tembo_kv::Store;

use super::options::options;
use super::talk::{End, Running, converse};
use super::{Face, Fate, FileFace};

/// What is asked of every pool: everything that it holds, and some changes.
const QUESTIONS: &[u8] = b"INFO\r\nDBSIZE\r\nKEYS *\r\nSCAN 0 COUNT 100\r\nRANDOMKEY\r\nMGET key:0000 \
key:0001 key:0002 key:0003 key:0004 key:0005 key:0010 key:0011 key:0017 long last one\r\nGET long ago\r\n\
*2\r\n$8\r\nEXPIRETIME\r\n$8\r\nsome day\r\n*2\r\n$3\r\nGET\r\n$8\r\nlong ago\r\nTYPE last\r\nAPPEND last more\r\n\
SETRANGE key:0001 5 x\r\nGETRANGE long -20 -1\r\nEXPIRE key:0002 100\r\nPERSIST key:0002\r\nPEXPIREAT key:0004 1\r\n\
INCR number\r\nSET new value EX 10\r\nRENAME key:0005 other\r\nCOPY other third\r\nMOVE third 1\r\n\
MULTI\r\nSET a 1\r\nDEL key:0000\r\nEXEC\r\nSELECT 1\r\nKEYS *\r\nGET one\r\nFLUSHDB\r\nSAVE\r\nSELECT 0\r\n\
MEMORY USAGE long\r\nOBJECT ENCODING last\r\nDEL long last\r\nFLUSHALL\r\nPING\r\n";

/// A folder in which bytes are offered, and a server for each.
pub struct ServeFace {
    place: FileFace,
}

impl ServeFace {
    /// # Errors
    /// Of making the folder.
    pub fn new() -> io::Result<ServeFace> {
        Ok(ServeFace { place: FileFace::pool()? })
    }
}

impl Face for ServeFace {
    fn offer(&mut self, bytes: &[u8]) -> Fate {
        if let Err(error) = self.place.write(bytes) {
            return Fate::Wrong(format!("writing the files: {error}"));
        }
        let store = Store::open(&self.place.path(), &options());
        let Ok(Ok(running)) = store.map(Running::over) else {
            return Fate::Refused;
        };
        let hangs =
            |error: &io::Error| matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock);
        // Twice: the second comes upon what the first has left.
        for _ in 0..2 {
            if converse(running.address, QUESTIONS).is_err_and(|error| hangs(&error)) {
                return Fate::Wrong("the server neither answers nor closes".into());
            }
        }
        match running.stop() {
            Ok(()) => Fate::Sound,
            Err(End::Error(_)) => Fate::Damaged,
            Err(End::Panic) => Fate::Wrong("the server panicked".into()),
        }
    }
}
