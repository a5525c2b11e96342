@testable import Coordinator
@testable import Merge

/// Registers of rows under every kind of policy, as the engine writes them.
enum RegisterSamples {
    static func all() -> [[UInt8]] {
        let engine = EngineWorld.shared.engine
        var result: [[UInt8]] = []
        for (number, name) in ["Person", "Employee", "Note", "Key", "Group"].enumerated() {
            let table = engine.table(name)
            let coding = RowCoding(table: table, actors: engine.state.actors)
            let policies = table.entity.policies
            var state = RowState(propertyCount: table.entity.properties.count)
            for (index, kind) in [RowWrite.Kind.insert, .update, .delete, .revival].enumerated() {
                let actor = SampleRows.strangers[index % SampleRows.strangers.count]
                let stamp = Stamp(
                    timestamp: HybridTimestamp(
                        milliseconds: UInt64(1_000 * index), counter: 0) ?? .zero,
                    dot: Dot(actor: actor, sequence: UInt64(1 + index)))
                let values = policies.isRowGrained ? table.entity.properties.count : 1
                let write = RowWrite(
                    kind: kind,
                    values: kind == .delete ? [] : (0..<values).map { ($0, .integer(Int64(index))) }
                )
                try? state.apply(write, stamp: stamp, seen: VersionVector(), policies: policies)
                for columns in [nil, table.entity.properties.map { _ in PropertyValue.null }] {
                    guard let bytes = coding.encode(state, columns: columns) else { continue }
                    result.append([UInt8(3 + number)] + bytes)
                }
            }
        }
        return result
    }
}
