import Coordinator
import Merge

/// A note with a title that is never empty, and a text.
final class Note: ManagedObject {
    static let emptyTitle = ValidationFailure.Code(rawValue: 5_001)

    /// The model as a node's file has it.
    static let model = """
        {"entities": [{"name": "Note", "mergePolicy": "mergeByPropertyObjectTrump", "attributes": [
            {"name": "title", "type": "string"}, {"name": "text", "type": "string"}]}]}
        """

    var title: String? {
        get { self["title"] }
        set { self["title"] = newValue }
    }

    var text: String? {
        get { self["text"] }
        set { self["text"] = newValue }
    }

    /// Takes blanks off a title, and refuses one that is then empty.
    override func validateValue(_ value: inout PropertyValue, forKey key: String) throws {
        if key == "title", case .string(let title) = value {
            value = .string(title.split(separator: " ").joined(separator: " "))
        }
        try super.validateValue(&value, forKey: key)
        if key == "title", value.isNull || value == .string("") {
            throw ValidationFailure(
                property: key, code: Self.emptyTitle, message: "A note needs a title.")
        }
    }
}
