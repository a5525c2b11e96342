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
        try checkStore()
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
    }

    /// Refuses a place where no store can be made or written, without touching it: a path at which
    /// something else than a file lies, or one on whose way there is no folder that this process
    /// may write.
    ///
    /// - Throws: ``NodeError`` with `configurationInvalid`.
    func checkStore() throws(NodeError) {
        var status = stat()
        if stat(store, &status) == 0 {
            guard status.st_mode & S_IFMT == S_IFREG else {
                throw wrongStore("\(store) is no regular file", store)
            }
            guard access(store, R_OK | W_OK) == 0 else {
                throw wrongStore("\(store) cannot be written: \(Self.lastReason)", store)
            }
        }
        // The nearest folder there is, in which the others would be made.
        var place = folder.isEmpty ? "." : folder
        while stat(place, &status) != 0, errno == ENOENT {
            while place.hasSuffix("/") { place.removeLast() }
            guard let slash = place.lastIndex(of: "/") else {
                place = "."
                break
            }
            place = String(place[...slash])
        }
        guard stat(place, &status) == 0, status.st_mode & S_IFMT == S_IFDIR else {
            throw wrongStore("\(place) is no folder", place)
        }
        guard access(place, W_OK | X_OK) == 0 else {
            throw wrongStore("the folder \(place) cannot be written: \(Self.lastReason)", place)
        }
    }

    /// The folder of the store with its slash; empty for the current one. Not by Foundation, which
    /// traps on the path of a single character.
    private var folder: String { store.lastIndex(of: "/").map { String(store[...$0]) } ?? "" }

    private func wrongStore(_ reason: String, _ file: String) -> NodeError {
        NodeError(
            .configurationInvalid, "store: \(reason)", context: ["key": "store", "file": file])
    }

    private static var lastReason: String { String(cString: strerror(errno)) }

    /// The system's own text; Foundation knows sentences for some failures only.
    private static func reason(_ error: any Error) -> String {
        guard let cause = (error as? CocoaError)?.underlying else {
            return error.localizedDescription
        }
        return String(cString: strerror(Int32((cause as NSError).code)))
    }
}
