//! Whether the files are as the region has made them.

use super::Region;
use crate::Error;
use crate::backend::Backend;
use crate::file_check::check_file;

impl Region {
    /// Finds out whether another program has removed a file of the region while it was open, or cut it short. Asks the system
    /// only: what the files hold is not looked at. A region in memory has no files.
    ///
    /// # Errors
    /// [`Error::Removed`]: what was synced goes with this process. [`Error::Truncated`]: to read what is missing ends the
    /// process, by SIGBUS. [`Error::Io`].
    pub fn check_files(&self) -> Result<(), Error> {
        let Some(pool) = self.file.as_ref().filter(|_| !self.is_forked()) else {
            return Ok(());
        };
        let (file, size) = {
            let header = pool.header();
            (header.file().clone(), header.get().size.get())
        };
        check_file(&*file, pool.path(), size)?;
        match &self.backend {
            Backend::Logged(logged) => logged.check_file(),
            _ => Ok(()),
        }
    }
}
