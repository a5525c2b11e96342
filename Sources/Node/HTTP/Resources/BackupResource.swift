// POST /v1/backup.

internal import Coordinator
internal import Glibc

/// Copies the store to a file on the node's machine.
struct BackupResource: Sendable {
    let services: HTTPServices

    func post(_ request: HTTPRequestParts) async throws -> HTTPAnswer {
        let fields = try JSONFields(
            try request.json(maximumBytes: services.maximumBodyBytes), allowed: ["path"])
        // The client cannot know the node's own folder.
        guard let path = try fields.string("path"), path.hasPrefix("/"), !path.utf8.contains(0)
        else { throw fields.wrong("path", "an absolute path on the node's machine") }
        let coordinator = services.coordinator
        do {
            let backup = try await services.copying { try coordinator.backUp(to: path) }
            return .json(.object(backup.json))
        } catch let error as CoordinatorError where error.code == .storeDamaged {
            // It is the copy that was found damaged, and the disk under it may be to blame, which
            // is whatever the client chose. So this is no proof against the store.
            throw HTTPError(500, error.code.rawValue, error.message)
        } catch let error as CoordinatorError where error.code == .inputOutput {
            let folder = Self.folder(of: path)
            var status = stat()
            guard stat(folder, &status) == 0, status.st_mode & S_IFMT == S_IFDIR else {
                throw HTTPError.malformed(
                    "\(path) cannot be made: there is no folder \(folder) on the node's machine.")
            }
            throw error
        }
    }

    /// The folder of an absolute path.
    private static func folder(of path: String) -> String {
        let folder = path.lastIndex(of: "/").map { path[..<$0] } ?? ""
        return folder.isEmpty ? "/" : String(folder)
    }
}
