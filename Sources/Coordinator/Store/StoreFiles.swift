package import Merge

/// The door through which a store touches files itself, beside SQLite.
///
/// A simulation puts a disk of its own here; everybody else has ``SystemFiles``.
package protocol StoreFiles: Sendable {
    /// Takes the lock of a store for life.
    ///
    /// - Throws: ``CoordinatorError``: `storeInUse` where somebody has it, `inputOutput` where
    ///   the lock cannot be made.
    func lock(storePath: String) throws -> any StoreLock

    /// The one name under which a file is known, whatever links lead to it; also of one that is not
    /// there.
    ///
    /// SQLite follows links to a store and its log. Were the files beside the store named by what
    /// somebody calls it, two processes could have it, each with a lock of its own.
    func resolved(_ path: String) -> String

    /// The file that a path names; nil if there is none, or if that is unknown.
    func identity(of path: String) -> FileIdentity?

    /// The names of all that is in a file's folder; none if that is unknown.
    func names(beside path: String) -> [String]

    /// The length of a file in bytes; nil where there is no such file.
    func size(of path: String) -> UInt64?

    /// How many bytes more there is room for in a file's folder; nil if that is unknown.
    func room(beside path: String) -> UInt64?

    /// Reads up to `count` bytes: fewer where the file ends before; nil where it cannot be read.
    func read(_ path: String, from offset: UInt64, count: Int) -> [UInt8]?

    /// Replaces a small file atomically and durably, or makes it.
    ///
    /// - Throws: ``CoordinatorError``: `diskFull` or `inputOutput`; the file is as it was, or
    ///   replaced already.
    func replace(_ path: String, with bytes: [UInt8]) throws

    /// Writes a file's bytes once more where they are, and waits until they are on disk; that it
    /// is not there is no failure.
    ///
    /// After a sync that failed this alone makes sure of them: the system takes for written what
    /// it could not write, and a second sync has nothing to do. Nobody may write the file
    /// meanwhile.
    ///
    /// - Throws: ``CoordinatorError``: `diskFull` or `inputOutput`; its bytes are the same.
    func rewrite(_ path: String) throws

    /// Writes a part of a file, makes the file where there is none, and waits until it is on disk.
    ///
    /// - Throws: ``CoordinatorError``: `diskFull` or `inputOutput`; then any of it may be written.
    func write(_ bytes: [UInt8], to path: String, at offset: UInt64) throws

    /// Gives a file another name in the same folder, durably; a file of that name is replaced.
    ///
    /// - Throws: ``CoordinatorError``: `diskFull` or `inputOutput`; it has the one name or the
    ///   other.
    func move(_ path: String, to other: String) throws

    /// Gives a file a second name in the same folder, durably.
    ///
    /// - Throws: ``CoordinatorError``: `diskFull` or `inputOutput`, also where that name is taken.
    func link(_ path: String, as other: String) throws

    /// Removes a file durably; that it is not there is no failure.
    ///
    /// - Throws: ``CoordinatorError``: `inputOutput`.
    func remove(_ path: String) throws
}

/// The identity of a file among all others, as long as somebody has it open.
package struct FileIdentity: Hashable, Sendable {
    /// The file system.
    package let device: UInt64
    /// Its number there.
    package let number: UInt64
}

/// A lock that keeps everybody else from a store.
package protocol StoreLock: Sendable {
    /// The process that had this very lock last. It has ended, because nobody has the lock beside
    /// us. Nil if that is not certain: of a copy, after a restart of the machine, and on another
    /// one.
    var lastHolder: ActorID? { get }

    /// Writes down who has the lock, for ``lastHolder`` of the next one. Where that fails, the next one
    /// is not told.
    func note(holder: ActorID)

    /// Releases the lock; more than once is harmless.
    func release()
}

extension StoreLock {
    /// A lock that does not know.
    package var lastHolder: ActorID? { nil }

    /// A lock that writes nothing down.
    package func note(holder: ActorID) {}
}

extension StoreFiles {
    /// A disk without links.
    package func resolved(_ path: String) -> String { path }

    /// A disk that lists nothing.
    package func names(beside path: String) -> [String] { [] }

    /// A disk that gives files no identity.
    package func identity(of path: String) -> FileIdentity? { nil }

    /// Whether two paths name one file that is there.
    package func areOne(_ path: String, _ other: String) -> Bool {
        guard let identity = identity(of: path) else { return false }
        return identity == self.identity(of: other)
    }

    /// The room left to the store's own saves when something large is written beside it.
    package static var reservedBytes: UInt64 { 64 * 1024 * 1024 }

    /// Makes sure that a file of some length may be written without taking the room that saves
    /// need. If the room is unknown it may.
    ///
    /// - Throws: ``CoordinatorError``: `diskFull`.
    package func requireRoom(for count: UInt64, beside path: String) throws {
        guard let room = room(beside: path) else { return }
        let (needed, overflow) = count.addingReportingOverflow(Self.reservedBytes)
        guard overflow || needed > room else { return }
        throw CoordinatorError(
            .diskFull,
            "\(path) would have \(count) bytes, and there is room for \(room). Of these, "
                + "\(Self.reservedBytes) are kept for saves.")
    }
}
