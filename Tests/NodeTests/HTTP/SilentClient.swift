import Glibc

/// A client that sends a request and reads nothing.
final class SilentClient {
    private var descriptor: Int32

    /// Connects to a port of this machine, with as little room for what it does not read as there may be.
    init(port: Int) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var room: Int32 = 4096
        setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &room, socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(UInt16(port).bigEndian)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        let connected = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard connected == 0 else { throw HTTPTestNode.Unexpected("not connected: \(errno)") }
    }

    /// Sends a request with a body of JSON.
    func send(
        _ method: String, _ path: String, _ body: String = "", accept: String = "application/json"
    ) {
        let text =
            "\(method) \(path) HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            + "Accept: \(accept)\r\n"
            + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)"
        let bytes = Array(text.utf8)
        _ = Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL))
    }

    func hangUp() {
        if descriptor >= 0 { close(descriptor) }
        descriptor = -1
    }

    deinit { hangUp() }
}
