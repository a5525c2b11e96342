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
        private var lines: [String] = []
        func add(_ line: String) { lock.withLock { lines.append(line) } }
        var all: [String] { lock.withLock { lines } }
    }

    /// The first lines of the requests so far.
    var requests: [String] { asked.all }

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
                guard connection >= 0 else { return }
                Self.serve(connection, left > 0 ? nil : (status, body), asked)
                left -= 1
                close(connection)
            }
        }
    }

    deinit {
        shutdown(listener, Int32(SHUT_RDWR))
        close(listener)
    }

    private static func serve(
        _ connection: Int32, _ answer: (status: Int, body: String)?, _ asked: Asked
    ) {
        var text = ""
        var chunk = [UInt8](repeating: 0, count: 65_536)
        // A request of these tests has its body in the same packets as its head, or none.
        while !text.contains("\r\n\r\n") {
            let count = recv(connection, &chunk, chunk.count, 0)
            guard count > 0 else { return }
            text += String(decoding: chunk.prefix(count), as: UTF8.self)
        }
        asked.add(text.split(separator: "\r\n").first.map(String.init) ?? "")
        guard let (status, body) = answer else { return }
        let bytes = Array(
            ("HTTP/1.1 \(status) X\r\nContent-Type: application/json\r\nConnection: close\r\n"
                + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)").utf8)
        send(connection, bytes, bytes.count, Int32(MSG_NOSIGNAL))
    }
}
