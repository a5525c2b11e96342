@testable import Node

extension Decoder {
    /// A request's target: path and query, percent-decoded.
    static let target = Decoder(
        name: "target", maximumLength: 512,
        seeds: { _ in
            [
                "/v1/objects/Person/p1?versions=true", "/v1/history?after=a%2Bb&limit=3", "*", "",
                "/v1/conflicts?state=unresolved&entity=Person&row=p7&open=true",
                "/%C3%A9/+?a+b=c+d",
                "/v1/conflicts/Person.p1.name%404/resolution", "/?&=&a=", "//?%00", "/%zz",
            ].map { Array($0.utf8) }
        },
        run: { bytes in
            let text = String(decoding: bytes, as: UTF8.self)
            guard
                let (segments, query) = attempt(
                    throwing: HTTPError.self, { try RequestTarget.parse(text) })
            else { return }
            let parts = HTTPRequestParts(segments: segments, query: query, body: [])
            for (name, _) in query {
                _ = attempt(throwing: HTTPError.self, { try parts.boolean(name) })
                _ = attempt(throwing: HTTPError.self, { try parts.count(name, atLeast: 0) })
                _ = attempt(throwing: HTTPError.self, { try parts.token(name) })
            }
            _ = attempt(throwing: HTTPError.self, { try parts.timeout() })
            let access = HTTPAccess([HTTPToken(secret: "0123456789abcdef", scope: .read)])
            _ = attempt(
                throwing: HTTPError.self, { try access.check(field: text, needs: .write) })
        })
}
