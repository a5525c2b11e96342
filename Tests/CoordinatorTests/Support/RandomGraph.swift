import Coordinator
import Merge
import TestSupport

/// A random change of the standard model's objects, which are named as they were inserted.
enum GraphChange {
    case insert(String, String)
    case rename(String, String)
    case own(String, by: String?)
    case tag(String, with: String, Bool)
    case write(String, by: String?)
    case delete(String)

    static func random(
        _ step: Int, _ names: [String], _ random: inout SeededGenerator
    ) -> GraphChange {
        func some(_ kind: String) -> String? {
            names.filter { $0.hasPrefix(kind) }.randomElement(using: &random)
        }
        let kind = ["Item", "Person", "Tag", "Book"].randomElement(using: &random) ?? "Item"
        switch Int.random(in: 0..<12, using: &random) {
        case 0...3: return .insert(kind, "\(kind)\(step)")
        case 4:
            guard let item = some("Item") else { break }
            return .rename(item, "\(Int.random(in: 0..<4, using: &random))")
        case 5, 6:
            guard let item = some("Item") else { break }
            return .own(item, by: Bool.random(using: &random) ? some("Person") : nil)
        case 7, 8:
            guard let item = some("Item"), let tag = some("Tag") else { break }
            return .tag(item, with: tag, Bool.random(using: &random))
        case 9, 10:
            guard let book = some("Book") else { break }
            return .write(book, by: Bool.random(using: &random) ? some("Person") : nil)
        default:
            guard let name = names.randomElement(using: &random) else { break }
            return .delete(name)
        }
        return .insert(kind, "\(kind)\(step)")
    }
}

/// A context. Its objects are found by the names that they were inserted with.
final class GraphSide {
    let context: ManagedObjectContext
    private static let keys = ["Item": "q", "Person": "name", "Tag": "name", "Book": "title"]

    init(_ context: ManagedObjectContext) { self.context = context }

    private func object(_ name: String) -> ManagedObject? {
        let entity = String(name.prefix { $0.isLetter })
        guard let key = Self.keys[entity] else { return nil }
        let request = FetchRequest(
            entity, predicate: try? Predicate(format: "\(key) == '\(name)'"))
        return try? context.fetch(request).first
    }

    func make(_ change: GraphChange) {
        context.performAndWait {
            switch change {
            case .insert(let entity, let name):
                context.insert(entity)[Self.keys[entity] ?? ""] = name
            case .rename(let item, let value): object(item)?["p"] = value
            case .own(let item, let owner):
                object(item)?.setRelatedObject(owner.flatMap(object), forKey: "owner")
            case .tag(let item, let tag, let isMember):
                guard let item = object(item), let tag = object(tag) else { return }
                if isMember {
                    tag.add(item, toRelationship: "items")
                } else {
                    item.remove(tag, fromRelationship: "tags")
                }
            case .write(let book, let author):
                object(book)?.setRelatedObject(author.flatMap(object), forKey: "author")
            case .delete(let name):
                if let object = object(name) { context.delete(object) }
                context.processPendingChanges()
            }
        }
    }

    /// All that the context shows, as text.
    func picture() throws -> [String] {
        try context.performAndWait {
            var lines: [String] = []
            func name(_ object: ManagedObject) -> String {
                (object[Self.keys[object.entity.name] ?? ""] as String?) ?? "?"
            }
            for entity in Self.keys.keys.sorted() {
                let objects = try context.fetch(FetchRequest(entity))
                for object in objects {
                    var line = name(object)
                    if entity == "Item" { line += " p=\(object["p"] as String? ?? "-")" }
                    for relationship in object.entity.relationships {
                        let members: [ManagedObject] =
                            relationship.isToMany
                            ? object.relatedObjects(forKey: relationship.name)
                            : [object.relatedObject(forKey: relationship.name)].compactMap(\.self)
                        line += " \(relationship.name)=\(members.map(name).sorted())"
                    }
                    lines.append(line)
                }
                lines.append("\(entity): \(try context.count(for: FetchRequest(entity)))")
            }
            let sorted = FetchRequest(
                "Item", predicate: try Predicate(format: "p >= '1'"),
                sortDescriptors: [SortDescriptor("p"), SortDescriptor("q")], fetchLimit: 3,
                fetchOffset: 1)
            let page = try context.fetch(sorted).map(name)
            return lines.sorted() + page + ["\(try context.count(for: sorted))"]
        }
    }
}
