// Bytes of a file or of standard input, read in pieces: imports are larger than memory.

import Foundation

/// Reads bytes and lines in order. Used by one task; reading blocks.
package final class ByteSource {
    /// A record longer than this is not data but a mistake, such as a quote that never ends.
    package static let maximumRecordBytes = 16 << 20

    /// The source's name in messages.
    package let name: String
    /// How many bytes there are in all; nil for a pipe.
    package let totalBytes: Int?
    /// How many bytes were taken.
    package private(set) var position = 0
    /// The line that the next byte belongs to, from 1.
    package private(set) var line = 1

    private var buffer: [UInt8]
    private var next = 0
    private let descriptor: Int32?

    /// Opens a file, or standard input for `-`.
    ///
    /// - Throws: ``CommandFailure`` where it cannot be read.
    package init(path: String) throws {
        buffer = []
        guard path != "-" else {
            name = "standard input"
            totalBytes = nil
            descriptor = STDIN_FILENO
            return
        }
        name = path
        let opened = open(path, O_RDONLY | O_CLOEXEC)
        guard opened >= 0 else { throw Self.failure(path) }
        var status = stat()
        let isKnown = fstat(opened, &status) == 0
        let isFile = isKnown && status.st_mode & S_IFMT == S_IFREG
        guard !isKnown || status.st_mode & S_IFMT != S_IFDIR else {
            close(opened)
            throw CommandFailure.usage("\(path) is a directory, not a file.")
        }
        totalBytes = isFile ? Int(status.st_size) : nil
        descriptor = opened
    }

    /// Reads from bytes that are there already.
    package init(bytes: [UInt8], name: String = "input") {
        self.name = name
        buffer = bytes
        totalBytes = bytes.count
        descriptor = nil
    }

    deinit {
        if let descriptor, descriptor != STDIN_FILENO { close(descriptor) }
    }

    /// The share that was read, 0...1; nil where the end is not known.
    package var fraction: Double? {
        totalBytes.map { $0 == 0 ? 1 : min(1, Double(position) / Double($0)) }
    }

    /// The next byte, without taking it; nil at the end.
    package func peek() throws -> UInt8? {
        if next < buffer.count { return buffer[next] }
        guard let descriptor else { return nil }
        // 64 KiB: a pipe's capacity, and enough that system calls cost nothing.
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = read(descriptor, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw Self.failure(name) }
            buffer = Array(chunk.prefix(count))
            next = 0
            return buffer.first
        }
    }

    /// Takes the next byte; nil at the end.
    package func take() throws -> UInt8? {
        guard let byte = try peek() else { return nil }
        next += 1
        position += 1
        if byte == 0x0A { line += 1 }
        return byte
    }

    /// Counts the end of a line that is no LF.
    package func countLine() { line += 1 }

    /// Takes a byte order mark, which spreadsheets and some editors put in front.
    package func skipByteOrderMark() throws { try skip(Self.byteOrderMark) }

    /// U+FEFF in UTF-8.
    package static let byteOrderMark: [UInt8] = [0xEF, 0xBB, 0xBF]

    /// Takes bytes that a source may begin with, where they are there whole.
    package func skip(_ mark: [UInt8]) throws {
        var taken = 0
        while taken < mark.count, try peek() == mark[taken] {
            next += 1
            taken += 1
        }
        guard taken < mark.count else { return position += taken }
        buffer.replaceSubrange(..<next, with: mark[..<taken])
        next = 0
    }

    /// Takes a line without its end, LF or CR LF; nil at the end of the input.
    ///
    /// - Throws: ``RecordError`` for one over ``maximumRecordBytes``.
    package func takeLine() throws -> [UInt8]? {
        guard try peek() != nil else { return nil }
        let first = line
        var result: [UInt8] = []
        while let byte = try take() {
            if byte == 0x0A { break }
            result.append(byte)
            guard result.count <= Self.maximumRecordBytes else {
                throw RecordError(line: first, "the line is over 16 MiB long")
            }
        }
        if result.last == 0x0D { result.removeLast() }
        return result
    }

    /// Reads a whole file, or standard input for `-`, without a byte order mark.
    ///
    /// - Throws: ``CommandFailure`` where it cannot be read or is longer.
    package static func whole(_ path: String, maximumBytes: Int) throws -> [UInt8] {
        let source = try ByteSource(path: path)
        try source.skipByteOrderMark()
        var result: [UInt8] = []
        while try source.peek() != nil {
            result += source.buffer[source.next...]
            source.next = source.buffer.count
            guard result.count <= maximumBytes else {
                throw CommandFailure.usage("\(source.name) is over \(maximumBytes) bytes long.")
            }
        }
        return result
    }

    private static func failure(_ path: String) -> CommandFailure {
        .usage("\(path) cannot be read: \(String(cString: strerror(errno))).")
    }
}

/// A record that cannot be read, and where it begins.
package struct RecordError: Error, Hashable, CustomStringConvertible {
    /// From 1.
    package let line: Int
    package let reason: String

    package init(line: Int, _ reason: String) {
        self.line = line
        self.reason = reason
    }

    package var description: String { "line \(line): \(reason)" }
}
