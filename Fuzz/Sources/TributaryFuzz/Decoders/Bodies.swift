@testable import Coordinator
@testable import Merge
@testable import Node

/// A request as an input makes it: of a resource, about one of the things that the resource has.
struct ForeignRequest {
    /// All that read a body or a query, but for saves and fetches, which have their own decoders.
    /// Their numbers are in inputs that are kept: new ones come last, and there may be 16.
    enum Resource: UInt8, CaseIterable {
        case resolution, undo, members, departure, consumer, generations, backup, verification
        case reload, conflicts, history, purge, changes, object

        var method: String {
            switch self {
            case .resolution, .undo, .members, .departure, .generations, .backup, .verification,
                .reload:
                "POST"
            case .consumer: "PUT"
            case .purge: "DELETE"
            case .conflicts, .history, .changes, .object: "GET"
            }
        }

        /// Whether it reads a body, and not a query.
        var hasBody: Bool { ["POST", "PUT"].contains(method) }
    }

    /// The name of the one consumer.
    static let consumer = "reader"

    let resource: Resource
    /// Which conflict, node or object, where the path names one.
    let subject: Int

    init(_ byte: UInt8) {
        resource = Resource.allCases[Int(byte & 15) % Resource.allCases.count]
        subject = Int(byte >> 4)
    }
}

extension Decoder {
    /// A request of any resource that has no decoder of its own, handed to it as the server does. A
    /// decision over a conflict is also carried out, and rolled back.
    ///
    /// Input: a byte that says which resource, and in its upper half about what; then the body, or
    /// the query where the resource reads none.
    static let body = Decoder(
        name: "body", maximumLength: 4096,
        seeds: { _ in BodySamples.decisions() + BodySamples.others() },
        run: { bytes in
            guard let first = bytes.first else { return }
            let request = ForeignRequest(first)
            let input = Array(bytes.dropFirst())
            let world = ResourceWorld.shared
            let refusal = world.ask(request, input)
            // The store refuses to be written only once all was read.
            let isRead = refusal?.code == CoordinatorError.Code.notWritable.rawValue
            switch request.resource {
            case .resolution where isRead, .undo where isRead:
                checkDecision(
                    input, over: world.conflict(request.subject),
                    isUndo: request.resource == .undo)
            case .members, .departure:
                guard let change = world.backend.takeChange() else { return }
                _ = world.ask(request, JSONWriter.bytes(of: change.json))
                demand(
                    world.backend.takeChange() == change, "a change of membership reads otherwise")
            case .consumer where isRead: setConsumer(input)
            default: break
            }
        })

    private static func checkDecision(_ body: [UInt8], over id: ConflictID, isUndo: Bool) {
        let world = ResourceWorld.shared
        let decision = world.decision(body, over: id, isUndo: isUndo)
        let written = JSONWriter.bytes(of: world.json(decision, over: id))
        demand(
            world.decision(written, over: id, isUndo: isUndo) == decision,
            "a decision reads otherwise")
        EngineWorld.disputed.change { engine in
            let saved: SaveResult? = attempt(
                throwing: CoordinatorError.self, where: { $0.isRefusalOfSave }
            ) {
                let request: SaveRequest
                if let resolution = decision.resolution {
                    request = try engine.resolver.resolution(
                        of: id, resolution, sides: decision.sides, by: decision.who)
                } else {
                    request = try engine.resolver.undoing(
                        id, sides: decision.sides, by: decision.who)
                }
                return try engine.save(request)
            }
            return saved?.transaction != nil
        }
    }

    private static func setConsumer(_ body: [UInt8]) {
        var token: QueryGenerationToken?
        if !body.isEmpty {
            token = must {
                try JSONFields(try JSONParser.parse(body), allowed: ["token"]).token("token")
            }
        }
        EngineWorld.disputed.change { engine in
            _ = attempt(throwing: CoordinatorError.self, where: { $0.isRefusalOfSave }) {
                try engine.consumerStore.setConsumer(ForeignRequest.consumer, to: token)
            }
            return false
        }
    }
}

/// Requests that fit the sample rows.
enum BodySamples {
    private static func seed(
        _ resource: ForeignRequest.Resource, _ text: String, of subject: Int = 0
    ) -> [UInt8] {
        [UInt8(subject << 4) | resource.rawValue] + Array(text.utf8)
    }

    /// Words on every conflict of the sample.
    static func decisions() -> [[UInt8]] {
        var result: [[UInt8]] = []
        for (subject, conflict) in ResourceWorld.shared.conflicts.prefix(16).enumerated() {
            func add(_ resource: ForeignRequest.Resource, _ json: JSONValue) {
                result.append(seed(resource, JSONWriter.text(of: json), of: subject))
            }
            let dots = conflict.sides.compactMap(\.dot).map { JSONValue.string($0.description) }
            let values = values(of: conflict.id.entity)
            for dot in dots { add(.resolution, ["side": dot, "author": .string("a")]) }
            let policy = MergePolicy.allCases[subject % MergePolicy.allCases.count]
            add(.resolution, ["policy": .string(policy.rawValue), "context": .string("c")])
            add(.resolution, ["values": values, "sides": .array(dots)])
            add(.undo, ["sides": .array(dots)])
            guard [.uniqueness, .delete].contains(conflict.kind) else { continue }
            let uri = conflict.object.uriRepresentation(cluster: SampleModel.cluster)
            add(.resolution, ["change": [uri: values]])
            add(.resolution, ["delete": .boolean(true)])
        }
        return result + [seed(.undo, "")]
    }

    private static func values(of entity: String) -> JSONValue {
        let person = JSONValue.string(EngineWorld.disputed.uri(1, "Person"))
        switch entity {
        case "Person":
            return [
                "name": .string("Eve"), "age": .integer(-3), "weight": .double(1.5),
                "ratio": .string("NaN"), "balance": .string("2.50"),
                "born": .string("2026-01-31T12:00:00Z"), "isMember": .boolean(true),
                "token": .string("123E4567-E89B-12D3-A456-426614174000"),
                "home": .string("http://a"), "photo": .string("YQ=="), "manager": person,
            ]
        case "Animal": return ["name": .null, "age": .integer(7), "owner": person]
        case "Group": return ["label": .string("g")]
        case "Note": return ["text": .string("y"), "size": .integer(2), "next": .null]
        case "Key": return ["word": .string("l"), "number": .integer(3)]
        default: return [:]
        }
    }

    static func others() -> [[UInt8]] {
        let key = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"
        let now = must { try ResourceWorld.shared.services.coordinator.currentToken }.text
        let never = QueryGenerationToken(
            store: 1, generation: 9, position: 9,
            versionVector: VersionVector([.init(actor: SampleRows.strangers[0], sequence: 9)])
        ).text
        let person = EngineWorld.disputed.uri(3, "Person")
        return [
            seed(
                .members,
                "{\"node\":9,\"publish\":\"tcp://10.0.0.9:7101\",\"exchange\":\"tcp://[::1]:7102\","
                    + "\"publicKeys\":[\"\(key)\"],\"author\":\"a\"}"),
            seed(.members, "{\"node\":1,\"publish\":\"tcp://*:7101\",\"publicKeys\":null}"),
            seed(.departure, "{\"author\":\"a\"}", of: 1),
            seed(.departure, "{\"force\":true,\"author\":\"a\"}", of: 2),
            seed(.departure, "{}"),
            seed(.consumer, ""), seed(.consumer, "{\"token\":\"\(now)\"}"),
            seed(.consumer, "{\"token\":\"\(never)\"}"),
            seed(.generations, ""), seed(.generations, "{\"after\":\"\(never)\"}"),
            seed(
                .generations,
                "{\"after\":\"\(now)\",\"leaseSeconds\":3600,\"timeoutSeconds\":0.5}"),
            seed(.backup, "{\"path\":\"/var/backup.sqlite\"}"),
            seed(.verification, "{}"), seed(.verification, ""), seed(.reload, "{}"),
            seed(.conflicts, "state=unresolved&entity=Person&kind=update&open=true&limit=3"),
            seed(.conflicts, "state=all&object=\(person)"), seed(.conflicts, ""),
            seed(.conflicts, "kind=count&violation=relationshipExceedsMaximumCount"),
            seed(.history, ""), seed(.history, "after=\(now)&limit=2"),
            seed(.history, "after=\(never)"), seed(.purge, "before=\(now)"),
            seed(.changes, "after=\(now)"), seed(.changes, ""),
            seed(.object, "versions=true&after=\(now)&timeoutSeconds=0", of: 2),
            seed(.object, "generation=\(now)", of: 7),
        ]
    }
}
