package import Merge

extension ConflictID {
    /// How many digits the whole of a short name has.
    package static let shortDigits = 16
    /// The fewest digits that a lookup takes.
    package static let leastDigits = 4

    /// Its short name in full: 16 hexadecimal digits that follow from ``description`` alone, so that every
    /// node and every store gives the same. People see the first of them, as of a commit's in git.
    package var shortName: String {
        var hasher = StableHasher(seed: 5)
        hasher.combine(description)
        let digits = String(hasher.finalize().0, radix: 16)
        return String(repeating: "0", count: Self.shortDigits - digits.count) + digits
    }

    /// Whether a text may be the beginning of a short name: 4 to 16 hexadecimal digits.
    package static func isShort(_ text: String) -> Bool {
        (leastDigits...shortDigits).contains(text.utf8.count)
            && text.utf8.allSatisfy { (48...57).contains($0) || (97...102).contains($0) }
    }
}

extension StoreReader {
    /// How many digits of a short name people see: so many that, among the conflicts that the journal has
    /// had, one in a hundred thousand is named like another.
    package func shortNameLength() throws -> Int {
        let statement = try database.prepared("SELECT coalesce(max(position), 0) FROM _conflict")
        defer { statement.reset() }
        _ = try statement.step()
        var (names, digits) = (max(1, statement.integer(0)), 5)
        // A digit more for each sixteen times as many.
        while names > 0 { (names, digits) = (names >> 4, digits + 1) }
        return min(digits, ConflictID.shortDigits)
    }

    /// The conflicts that a short name may stand for: open ones before closed ones. What was the name of an
    /// open one stands for the newest closed one of it, where nothing else has the name.
    ///
    /// Reads the names of all entries: some 0.1 s for 100,000.
    ///
    /// - Parameter prefix: see ``ConflictID/isShort(_:)``.
    /// - Returns: at most ten, sorted by name.
    package func conflicts(named prefix: String) throws -> [ConflictID] {
        let statement = try database.prepared("SELECT id, closed FROM _conflict")
        defer { statement.reset() }
        var found: [Int: Set<ConflictID>] = [:]
        while try statement.step() {
            guard let open = ConflictID(statement.text(0)) else { continue }
            let isOpen = statement.integer(1) == 0
            if open.shortName.hasPrefix(prefix) {
                found[isOpen ? 0 : 2, default: []].insert(open)
            }
            if isOpen { continue }
            let closed = ConflictID(
                entity: open.entity, row: open.row, subject: open.subject,
                closedAt: UInt64(bitPattern: statement.integer(1)))
            if closed.shortName.hasPrefix(prefix) { found[1, default: []].insert(closed) }
        }
        let best = found.min { $0.key < $1.key }?.value ?? []
        return Array(best.sorted { $0.description < $1.description }.prefix(10))
    }

    /// The transactions that a short name may stand for: `NODE-SEQUENCE`, or `NODE.INCARNATION-SEQUENCE`
    /// with the first digits of the incarnation. Each is one that this state has seen.
    ///
    /// - Returns: sorted; empty where it is no such name.
    package func transactions(named text: String) throws -> [Dot] {
        let halves = text.split(separator: "-", omittingEmptySubsequences: false)
        guard halves.count == 2, let sequence = UInt64(halves[1]), sequence > 0 else { return [] }
        let parts = halves[0].split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count <= 2, let number = parts.first.flatMap({ Int64($0) }),
            let node = NodeID(number)
        else { return [] }
        let begin = parts.count == 2 ? "\(node).\(parts[1])" : "\(node)."
        let actors = try token.versionVector.entries
            .filter {
                $0.actor.node == node && $0.sequence >= sequence
                    && $0.actor.description.hasPrefix(begin)
            }
            .map(\.actor)
        // A whole name is no beginning of another one.
        let exact = actors.filter { $0.description == begin }
        return (exact.isEmpty ? actors : exact).map { Dot(actor: $0, sequence: sequence) }.sorted()
    }
}
