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
        private var all: [(line: String, body: [UInt8])] = []
        func add(_ line: String, _ body: [UInt8]) { lock.withLock { all.append((line, body)) } }
        var lines: [String] { lock.withLock { all.map { $0.line } } }
        var bodies: [[UInt8]] { lock.withLock { all.map { $0.body } } }
    }

    /// The first lines of the requests so far.
    var requests: [String] { asked.lines }
    /// What came with them; of a request without a body nothing.
    var bodies: [String] { asked.bodies.map { String(decoding: $0, as: UTF8.self) } }
    /// The same as it came.
    var bytes: [[UInt8]] { asked.bodies }

    /// - Parameters:
    ///   - lost: how many requests it hangs up on before it answers.
    ///   - refusesCBOR: whether it takes no body but JSON.
    init(status: Int, body: String, lost: Int = 0, refusesCBOR: Bool = false) throws {
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
                Self.serve(connection, left > 0 ? nil : (status, body), asked, refusesCBOR)
                left -= 1
                close(connection)
            }
        }
    }

    deinit { shutdown(listener, Int32(SHUT_RDWR)) }

    /// The head of a request and its body, once all of it is there that the head tells of.
    private static func whole(_ bytes: [UInt8]) -> (head: String, body: [UInt8])? {
        guard let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) else { return nil }
        let head = String(decoding: bytes[..<end.lowerBound], as: UTF8.self)
        let field = head.components(separatedBy: "\r\n").first { line in
            line.lowercased().hasPrefix("content-length:")
        }
        let length = field.flatMap { field in
            Int(field.dropFirst("content-length:".count).trimmingCharacters(in: .whitespaces))
        }
        let body = Array(bytes[end.upperBound...])
        return body.count >= length ?? 0 ? (head, body) : nil
    }

    private static func serve(
        _ connection: Int32, _ answer: (status: Int, body: String)?, _ asked: Asked,
        _ refusesCBOR: Bool
    ) {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        var request = whole(bytes)
        while request == nil {
            let count = recv(connection, &chunk, chunk.count, 0)
            guard count > 0 else { return }
            bytes += chunk.prefix(count)
            request = whole(bytes)
        }
        guard let (head, sent) = request else { return }
        asked.add(head.components(separatedBy: "\r\n").first ?? "", sent)
        guard var (status, body) = answer else { return }
        if refusesCBOR, head.contains("Content-Type: application/cbor") {
            (status, body) = (415, "{}")
        }
        let reply = Array(
            ("HTTP/1.1 \(status) X\r\nContent-Type: application/json\r\nConnection: close\r\n"
                + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)").utf8)
        send(connection, reply, reply.count, Int32(MSG_NOSIGNAL))
    }
}
