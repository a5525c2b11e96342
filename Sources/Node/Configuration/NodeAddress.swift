// Addresses as they are written in a configuration: `host:port` and `tcp://host:port`.
//
// Values only; may be used from any thread. Nothing is looked up here.

/// A host and a port, written `127.0.0.1:7100`, `[::1]:7100`, `node-1.example:7100` or `*:7100`.
public struct HostAddress: Hashable, Sendable, CustomStringConvertible {
    /// The name or number of the host, without brackets; `*` for every address of this machine.
    public let host: String
    /// The port, 0...65535; 0 takes any free one when binding.
    public let port: UInt16

    /// Whether it is every address of a machine: it can be bound, and nobody else reaches it.
    public var isEverywhere: Bool { ["*", "0.0.0.0", "::"].contains(host) }

    /// Joins a host and a port without looking at them.
    public init(host: String, port: UInt16) {
        self.host = host
        self.port = port
    }

    /// Reads `host:port`, or gives nil where the text is something else.
    public init?(_ text: String) {
        guard let colon = text.lastIndex(of: ":") else { return nil }
        let digits = text[text.index(after: colon)...]
        guard (1...5).contains(digits.utf8.count),
            digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            let port = UInt16(digits)
        else { return nil }
        var host = text[..<colon]
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = host.dropFirst().dropLast()
            guard host.contains(":"), Self.isHost(host, also: ":%") else { return nil }
        } else {
            guard host == "*" || Self.isName(host) else { return nil }
        }
        self.init(host: String(host), port: port)
    }

    /// Whether only this machine can reach it. A name counts only if it is `localhost`.
    public var isLoopback: Bool {
        if host == "localhost" || host == "::1" { return true }
        let numbers = host.split(separator: ".", omittingEmptySubsequences: false)
        return numbers.count == 4 && numbers[0] == "127"
            && numbers.allSatisfy { UInt8($0) != nil }
    }

    /// Whether it cannot be bound beside another.
    func isTaken(by other: HostAddress) -> Bool {
        port == other.port && port != 0
            && (host == other.host || isEverywhere || other.isEverywhere)
    }

    /// As it is written in a configuration.
    public var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }

    /// Whether it can be the name or the number of a host: these begin with a letter or a digit,
    /// and libzmq connects to no others.
    private static func isName(_ text: Substring) -> Bool {
        guard let first = text.utf8.first, ![0x2D, 0x2E, 0x5F].contains(first) else { return false }
        return isHost(text, also: "")
    }

    private static func isHost(_ text: Substring, also extra: String) -> Bool {
        (1...253).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F: true
                default: extra.utf8.contains(byte)
                }
            }
    }
}

/// An endpoint of the mesh, written `tcp://host:port`.
public struct MeshEndpoint: Hashable, Sendable, CustomStringConvertible {
    /// Host and port.
    public let address: HostAddress

    /// Makes the endpoint of an address.
    public init(address: HostAddress) { self.address = address }

    /// Reads `tcp://host:port`, or gives nil where the text is something else.
    public init?(_ text: String) {
        guard text.hasPrefix("tcp://"), let address = HostAddress(String(text.dropFirst(6))) else {
            return nil
        }
        self.address = address
    }

    /// As it is written in a configuration.
    public var description: String { "tcp://\(address)" }

    /// As libzmq binds it: it takes numbers only, so `localhost` becomes one.
    var bindable: String {
        guard address.host == "localhost" else { return description }
        return "tcp://127.0.0.1:\(address.port)"
    }

    /// As libzmq connects to it, from a certain local address where one is given.
    func connectable(from source: String?) -> String {
        guard let source else { return description }
        let local = source.contains(":") ? "[\(source)]" : source
        return "tcp://\(local):0;\(address)"
    }

    /// Whether libzmq needs to use version 6 of the Internet protocol.
    var needsVersion6: Bool { address.host.contains(":") }
}
