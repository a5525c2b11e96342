package import Coordinator
import Merge

extension ReferenceModel {
    /// The acknowledged writes that were lost without a trace (DESIGN 5.7), a line each.
    ///
    /// A write is accounted for where it is visible, where somebody who had seen it overwrote it
    /// or deleted its row, where what is visible equals it, and where the journal lists its value
    /// as a side of its own or of a later writer who had seen it. A visible reference that reads
    /// as null, though no delete had seen it, must be or have been in the journal too.
    ///
    /// - Parameter journal: the journal of one node, open and closed entries.
    /// - Returns: the writes that are lost, in order of their text; empty where all is well.
    package func unexplained(journal: [Conflict]) -> [String] {
        let listed = Listed(journal)
        var result: [String] = []
        for (id, row) in rows {
            for write in row.writes { result += lost(write, of: row, id, listed) }
            for (name, register) in row.registers
            where row.isVisible && register.shown.isNull && isLostUnseen(register)
                && !listed.targets.contains("\(row.entity.name).\(id).\(name).target")
            {
                result.append("\(id).\(name) reads as null, and no conflict says why")
            }
        }
        for link in links where link.endsLive {
            let name = String(link.key.name.drop { $0 != "." }.dropFirst())
            for write in link.siblings where write.isDeath == link.isMade {
                let side = Listed.Value(
                    row: link.key.source, name: name, value: .reference(link.key.target))
                guard listed.values[side]?.contains(write.dot) != true else { continue }
                result.append("\(write.dot) \(write.isDeath ? "unlinked" : "linked") \(link.key)")
            }
        }
        return result.sorted()
    }

    private func lost(
        _ write: ReferenceWrite, of row: ReferenceRow, _ id: RowID, _ listed: Listed
    ) -> [String] {
        if write.isDeath {
            let isOverwritten = row.writes.contains { $0.saw(write) }
            let isListed = listed.deaths.contains(.init(row: id, dot: write.dot))
            return !row.isAlive || isOverwritten || isListed ? [] : ["\(write.dot) deleted \(id)"]
        }
        var result: [String] = []
        for name in write.assigned.sorted() {
            guard let value = write.values[name] else { continue }
            let isOverwritten = row.writes.contains { other in
                other.saw(write) && (other.isDeath || other.isWhole || other.values[name] != nil)
            }
            if isOverwritten || (row.isVisible && row.registers[name]?.raw == value) { continue }
            let dots = listed.values[.init(row: id, name: name, value: value)] ?? []
            // Writes that agree are no conflict: then what the row has by itself, though its group
            // shows another value, is listed under one of them.
            if let register = row.registers[name], row.isAlive {
                let (winner, raw) = register.own ?? (register.winner, register.raw)
                if raw == value, dots.contains(winner.dot) { continue }
            }
            let isListed = row.writes.contains { side in
                dots.contains(side.dot) && (side.dot == write.dot || side.saw(write))
            }
            if isListed { continue }
            result.append("\(write.dot) wrote \(id).\(name) = \(value)")
        }
        return result
    }

    /// What a journal tells.
    private struct Listed {
        struct Value: Hashable {
            let row: RowID
            let name: String
            let value: PropertyValue
        }

        struct Death: Hashable {
            let row: RowID
            let dot: Dot
        }

        /// The sides that list each value.
        var values: [Value: Set<Dot>] = [:]
        var deaths = Set<Death>()
        var targets = Set<String>()

        init(_ journal: [Conflict]) {
            for conflict in journal {
                let row = conflict.id.row
                if conflict.kind == .dangling, let name = conflict.property {
                    targets.insert("\(conflict.id.entity).\(row).\(name).target")
                }
                for side in conflict.sides {
                    guard let dot = side.dot else { continue }
                    // Of a group each side is another row's.
                    let row = side.object?.row ?? row
                    if side.isDeleted { deaths.insert(Death(row: row, dot: dot)) }
                    if let name = conflict.property, let value = side.value {
                        values[Value(row: row, name: name, value: value), default: []].insert(dot)
                    }
                    for entry in side.row {
                        let listed = Value(row: row, name: entry.name, value: entry.value)
                        values[listed, default: []].insert(dot)
                        if let own = entry.stamp?.dot { values[listed, default: []].insert(own) }
                    }
                }
            }
        }
    }
}
