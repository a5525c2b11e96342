import Synchronization

@testable import Coordinator

/// The system's files. One operation fails: before it is done, or after. Where only
/// replacing counts, that operation is a replacement.
final class FailingFiles: StoreFiles {
    private let system = SystemFiles()
    let left: Mutex<Int>
    /// How many bytes there are left; nil for as many as there are.
    let room: Mutex<UInt64?>
    private let isDone: Bool
    private let onlyReplacing: Bool
    /// Whether a file's bytes can be written once more.
    private let rewrites: Bool

    init(
        failing: Int = 0, isDone: Bool = false, onlyReplacing: Bool = false, room: UInt64? = nil,
        rewrites: Bool = true
    ) {
        left = Mutex(failing)
        self.onlyReplacing = onlyReplacing
        self.isDone = isDone
        self.rewrites = rewrites
        self.room = Mutex(room)
    }

    private func attempt(
        isReplacing: Bool = false, _ operation: () throws -> Void
    ) throws {
        guard isReplacing || !onlyReplacing else { return try operation() }
        let fails = left.withLock { left in
            left -= 1
            return left == 0
        }
        if !fails || isDone { try operation() }
        if fails { throw CoordinatorError(.inputOutput, "The power failed.") }
    }

    func lock(storePath: String) throws -> any StoreLock { try system.lock(storePath: storePath) }
    func size(of path: String) -> UInt64? { system.size(of: path) }
    func identity(of path: String) -> FileIdentity? { system.identity(of: path) }
    func room(beside path: String) -> UInt64? { room.withLock { $0 } ?? system.room(beside: path) }
    func read(_ path: String, from offset: UInt64, count: Int) -> [UInt8]? {
        system.read(path, from: offset, count: count)
    }
    func rewrite(_ path: String) throws {
        guard rewrites else { throw CoordinatorError(.inputOutput, "The disk fails.") }
        try attempt { try system.rewrite(path) }
    }
    func remove(_ path: String) throws { try attempt { try system.remove(path) } }
    func replace(_ path: String, with bytes: [UInt8]) throws {
        try attempt(isReplacing: true) { try system.replace(path, with: bytes) }
    }
    func write(_ bytes: [UInt8], to path: String, at offset: UInt64) throws {
        try attempt { try system.write(bytes, to: path, at: offset) }
    }
    func move(_ path: String, to other: String) throws {
        try attempt { try system.move(path, to: other) }
    }
    func link(_ path: String, as other: String) throws {
        try attempt { try system.link(path, as: other) }
    }
}
