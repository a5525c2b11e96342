// A conflict as the list keeps it: small, because there may be 100,000.

package import Coordinator

/// One line of the list of conflicts.
package struct ConflictItem: Hashable, Sendable {
    /// Whether somebody must decide.
    package enum State: UInt8, Sendable, CaseIterable {
        case unresolved
        case settled
        case resolved

        /// The interface's word.
        package var name: String {
            switch self {
            case .unresolved: "unresolved"
            case .settled: "settled"
            case .resolved: "resolved"
            }
        }
    }

    /// One of the writes that disagree.
    package struct Side: Hashable, Sendable {
        /// The transaction; empty where the node names none.
        package let dot: String
        /// Who wrote: the author, or else the node.
        package let who: String
        /// The value on one line, cut to ``ConflictItem/maximumValue`` characters.
        package let value: String
        /// Whether readers see it.
        package let isVisible: Bool
    }

    /// What is kept of a value for the list and for filtering.
    package static let maximumValue = 60

    /// The whole name, such as `Person.p17.phone`.
    package let id: String
    /// The name to copy: short where the node has one.
    package let short: String
    /// The URI of the object.
    package let object: String
    package let entity: String
    /// The object's own name in its entity, such as `p17`.
    package let row: String
    /// nil where it is about the whole object.
    package let property: String?
    package let kind: String
    package let state: State
    /// Whether later writes have not ended it yet.
    package let isOpen: Bool
    package let policy: String
    /// The rule of the model that the shown object breaks; empty for none.
    package let violation: String
    package let sides: [Side]
    /// Who against whom, each named once, such as `ana / ben`.
    package let people: String
    /// The nodes that wrote, such as `1, 2`.
    package let nodes: String
    /// When the latest side was written, in milliseconds since 1970; 0 where nobody knows.
    package let milliseconds: Int64
    /// All that the filter looks in, as ``SearchTexts`` takes it.
    package let searchText: [UInt8]

    /// Reads a conflict as the interface gives it; nil where it is none.
    package init?(_ conflict: JSONObject) {
        guard let id = conflict["id"]?.string else { return nil }
        self.id = id
        short = conflict["short"]?.string ?? id
        object = conflict["object"]?.string ?? ""
        let uri = ObjectURI(object)
        entity = conflict["entity"]?.string ?? uri?.entityName ?? ""
        row = uri.map { "\($0.row)" } ?? object
        property = conflict["property"]?.string
        kind = conflict["kind"]?.string ?? ""
        switch conflict["state"]?.string {
        case "unresolved": state = .unresolved
        case "resolved": state = .resolved
        default: state = .settled
        }
        isOpen = conflict["open"]?.boolean ?? false
        policy = conflict["policy"]?.string ?? ""
        violation = conflict["violation"]?.string ?? ""
        var nodes: [Int64] = []
        var milliseconds: Int64 = 0
        var text = "\(short) \(id) \(kind) \(state.name) \(policy) \(violation)"
        sides = (conflict["sides"]?.array ?? []).compactMap(\.object).map { side in
            if let node = side["node"]?.integer, !nodes.contains(node) { nodes.append(node) }
            milliseconds = max(
                milliseconds, side["timestamp"]?.object?["milliseconds"]?.integer ?? 0)
            let isDeleted = side["deleted"]?.boolean ?? false
            let read = Side(
                dot: side["dot"]?.string ?? "", who: Self.who(side),
                value: isDeleted ? "deleted" : Self.brief(side["value"]),
                isVisible: side["visible"]?.boolean ?? false)
            text += " \(read.who) \(read.value)"
            return read
        }
        var names: [String] = []
        for side in sides where !names.contains(side.who) { names.append(side.who) }
        people = names.joined(separator: " / ")
        self.nodes = nodes.sorted().map(String.init).joined(separator: ", ")
        self.milliseconds = milliseconds
        if !self.nodes.isEmpty { text += " node \(self.nodes)" }
        searchText = SearchTexts.searchable(text.lowercased())
    }

    /// `Person.phone`, or the entity alone.
    package var subject: String { property.map { "\(entity).\($0)" } ?? entity }

    /// The ID as it was while the conflict was open: a closed one has `@` and a generation after it.
    package var openID: String { String(id.prefix { $0 != "@" }) }

    private static func who(_ side: JSONObject) -> String {
        if let author = side["author"]?.string, !author.isEmpty { return author }
        if let node = side["node"]?.integer { return "node \(node)" }
        return "-"
    }

    private static func brief(_ value: JSONValue?) -> String {
        ValueLines.brief(value ?? .null, maximum: maximumValue)
    }
}
