//! The numbers of the protocol, which are sent with the highest byte first.

pub(crate) const GREETING: u64 = 0x4e42_444d_4147_4943;
pub(crate) const HAVE_OPTIONS: u64 = 0x4948_4156_454f_5054;
pub(crate) const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
pub(crate) const REQUEST: u32 = 0x2560_9513;
pub(crate) const SIMPLE_REPLY: u32 = 0x6744_6698;
pub(crate) const STRUCTURED_REPLY: u32 = 0x668e_33ef;

/// Of both sides: the fixed newstyle handshake; no zeros after the answer to `EXPORT_NAME`.
pub(crate) const FIXED_NEWSTYLE: u16 = 1;
pub(crate) const NO_ZEROES: u16 = 2;

/// What a client asks for in the handshake.
pub(crate) mod option {
    pub(crate) const EXPORT_NAME: u32 = 1;
    pub(crate) const ABORT: u32 = 2;
    pub(crate) const LIST: u32 = 3;
    pub(crate) const INFO: u32 = 6;
    pub(crate) const GO: u32 = 7;
    pub(crate) const STRUCTURED_REPLY: u32 = 8;
    pub(crate) const LIST_META_CONTEXT: u32 = 9;
    pub(crate) const SET_META_CONTEXT: u32 = 10;
}

/// What the server answers to an option.
pub(crate) mod answer {
    pub(crate) const ACK: u32 = 1;
    pub(crate) const SERVER: u32 = 2;
    pub(crate) const INFO: u32 = 3;
    pub(crate) const META_CONTEXT: u32 = 4;
    pub(crate) const UNSUPPORTED: u32 = 0x8000_0001;
    pub(crate) const INVALID: u32 = 0x8000_0003;
    pub(crate) const UNKNOWN: u32 = 0x8000_0006;
    pub(crate) const TOO_BIG: u32 = 0x8000_0009;
}

/// Kinds of information about an export.
pub(crate) mod info {
    pub(crate) const EXPORT: u16 = 0;
    pub(crate) const NAME: u16 = 1;
    pub(crate) const BLOCK_SIZE: u16 = 3;
}

/// What an export can do.
pub(crate) mod can {
    pub(crate) const HAS_FLAGS: u16 = 1;
    pub(crate) const READ_ONLY: u16 = 1 << 1;
    pub(crate) const FLUSH: u16 = 1 << 2;
    pub(crate) const FUA: u16 = 1 << 3;
    pub(crate) const TRIM: u16 = 1 << 5;
    pub(crate) const WRITE_ZEROES: u16 = 1 << 6;
    pub(crate) const DF: u16 = 1 << 7;
    pub(crate) const MULTI_CONN: u16 = 1 << 8;
    pub(crate) const FAST_ZERO: u16 = 1 << 11;
}

/// Requests.
pub(crate) mod command {
    pub(crate) const READ: u16 = 0;
    pub(crate) const WRITE: u16 = 1;
    pub(crate) const DISCONNECT: u16 = 2;
    pub(crate) const FLUSH: u16 = 3;
    pub(crate) const TRIM: u16 = 4;
    pub(crate) const WRITE_ZEROES: u16 = 6;
    pub(crate) const BLOCK_STATUS: u16 = 7;
}

/// Flags of requests.
pub(crate) mod flag {
    pub(crate) const FUA: u16 = 1;
    pub(crate) const NO_HOLE: u16 = 2;
    pub(crate) const DF: u16 = 4;
    pub(crate) const REQUEST_ONE: u16 = 8;
    pub(crate) const FAST_ZERO: u16 = 16;
}

/// Kinds of structured replies.
pub(crate) mod chunk {
    pub(crate) const DONE: u16 = 1;
    pub(crate) const OFFSET_DATA: u16 = 1;
    pub(crate) const BLOCK_STATUS: u16 = 5;
    pub(crate) const ERROR: u16 = 32_769;
}

/// Of a range: that it takes no space, and that it is zero.
pub(crate) const HOLE_AND_ZERO: u32 = 3;

/// Why a request has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) u32);

impl Errno {
    pub(crate) const NOT_PERMITTED: Errno = Errno(1);
    pub(crate) const IO: Errno = Errno(5);
    pub(crate) const INVALID: Errno = Errno(22);
    pub(crate) const NO_SPACE: Errno = Errno(28);
    pub(crate) const OVERFLOW: Errno = Errno(75);
    pub(crate) const NOT_SUPPORTED: Errno = Errno(95);
}

/// Bytes of a request before what it writes.
pub(crate) const REQUEST_SIZE: usize = 28;

/// Most bytes of one READ or WRITE, as the server announces it to clients.
pub(crate) const PAYLOAD_MAX: u32 = 32 << 20;

/// A request, without what it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) flags: u16,
    pub(crate) command: u16,
    /// Names the request in its reply.
    pub(crate) cookie: u64,
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

/// The bytes at `at`, as many as `N`; zero behind the end.
fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..at + N).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; N])
}

impl Request {
    /// `None`: it does not begin as a request does.
    pub(crate) fn of(bytes: &[u8; REQUEST_SIZE]) -> Option<Request> {
        (u32::from_be_bytes(bytes_at(bytes, 0)) == REQUEST).then(|| Request {
            flags: u16::from_be_bytes(bytes_at(bytes, 4)),
            command: u16::from_be_bytes(bytes_at(bytes, 6)),
            cookie: u64::from_be_bytes(bytes_at(bytes, 8)),
            offset: u64::from_be_bytes(bytes_at(bytes, 16)),
            len: u32::from_be_bytes(bytes_at(bytes, 24)),
        })
    }
}
