// Making room for the store before it is opened.
//
// Functions without state; may be used from any thread. They block on the disk.

internal import Foundation
internal import Glibc

extension NodeConfiguration {
    /// Makes the folder of the store, and refuses a path at which something else than a file lies:
    /// beside a device SQLite would leave its own files.
    ///
    /// - Throws: ``NodeError`` with `configurationInvalid`.
    func prepareStore() throws(NodeError) {
        let folder = (store as NSString).deletingLastPathComponent
        if !folder.isEmpty {
            do {
                try FileManager.default.createDirectory(
                    atPath: folder, withIntermediateDirectories: true)
            } catch {
                throw NodeError(
                    .configurationInvalid,
                    "store: the folder \(folder) cannot be made: \(Self.reason(error))",
                    context: ["key": "store", "file": folder], cause: error)
            }
        }
        var status = stat()
        guard stat(store, &status) == 0, status.st_mode & S_IFMT != S_IFREG else { return }
        throw NodeError(
            .configurationInvalid, "store: \(store) is no regular file",
            context: ["key": "store", "file": store])
    }

    /// What the system says; Foundation knows sentences for some failures only.
    private static func reason(_ error: any Error) -> String {
        guard let cause = (error as? CocoaError)?.underlying else {
            return error.localizedDescription
        }
        return String(cString: strerror(Int32((cause as NSError).code)))
    }
}
