#include "CSQLite.h"

#include <sqlite3.h>

int sqlite3_set_checkpoint_on_close(struct sqlite3 *connection, int is_on) {
    return sqlite3_db_config(
        connection, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, !is_on, (int *)0);
}
