/* Makes the VFS of the extension that TEMBO_SQLITE_EXTENSION names the default one: SQLite calls this when it is initialised. */

#include "sqlite3.h"
#include <stdio.h>
#include <stdlib.h>

int tembo_default(const char *unused) {
  const char *extension = getenv("TEMBO_SQLITE_EXTENSION");
  sqlite3 *db = 0;
  char *error = 0;
  (void)unused;
  if (!extension) return SQLITE_OK;
  if (!sqlite3_vfs_find("tembo")) {
    if (sqlite3_open(":memory:", &db) || sqlite3_enable_load_extension(db, 1) ||
        sqlite3_load_extension(db, extension, 0, &error)) {
      fprintf(stderr, "%s: %s\n", extension, error ? error : sqlite3_errmsg(db));
      exit(1);
    }
    sqlite3_close(db);
  }
  return sqlite3_vfs_register(sqlite3_vfs_find("tembo"), 1);
}
