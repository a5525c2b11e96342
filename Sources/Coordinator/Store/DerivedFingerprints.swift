import GRDB
import Merge

/// By which tables of Unicode and ICU a store's derived attributes of texts were computed. A program with
/// other tables computes them once more when it opens the store.
enum DerivedFingerprints {
    /// Made when a store is opened: stores from before it have none, and are computed once more.
    private static let table = """
        CREATE TABLE IF NOT EXISTS _fingerprint (
            derivation TEXT PRIMARY KEY, fingerprint TEXT NOT NULL) WITHOUT ROWID, STRICT
        """

    /// The roots of the entities that have attributes by other tables than the program's. Then takes note
    /// of the program's.
    static func adopt(_ model: ManagedObjectModel, in database: Database) throws -> Set<String> {
        try database.execute(sql: table)
        let statement = try database.prepared("SELECT derivation, fingerprint FROM _fingerprint")
        var noted: [String: String] = [:]
        while try statement.step() { noted[statement.text(0)] = statement.text(1) }
        var current: [String: String] = [:]
        var roots = Set<String>()
        for entity in model.entities {
            for attribute in entity.derivedAttributes {
                guard let function = attribute.derivation.text?.function else { continue }
                current[function.name] = function.fingerprint
                if noted[function.name] != function.fingerprint { roots.insert(entity.root) }
            }
        }
        if current == noted { return roots }
        try database.execute(sql: "DELETE FROM _fingerprint")
        for (name, fingerprint) in current.sorted(by: { $0.key < $1.key }) {
            try database.execute(
                sql: "INSERT INTO _fingerprint (derivation, fingerprint) VALUES (?, ?)",
                arguments: [name, fingerprint])
        }
        return roots
    }
}
