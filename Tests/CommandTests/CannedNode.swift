import Foundation

/// A server on loopback that gives one answer to every request, and keeps what it was asked; the
/// first so many answers it may lose, as one does that dies.
final class CannedNode: Sendable {
    let url: String
    private let listener: Int32
    private let asked = Asked()

    private final class Asked: @unchecked Sendable {
        // Safe: the array is only touched with the lock held.
        private let lock = NSLock()
        private var all: [(line: String, body: String)] = []
        func add(_ line: String, _ body: String) { lock.withLock { all.append((line, body)) } }
        var lines: [String] { lock.withLock { all.map { $0.line } } }
        var bodies: [String] { lock.withLock { all.map { $0.body } } }
    }

    /// The first lines of the requests so far.
    var requests: [String] { asked.lines }
    /// What came with them; of a request without a body nothing.
    var bodies: [String] { asked.bodies }

    /// - Parameter lost: how many requests it hangs up on before it answers.
    init(status: Int, body: String, lost: Int = 0) throws {
        let opened = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let bound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                bind(opened, address, length) == 0 && listen(opened, 16) == 0
                    && getsockname(opened, address, &length) == 0
            }
        }
        guard bound else { throw POSIXError(.EADDRNOTAVAIL) }
        url = "http://127.0.0.1:\(UInt16(bigEndian: address.sin_port))"
        listener = opened
        let asked = asked
        Thread.detachNewThread {
            var left = lost
            while true {
                let connection = accept(opened, nil, nil)
                guard connection >= 0 else {
                    // Here and not by the node's owner: its number would be another's by the next turn.
                    close(opened)
                    return
                }
                Self.serve(connection, left > 0 ? nil : (status, body), asked)
                left -= 1
                close(connection)
            }
        }
    }

    deinit { shutdown(listener, Int32(SHUT_RDWR)) }

    /// Whether a request is there with all of the body that its head tells of.
    private static func isWhole(_ text: String) -> Bool {
        let parts = text.components(separatedBy: "\r\n\r\n")
        guard parts.count > 1 else { return false }
        let field = parts[0].components(separatedBy: "\r\n").first { line in
            line.lowercased().hasPrefix("content-length:")
        }
        let length = field.flatMap { field in
            Int(field.dropFirst("content-length:".count).trimmingCharacters(in: .whitespaces))
        }
        return parts[1].utf8.count >= length ?? 0
    }

    private static func serve(
        _ connection: Int32, _ answer: (status: Int, body: String)?, _ asked: Asked
    ) {
        var text = ""
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while !isWhole(text) {
            let count = recv(connection, &chunk, chunk.count, 0)
            guard count > 0 else { return }
            text += String(decoding: chunk.prefix(count), as: UTF8.self)
        }
        asked.add(
            text.split(separator: "\r\n").first.map(String.init) ?? "",
            text.components(separatedBy: "\r\n\r\n").dropFirst().joined())
        guard let (status, body) = answer else { return }
        let bytes = Array(
            ("HTTP/1.1 \(status) X\r\nContent-Type: application/json\r\nConnection: close\r\n"
                + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)").utf8)
        send(connection, bytes, bytes.count, Int32(MSG_NOSIGNAL))
    }
}
