// What goes over the wire for a request, and what errors of the network mean.

internal import Glibc
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix

extension NodeClient {
    /// The address in `http://host:port` or `https://host:port`, and whether it is the latter.
    static func target(of url: String) throws(NodeError) -> (HostAddress, isSecure: Bool) {
        let failure = NodeError(
            .configurationInvalid, "\(url) is not http://host:port or https://host:port",
            context: ["url": url])
        let isSecure = url.hasPrefix("https://")
        guard isSecure || url.hasPrefix("http://") else { throw failure }
        var rest = url.dropFirst(isSecure ? 8 : 7)
        if rest.hasSuffix("/") { rest = rest.dropLast() }
        let hasPort = rest.hasSuffix("]") ? false : rest.split(separator: "]").last?.contains(":")
        let whole = hasPort == true ? String(rest) : "\(rest):\(isSecure ? 443 : 80)"
        guard let address = HostAddress(whole), address.port != 0, address.host != "*" else {
            throw failure
        }
        return (address, isSecure)
    }

    /// The head of a request; refuses what would end a line early.
    func head(
        _ method: String, _ path: String, _ body: [UInt8]?, _ headers: [(String, String)]
    ) throws(NodeError) -> HTTPRequestHead {
        let isVisible: (UInt8) -> Bool = { (0x21...0x7E).contains($0) }
        guard path.hasPrefix("/"), path.utf8.allSatisfy(isVisible),
            !method.isEmpty, method.utf8.allSatisfy({ (0x41...0x5A).contains($0) }),
            headers.allSatisfy({ name, value in
                !name.isEmpty && name.utf8.allSatisfy { isVisible($0) && $0 != 0x3A }
                    && value.utf8.allSatisfy { $0 == 0x20 || isVisible($0) }
            })
        else {
            throw NodeError(
                .configurationInvalid, "\(method) \(path) is not a request: percent-encode it")
        }
        var fields = HTTPHeaders(fixedHeaders)
        fields.add(contentsOf: headers)
        if let body {
            if !fields.contains(name: "Content-Type") {
                fields.add(name: "Content-Type", value: "application/json")
            }
            fields.add(name: "Content-Length", value: String(body.count))
        } else if method != "GET", method != "HEAD" {
            fields.add(name: "Content-Length", value: "0")
        }
        return HTTPRequestHead(
            version: .http1_1, method: HTTPMethod(rawValue: method), uri: path, headers: fields)
    }
}

/// What an error of the network is called here.
enum ClientFailure {
    static func connecting(to target: HostAddress, _ error: any Error) -> NodeError {
        let context: KeyValuePairs = ["address": "\(target)"]
        var numbers: [Int32] = []
        var isLate = false
        let causes =
            (error as? NIOConnectionError).map { $0.connectionErrors.map(\.error) } ?? [error]
        for cause in causes {
            if let number = (cause as? IOError)?.errnoCode { numbers.append(number) }
            if case .connectTimeout? = cause as? ChannelError { isLate = true }
        }
        if numbers.contains(ECONNREFUSED) {
            return NodeError(
                .connectionRefused, "No node listens at \(target)", context: context, cause: error)
        }
        // Nothing was sent, so it is not a late answer (`timedOut`), of which nobody knows.
        if isLate {
            return NodeError(
                .hostUnreachable, "Connecting to \(target) took too long", context: context,
                cause: error)
        }
        return NodeError(
            .hostUnreachable, "\(target) cannot be reached", context: context, cause: error)
    }

    static func reset(_ target: HostAddress, _ error: (any Error)?) -> NodeError {
        NodeError(
            .connectionReset, "\(target) ended the connection before its answer was whole",
            context: ["address": "\(target)"], cause: error)
    }

    static func late(_ target: HostAddress) -> NodeError {
        NodeError(
            .timedOut, "\(target) did not answer in time", context: ["address": "\(target)"])
    }

    static func malformed(_ target: HostAddress, _ what: String, _ error: (any Error)?) -> NodeError
    {
        NodeError(
            .responseMalformed, "The answer of \(target) \(what)",
            context: ["address": "\(target)"], cause: error)
    }

    /// What an error on an open connection means.
    static func open(_ target: HostAddress, _ error: (any Error)?) -> NodeError {
        if let error = error as? NodeError { return error }
        if let error, ClientTLS.isFailure(error) {
            return NodeError(
                .notTrusted,
                "\(target) has not shown a certificate for this name that is trusted here",
                context: ["address": "\(target)"], cause: error)
        }
        // The parser also complains when the stream ends in the middle of a message.
        if let error = error as? HTTPParserError, error != .invalidEOFState {
            return malformed(target, "is not HTTP", error)
        }
        return reset(target, error)
    }
}
