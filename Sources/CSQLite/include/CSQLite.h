// What of SQLite takes arguments that vary, which Swift cannot call. The rest comes by GRDB.

struct sqlite3;

/// Whether the last connection to close writes the log back into the file and deletes it, as it
/// does unless told otherwise (SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE). Returns SQLite's result code.
int sqlite3_set_checkpoint_on_close(struct sqlite3 *connection, int is_on);
