import Foundation

/// The session extension of the SQLite at hand, which records what a connection changes.
///
/// Its functions are looked up by name, because SQLite's header hides them and not every library
/// has them.
struct SessionRecorder {
    private typealias Create =
        @convention(c) (
            OpaquePointer, UnsafePointer<CChar>, UnsafeMutablePointer<OpaquePointer?>
        ) -> Int32
    private typealias Attach =
        @convention(c) (OpaquePointer?, UnsafePointer<CChar>?) -> Int32
    private typealias Take =
        @convention(c) (
            OpaquePointer?, UnsafeMutablePointer<Int32>,
            UnsafeMutablePointer<UnsafeMutableRawPointer?>
        ) -> Int32
    private typealias Delete = @convention(c) (OpaquePointer?) -> Void
    private typealias Free = @convention(c) (UnsafeMutableRawPointer?) -> Void

    private let create: Create
    private let attach: Attach
    private let take: Take
    private let delete: Delete
    private let free: Free

    /// Nil where this SQLite was built without the extension.
    init?() {
        func function<Signature>(_ name: String, as type: Signature.Type) -> Signature? {
            dlsym(nil, name).map { unsafeBitCast($0, to: type) }
        }
        guard let create = function("sqlite3session_create", as: Create.self),
            let attach = function("sqlite3session_attach", as: Attach.self),
            let take = function("sqlite3session_changeset", as: Take.self),
            let delete = function("sqlite3session_delete", as: Delete.self),
            let free = function("sqlite3_free", as: Free.self)
        else { return nil }
        self.create = create
        self.attach = attach
        self.take = take
        self.delete = delete
        self.free = free
    }

    /// Does something with a connection.
    ///
    /// - Returns: the changeset of what it changed in a table.
    func record(
        _ connection: OpaquePointer, table: String, _ body: () throws -> Void
    ) throws -> Data {
        var session: OpaquePointer?
        guard create(connection, "main", &session) == 0 else {
            throw BenchmarkError("SQLite makes no session.")
        }
        defer { delete(session) }
        guard attach(session, table) == 0 else {
            throw BenchmarkError("SQLite records nothing of \(table).")
        }
        try body()
        var (count, bytes): (Int32, UnsafeMutableRawPointer?) = (0, nil)
        guard take(session, &count, &bytes) == 0, let bytes, count > 0 else {
            throw BenchmarkError("SQLite recorded nothing of \(table).")
        }
        defer { free(bytes) }
        return Data(bytes: bytes, count: Int(count))
    }
}
