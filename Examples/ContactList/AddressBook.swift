import Coordinator
import Foundation
import Merge

final class Contact: ManagedObject {
    /// The name. Its first letter, which lists have sections by, follows.
    var name: String {
        get { self["name"] ?? "" }
        set {
            self["name"] = newValue
            let letters = newValue.folding(options: .diacriticInsensitive, locale: nil)
            self["initial"] = letters.first?.uppercased()
        }
    }
    var photo: Photo? { relatedObject(forKey: "photo") }
}

/// A contact's picture: an entity of its own, so that a list of contacts reads no bytes of it.
final class Photo: ManagedObject {
    var bytes: Data { self["bytes"] ?? Data() }
}

final class Group: ManagedObject {
    var name: String { self["name"] ?? "" }
    /// How many contacts it has. The store keeps count.
    var contactCount: Int { self["contactCount"] ?? 0 }
}

enum AddressBook {
    static let classes: [String: ManagedObject.Type] = [
        "Contact": Contact.self, "Photo": Photo.self, "Group": Group.self,
    ]

    static func model() throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: [
            EntityDescription(
                "Contact",
                attributes: [
                    .init("name", .string), .init("initial", .string),
                    // Without case and diacritics. Predicates with [cd] on the name use it.
                    .init("sortName", .string, derivation: .canonical("name")),
                ],
                relationships: [
                    .init("photo", to: "Photo", inverse: "contact", deleteRule: .cascade),
                    .init("group", to: "Group", inverse: "contacts"),
                ],
                indexes: [
                    IndexDescription(name: "bySortName", elements: ["sortName"]),
                    IndexDescription(name: "byInitial", elements: ["initial", "sortName"]),
                ]),
            EntityDescription(
                "Photo", attributes: [.init("bytes", .binary)],
                relationships: [.init("contact", to: "Contact", inverse: "photo")]),
            EntityDescription(
                "Group",
                attributes: [
                    .init("name", .string),
                    .init("contactCount", .integer64, derivation: .count(relationship: "contacts")),
                ],
                relationships: [.init("contacts", to: "Contact", inverse: "group", isToMany: true)]),
        ])
    }
}
