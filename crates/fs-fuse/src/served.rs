//! What requests are answered from: the trees, what is open, and what waits for a commit or a sync.

use fuser::{Errno, FileAttr, FileHandle, Generation, INodeNo, ReplyEmpty};
use tembo_fs::{AnyTree, AnyTreeMut, Error};

use crate::committer::{Committer, Kernel};
use crate::durable::Durable;
use crate::opened::{HANDLE_MIN, Opened};
use crate::place::Place;
use crate::replies::now;
use crate::syncs::Syncs;
use crate::trees::{Found, Trees};

/// What the kernel gets of an inode that it has asked for by a name.
pub(crate) type Shown = (FileAttr, Generation);

/// The file system, and what its programs have open.
pub(crate) struct Served {
    pub(crate) trees: Trees,
    pub(crate) durable: Durable,
    pub(crate) committer: Committer,
    kernel: Kernel,
    pub(crate) syncs: Syncs<ReplyEmpty>,
    pub(crate) opened: Opened,
    /// The kernel asks for access control lists, and checks them.
    pub(crate) has_lists: bool,
    /// What is visible waits for a sync.
    pub(crate) is_logged: bool,
}

impl Served {
    pub(crate) fn new(
        trees: Trees,
        durable: Durable,
        committer: Committer,
        kernel: Kernel,
    ) -> Served {
        let (syncs, opened) = (Syncs::default(), Opened::default());
        let is_logged = trees.fs.store().report().is_logged();
        Served { trees, durable, committer, kernel, syncs, opened, has_lists: false, is_logged }
    }

    /// The handle, if a file is open by it in a transaction of its own.
    pub(crate) fn own(number: INodeNo, handle: FileHandle) -> Option<u64> {
        let is_own = matches!(Place::of(number), Place::Now(_)) && handle.0 >= HANDLE_MIN;
        is_own.then_some(handle.0)
    }

    /// As `own`, of a change that may not say a handle.
    pub(crate) fn own_of(
        &self,
        number: INodeNo,
        handle: Option<FileHandle>,
        thread: u32,
    ) -> Option<u64> {
        match (handle, Place::of(number)) {
            (Some(handle), _) => Served::own(number, handle),
            (None, Place::Now(inode)) => self.opened.of_thread(inode, thread),
            _ => None,
        }
    }

    /// Reads a file, in the transaction of an open if there is one.
    pub(crate) fn read_one<T>(
        &self,
        number: INodeNo,
        own: Option<u64>,
        work: impl FnOnce(&mut AnyTree<'_>, u64) -> Result<T, Error>,
    ) -> Result<T, Errno> {
        match own {
            Some(handle) => self.opened.read(&self.trees.fs, handle, |tree| work(tree, number.0)),
            None => self.trees.read(number, work),
        }
    }

    /// Changes a file, in the transaction of an open if there is one.
    pub(crate) fn change_one<T>(
        &self,
        number: INodeNo,
        own: Option<u64>,
        work: impl FnOnce(&mut AnyTreeMut<'_, '_>, u64) -> Result<T, Error>,
    ) -> Result<T, Errno> {
        match own {
            Some(handle) => {
                self.opened.change(&self.trees.fs, handle, now(), |tree| work(tree, number.0))
            }
            None => self.trees.write([number], |tree, [number]| work(tree, number)),
        }
    }

    /// Makes the kernel ask for the attributes of an inode that a request has changed of which the answer says none. Without a range
    /// of bytes it waits for no other request, so that any thread may do it.
    pub(crate) fn forget_attributes(&self, number: INodeNo) {
        if let Some(notifier) = self.kernel.get() {
            // What the kernel does not know it need not forget.
            let _ = notifier.inval_inode(number, -1, 0);
        }
    }

    pub(crate) fn shown(&self, found: &Found) -> Result<Shown, Errno> {
        Ok((self.trees.attributes(found)?, Generation(found.1.generation)))
    }
}
