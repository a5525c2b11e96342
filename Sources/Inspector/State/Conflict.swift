// A conflict with all its sides whole.

package import Coordinator

/// The conflict that is looked at.
package struct Conflict: Hashable, Sendable {
    /// One of the writes that disagree.
    package struct Side: Hashable, Sendable {
        package let dot: String
        package let node: Int64?
        package let author: String?
        package let context: String?
        package let milliseconds: Int64
        package let value: JSONValue
        package let isDeleted: Bool
        package let isVisible: Bool
        /// The object that the side is of, where there are several.
        package let object: String?
        /// Members that a discarded save changed, one a line.
        package let relationships: [String]

        init(_ side: JSONObject) {
            dot = side["dot"]?.string ?? ""
            node = side["node"]?.integer
            author = side["author"]?.string
            context = side["context"]?.string
            milliseconds = side["timestamp"]?.object?["milliseconds"]?.integer ?? 0
            value = side["value"] ?? .null
            isDeleted = side["deleted"]?.boolean ?? false
            isVisible = side["visible"]?.boolean ?? false
            object = side["object"]?.string ?? side["value"]?.object?["object"]?.string
            relationships = (side["relationships"]?.object?.members ?? []).flatMap { member in
                (member.value.object?.members ?? []).map { change in
                    "\(member.key): \(change.key) \(ValueLines.brief(change.value, maximum: 200))"
                }
            }
        }

        /// Who wrote it, and where.
        package var origin: String {
            var parts: [String] = []
            if let author, !author.isEmpty { parts.append(author) }
            if let node { parts.append(parts.isEmpty ? "node \(node)" : "on node \(node)") }
            if let context, !context.isEmpty { parts.append("(\(context))") }
            return parts.joined(separator: " ")
        }
    }

    /// What the list has of it.
    package let item: ConflictItem
    package let sides: [Side]
    /// The value before all sides; nil where none is known.
    package let base: JSONValue?
    package let baseDot: String
    /// Why the visible side is visible.
    package let reason: String
    package let closedBy: String?
    /// Who decided, when and with which note; nil where nobody has.
    package let decision: JSONObject?

    /// Reads a conflict as the interface gives it; nil where it is none.
    package init?(_ conflict: JSONObject) {
        guard let item = ConflictItem(conflict) else { return nil }
        self.item = item
        sides = (conflict["sides"]?.array ?? []).compactMap(\.object).map { Side($0) }
        let base = conflict["base"]?.object
        self.base = base.map { $0["value"] ?? .null }
        baseDot = base?["dot"]?.string ?? ""
        reason = conflict["reason"]?.object?["text"]?.string ?? ""
        closedBy = conflict["closedBy"]?.string
        decision = conflict["decision"]?.object
    }

    /// The transactions of the sides, as a decision names what its maker has seen.
    package var dots: [String] {
        var dots: [String] = []
        for side in sides where !side.dot.isEmpty && !dots.contains(side.dot) {
            dots.append(side.dot)
        }
        return dots
    }
}
