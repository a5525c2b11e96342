import Foundation
import Glibc

/// The files of the operating system.
package struct SystemFiles: StoreFiles {
    /// The one there is.
    package init() {}

    /// How many links may lead to each other, as for the system.
    private static let links = 40

    /// Refuses a directory in a store's place, which SQLite calls a disk error.
    ///
    /// - Throws: ``CoordinatorError`` that says so.
    static func refuseDirectory(_ path: String) throws {
        var status = stat()
        guard stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR else { return }
        throw CoordinatorError(
            .inputOutput, "\(path) is a directory; name the store's file in it.")
    }

    package func lock(storePath: String) throws -> any StoreLock {
        try Self.refuseDirectory(storePath)
        return try StoreOwnership(storePath: storePath)
    }

    package func resolved(_ path: String) -> String {
        var path = path
        for _ in 0..<Self.links {
            if let whole = Self.realPath(path) { return whole }
            // It is not there, but may be named by a link to what is to be made.
            let manager = FileManager.default
            guard let target = try? manager.destinationOfSymbolicLink(atPath: path) else { break }
            let folder = URL(fileURLWithPath: path).deletingLastPathComponent()
            path = URL(fileURLWithPath: target, relativeTo: folder).path
        }
        let file = URL(fileURLWithPath: path)
        guard let folder = Self.realPath(file.deletingLastPathComponent().path) else {
            return path
        }
        return URL(fileURLWithPath: folder).appendingPathComponent(file.lastPathComponent).path
    }

    /// The path of something that is there, without links.
    private static func realPath(_ path: String) -> String? {
        guard let found = realpath(path, nil) else { return nil }
        defer { free(found) }
        return String(cString: found)
    }

    package func identity(of path: String) -> FileIdentity? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        return FileIdentity(device: UInt64(status.st_dev), number: UInt64(status.st_ino))
    }

    package func names(beside path: String) -> [String] {
        (try? FileManager.default.contentsOfDirectory(atPath: Self.folder(of: path))) ?? []
    }

    package func size(of path: String) -> UInt64? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        return UInt64(max(0, status.st_size))
    }

    package func room(beside path: String) -> UInt64? {
        var status = statvfs()
        guard statvfs(Self.folder(of: path), &status) == 0 else { return nil }
        let (bytes, overflow) = UInt64(status.f_bavail)
            .multipliedReportingOverflow(by: UInt64(status.f_frsize))
        return overflow ? nil : bytes
    }

    package func read(_ path: String, from offset: UInt64, count: Int) -> [UInt8]? {
        guard let start = Int(exactly: offset), count >= 0 else { return nil }
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var failed = false
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            while filled < count {
                let got = pread(
                    descriptor, buffer.baseAddress.map { $0 + filled }, count - filled,
                    start + filled)
                if got < 0, errno == EINTR { continue }
                failed = got < 0
                if got <= 0 { return }
                filled += got
            }
        }
        return failed ? nil : bytes
    }

    package func replace(_ path: String, with bytes: [UInt8]) throws {
        let temporary = path + "-new"
        let descriptor = open(temporary, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Self.failure("open", temporary) }
        do {
            defer { close(descriptor) }
            try Self.write(bytes, to: descriptor, temporary)
            guard fsync(descriptor) == 0 else { throw Self.failure("sync", temporary) }
        } catch {
            unlink(temporary)
            throw error
        }
        guard rename(temporary, path) == 0 else {
            let failure = Self.failure("rename", temporary)
            unlink(temporary)
            throw failure
        }
        try Self.syncFolder(of: path)
    }

    package func rewrite(_ path: String) throws {
        guard let size = size(of: path), size > 0 else { return }
        let descriptor = open(path, O_RDWR | O_CLOEXEC)
        guard descriptor >= 0 else { throw Self.failure("open", path) }
        defer { close(descriptor) }
        // A log may be large; a piece of it at a time is enough.
        var offset = 0
        while true {
            var piece = [UInt8](repeating: 0, count: 1 << 20)
            let count = pread(descriptor, &piece, piece.count, offset)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw Self.failure("read", path) }
            if count == 0 { break }
            try Self.write(Array(piece[..<count]), to: descriptor, path)
            offset += count
        }
        guard fsync(descriptor) == 0 else { throw Self.failure("sync", path) }
        try Self.syncFolder(of: path)
    }

    package func remove(_ path: String) throws {
        guard unlink(path) == 0 else {
            if errno == ENOENT { return }
            throw Self.failure("remove", path)
        }
        try Self.syncFolder(of: path)
    }

    package func write(_ bytes: [UInt8], to path: String, at offset: UInt64) throws {
        let isNew = size(of: path) == nil
        let descriptor = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Self.failure("open", path) }
        defer { close(descriptor) }
        guard let start = Int(exactly: offset), lseek(descriptor, start, SEEK_SET) == start else {
            throw Self.failure("seek in", path)
        }
        try Self.write(bytes, to: descriptor, path)
        guard fsync(descriptor) == 0 else { throw Self.failure("sync", path) }
        if isNew { try Self.syncFolder(of: path) }
    }

    package func move(_ path: String, to other: String) throws {
        guard rename(path, other) == 0 else { throw Self.failure("rename", path) }
        try Self.syncFolder(of: other)
    }

    package func link(_ path: String, as other: String) throws {
        guard Glibc.link(path, other) == 0 else { throw Self.failure("link", path) }
        try Self.syncFolder(of: other)
    }

    private static func write(_ bytes: [UInt8], to descriptor: Int32, _ path: String) throws {
        try bytes.withUnsafeBytes { buffer in
            var written = 0
            while written < buffer.count {
                let count = Glibc.write(
                    descriptor, buffer.baseAddress.map { $0 + written }, buffer.count - written)
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { throw failure("write", path) }
                written += count
            }
        }
    }

    private static func folder(of path: String) -> String {
        switch path.lastIndex(of: "/") {
        case nil: "."
        case path.startIndex?: "/"
        case let slash?: String(path[..<slash])
        }
    }

    /// A name is on disk for certain only when its folder is.
    private static func syncFolder(of path: String) throws {
        let folder = folder(of: path)
        let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure("open", folder) }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw failure("sync", folder) }
    }

    private static func failure(_ verb: String, _ path: String) -> CoordinatorError {
        let reason = errno
        if reason == ENOSPC || reason == EDQUOT {
            return CoordinatorError(.diskFull, "The disk is full: cannot \(verb) \(path).")
        }
        return CoordinatorError(
            .inputOutput, "Cannot \(verb) \(path): \(String(cString: strerror(reason))).")
    }
}
