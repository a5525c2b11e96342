/* The same saves at Tributary, over HTTP, and at PostgreSQL, over libpq: one loop for both.
 *
 *   driver SIDE WORKLOAD CLIENTS SAVES ROWS PORT...
 *
 * SIDE is `tributary` or `postgresql`; each PORT is a server's on 127.0.0.1. Each client is a thread
 * that blocks, with one connection: client i is at server i mod the number of ports. WORKLOAD is
 *
 *   insert     each save inserts ROWS rows; then the time until all servers have all rows
 *   visible    inserts a row at the first server, then asks the second for it until it is there
 *   update     writes random cells of ROWS rows; each cell has one writer, each row has two
 *   increment  reads one of ROWS rows and saves it with 1 more, unless it has moved on meanwhile
 *   add        adds 1 to one of ROWS rows without reading it
 *   await      waits until the one server has SAVES rows
 *
 * It prints "ready" once all clients are connected (for `await`, before), waits for a line, works,
 * and prints one line of JSON, with times in seconds. It keeps its connections until its input ends.
 * The password of PostgreSQL is in PGPASSWORD. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <libpq-fe.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { noteBytes = 100, mostPorts = 8, mostRows = 1000 };
enum cell { countCell, noteCell, cells };

struct key { char text[96]; };
struct row { long values[cells]; char version[256]; };
struct text { char *bytes; size_t length, room; };
struct link { PGconn *server; int prepared[2]; int socket; struct text request, answer; };

/* What the workloads ask of a side. `write` returns false for a save that the side refuses. */
struct side {
    bool (*open)(struct link *, int port);
    bool (*insert)(struct link *, long first, int rows, struct key *keys);
    bool (*read)(struct link *, const struct key *, struct row *);
    bool (*write)(struct link *, const struct key *, enum cell, long value, const struct row *seen);
    bool (*add)(struct link *, const struct key *);
    long (*rows)(struct link *);
};

static const struct side *side;
static int clients, rows, ports[mostPorts], portCount;
static long saves;
static struct link watches[mostPorts];
static struct key keys[mostRows];
static long written[mostRows][cells];
static pthread_barrier_t barrier;

static void fail(const char *what, const char *why) {
    fprintf(stderr, "driver: %s: %s\n", what, why);
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

__attribute__((format(printf, 2, 3)))
static void append(struct text *text, const char *format, ...) {
    while (true) {
        va_list arguments;
        va_start(arguments, format);
        size_t room = text->room - text->length;
        size_t length = vsnprintf(text->bytes + text->length, room, format, arguments);
        va_end(arguments);
        if (length < room) {
            text->length += length;
            return;
        }
        text->room = 2 * text->room + length + 4096;
        if (!(text->bytes = realloc(text->bytes, text->room))) fail("memory", "there is no more");
    }
}

/* A text of 100 bytes that begins with a number. */
static void makeNote(char *note, long number) {
    int length = sprintf(note, "%ld ", number);
    for (int i = length; i < noteBytes; i++) note[i] = 'a' + i % 26;
    note[noteBytes] = 0;
}

/* Tributary: HTTP/1.1 over one connection that is kept. */

static bool openHTTP(struct link *link, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    link->socket = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(link->socket, (struct sockaddr *)&address, sizeof address) == 0) {
        int one = 1;
        setsockopt(link->socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        return true;
    }
    close(link->socket);
    return false;
}

/* Sends a request and reads its answer; the body follows the header in the link's text. */
static int ask(struct link *link, const char *route, const struct text *body, const char **found) {
    struct text *request = &link->request, *answer = &link->answer;
    request->length = 0;
    append(request, "%s HTTP/1.1\r\nHost: 127.0.0.1\r\n", route);
    if (body)
        append(request, "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
            body->length, body->bytes);
    else append(request, "\r\n");
    for (size_t sent = 0; sent < request->length;) {
        ssize_t count = send(link->socket, request->bytes + sent, request->length - sent, 0);
        if (count <= 0) fail(route, "the connection has ended");
        sent += count;
    }
    size_t whole = 0;
    answer->length = 0;
    while (whole == 0 || answer->length < whole) {
        if (answer->room - answer->length < 4096) {
            answer->room = 2 * answer->room + 65536;
            answer->bytes = realloc(answer->bytes, answer->room);
        }
        ssize_t count = recv(link->socket, answer->bytes + answer->length,
            answer->room - answer->length - 1, 0);
        if (count <= 0) fail(route, "the connection has ended");
        answer->length += count;
        answer->bytes[answer->length] = 0;
        char *end = whole ? NULL : strstr(answer->bytes, "\r\n\r\n");
        if (end) {
            char *length = strcasestr(answer->bytes, "\r\nContent-Length:");
            if (!length || length > end) fail(route, "the answer has no length");
            *found = (const char *)(end + 4 - answer->bytes);
            whole = (end + 4 - answer->bytes) + strtoul(length + 17, NULL, 10);
        }
    }
    *found = answer->bytes + (size_t)*found;
    return atoi(answer->bytes + 9);
}

/* What follows a name in an answer. */
static const char *field(const char *answer, const char *name) {
    const char *found = strstr(answer, name);
    if (!found) fail(name, answer);
    return found + strlen(name);
}

static void copyString(char *target, size_t room, const char *from) {
    size_t length = strcspn(from, "\"");
    if (length >= room) fail("an answer's string is too long", from);
    memcpy(target, from, length);
    target[length] = 0;
}

/* Whether a save was made. A node that refuses it answers with 409 or 503. */
static bool saveHTTP(struct link *link, const struct text *body, const char **answer) {
    int status = ask(link, "POST /v1/save", body, answer);
    if (status == 200) return true;
    if (status != 409 && status != 503) fail("save", *answer);
    return false;
}

static bool insertHTTP(struct link *link, long first, int count, struct key *keys) {
    static _Thread_local struct text body;
    char note[noteBytes + 1], name[32];
    const char *answer;
    body.length = 0;
    append(&body, "{\"operations\":[");
    for (int i = 0; i < count; i++) {
        makeNote(note, first + i);
        append(&body, "%s{\"insert\":\"Item\",", i ? "," : "");
        if (keys) append(&body, "\"id\":\"@%d\",", i);
        append(&body, "\"values\":{\"count\":%ld,\"note\":\"%s\"}}", first + i, note);
    }
    append(&body, "]}");
    if (!saveHTTP(link, &body, &answer)) return false;
    for (int i = 0; keys && i < count; i++) {
        sprintf(name, "\"@%d\":\"", i);
        copyString(keys[i].text, sizeof keys[i].text, field(answer, name));
    }
    return true;
}

static bool readHTTP(struct link *link, const struct key *key, struct row *row) {
    char route[160];
    const char *answer;
    snprintf(route, sizeof route, "GET /v1/objects/Item%s", strrchr(key->text, '/'));
    int status = ask(link, route, NULL, &answer);
    if (status == 404) return false;
    if (status != 200) fail(route, answer);
    row->values[countCell] = atol(field(answer, "\"count\":"));
    row->values[noteCell] = atol(field(answer, "\"note\":\""));
    copyString(row->version, sizeof row->version, field(answer, "\"version\":\""));
    return true;
}

static bool writeHTTP(struct link *link, const struct key *key, enum cell cell, long value,
    const struct row *seen) {
    static _Thread_local struct text body;
    char note[noteBytes + 1];
    const char *answer;
    body.length = 0;
    append(&body, "{\"operations\":[{\"update\":\"%s\",", key->text);
    if (seen) append(&body, "\"version\":\"%s\",", seen->version);
    makeNote(note, value);
    if (cell == noteCell) append(&body, "\"values\":{\"note\":\"%s\"}}]}", note);
    else append(&body, "\"values\":{\"count\":%ld}}]}", value);
    return saveHTTP(link, &body, &answer);
}

static bool addHTTP(struct link *link, const struct key *key) {
    static _Thread_local struct text body;
    const char *answer;
    body.length = 0;
    append(&body, "{\"operations\":[{\"update\":\"%s\",\"increment\":{\"count\":1}}]}", key->text);
    return saveHTTP(link, &body, &answer);
}

static long rowsHTTP(struct link *link) {
    static const char question[] = "{\"entity\":\"Item\",\"resultType\":\"count\"}";
    struct text body = {.bytes = (char *)question, .length = sizeof question - 1};
    const char *answer;
    if (ask(link, "POST /v1/fetch", &body, &answer) != 200) return -1;
    return atol(field(answer, "\"count\":"));
}

/* PostgreSQL: prepared statements over one connection. */

static PGresult *check(PGconn *server, PGresult *result) {
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        fail("postgresql", PQerrorMessage(server));
    return result;
}

static void prepare(PGconn *server, const char *name, const char *statement) {
    PQclear(check(server, PQprepare(server, name, statement, 0, NULL)));
}

static PGresult *run(PGconn *server, const char *name, int count, const char *const *values) {
    return check(server, PQexecPrepared(server, name, count, values, NULL, NULL, 0));
}

static bool openSQL(struct link *link, int port) {
    char address[128];
    snprintf(address, sizeof address,
        "host=127.0.0.1 port=%d user=postgres dbname=postgres sslmode=disable", port);
    link->server = PQconnectdb(address);
    if (PQstatus(link->server) != CONNECTION_OK) {
        PQfinish(link->server);
        return false;
    }
    prepare(link->server, "read", "SELECT count, note FROM item WHERE id = $1");
    prepare(link->server, "count", "UPDATE item SET count = $2 WHERE id = $1");
    prepare(link->server, "note", "UPDATE item SET note = $2 WHERE id = $1");
    prepare(link->server, "if", "UPDATE item SET count = $2 WHERE id = $1 AND count = $3");
    prepare(link->server, "add", "UPDATE item SET count = count + 1 WHERE id = $1");
    prepare(link->server, "rows", "SELECT count(*) FROM item");
    return true;
}

static bool insertSQL(struct link *link, long first, int count, struct key *keys) {
    static _Thread_local struct { char count[24], note[noteBytes + 1]; } texts[mostRows];
    static _Thread_local const char *values[2 * mostRows];
    char name[32];
    snprintf(name, sizeof name, "insert%d%s", count, keys ? "keys" : "");
    if (link->prepared[keys != NULL] != count) {
        struct text statement = {0};
        append(&statement, "INSERT INTO item (count, note) VALUES ");
        for (int i = 0; i < count; i++)
            append(&statement, "%s($%d, $%d)", i ? ", " : "", 2 * i + 1, 2 * i + 2);
        if (keys) append(&statement, " RETURNING id");
        prepare(link->server, name, statement.bytes);
        free(statement.bytes);
        link->prepared[keys != NULL] = count;
    }
    for (int i = 0; i < count; i++) {
        sprintf(texts[i].count, "%ld", first + i);
        makeNote(texts[i].note, first + i);
        values[2 * i] = texts[i].count;
        values[2 * i + 1] = texts[i].note;
    }
    PGresult *result = run(link->server, name, 2 * count, values);
    for (int i = 0; keys && i < count; i++)
        copyString(keys[i].text, sizeof keys[i].text, PQgetvalue(result, i, 0));
    PQclear(result);
    return true;
}

static bool readSQL(struct link *link, const struct key *key, struct row *row) {
    PGresult *result = run(link->server, "read", 1, (const char *[]){key->text});
    bool found = PQntuples(result) == 1;
    if (found) {
        copyString(row->version, sizeof row->version, PQgetvalue(result, 0, 0));
        row->values[countCell] = atol(row->version);
        row->values[noteCell] = atol(PQgetvalue(result, 0, 1));
    }
    PQclear(result);
    return found;
}

static bool writeSQL(struct link *link, const struct key *key, enum cell cell, long value,
    const struct row *seen) {
    char text[noteBytes + 1];
    if (cell == noteCell) makeNote(text, value);
    else sprintf(text, "%ld", value);
    const char *name = seen ? "if" : cell == noteCell ? "note" : "count";
    PGresult *result = run(link->server, name, seen ? 3 : 2,
        (const char *[]){key->text, text, seen ? seen->version : NULL});
    bool done = atoi(PQcmdTuples(result)) == 1;
    PQclear(result);
    return done;
}

static bool addSQL(struct link *link, const struct key *key) {
    PGresult *result = run(link->server, "add", 1, (const char *[]){key->text});
    bool done = atoi(PQcmdTuples(result)) == 1;
    PQclear(result);
    return done;
}

static long rowsSQL(struct link *link) {
    PGresult *result = run(link->server, "rows", 0, NULL);
    long count = atol(PQgetvalue(result, 0, 0));
    PQclear(result);
    return count;
}

static const struct side tributary = {openHTTP, insertHTTP, readHTTP, writeHTTP, addHTTP, rowsHTTP};
static const struct side postgresql = {openSQL, insertSQL, readSQL, writeSQL, addSQL, rowsSQL};

/* The workloads, the same for both. */

struct client {
    pthread_t thread;
    int number;
    struct link link;
    long done, refused;
    unsigned long random;
    double *latencies;
    bool (*work)(struct client *, long turn);
};

/* The same numbers in each run. */
static long draw(struct client *client, long below) {
    client->random = client->random * 6364136223846793005UL + 1442695040888963407UL;
    return (client->random >> 33) % below;
}

static bool insertRows(struct client *client, long turn) {
    return side->insert(&client->link, turn * rows, rows, NULL);
}

static bool seeRow(struct client *client, long turn) {
    struct key key;
    struct row row;
    usleep(5000);
    double *latency = &client->latencies[client->done];
    if (!side->insert(&client->link, turn, 1, &key)) return false;
    *latency = now();
    while (!side->read(&watches[1 % portCount], &key, &row)) {}
    *latency = now() - *latency;
    return true;
}

static bool updateCell(struct client *client, long turn) {
    long own = (rows * cells - client->number + clients - 1) / clients;
    long cell = client->number + clients * draw(client, own);
    long value = turn + 1;
    if (!side->write(&client->link, &keys[cell / cells], cell % cells, value, NULL)) return false;
    written[cell / cells][cell % cells] = value;
    return true;
}

static bool incrementRow(struct client *client, long turn) {
    (void)turn;
    struct row row;
    const struct key *key = &keys[draw(client, rows)];
    if (!side->read(&client->link, key, &row)) fail("increment", "a row is gone");
    return side->write(&client->link, key, countCell, row.values[countCell] + 1, &row);
}

static bool addToRow(struct client *client, long turn) {
    (void)turn;
    return side->add(&client->link, &keys[draw(client, rows)]);
}

static void *work(void *argument) {
    struct client *client = argument;
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    for (long turn = client->number; turn < saves; turn += clients) {
        double start = now();
        if (client->work(client, turn)) {
            if (client->work != seeRow) client->latencies[client->done] = now() - start;
            client->done++;
        } else client->refused++;
    }
    pthread_barrier_wait(&barrier);
    return NULL;
}

/* Waits until each server counts so many rows. */
static void awaitRows(long expected) {
    double deadline = now() + 300;
    for (int i = 0; i < portCount; i++)
        while (side->rows(&watches[i]) != expected) {
            if (now() > deadline) fail("await", "a server lacks rows after five minutes");
            usleep(1000);
        }
}

/* Waits until each server has what was saved at any: a row more at each comes last. */
static void settle(void) {
    awaitRows(side->rows(&watches[0]));
    long expected = side->rows(&watches[0]) + portCount;
    for (int i = 0; i < portCount; i++)
        if (!side->insert(&watches[i], 0, 1, NULL)) fail("settle", "a save was refused");
    awaitRows(expected);
}

/* Prints what the servers show of what was acknowledged. */
static void printLoss(bool isSum, long done) {
    long sum = 0, wrong = 0, touched = 0, differing = 0;
    for (int i = 0; i < rows; i++) {
        struct row shown[mostPorts];
        bool alike = true;
        for (int port = 0; port < portCount; port++) {
            if (!side->read(&watches[port], &keys[i], &shown[port])) fail("read", "a row is gone");
            for (int cell = 0; cell < cells; cell++)
                alike = alike && shown[port].values[cell] == shown[0].values[cell];
        }
        sum += shown[0].values[countCell];
        differing += !alike;
        for (int cell = 0; cell < cells; cell++) {
            touched += written[i][cell] != 0;
            wrong += written[i][cell] != 0 && shown[0].values[cell] != written[i][cell];
        }
    }
    printf(",\"lost\":%ld,\"of\":%ld,\"differing\":%ld", isSum ? done - sum : wrong,
        isSum ? done : touched, differing);
}

static int compare(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void awaitLine(void) {
    char line[16];
    if (!fgets(line, sizeof line, stdin)) exit(1);
}

/* Runs the clients and prints the figures, with those of the workload at the end. */
static void measure(const char *workload) {
    bool (*one)(struct client *, long) = !strcmp(workload, "insert") ? insertRows
        : !strcmp(workload, "visible") ? seeRow
        : !strcmp(workload, "update") ? updateCell
        : !strcmp(workload, "add") ? addToRow : incrementRow;
    bool changes = one == updateCell || one == addToRow || one == incrementRow;
    struct client *all = calloc(clients, sizeof *all);
    if (changes) {
        for (int i = 0; i < rows; i++)
            if (!side->insert(&watches[0], 0, 1, &keys[i])) fail(workload, "a save was refused");
        settle();
    }
    /* All are asked: a node ends a connection that asks nothing in its first ten seconds. */
    for (int i = 1; i < portCount; i++) side->rows(&watches[i]);
    long before = side->rows(&watches[0]);
    pthread_barrier_init(&barrier, NULL, clients + 1);
    for (int i = 0; i < clients; i++) {
        all[i] = (struct client){.number = i, .work = one, .random = 977 * (i + 1)};
        all[i].latencies = calloc(saves / clients + 2, sizeof(double));
        if (!side->open(&all[i].link, ports[i % portCount])) fail("connect", "it was refused");
        pthread_create(&all[i].thread, NULL, work, &all[i]);
    }
    pthread_barrier_wait(&barrier);
    puts("ready");
    awaitLine();
    double start = now();
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    double end = now();
    long done = 0, refused = 0;
    double *latencies = calloc(saves + 1, sizeof(double));
    for (int i = 0; i < clients; i++) {
        memcpy(latencies + done, all[i].latencies, all[i].done * sizeof(double));
        done += all[i].done;
        refused += all[i].refused;
    }
    if (changes) settle();
    else awaitRows(before += done * (one == insertRows ? rows : 1));
    double settled = now();
    qsort(latencies, done, sizeof(double), compare);
    printf("{\"count\":%ld,\"refused\":%ld,\"seconds\":%.6f,\"p50\":%.9f,\"p99\":%.9f,"
        "\"settled\":%.6f,\"rows\":%ld", done, refused, end - start, latencies[done / 2],
        latencies[done * 99 / 100], settled - end, before);
    if (changes) printLoss(one != updateCell, done);
    puts("}");
}

int main(int count, char **arguments) {
    if (count < 7 || count - 6 > mostPorts)
        fail("usage", "SIDE WORKLOAD CLIENTS SAVES ROWS PORT...");
    setvbuf(stdout, NULL, _IOLBF, 0);
    side = strcmp(arguments[1], "tributary") ? &postgresql : &tributary;
    const char *workload = arguments[2];
    double start = now();
    clients = atoi(arguments[3]);
    saves = atol(arguments[4]);
    rows = atoi(arguments[5]);
    portCount = count - 6;
    if (clients < 1 || saves < 1 || rows < 1 || rows > mostRows) fail("usage", "a number is wrong");
    bool awaits = !strcmp(workload, "await");
    if (awaits) {
        puts("ready");
        awaitLine();
        start = now();
    }
    for (int i = 0; i < portCount; i++) {
        ports[i] = atoi(arguments[6 + i]);
        double deadline = now() + (awaits ? 300 : 0);
        while (!side->open(&watches[i], ports[i])) {
            if (now() >= deadline) fail("connect", "it was refused");
            usleep(1000);
        }
    }
    if (awaits) {
        awaitRows(saves);
        printf("{\"seconds\":%.6f}\n", now() - start);
    } else measure(workload);
    while (getchar() != EOF) {}
    return 0;
}
