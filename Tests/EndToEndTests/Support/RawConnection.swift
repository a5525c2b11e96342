import Glibc
import TestSupport

/// A blocking TCP connection over loopback, for bytes that no well-behaved program sends.
///
/// A read gives up after 20 seconds, so that no test hangs.
final class RawConnection: Sendable {
    private let descriptor: Int32

    init(port: Int) throws {
        descriptor = try Loopback.connect(to: port)
        limitWaiting(descriptor)
    }

    init(accepted descriptor: Int32) {
        self.descriptor = descriptor
        limitWaiting(descriptor)
    }

    deinit { close(descriptor) }

    func send(_ bytes: [UInt8]) throws {
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...].withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { throw SystemError("send") }
            sent += count
        }
    }

    /// Exactly so many bytes.
    func receive(_ count: Int) throws -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count {
            let more = try receiveSome(upTo: count - bytes.count)
            guard !more.isEmpty else { throw SystemError("receive", ECONNRESET) }
            bytes += more
        }
        return bytes
    }

    /// What has come, at most so many bytes; empty when the other side has ended.
    func receiveSome(upTo limit: Int) throws -> [UInt8] {
        var failure: SystemError?
        let bytes = [UInt8](unsafeUninitializedCapacity: limit) { buffer, initialized in
            let count = recv(descriptor, buffer.baseAddress, buffer.count, 0)
            if count < 0 { failure = SystemError("receive") }
            initialized = max(0, count)
        }
        if let failure { throw failure }
        return bytes
    }

    /// Whether the other side ends the connection before the waiting limit; takes what comes before.
    func isEnded() -> Bool {
        while true {
            do {
                if try receiveSome(upTo: 4096).isEmpty { return true }
            } catch let error as SystemError {
                return error.number == ECONNRESET
            } catch {
                return false
            }
        }
    }

    func hasBytes(within time: Duration) -> Bool {
        var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&entry, 1, Int32(time / .milliseconds(1))) == 1
    }
}

/// A listening socket on a free port of loopback.
final class LoopbackListener: Sendable {
    let port: Int
    private let descriptor: Int32

    init() throws {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard descriptor >= 0 else { throw SystemError("socket") }
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        guard Loopback.withAddress(port: 0, { bind(descriptor, $0, $1) }) == 0,
            listen(descriptor, 16) == 0,
            withUnsafeMutablePointer(
                to: &address,
                { pointer in
                    pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                        getsockname(descriptor, $0, &length)
                    }
                }) == 0
        else {
            let error = SystemError("listen")
            close(descriptor)
            throw error
        }
        port = Int(UInt16(bigEndian: address.sin_port))
        self.descriptor = descriptor
    }

    deinit { close(descriptor) }

    func accept() throws -> RawConnection {
        var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        guard poll(&entry, 1, 20_000) == 1 else { throw SystemError("accept", ETIMEDOUT) }
        let accepted = Glibc.accept(descriptor, nil, nil)
        guard accepted >= 0 else { throw SystemError("accept") }
        return RawConnection(accepted: accepted)
    }
}

private func limitWaiting(_ descriptor: Int32) {
    var limit = timeval(tv_sec: 20, tv_usec: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
}
