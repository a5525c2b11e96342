extension ManagedObjectModel {
    /// What is said of an entity that the model does not have, with the one that was probably meant.
    package func noEntity(_ name: String) -> String {
        "The model has no entity \"\(name)\"."
            + NearName.hint(name, among: entities.filter { !$0.isAbstract }.map(\.name))
    }
}

extension ManagedObjectModel.Entity {
    /// What is said of a property that the entity does not have, with the one that was probably meant.
    ///
    /// - Parameters:
    ///   - kind: what it was to be: "property", or "stored property".
    ///   - isSentence: whether it ends with a full stop where nothing follows.
    package func noProperty(
        _ property: String, kind: String = "property", isSentence: Bool = true
    ) -> String {
        let stored = columns.map(\.name)
        let all = kind == "property" ? stored + relationships.map(\.name) : stored
        let hint = NearName.hint(property, among: all)
        return "\(name) has no \(kind) \"\(property)\"" + (isSentence || !hint.isEmpty ? "." : "")
            + hint
    }
}

/// Finds the name that somebody meant.
package enum NearName {
    /// " Did you mean \"Person\"?"; if no name is near, the names there are, where they are few.
    package static func hint(_ name: String, among names: [String]) -> String {
        if let near = nearest(name, among: names) { return " Did you mean \"\(near)\"?" }
        guard !names.isEmpty, names.count <= 12 else { return "" }
        return " There are \(names.sorted().joined(separator: ", "))."
    }

    /// The name that is at most two letters away, or three of a long one; nil where none is.
    package static func nearest(_ name: String, among names: [String]) -> String? {
        let wanted = Array(name.lowercased().utf8.prefix(100))
        let limit = wanted.count > 8 ? 3 : min(2, wanted.count / 2)
        return names.sorted().map {
            ($0, distance(wanted, Array($0.lowercased().utf8.prefix(100))))
        }
        .filter { $0.1 <= limit }.min { $0.1 < $1.1 }?.0
    }

    /// The edit distance in which two letters that changed places count once.
    private static func distance(_ one: [UInt8], _ other: [UInt8]) -> Int {
        var before = [Int](repeating: 0, count: other.count + 1)
        var last = Array(0...other.count)
        for i in one.indices {
            var row = [i + 1]
            for j in other.indices {
                let cost = one[i] == other[j] ? 0 : 1
                var least = min(row[j] + 1, last[j + 1] + 1, last[j] + cost)
                if i > 0, j > 0, one[i] == other[j - 1], one[i - 1] == other[j] {
                    least = min(least, before[j - 1] + 1)
                }
                row.append(least)
            }
            (before, last) = (last, row)
        }
        return last[other.count]
    }
}
