//! What the parts of the machine say to each other: requests of the host, commands to loggers, their replies, and
//! notices to the host.

/// A transaction as an application names it: its channel, and one of its 64 numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The application's channel.
    pub channel: u32,
    /// The virtual transaction ID.
    pub tid: u8,
}

/// The states of the thesis's figure 3.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No transaction.
    Free,
    /// It has logged something.
    Pending,
    /// `Commit` was issued; it is committed when all participants have marked it, and free after the write-back.
    Committed,
    /// `Abort` was issued, and is not over.
    Aborting,
}

/// A write with its place in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Where the data go after the commit.
    pub target: u64,
    /// Where they are logged: on the same controllers.
    pub log: u64,
    /// The data.
    pub data: Vec<u8>,
}

/// What the host asks for (thesis, table 3.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Records a write in the log; the target does not change.
    LogWrite(Owner, Write),
    /// Commits a transaction.
    Commit(Owner),
    /// Cancels a transaction.
    Abort(Owner),
    /// Cancels what was logged by the write at that log offset, and later.
    AbortTo(Owner, u64),
    /// A [`Request::LogWrite`] and a [`Request::Commit`] in one.
    AtomicWrite(Owner, Write),
    /// A write that is no part of a transaction: of data, or of what is logged and not yet committed.
    Write {
        /// Where.
        target: u64,
        /// The data.
        data: Vec<u8>,
    },
}

/// A part of a write that lies on one controller, in the addresses of its file space.
#[derive(Clone, Debug)]
pub(crate) struct LocalWrite {
    pub(crate) target: u64,
    pub(crate) log: u64,
    pub(crate) data: Vec<u8>,
    /// Which of the transaction's writes it is a part of, in the order in which they were issued.
    pub(crate) order: u32,
}

/// What a commit is to leave in a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commit {
    pub(crate) sequence: u64,
    pub(crate) participants: u64,
}

/// From the central controller to a logger.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    LogWrite(u8, LocalWrite),
    Commit(u8, Commit),
    /// Both, of a transaction that has no other participant: it is written back as soon as it may be.
    AtomicWrite(u8, LocalWrite, Commit),
    /// All participants have marked the transaction.
    Apply(u8),
    /// Keeps what was logged before that order.
    Abort(u8, u32),
    /// Of a write that is no part of a transaction, by its number.
    Write {
        number: u64,
        target: u64,
        data: Vec<u8>,
    },
}

/// What a logger has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// A part of the write of that order.
    Logged(u32),
    Committed,
    /// The write-back is over.
    Applied,
    Aborted,
    /// A part of the write of that number.
    Written(u64),
}

/// From a logger to the central controller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply {
    pub(crate) logger: usize,
    pub(crate) tid: u8,
    pub(crate) done: Done,
    /// Entries of metadata that are free again.
    pub(crate) freed: u32,
}

/// What the host learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A `LogWrite` is in the log.
    Logged(Owner),
    /// The transaction has logically committed: the first notification.
    Committed {
        /// Which one.
        owner: Owner,
        /// Its place in the order of all commits.
        sequence: u64,
    },
    /// The write-back is over, and the transaction free: the second notification.
    WrittenBack(Owner),
    /// An `Abort` is over.
    Aborted(Owner),
    /// A write that is no part of a transaction is durable.
    Written,
}
