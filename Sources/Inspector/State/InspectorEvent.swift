// What comes to the inspector, and what it wants done.

package import Coordinator

/// What is asked, and of whom.
package struct InspectorSource: Hashable, Sendable {
    /// The node's address or the store's file.
    package let name: String
    /// The flags by which a command asks the same, such as `--node URL`.
    package let flags: [String]
    /// Whether it can only be read.
    package let isReadOnly: Bool
    /// Who decides; nil for nobody.
    package let author: String?

    /// What is asked.
    package init(name: String, flags: [String], isReadOnly: Bool, author: String?) {
        self.name = name
        self.flags = flags
        self.isReadOnly = isReadOnly
        self.author = author
    }
}

/// What a request is for.
package enum Purpose: Hashable, Sendable {
    case status
    case model
    /// A page of the whole list; the number tells lists apart that were begun one after the other.
    case page(list: Int)
    /// The newest conflicts.
    case newest
    case conflict(String)
    /// An object that the inspector shows, by its URI.
    case object(String)
    /// An object next to the one that is shown.
    case neighbour(String)
    case blame(String)
    /// The transactions behind an object's values, of a node that does not answer blame.
    case versions(String)
    case life(String)
    case verify
    case decision(Decision)
    /// A decision of several that are made one after the other.
    case bulk(Decision)
}

/// A request of the client interface.
package struct InspectorRequest: Hashable, Sendable {
    package let purpose: Purpose
    package let method: String
    /// Percent-encoded, with its query.
    package let path: String
    package let body: JSONValue?
    /// Whether it changes something, so that a lost answer leaves it open whether it did.
    package let isChange: Bool

    init(
        _ purpose: Purpose, _ method: String, _ path: String, _ body: JSONValue? = nil,
        isChange: Bool = false
    ) {
        self.purpose = purpose
        self.method = method
        self.path = path
        self.body = body
        self.isChange = isChange
    }
}

/// A good answer, read as far as that can be done beside the keys.
package enum InspectorAnswer: Hashable, Sendable {
    case page([ConflictItem], next: String?)
    case json(JSONValue)

    /// Reads an answer. A page takes time, so this runs beside the inspector and not in it.
    package static func read(_ purpose: Purpose, _ json: JSONValue) -> InspectorAnswer {
        switch purpose {
        case .page, .newest:
            let object = json.object
            let items = (object?["conflicts"]?.array ?? []).compactMap(\.object)
                .compactMap { ConflictItem($0) }
            return .page(items, next: object?["next"]?.string)
        default: return .json(json)
        }
    }
}

/// Why a request failed.
package struct InspectorFailure: Hashable, Sendable {
    /// The status; 0 where no answer came.
    package let status: Int
    /// The interface's name of the error; empty where it is none.
    package let code: String
    /// A sentence.
    package let message: String
    /// Whether the node may have done what was asked.
    package let mayHaveHappened: Bool

    /// A failure.
    package init(status: Int, code: String, message: String, mayHaveHappened: Bool = false) {
        self.status = status
        self.code = code
        self.message = message
        self.mayHaveHappened = mayHaveHappened
    }

    /// Whether the node does not know this kind of request at all.
    package var isUnknownRoute: Bool {
        (status == 404 && (code == "notFound" || code.isEmpty)) || status == 405 || status == 501
    }
}

/// What comes to the inspector.
package enum InspectorEvent: Sendable {
    case key(Key)
    case resize(Size)
    /// The time, in milliseconds since 1970.
    case tick(Int64)
    case answered(Purpose, InspectorAnswer)
    case failed(Purpose, InspectorFailure)
}

/// What the inspector wants done.
package enum InspectorEffect: Hashable, Sendable {
    case request(InspectorRequest)
    case quit
    /// Gives the terminal back until the program is continued.
    case suspend
    /// Draws everything again.
    case redraw
    /// Has the terminal report the mouse, or not.
    case mouse(Bool)
}
