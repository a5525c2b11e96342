// All that the inspector knows and shows, as a value.

package import Coordinator

/// The state of the inspector. Only ``apply(_:)`` changes it, and ``Renderer`` shows it.
package struct InspectorState: Sendable {
    /// What fills the screen.
    package enum View: Hashable, Sendable {
        case conflicts
        /// One conflict, whole.
        case conflict
        case blame
        case object
        case nodes
        case log
        case help
    }

    /// What is asked of the person, in the lines at the bottom.
    package enum Prompt: Hashable, Sendable {
        case filter(LineEditor)
        /// Decisions that wait for Enter, with a note.
        case confirm([Decision], skipped: Int, LineEditor)
        /// A value; of a whole row the property is typed too, as `name = value`.
        case value(property: String?, type: String?, LineEditor)
        /// A policy, by its place in ``Policy/all``.
        case policy(Int)
    }

    /// Whether the node answers.
    package enum Connection: Hashable, Sendable {
        case connecting
        case live
        /// No answer since a time; asked again at another.
        case lost(since: Int64, attempts: Int, next: Int64, message: String)
    }

    /// What the inspector says.
    package struct Message: Hashable, Sendable {
        package enum Kind: Sendable {
            case information
            case success
            case failure
        }

        package let text: String
        package let kind: Kind
    }

    /// Decisions that are made one after the other.
    package struct Bulk: Hashable, Sendable {
        package var decisions: [Decision]
        package var done = 0
        package var failed = 0
        package var firstFailure = ""
        package var isStopped = false

        /// How many have ended.
        package var position: Int { done + failed }
    }

    /// An object that is shown, with those next to it.
    package struct ObjectState: Hashable, Sendable {
        package struct Neighbour: Hashable, Sendable {
            package let relationship: String
            package let uri: String
        }

        package let uri: String
        package var object: JSONObject?
        package var failure: String?
        package var neighbours: [Neighbour] = []
        package var cursor = 0
        /// The transactions that wrote it; nil while they are not there.
        package var life: JSONObject?
        package var lifeFailure: String?
    }

    /// Why an object's values are what they are.
    package struct BlameState: Hashable, Sendable {
        package let uri: String
        package var blame: JSONObject?
        /// The object with its versions, of a node that does not answer blame.
        package var versions: JSONObject?
        package var failure: String?
    }

    package let source: InspectorSource
    /// Whether nothing but ASCII may be shown.
    package let isASCII: Bool
    package internal(set) var size: Size
    /// Milliseconds since 1970.
    package internal(set) var now: Int64
    package internal(set) var list = ConflictList()
    package internal(set) var log = CommandLog()
    /// The views, the one that is seen last.
    package internal(set) var views: [View] = [.conflicts]
    /// The first line that is seen of each view.
    var scrolls: [Int] = [0]
    package internal(set) var prompt: Prompt?
    package internal(set) var message: Message?
    package internal(set) var connection = Connection.connecting
    package internal(set) var status: JSONObject?
    package internal(set) var verification: JSONObject?
    package internal(set) var model = ModelFacts()
    /// The conflict that was loaded last.
    package internal(set) var conflict: Conflict?
    /// Why the chosen conflict could not be loaded.
    var conflictFailure: (id: String, text: String)?
    /// The object of the loaded conflict; nil while it is not there.
    package internal(set) var subject: ObjectState?
    package internal(set) var object: ObjectState?
    /// The objects that led to the one that is shown.
    var trail: [String] = []
    package internal(set) var blame: BlameState?
    package internal(set) var bulk: Bulk?
    package internal(set) var isMouseOn = false
    /// What people call objects, by URI.
    var titles: [String: String] = [:]
    /// Objects that nobody has a name for.
    var untitled: Set<String> = []
    /// The save by which a closed conflict's value was written here, for undoing it.
    var lastSave: (object: String, property: String, dot: String)?

    // What is under way.
    var pending: Set<Purpose> = []
    var logged: [Purpose: Int] = [:]
    var listNumber = 0
    var staged: [ConflictItem] = []
    var isStaging = false
    var lastStatus: Int64 = 0
    /// When the whole list was read last.
    var lastList: Int64 = 0
    var isListStale = false
    var isClosing = false

    /// The state at the beginning.
    package init(source: InspectorSource, size: Size, isASCII: Bool = false, now: Int64) {
        self.source = source
        self.size = size
        self.isASCII = isASCII
        self.now = now
    }

    /// The view that is seen.
    package var view: View { views.last ?? .conflicts }

    /// The conflict that keys decide over; nil where none is chosen.
    package var chosen: ConflictItem? { list.selected }

    /// The chosen conflict with its sides, once they are there.
    package var chosenConflict: Conflict? {
        guard let conflict, conflict.item.id == chosen?.id else { return nil }
        return conflict
    }

    /// What people call an object.
    package func title(of uri: String) -> String {
        let name = ObjectURI(uri)
        if let title = titles[uri] { return "\(name?.entityName ?? "") \"\(title)\"" }
        return name.map { "\($0.entityName) \($0.row)" } ?? uri
    }

    mutating func say(_ text: String, _ kind: Message.Kind = .information) {
        message = Message(text: text, kind: kind)
    }

    // MARK: Views

    mutating func open(_ view: View) {
        if self.view == view { return }
        views.append(view)
        scrolls.append(0)
    }

    mutating func goBack() {
        guard views.count > 1 else { return }
        views.removeLast()
        scrolls.removeLast()
    }

    mutating func goTo(_ view: View) {
        views = view == .conflicts ? [.conflicts] : [.conflicts, view]
        scrolls = Array(repeating: 0, count: views.count)
    }

    /// The first line that is seen of the view.
    package internal(set) var scroll: Int {
        get { scrolls.last ?? 0 }
        set { if !scrolls.isEmpty { scrolls[scrolls.count - 1] = newValue } }
    }

    // MARK: Events

    /// Takes an event, and gives what is to be done.
    package mutating func apply(_ event: InspectorEvent) -> [InspectorEffect] {
        var effects: [InspectorEffect] = []
        switch event {
        case .key(let key): effects = Keys.press(key, &self)
        case .resize(let size):
            self.size = size
            effects = [.redraw]
        case .tick(let time):
            now = time
            effects = Loading.tick(&self)
        case .answered(let purpose, let answer):
            effects = Answers.take(purpose, answer, &self)
        case .failed(let purpose, let failure):
            effects = Failures.take(purpose, failure, &self)
        }
        effects += Loading.follow(&self)
        list.reveal(height: Layout(self).listHeight)
        return effects
    }

    /// What is asked first.
    package mutating func begin() -> [InspectorEffect] {
        Loading.status(&self) + Loading.model(&self) + Loading.list(&self, isNamed: true)
    }
}

/// The merge policies by which a person can decide.
package struct Policy: Hashable, Sendable {
    package let name: String
    package let text: String

    /// In the order in which they are offered.
    package static let all = [
        Policy(
            name: "mergeByPropertyObjectTrump", text: "the latest write wins, property by property"),
        Policy(
            name: "mergeByPropertyStoreTrump", text: "the earliest write wins, property by property"
        ),
        Policy(name: "overwrite", text: "the latest write wins, the whole row"),
        Policy(name: "rollback", text: "the earliest write wins, the whole row"),
    ]
}
