import Merge

/// The actors a store has met, numbered, so that a dot is one 64-bit integer in a row.
///
/// Layout of the integer: actor's number (23 bits) | sequence (40 bits). A value type: a group
/// commit that fails restores the table by keeping the old value.
struct ActorTable: Sendable {
    private(set) var actors: [ActorID] = []
    private var codes: [ActorID: Int] = [:]

    static let sequenceBits = Int64(Dot.sequenceBits)

    func code(of actor: ActorID) -> Int? { codes[actor] }

    /// Numbers an actor; true where it is new and must be written.
    mutating func intern(_ actor: ActorID) -> (code: Int, isNew: Bool) {
        if let code = codes[actor] { return (code, false) }
        actors.append(actor)
        codes[actor] = actors.count
        return (actors.count, true)
    }

    /// The integer of a dot whose actor has been met.
    ///
    /// Every dot in a register belongs to a transaction that was applied here, and applying
    /// interns its actor first; another dot is an error of ours.
    func integer(_ dot: Dot) -> Int64 {
        guard let code = codes[dot.actor] else {
            fatalError("Dot \(dot) is written before its actor was met.")
        }
        return Int64(code) << Self.sequenceBits | Int64(dot.sequence)
    }

    /// The integer of a dot that came from anywhere; nil where no transaction here can have it.
    func knownInteger(_ dot: Dot) -> Int64? {
        guard codes[dot.actor] != nil, dot.sequence >> Self.sequenceBits == 0 else { return nil }
        return integer(dot)
    }

    /// The dot of an integer.
    ///
    /// - Throws: ``CoordinatorError`` (`storeDamaged`) where no actor has that number.
    func dot(_ integer: Int64) throws -> Dot {
        let code = Int(integer >> Self.sequenceBits)
        let sequence = UInt64(integer & ((1 << Self.sequenceBits) - 1))
        guard code >= 1, code <= actors.count, sequence > 0 else {
            throw CoordinatorError(
                .storeDamaged, "The store names transaction \(integer), but not its author.")
        }
        return Dot(actor: actors[code - 1], sequence: sequence)
    }

    /// The stamp of a row that one transaction alone has written.
    func stamp(version: Int64, timestamp: Int64) throws -> Stamp {
        guard let known = HybridTimestamp(rawValue: UInt64(bitPattern: timestamp)) else {
            throw CoordinatorError(.storeDamaged, "A row's timestamp is out of range.")
        }
        return Stamp(timestamp: known, dot: try dot(version))
    }
}

/// Numbers for entities and properties, which stay when a migration adds others.
struct NameTable: Sendable {
    private(set) var entities: [String: Int64] = [:]
    private(set) var properties: [String: Int64] = [:]
    private(set) var entityNames: [Int64: String] = [:]

    mutating func add(code: Int64, entity: String, property: String) {
        if property.isEmpty {
            entities[entity] = code
            entityNames[code] = entity
        } else {
            properties["\(entity).\(property)"] = code
        }
    }

    func code(ofProperty property: String, root: String) -> Int64? {
        properties["\(root).\(property)"]
    }
}
