// The door through which commands read and write: a running node, or a store's file.

import Console
import Coordinator

/// An answer of the client interface: its very bytes, and what they mean.
struct InterfaceAnswer: Sendable {
    let bytes: [UInt8]
    let json: JSONValue

    init(bytes: [UInt8]) throws {
        self.bytes = bytes
        json = try JSONParser.parse(bytes, maximumBytes: 1 << 30)
    }

    init(_ json: JSONValue) {
        bytes = JSONWriter.bytes(of: json)
        self.json = json
    }
}

/// Answers requests of the client interface, version 1.
protocol ClientInterface: Sendable {
    /// The interface's name for messages: a URL or a file.
    var name: String { get }

    /// Makes a request and gives its answer, whatever its status.
    ///
    /// - Parameter path: percent-encoded, with its query; see ``RequestPath``.
    func exchange(
        _ method: String, _ path: String, _ body: JSONValue?
    ) async throws -> (status: Int, body: [UInt8])

    /// Makes a fetch that is answered by lines, and hands them over one by one, without their ends.
    ///
    /// - Throws: ``CommandFailure`` where the answer is no success.
    func fetchedLines(
        _ body: JSONValue, _ receive: ([UInt8]) async throws -> Void
    ) async throws

    /// Ends connections.
    func close() async
}

extension ClientInterface {
    /// Makes a request.
    ///
    /// - Parameter path: percent-encoded, with its query; see ``RequestPath``.
    /// - Throws: ``CommandFailure`` where the answer is no success or there is none.
    func request(
        _ method: String, _ path: String, _ body: JSONValue?
    ) async throws -> InterfaceAnswer {
        let answer: (status: Int, body: [UInt8])
        do {
            answer = try await exchange(method, path, body)
        } catch { throw CommandFailure(describing: error) }
        guard (200..<300).contains(answer.status) else {
            throw CommandFailure(status: answer.status, body: answer.body)
        }
        if answer.body.isEmpty { return InterfaceAnswer(.object(JSONObject())) }
        do {
            return try InterfaceAnswer(bytes: answer.body)
        } catch {
            throw CommandFailure(.failed, "\(name) is no Tributary node: its answer is not JSON.")
        }
    }

    /// Fetches objects one a line in bounded memory; each line is handed over as JSON.
    ///
    /// - Throws: ``CommandFailure``, also where the stream was cut off.
    func fetchLines(
        _ body: JSONValue, _ receive: (JSONObject) async throws -> Void
    ) async throws {
        var isWhole = false
        do {
            try await fetchedLines(body) { line in
                guard let object = try JSONParser.parse(line, maximumBytes: 1 << 30).object else {
                    return
                }
                isWhole = object["end"]?.boolean == true
                if !isWhole { try await receive(object) }
            }
        } catch { throw CommandFailure(describing: error) }
        guard isWhole else {
            throw CommandFailure(.failed, "\(name) cut the answer off; what came is not all.")
        }
    }

    func get(_ path: String) async throws -> InterfaceAnswer { try await request("GET", path, nil) }

    func post(_ path: String, _ body: JSONValue?) async throws -> InterfaceAnswer {
        try await request("POST", path, body)
    }

    /// Makes a POST that changes something; see ``change(_:_:_:)``.
    func change(_ path: String, _ body: JSONValue?) async throws -> InterfaceAnswer {
        try await change("POST", path, body)
    }

    /// Makes a request that changes something, and that has no name by which to ask for it again.
    ///
    /// - Throws: ``CommandFailure``, with `outcomeUnknown` where the answer was lost.
    func change(
        _ method: String, _ path: String, _ body: JSONValue?
    ) async throws -> InterfaceAnswer {
        do {
            return try await request(method, path, body)
        } catch let failure as CommandFailure where failure.mayHaveHappened {
            throw CommandFailure(
                .outcomeUnknown,
                "The node's answer was lost: \(failure.message) It may have done it; look before "
                    + "you ask for it again.")
        }
    }
}

/// Writes the target of a request.
struct RequestPath: CustomStringConvertible {
    private var text = ""
    private var hasQuery = false

    /// Joins percent-encoded segments after `/v1`.
    init(_ segments: String...) {
        text = "/v1"
        for segment in segments { text += "/" + Self.encode(segment) }
    }

    /// Adds a parameter, where it has a value.
    func adding(_ name: String, _ value: String?) -> Self {
        guard let value else { return self }
        var path = self
        path.text += (hasQuery ? "&" : "?") + Self.encode(name) + "=" + Self.encode(value)
        path.hasQuery = true
        return path
    }

    var description: String { text }

    /// Percent-encodes all but what RFC 3986 calls unreserved.
    static func encode(_ text: String) -> String {
        let digits = Array("0123456789ABCDEF".utf8)
        var result: [UInt8] = []
        for byte in text.utf8 {
            switch byte {
            case 48...57, 65...90, 97...122, UInt8(ascii: "-"), UInt8(ascii: "."),
                UInt8(ascii: "_"), UInt8(ascii: "~"):
                result.append(byte)
            default: result += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: result, as: UTF8.self)
    }
}
