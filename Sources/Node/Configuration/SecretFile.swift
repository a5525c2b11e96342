// Small files: reading them whole within a bound, and secrets with the mode 0600.
//
// Functions without state; may be used from any thread. They block on the disk.

internal import Glibc

/// Files that hold a key or a token.
enum SecretFile {
    /// No key or token is longer; what is longer is not one.
    static let maximumBytes = 4096
    /// No private key of a certificate is longer.
    static let maximumKeyBytes = 65_536

    /// Reads a secret, without the white space around it.
    ///
    /// - Parameter key: the setting that names the file; nil where none does.
    /// - Throws: ``NodeError`` with `secretUnreadable` where it cannot be read, or where its mode
    ///   lets others than its owner read or write it.
    static func read(
        _ path: String, key: String? = nil, maximumBytes: Int = Self.maximumBytes
    ) throws(NodeError) -> String {
        let (bytes, mode): ([UInt8], mode_t)
        do {
            (bytes, mode) = try SmallFile.read(path, maximumBytes: maximumBytes)
        } catch {
            throw unreadable(path, key: key, error.reason, cause: error)
        }
        guard mode & 0o077 == 0 else {
            throw unreadable(
                path, key: key,
                "may be read by others (mode \(String(mode & 0o777, radix: 8))): "
                    + "run `chmod 600 \(path)`")
        }
        let blank: Set<UInt8> = [9, 10, 13, 32]
        let trimmed = bytes.drop { blank.contains($0) }.reversed().drop { blank.contains($0) }
        return String(decoding: trimmed.reversed(), as: UTF8.self)
    }

    /// An error that names the setting, the file and the reason.
    ///
    /// - Parameter what: fits behind the file's name.
    static func unreadable(
        _ path: String, key: String?, _ what: String, cause: (any Error)? = nil
    ) -> NodeError {
        guard let key else {
            return NodeError(
                .secretUnreadable, "\(path) \(what)", context: ["file": path], cause: cause)
        }
        return NodeError(
            .secretUnreadable, "\(key): \(path) \(what)", context: ["key": key, "file": path],
            cause: cause)
    }

    /// Writes a new file with the mode 0600, durably. It is there whole or not at all, so that who
    /// had no room for it may try again.
    static func create(_ path: String, text: String) throws(NodeError) {
        let made = "\(path)-\(String(UInt64.random(in: .min ... .max), radix: 16))"
        let descriptor = open(made, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw failure(path, "cannot be created", errno) }
        defer { unlink(made) }
        let bytes = Array(text.utf8)
        let count = write(descriptor, bytes, bytes.count)
        // A part was written where there was room for a part.
        let number = count < 0 ? errno : count < bytes.count ? ENOSPC : 0
        guard number == 0, fsync(descriptor) == 0 else {
            let reason = number == 0 ? errno : number
            close(descriptor)
            throw failure(path, "cannot be written", reason)
        }
        close(descriptor)
        // A second name, since to rename would replace what is there.
        guard link(made, path) == 0 else { throw failure(path, "cannot be created", errno) }
    }

    private static func failure(_ path: String, _ what: String, _ number: Int32) -> NodeError {
        let isFull = number == ENOSPC || number == EDQUOT
        return NodeError(
            isFull ? .diskFull : .secretUnreadable,
            "\(path) \(what): \(String(cString: strerror(number)))", context: ["file": path])
    }
}

/// Files that are read whole, within a bound.
enum SmallFile {
    /// Why a file was not read.
    struct Failure: Error {
        /// Fits behind the file's name, such as "cannot be read: No such file or directory".
        let reason: String
    }

    /// Reads a file whole.
    ///
    /// - Parameter maximumBytes: a file with more is refused, whatever it is.
    /// - Returns: the bytes, and the file's mode bits.
    static func read(
        _ path: String, maximumBytes: Int
    ) throws(Failure) -> (bytes: [UInt8], mode: mode_t) {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw last("cannot be read") }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw last("cannot be read") }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 16384)
        while true {
            let count = Glibc.read(descriptor, &chunk, chunk.count)
            if count == 0 { return (bytes, status.st_mode) }
            guard count > 0 else {
                if errno == EINTR { continue }
                throw last("cannot be read")
            }
            bytes.append(contentsOf: chunk.prefix(count))
            guard bytes.count <= maximumBytes else {
                throw Failure(reason: "is larger than \(maximumBytes) bytes")
            }
        }
    }

    private static func last(_ what: String) -> Failure {
        Failure(reason: "\(what): \(String(cString: strerror(errno)))")
    }
}
