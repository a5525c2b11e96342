import Coordinator

/// What has become of a write, as far as a node's readers, log and journal tell.
enum WriteFate: Hashable, Sendable {
    /// One change of a transaction.
    struct Write: Sendable, CustomStringConvertible {
        let entry: NodeHistory.Entry
        let change: JSONObject

        var object: String { change.text("object") }
        var isDeletion: Bool { change.text("kind") == "delete" }

        var description: String {
            let seen = entry.seen.sorted { $0.key < $1.key }.map { "\($0.key)-\($0.value)" }
            return "\(entry.dot) after \(seen): \(JSONWriter.text(of: .object(change)))"
        }
    }

    /// What the conflict journal has of an object.
    struct Journal: Sendable {
        /// The dots of all sides of its conflicts.
        var dots: Set<String> = []
        /// The rows that lost against a deletion: each is listed under the last of its writers,
        /// with the values that earlier ones gave it.
        var rows: [JSONObject] = []
    }

    /// Some of it is what readers see.
    case visible
    /// All of it was overwritten by writers who had seen it.
    case overwritten
    /// It lost, and the conflict journal has it.
    case journalled
    /// Nothing tells of the property (or of the deletion) any more.
    case lost(String)

    /// Finds out.
    ///
    /// - Parameters:
    ///   - write: the write.
    ///   - all: all writes to the same object, in any order.
    ///   - objects: what readers see, by URI.
    ///   - journal: what the conflict journal has of the object.
    init(of write: Write, among all: [Write], objects: [String: JSONObject], journal: Journal) {
        let object = objects[write.object]
        let later = all.filter { $0.entry.hasSeen(write.entry.dot) }
        let isInJournal = journal.dots.contains(write.entry.dot)
        if write.isDeletion {
            self =
                object == nil
                ? .visible
                : !later.isEmpty ? .overwritten : isInJournal ? .journalled : .lost("the deletion")
            return
        }
        self = .overwritten
        for value in write.change["values"]?.object?.members ?? [] {
            let isOverwritten = later.contains {
                $0.isDeletion || $0.change.value(value.key) != nil
            }
            if isOverwritten { continue }
            // A reference to what is gone is shown as nil.
            let isDangling =
                value.key == "parent" && object?.value(value.key) == .null
                && value.value.string.map { objects[$0] == nil } ?? false
            if object?.value(value.key) == value.value || isDangling {
                self = .visible
            } else if !isInJournal, !journal.rows.contains(where: { $0[value.key] == value.value })
            {
                self = .lost(value.key)
                return
            } else if self == .overwritten {
                self = .journalled
            }
        }
    }
}
