import Coordinator
import Foundation

@testable import Inspector

/// An inspector without a terminal, and a node that answers from a table.
struct TestInspector {
    static let now: Int64 = 1_795_000_100_000
    static let url = "http://127.0.0.1:7100"

    var state: InspectorState
    /// What the node answers, by method and path.
    var answers: [String: JSONValue] = [:]
    /// What it refuses, by method and path.
    var refusals: [String: InspectorFailure] = [:]
    /// The requests so far.
    var requests: [InspectorRequest] = []
    /// All else that was wanted.
    var effects: [InspectorEffect] = []
    /// Whether the node answers at all.
    var isReachable = true

    init(
        columns: Int = 80, rows: Int = 24, isReadOnly: Bool = false, isASCII: Bool = false,
        conflicts: [JSONObject] = TestInspector.conflicts
    ) {
        let source =
            isReadOnly
            ? InspectorSource(
                name: "store.sqlite", flags: ["--store", "store.sqlite"], isReadOnly: true,
                author: "eva")
            : InspectorSource(
                name: Self.url, flags: ["--node", Self.url], isReadOnly: false, author: "eva")
        state = InspectorState(
            source: source, size: Size(columns: columns, rows: rows), isASCII: isASCII,
            now: Self.now)
        answers["GET /v1/status"] = .object(Self.status)
        answers["GET /v1/model"] = Self.json(Self.modelText)
        serve(conflicts)
        for (path, text) in Self.objects { answers["GET \(path)"] = Self.json(text) }
        take(state.begin())
    }

    /// Has the node show other conflicts.
    mutating func serve(_ conflicts: [JSONObject]) {
        let page: JSONValue = [
            "conflicts": .array(conflicts.map { .object($0) }), "next": .null,
        ]
        for limit in [200, 10_000] {
            answers["GET /v1/conflicts?state=all&limit=\(limit)"] = page
        }
        for conflict in conflicts {
            let id = conflict["id"]?.string ?? ""
            answers["GET /v1/conflicts/\(URLText.encode(id))"] = .object(conflict)
        }
    }

    /// Presses keys.
    mutating func press(_ keys: Key...) { for key in keys { take(state.apply(.key(key))) } }

    /// Types letters.
    mutating func type(_ text: String) { for character in text { press(.character(character)) } }

    /// Lets time pass.
    mutating func wait(_ milliseconds: Int64) {
        take(state.apply(.tick(state.now + milliseconds)))
    }

    mutating func take(_ wanted: [InspectorEffect]) {
        var queue = wanted
        while !queue.isEmpty {
            let effect = queue.removeFirst()
            guard case .request(let request) = effect else {
                effects.append(effect)
                continue
            }
            requests.append(request)
            queue += state.apply(answer(request))
        }
    }

    private func answer(_ request: InspectorRequest) -> InspectorEvent {
        let name = "\(request.method) \(request.path)"
        guard isReachable else {
            return .failed(
                request.purpose,
                InspectorFailure(
                    status: 0, code: "", message: "No node listens at 127.0.0.1:7100.",
                    mayHaveHappened: false))
        }
        if let refusal = refusals[name] { return .failed(request.purpose, refusal) }
        guard let json = answers[name] else {
            return .failed(
                request.purpose,
                InspectorFailure(
                    status: 404, code: "notFound", message: "There is nothing at \(request.path)."))
        }
        return .answered(request.purpose, InspectorAnswer.read(request.purpose, json))
    }

    /// The request that changed something last.
    var lastChange: InspectorRequest? { requests.last { $0.isChange } }

    var screen: Screen { Renderer.render(state) }
    var text: String { screen.lines.joined(separator: "\n") }

    // MARK: What there is

    static func json(_ text: String) -> JSONValue {
        (try? JSONParser.parse(Array(text.utf8))) ?? .null
    }

    static let status: JSONObject =
        json(
            """
            {"node": 1, "cluster": "shop", "actor": "1.5e0c91c04be1d277",
             "vector": {"1.5e0c91c04be1d277": 42, "2.6f3a91c04be1d277": 117}, "generation": 160,
             "token": "t1", "digest": "8f1c2a", "savesRefused": null,
             "conflicts": {"unresolved": {"update": 1}, "settled": {"update": 2}},
             "peers": [
               {"node": 2, "connected": true, "lag": 0, "missingHere": 0, "refusal": null,
                "vector": {"1.5e0c91c04be1d277": 42, "2.6f3a91c04be1d277": 117},
                "clockOffsetMilliseconds": 3},
               {"node": 3, "connected": false, "lag": 12, "missingHere": 2, "refusal": "another model",
                "vector": {"1.5e0c91c04be1d277": 30}}],
             "held": [{"transaction": "3.77aa91c04be1d277-9", "reason": "3-8 is missing"}],
             "alarms": [{"name": "clockDrift", "text": "Node 3's clock is 40 s off.", "count": 2,
               "lastMillisecondsAgo": 61000}],
             "stability": {"vector": {"1.5e0c91c04be1d277": 30}, "members": [
               {"node": 3, "hindrance": "nothingHeard", "text": "Nothing was heard of node 3 for 5 min."}]}}
            """
        ).object ?? [:]

    static let modelText = """
        {"entities": [
          {"name": "Person", "attributes": [{"name": "name", "type": "string"},
            {"name": "phone", "type": "string"}, {"name": "age", "type": "integer64"},
            {"name": "photo", "type": "binary"}, {"name": "notes", "type": "string"}],
           "relationships": [{"name": "manager", "destination": "Person", "inverse": "reports"},
             {"name": "reports", "destination": "Person", "inverse": "manager", "toMany": true}]},
          {"name": "Customer", "parent": "Person", "attributes": []},
          {"name": "Order", "attributes": [{"name": "city", "type": "string"}]}]}
        """

    static let ada = "x-tributary://shop/Person/p17"
    static let one = "1.5e0c91c04be1d277"
    static let two = "2.6f3a91c04be1d277"

    static let objects = [
        "/v1/objects/Person/p17": """
        {"id": "\(ada)", "entity": "Person", "version": "v1", "values": {"name": "Ada Lovelace",
          "phone": "+46 70 777 45 67", "age": 36, "manager": "x-tributary://shop/Person/p18"}}
        """,
        "/v1/objects/Person/p18": """
        {"id": "x-tributary://shop/Person/p18", "entity": "Person", "version": "v2",
          "values": {"name": "Bob", "reports": ["\(ada)"]}}
        """,
    ]

    static func conflict(
        _ property: String, short: String, state: String = "settled", isOpen: Bool = true,
        object: String = "p17", base: String = "null", one first: String, two second: String,
        policy: String = "mergeByPropertyObjectTrump", suffix: String = ""
    ) -> JSONObject {
        let reason =
            state == "unresolved"
            ? "Policy error decides nothing: the earliest write is shown until somebody resolves the conflict."
            : "Policy mergeByPropertyObjectTrump: the latest write wins on every node."
        return json(
            """
            {"id": "Person.\(object).\(property)\(suffix)", "short": "\(short)", "kind": "update",
             "state": "\(state)", "open": \(isOpen), "entity": "Person",
             "object": "x-tributary://shop/Person/\(object)", "property": "\(property)",
             "policy": "\(policy)",
             "sides": [
               {"dot": "\(one)-41", "node": 1, "author": "ana", "context": null,
                "timestamp": {"milliseconds": 1795000000000, "counter": 0}, "value": \(first),
                "visible": \(state == "unresolved")},
               {"dot": "\(two)-117", "node": 2, "author": "ben", "context": "import",
                "timestamp": {"milliseconds": 1795000030000, "counter": 0}, "value": \(second),
                "visible": \(state != "unresolved")}],
             "base": {"dot": "\(one)-3", "value": \(base)},
             "reason": {"rule": "latest", "text": "\(reason)"}, "violation": null,
             "closedBy": null, "decision": null}
            """
        ).object ?? [:]
    }

    static let phone = conflict(
        "phone", short: "3fa2c1", base: "\"+46 70 123 45 67\"", one: "\"+46 70 123 99 67\"",
        two: "\"+46 70 777 45 67\"")

    static let notes = conflict(
        "notes", short: "71bb02", base: .init(lines { "Line \($0) of her notes." }),
        one: .init(lines { $0 == 9 ? "Line 9 of Ana's notes." : "Line \($0) of her notes." }),
        two: .init(lines { $0 == 9 ? "Line nine." : "Line \($0) of her notes." }))

    static let photo = conflict(
        "photo", short: "90ccd4", base: "\"\(base64(0))\"", one: "\"\(base64(1))\"",
        two: "\"\(base64(2))\"")

    static let age = conflict(
        "age", short: "c0ffee", state: "unresolved", base: "35", one: "36", two: "37",
        policy: "error")

    static let conflicts: [JSONObject] = [phone, notes, age, photo, row]

    static let row: JSONObject =
        json(
            """
            {"id": "Order.p5.object", "short": "5b1e77", "kind": "row", "state": "resolved",
             "open": false, "entity": "Order", "object": "x-tributary://shop/Order/p5",
             "property": null, "policy": "errorByRow",
             "sides": [
               {"dot": "\(one)-12", "node": 1, "author": "ana",
                "timestamp": {"milliseconds": 1794990000000, "counter": 0},
                "value": {"city": "Bergen", "street": "Main street 1", "zip": "5003"}, "visible": true},
               {"dot": "3.77aa91c04be1d277-4", "node": 3, "author": null,
                "timestamp": {"milliseconds": 1794990000000, "counter": 1},
                "value": {"city": "Trondheim", "street": "High street \\u001b[31m2", "zip": "5003"},
                "visible": false}],
             "base": null, "reason": {"rule": "earliest", "text": "Policy errorByRow decides nothing."},
             "violation": null, "closedBy": "\(two)-90",
             "decision": {"by": 2, "author": "carl", "context": null, "note": "asked the customer",
               "timestamp": {"milliseconds": 1794999000000, "counter": 0}, "dot": "\(two)-90"}}
            """
        ).object ?? [:]

    private static func lines(_ line: (Int) -> String) -> String {
        JSONWriter.text(of: .string((0..<20).map(line).joined(separator: "\n")))
    }

    private static func base64(_ changed: UInt8) -> String {
        var bytes = Array(UInt8(0)..<200)
        bytes[100] = changed
        return ValueText.base64(bytes)
    }

    /// Many conflicts, as the list keeps them.
    static func many(_ count: Int) -> [ConflictItem] {
        // Parsed once: to parse each would take minutes where nothing is optimised.
        let sides = (phone["sides"]?.array ?? []).compactMap(\.object)
        return (0..<count).compactMap { number in
            var conflict = phone
            let property = number % 3 == 0 ? "phone" : "name"
            conflict["id"] = .string("Person.p\(number).\(property)")
            conflict["short"] = .string(String(number + 0x100000, radix: 16))
            conflict["object"] = .string("x-tributary://shop/Person/p\(number)")
            conflict["property"] = .string(property)
            conflict["state"] = number % 50 == 0 ? "unresolved" : "settled"
            conflict["sides"] = .array(
                sides.enumerated().map { place, side in
                    var side = side
                    side["value"] = .string("value \(number) of side \(place)")
                    side["author"] = .string("author \((number + place) % 7)")
                    return .object(side)
                })
            return ConflictItem(conflict)
        }
    }
}

// Literals keep requests and answers legible.
extension JSONValue: ExpressibleByStringInterpolation {
    /// A string.
    public init(stringLiteral text: String) { self = .string(text) }
}

extension JSONValue: ExpressibleByIntegerLiteral {
    /// An integer.
    public init(integerLiteral number: Int64) { self = .integer(number) }
}
