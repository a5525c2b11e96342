/// The files of a disk with their bytes: a backup, or the disk of a copied machine.
package struct DiskImage: Hashable, Sendable {
    /// A file.
    package struct File: Hashable, Sendable {
        /// Its name without the folder.
        package var name: String
        /// Its bytes.
        package var bytes: [UInt8]

        /// Describes a file.
        package init(name: String, bytes: [UInt8]) {
            self.name = name
            self.bytes = bytes
        }
    }

    /// The files, by name.
    package var files: [File]

    /// Makes an image of files with different names, in any order.
    package init(files: [File] = []) {
        self.files = files.sorted { $0.name < $1.name }
    }

    private static let sideFile = "-incarnation"

    /// The store alone, as a copy of its file has it.
    var withoutSideFiles: DiskImage {
        DiskImage(files: files.filter { !$0.name.hasSuffix(Self.sideFile) })
    }

    /// The files beside the store.
    var onlySideFiles: DiskImage {
        DiskImage(files: files.filter { $0.name.hasSuffix(Self.sideFile) })
    }
}
