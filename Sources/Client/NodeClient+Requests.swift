// The bytes of a request, and the meaning of network errors.

internal import Glibc
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix

extension NodeClient {
    /// The head of a request; refuses what would end a line early.
    func head(
        _ method: String, _ path: String, _ body: [UInt8]?, _ headers: [(String, String)]
    ) throws(ClientError) -> HTTPRequestHead {
        let isVisible: (UInt8) -> Bool = { (0x21...0x7E).contains($0) }
        guard path.hasPrefix("/"), path.utf8.allSatisfy(isVisible),
            !method.isEmpty, method.utf8.allSatisfy({ (0x41...0x5A).contains($0) }),
            headers.allSatisfy({ name, value in
                !name.isEmpty && name.utf8.allSatisfy { isVisible($0) && $0 != 0x3A }
                    && value.utf8.allSatisfy { $0 == 0x20 || isVisible($0) }
            })
        else {
            throw ClientError(
                .requestInvalid, "\(method) \(path) is not a request: percent-encode it")
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

/// The client's name for a network error.
enum ClientFailure {
    static func connecting(to target: NodeAddress, _ error: any Error) -> ClientError {
        var numbers: [Int32] = []
        var isLate = false
        let causes =
            (error as? NIOConnectionError).map { $0.connectionErrors.map(\.error) } ?? [error]
        for cause in causes {
            if let number = (cause as? IOError)?.errnoCode { numbers.append(number) }
            if case .connectTimeout? = cause as? ChannelError { isLate = true }
        }
        if numbers.contains(ECONNREFUSED) {
            return ClientError(
                .connectionRefused, "No node listens at \(target)", cause: error)
        }
        // Nothing was sent. So it is no late answer (`timedOut`), after which nobody knows the
        // outcome.
        if isLate {
            return ClientError(
                .hostUnreachable, "Connecting to \(target) took too long", cause: error)
        }
        return ClientError(
            .hostUnreachable, "\(target) cannot be reached", cause: error)
    }

    static func reset(_ target: NodeAddress, _ error: (any Error)?) -> ClientError {
        ClientError(
            .connectionReset, "\(target) ended the connection before its answer was whole",
            cause: error)
    }

    static func late(_ target: NodeAddress) -> ClientError {
        ClientError(
            .timedOut, "\(target) did not answer in time")
    }

    static func malformed(_ target: NodeAddress, _ what: String, _ error: (any Error)?)
        -> ClientError
    {
        ClientError(
            .responseMalformed, "The answer of \(target) \(what)", cause: error)
    }

    /// The meaning of an error on an open connection.
    static func open(_ target: NodeAddress, _ error: (any Error)?) -> ClientError {
        if let error = error as? ClientError { return error }
        if let error, ClientTLS.isFailure(error) {
            return ClientError(
                .notTrusted,
                "\(target) has not shown a certificate for this name that is trusted here",
                cause: error)
        }
        // The parser also complains when the stream ends in the middle of a message.
        if let error = error as? HTTPParserError, error != .invalidEOFState {
            return malformed(target, "is not HTTP", error)
        }
        return reset(target, error)
    }
}
