import Coordinator
import Merge
import ReferenceModel

/// What clients must be shown at one vector, as the client interface writes it.
///
/// The values come from the oracle, their texts from here: what the product renders is judged.
struct OracleView {
    private let model: ManagedObjectModel
    private let oracle: ReferenceModel
    private let cluster: String
    /// Rows with something that somebody must decide, as `Entity.pDECIMAL`.
    private let conflicted: Set<String>

    init(_ model: ManagedObjectModel, _ oracle: ReferenceModel, cluster: String) {
        self.model = model
        self.oracle = oracle
        self.cluster = cluster
        var conflicted = Set<String>()
        for name in oracle.unresolvedConflicts() {
            let parts = name.split(separator: ".")
            // A link is of two rows, so neither is flagged: it ends with the other one.
            let isLink = parts.count == 4 && parts[2] != "unique" && RowID(parts[3]) != nil
            if !isLink { conflicted.insert("\(parts[0]).\(parts[1])") }
        }
        self.conflicted = conflicted
    }

    /// How many objects of an entity, or of one that inherits from it, there are.
    func count(_ entity: String) -> Int { rows(entity).count }

    /// The same objects by their URIs.
    func objects(_ entity: String) -> [String: JSONObject] {
        var result: [String: JSONObject] = [:]
        for row in rows(entity) { result[uri(row)] = object(row) }
        return result
    }

    private func rows(_ entity: String) -> [RowID] {
        (model.entity(named: entity)?.familyNames ?? []).flatMap { oracle.rows($0) }
    }

    private func object(_ row: RowID) -> JSONObject {
        let name = oracle.entity(of: row) ?? ""
        // A survivor's version has those of the rows it eclipses, each under its row.
        let version = RowVersion(
            dots: Array(oracle.version(row) ?? []),
            eclipsed: oracle.eclipsed(by: row).map {
                RowVersion.Eclipsed(row: $0.row, dots: Array($0.version))
            })
        var values = JSONObject()
        let entity = model.entity(named: name)
        for property in entity?.properties ?? [] {
            let value = oracle.value(row, property.name) ?? .null
            values[property.name] = value.jsonValue { uri($0) }
        }
        for relationship in entity?.relationships ?? [] where values[relationship.name] == nil {
            let members = oracle.members(row, relationship.name).map { uri($0) }
            values[relationship.name] =
                relationship.isToMany
                ? .array(members.map { .string($0) })
                : members.first.map { .string($0) } ?? .null
        }
        return [
            "id": .string(uri(row)), "entity": .string(name),
            "version": .string(version.description),
            "conflicted": .boolean(conflicted.contains("\(name).\(row)")),
            "values": .object(values),
        ]
    }

    private func uri(_ row: RowID) -> String {
        "x-tributary://\(cluster)/\(oracle.entity(of: row) ?? "")/\(row)"
    }
}
