/* Loads the extension before a program of SQLite's begins, which has no option for that. */

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void load(void) {
  const char *extension = getenv("TEMBO_SQLITE_EXTENSION");
  sqlite3 *db = 0;
  char *error = 0;
  if (!extension) return;
  if (sqlite3_open(":memory:", &db) || sqlite3_enable_load_extension(db, 1) ||
      sqlite3_load_extension(db, extension, 0, &error)) {
    fprintf(stderr, "%s: %s\n", extension, error ? error : sqlite3_errmsg(db));
    exit(1);
  }
  sqlite3_close(db);
}
