import Foundation

/// A folder that lives as long as one benchmark.
struct Workspace {
    /// Its path.
    let path: String

    /// Makes an empty folder below another.
    init(below directory: String, _ name: String) throws {
        path = URL(fileURLWithPath: directory).path + "/\(name)-\(getpid())"
        try? FileManager.default.removeItem(atPath: path)
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    /// The path of a file in it.
    func file(_ name: String) -> String { path + "/" + name }

    /// Removes a store's file with all that SQLite keeps beside it.
    func removeStore(_ name: String) {
        for suffix in ["", "-wal", "-shm", "-lock"] {
            try? FileManager.default.removeItem(atPath: file(name) + suffix)
        }
    }

    /// Removes it with all that is in it.
    func remove() { try? FileManager.default.removeItem(atPath: path) }

    /// Runs a benchmark in a folder, which is removed afterwards, also after an error.
    static func with<Result>(
        _ directory: String, _ name: String, _ body: (Workspace) async throws -> Result
    ) async throws -> Result {
        let workspace = try Workspace(below: directory, name)
        defer { workspace.remove() }
        return try await body(workspace)
    }
}
