@testable import Coordinator
@testable import Merge
@testable import Node

extension Decoder {
    /// Everything that has a text form of its own: names, versions, dates, keys, addresses.
    static let text = Decoder(
        name: "text", maximumLength: 512,
        seeds: { random in
            let actor = random.actor(1...9)
            let dot = Dot(actor: actor, sequence: 12)
            let other = Dot(actor: actor, sequence: 13)
            let token = QueryGenerationToken(
                store: 1, generation: .max, position: 3,
                versionVector: VersionVector([.init(actor: actor, sequence: 9)]))
            let last = QueryGenerationToken(
                store: 1, generation: 0, position: .max, versionVector: VersionVector())
            return [
                "2026-01-31T12:00:00.000Z", "-000001-12-31T23:59:59Z", "+292278994-08-17T07:12:55Z",
                "0000-02-29T00:00:00.1Z", "123E4567-e89b-12d3-a456-426614174000", "aGFsbG8=",
                "YQ==",
                "x-tributary://demo/Person/p42", "Person.p42.name", "Person.p42.tags.p7@12",
                "Person.p1.unique.name@18446744073709551615", actor.description, dot.description,
                RowVersion(dots: [dot, other]).description, "p9223372036854775807", token.text,
                last.text,
                "-12345678901234567890.00010e-3", "1e-400", "0.000", "127.0.0.1:7100",
                "[::1]:65535", "tcp://*:0", "tcp://[fe80::1%eth0]:7101",
                "tributary-incarnation 1\nstore 1f\nincarnation 2\ngeneration 9\nafter 1\n",
                "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7", "00000000000000050000000000000003",
            ].map { Array($0.utf8) }
        },
        run: { bytes in
            guard let text = String(validating: bytes, as: UTF8.self) else { return }
            checkNames(text)
            checkValues(text)
            checkAddresses(text)
            if let record = IncarnationRecord(bytes) {
                demand(IncarnationRecord(record.bytes) == record, "an incarnation reads otherwise")
            }
        })

    private static func demandSame(_ printed: String?, _ text: String, _ what: String) {
        guard let printed else { return }
        demand(printed.utf8.elementsEqual(text.utf8), "\(what) prints itself as \(printed)")
    }

    private static func checkNames(_ text: String) {
        demandSame(ActorID(text)?.description, text, "an actor")
        demandSame(Dot(text)?.description, text, "a dot")
        demandSame(RowID(text)?.description, text, "a row")
        demandSame(RowVersion(text)?.description, text, "a version")
        demandSame(ConflictID(text)?.description, text, "a conflict")
        demandSame(ObjectURI(text)?.description, text, "an object's URI")
        if let token = QueryGenerationToken(text: text) {
            demandSame(token.text, text, "a token")
            use(token)
        }
        demandSame(ProjectionDigest(text)?.description, text, "a digest")
    }

    /// Tokens come back from clients, whatever numbers are in them by then.
    private static func use(_ token: QueryGenerationToken) {
        EngineWorld.shared.read { reader in
            _ = attempt(throwing: CoordinatorError.self) {
                try reader.history(afterPosition: token.position, limit: 3)
            }
            _ = attempt(throwing: CoordinatorError.self) {
                try reader.transactions(notCoveredBy: token.versionVector, byteLimit: 100)
            }
        }
    }

    private static func checkValues(_ text: String) {
        if let milliseconds = ValueText.milliseconds(fromDate: text) {
            let printed = ValueText.date(milliseconds)
            demand(
                ValueText.milliseconds(fromDate: printed) == milliseconds,
                "a date prints itself as \(printed)")
        }
        if let (high, low) = ValueText.uuid(from: text) {
            demandSame(ValueText.uuid(high, low), text.uppercased(), "a UUID")
        }
        if let bytes = ValueText.bytes(fromBase64: text) {
            demandSame(ValueText.base64(bytes), text, "base64")
        }
        if let decimal = PropertyValue.canonicalDecimal(text) {
            demand(
                PropertyValue.canonicalDecimal(decimal) == decimal,
                "\(decimal) is canonical and is not")
        }
        for type in AttributeType.allCases {
            guard
                let value = attempt(
                    throwing: JSONConversionError.self,
                    { try PropertyValue(json: .string(text), type: type) })
            else { continue }
            demand(Validation.fits(value, type: type), "\(value) does not fit \(type)")
        }
    }

    private static func checkAddresses(_ text: String) {
        if let address = HostAddress(text) {
            demand(HostAddress(address.description) == address, "\(address) reads otherwise")
        }
        if let endpoint = MeshEndpoint(text) {
            demand(MeshEndpoint(endpoint.description) == endpoint, "\(endpoint) reads otherwise")
        }
        demandSame(CurvePublicKey(text)?.description, text, "a key")
    }
}
