// The folder that the demo works in: what it made goes with it, what was there stays.

import Console
import Foundation

/// A folder that the demo has to itself.
struct DemoFolder: Sendable {
    let url: URL
    /// Whether it was there, empty.
    private let wasThere: Bool

    /// Makes the folder, or takes one that is empty.
    ///
    /// - Throws: ``CommandFailure`` where something lies there already, or it cannot be made.
    init(_ url: URL) throws {
        self.url = url
        let files = FileManager.default
        wasThere = files.fileExists(atPath: url.path)
        if wasThere {
            guard let found = try? files.contentsOfDirectory(atPath: url.path) else {
                throw CommandFailure.usage("--directory: \(url.path) is no folder to work in.")
            }
            guard found.isEmpty else {
                throw CommandFailure.usage(
                    "--directory: \(url.path) is not empty; name a new folder, or an empty one.")
            }
        }
        do {
            try files.createDirectory(at: url, withIntermediateDirectories: true)
        } catch {
            throw CommandFailure(
                .failed, "--directory: \(url.path) cannot be made: \(error.localizedDescription)")
        }
    }

    /// Removes what the demo has written here, and the folder if it made that; nothing else.
    func remove() {
        let files = FileManager.default
        let own = ["n1.", "n2.", "n3.", "model.json", "elements.control"]
        for name in (try? files.contentsOfDirectory(atPath: url.path)) ?? []
        where own.contains(where: name.hasPrefix) {
            try? files.removeItem(at: url.appendingPathComponent(name))
        }
        // Of a folder that is not empty nothing happens.
        if !wasThere { rmdir(url.path) }
    }
}
