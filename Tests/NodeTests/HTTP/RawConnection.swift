import Dispatch
import Foundation
import Glibc
import Node
import TestSupport

/// A connection on which a test says byte by byte what a client of HTTP would not.
///
/// `@unchecked Sendable`: the descriptor never changes. `buffer` and `isClosed` are touched on
/// `queue` only, but for tests, which read `isClosed` after they awaited what the queue did.
final class RawConnection: @unchecked Sendable {
    /// An answer as it came.
    struct Answer {
        var status = 0
        var line = ""
        var fields: [(name: String, value: String)] = []
        var body = ""
        var isChunked = false

        subscript(name: String) -> String? {
            fields.first { $0.name.lowercased() == name.lowercased() }?.value
        }

        /// The code of an error.
        var code: String? {
            body.firstMatch(of: /"code":"([A-Za-z]+)"/).map { String($0.1) }
        }
    }

    private let descriptor: Int32
    private let queue = DispatchQueue(label: "raw connection")
    private var buffer: [UInt8] = []
    /// Whether the other side has closed.
    private(set) var isClosed = false

    /// Connects to a port of 127.0.0.1.
    init(port: Int) throws {
        descriptor = try Loopback.connect(to: port)
    }

    deinit { close(descriptor) }

    /// Sends; what the other side takes no more is left out.
    func send(_ text: String) { send(Array(text.utf8)) }

    func send(_ bytes: [UInt8]) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return }
            rest = rest.dropFirst(count)
        }
    }

    /// Says that nothing more is sent.
    func finish() { _ = shutdown(descriptor, Int32(SHUT_WR)) }

    /// The next answer; nil where the connection is closed before it is whole, or nothing comes for
    /// half a minute.
    ///
    /// - Parameter hasBody: false for the answer to HEAD.
    func answer(hasBody: Bool = true) async -> Answer? {
        await withCheckedContinuation { continuation in
            queue.async { [self] in
                while true {
                    if let answer = takeAnswer(hasBody) {
                        return continuation.resume(returning: answer)
                    }
                    guard receive() else { return continuation.resume(returning: nil) }
                }
            }
        }
    }

    /// Waits until the other side has closed; gives what came before.
    func rest() async -> String {
        await withCheckedContinuation { continuation in
            queue.async { [self] in
                while receive() {}
                continuation.resume(returning: String(decoding: buffer, as: UTF8.self))
            }
        }
    }

    private func receive() -> Bool {
        var poller = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        guard poll(&poller, 1, 30_000) == 1 else { return false }
        var part = [UInt8](repeating: 0, count: 65_536)
        let count = recv(descriptor, &part, part.count, 0)
        guard count > 0 else {
            isClosed = true
            return false
        }
        buffer += part[..<count]
        return true
    }

    private func takeAnswer(_ hasBody: Bool) -> Answer? {
        let end = Array("\r\n\r\n".utf8)
        guard let place = buffer.firstRange(of: end) else { return nil }
        let lines = String(decoding: buffer[..<place.lowerBound], as: UTF8.self)
            .components(separatedBy: "\r\n")
        var answer = Answer(line: lines[0])
        answer.status = Int(lines[0].split(separator: " ").dropFirst().first ?? "") ?? 0
        answer.fields = lines.dropFirst().map { line in
            let colon = line.firstIndex(of: ":") ?? line.endIndex
            return (
                String(line[..<colon]),
                line[colon...].dropFirst().trimmingCharacters(in: .whitespaces)
            )
        }
        answer.isChunked = answer["Transfer-Encoding"] == "chunked"
        var next = place.upperBound
        if hasBody, ![100, 204, 304].contains(answer.status) {
            if answer.isChunked {
                guard let body = chunks(from: &next) else { return nil }
                answer.body = body
            } else if let length = answer["Content-Length"].flatMap({ Int($0) }) {
                guard buffer.count >= next + length else { return nil }
                answer.body = String(decoding: buffer[next..<next + length], as: UTF8.self)
                next += length
            } else {
                while receive() {}
                answer.body = String(decoding: buffer[next...], as: UTF8.self)
                next = buffer.count
            }
        }
        buffer.removeFirst(next)
        return answer
    }

    private func chunks(from place: inout Int) -> String? {
        var body: [UInt8] = []
        while true {
            guard let line = buffer[place...].firstRange(of: Array("\r\n".utf8)) else { return nil }
            let digits = String(decoding: buffer[place..<line.lowerBound], as: UTF8.self)
            guard let count = Int(digits, radix: 16) else { return nil }
            guard buffer.count >= line.upperBound + count + 2 else { return nil }
            body += buffer[line.upperBound..<line.upperBound + count]
            place = line.upperBound + count + 2
            if count == 0 { return String(decoding: body, as: UTF8.self) }
        }
    }
}

extension HTTPTestNode {
    /// Sends one request on a connection of its own, and gives its answer.
    func raw(_ text: String, hasBody: Bool = true) async throws -> RawConnection.Answer {
        let connection = try RawConnection(port: server.port)
        connection.send(text)
        guard let answer = await connection.answer(hasBody: hasBody) else {
            throw Unexpected("no answer to \(text.prefix(200))")
        }
        return answer
    }
}
