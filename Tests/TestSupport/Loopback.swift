public import Glibc
import Synchronization

/// What the operating system refused.
public struct SystemError: Error, CustomStringConvertible {
    /// What it was asked for.
    public let call: String
    /// Its reason.
    public let number: Int32

    /// What a call was refused for, by default what the last one was.
    public init(_ call: String, _ number: Int32 = errno) {
        self.call = call
        self.number = number
    }

    /// Both, in words.
    public var description: String { "\(call): \(String(cString: strerror(number)))" }
}

/// Sockets over TCP on 127.0.0.1.
public enum Loopback {
    /// A socket that is connected to a port.
    public static func connect(to port: Int) throws -> Int32 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard descriptor >= 0 else { throw SystemError("socket") }
        guard withAddress(port: port, { Glibc.connect(descriptor, $0, $1) }) == 0 else {
            let error = SystemError("connect")
            close(descriptor)
            throw error
        }
        return descriptor
    }

    /// Whether somebody could listen on a port.
    public static func isFree(_ port: Int) -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        return withAddress(port: port) { bind(descriptor, $0, $1) } == 0
    }

    /// Gives the address of a port to a body.
    public static func withAddress<Result>(
        port: Int, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
    ) -> Result {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }

    private static let next = Mutex(Int(getpid()) % 10_000)

    /// Ports that are free, below those that the system deals out by itself: a port of those could
    /// be some other connection's by the time it is bound. No two calls get one port.
    public static func freePorts(_ count: Int) throws -> [Int] {
        var ports: [Int] = []
        for _ in 0..<20_000 where ports.count < count {
            let port = next.withLock { next in
                next = (next + 1) % 10_000
                return 20_000 + next
            }
            if isFree(port) { ports.append(port) }
        }
        guard ports.count == count else { throw SystemError("freePorts", EADDRINUSE) }
        return ports
    }
}
