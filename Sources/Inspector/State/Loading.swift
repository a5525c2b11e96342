// What the inspector asks, and when.

internal import Coordinator

/// Makes requests.
enum Loading {
    /// The first page is small, so that something is seen at once.
    static let firstPage = 200
    static let page = 10_000
    /// Lists up to this are read again whole when something has changed: one request does.
    static let small = 2_000
    static let interval: Int64 = 2_000
    /// A store's file is changed by nobody or by a node; both are looked at more rarely.
    static let fileInterval: Int64 = 10_000
    /// Larger lists are read again whole at most so often.
    static let wholeListInterval: Int64 = 120_000
    /// After this the person hears that the node does not answer, though it may yet.
    static let patience: Int64 = 6_000
    /// So many objects are asked at once for what they are called.
    static let titlesAtOnce = 4
    static let longestPause: Int64 = 5_000

    /// Asks, unless the same is under way.
    ///
    /// - Parameter command: the command that does the same, for the log; nil for what is asked again
    ///   and again.
    static func ask(
        _ request: InspectorRequest, command: [String]?, _ state: inout InspectorState
    ) -> [InspectorEffect] {
        guard state.pending.insert(request.purpose).inserted else { return [] }
        if let command {
            state.logged[request.purpose] = state.log.begin(
                ShellText.line(["tributary"] + command + state.source.flags), at: state.now)
        }
        return [.request(request)]
    }

    static func status(
        _ state: inout InspectorState, isNamed: Bool = false
    ) -> [InspectorEffect] {
        let effects = ask(
            InspectorRequest(.status, "GET", "/v1/status"), command: isNamed ? ["status"] : nil,
            &state)
        if !effects.isEmpty { state.lastStatus = state.now }
        return effects
    }

    static func model(_ state: inout InspectorState) -> [InspectorEffect] {
        ask(InspectorRequest(.model, "GET", "/v1/model"), command: nil, &state)
    }

    /// Reads the list again from its beginning.
    static func list(_ state: inout InspectorState, isNamed: Bool = false) -> [InspectorEffect] {
        state.listNumber += 1
        state.staged = []
        state.isStaging = !state.list.items.isEmpty
        state.list.isLoading = true
        state.isListStale = false
        state.lastList = state.now
        let limit = state.isStaging ? page : firstPage
        return ask(
            InspectorRequest(
                .page(list: state.listNumber), "GET", "/v1/conflicts?state=all&limit=\(limit)"),
            command: isNamed ? ["conflicts", "list", "--limit", "\(limit)"] : nil, &state)
    }

    static func nextPage(_ after: String, _ state: inout InspectorState) -> [InspectorEffect] {
        ask(
            InspectorRequest(
                .page(list: state.listNumber), "GET",
                "/v1/conflicts?state=all&limit=\(page)&after=\(URLText.encode(after))"),
            command: nil, &state)
    }

    static func conflict(
        _ id: String, isNamed: Bool = false, _ state: inout InspectorState
    ) -> [InspectorEffect] {
        ask(
            InspectorRequest(.conflict(id), "GET", "/v1/conflicts/\(URLText.encode(id))"),
            command: isNamed ? ["conflicts", "show", id] : nil, &state)
    }

    /// The path of an object; nil where its URI is none.
    static func path(ofObject uri: String) -> String? {
        ObjectURI(uri).map { "/v1/objects/\(URLText.encode($0.entityName))/\($0.row)" }
    }

    /// An object as commands name it.
    private static func name(ofObject uri: String) -> String {
        ObjectURI(uri).map { "\($0.entityName)/\($0.row)" } ?? uri
    }

    static func object(
        _ purpose: Purpose, _ uri: String, _ state: inout InspectorState
    ) -> [InspectorEffect] {
        guard let path = path(ofObject: uri) else { return [] }
        return ask(InspectorRequest(purpose, "GET", path), command: nil, &state)
    }

    static func blame(_ uri: String, _ state: inout InspectorState) -> [InspectorEffect] {
        guard let path = path(ofObject: uri) else { return [] }
        state.blame = InspectorState.BlameState(uri: uri)
        return ask(
            InspectorRequest(.blame(uri), "GET", path + "/blame"),
            command: ["blame", name(ofObject: uri)],
            &state)
    }

    static func versions(_ uri: String, _ state: inout InspectorState) -> [InspectorEffect] {
        guard let path = path(ofObject: uri) else { return [] }
        return ask(
            InspectorRequest(.versions(uri), "GET", path + "?versions=true"), command: nil, &state)
    }

    static func show(_ uri: String, _ state: inout InspectorState) -> [InspectorEffect] {
        guard let path = path(ofObject: uri) else { return [] }
        state.object = InspectorState.ObjectState(uri: uri)
        return object(.object(uri), uri, &state)
            + ask(
                InspectorRequest(.life(uri), "GET", path + "/log"),
                command: ["log", name(ofObject: uri)],
                &state)
    }

    static func verify(_ state: inout InspectorState) -> [InspectorEffect] {
        ask(
            InspectorRequest(.verify, "POST", "/v1/verify"), command: ["verify"], &state)
    }

    // MARK: Time

    static func tick(_ state: inout InspectorState) -> [InspectorEffect] {
        if case .lost(_, _, let next, _) = state.connection {
            return state.now >= next ? status(&state) : []
        }
        if state.pending.contains(.status), state.now - state.lastStatus > patience {
            state.connection = .lost(
                since: state.lastStatus, attempts: 1, next: state.now + longestPause,
                message: "The node takes the request, but does not answer.")
            return []
        }
        let interval = state.source.isReadOnly ? fileInterval : interval
        var effects: [InspectorEffect] = []
        if state.now - state.lastStatus >= interval { effects += status(&state) }
        let pause = state.list.items.count <= small ? 0 : wholeListInterval
        if state.isListStale, !state.list.isLoading, state.now - state.lastList >= pause {
            effects += list(&state)
        }
        return effects
    }

    /// Reads what has changed, after a status that differs from the one before.
    static func changed(_ state: inout InspectorState) -> [InspectorEffect] {
        var effects: [InspectorEffect] = []
        if state.list.isLoading {
            state.isListStale = true
        } else if state.list.items.count <= small {
            effects += list(&state)
        } else {
            state.isListStale = true
            effects += ask(
                InspectorRequest(.newest, "GET", "/v1/conflicts?state=all&limit=\(firstPage)"),
                command: nil, &state)
        }
        if let id = state.chosen?.id { effects += conflict(id, &state) }
        return effects
    }

    /// Loads the chosen conflict where another one is there. One at a time: who runs through the list
    /// gets the one where they stop.
    static func follow(_ state: inout InspectorState) -> [InspectorEffect] {
        guard case .live = state.connection else { return [] }
        var effects: [InspectorEffect] = []
        if let item = state.chosen, item.id != state.conflict?.item.id,
            item.id != state.conflictFailure?.id,
            !state.pending.contains(where: { if case .conflict = $0 { true } else { false } })
        {
            effects += conflict(item.id, &state)
        }
        return effects + titles(&state)
    }

    /// Asks what the objects are called that are seen in the list.
    private static func titles(_ state: inout InspectorState) -> [InspectorEffect] {
        guard state.view == .conflicts else { return [] }
        var busy = 0
        for purpose in state.pending { if case .neighbour = purpose { busy += 1 } }
        var effects: [InspectorEffect] = []
        let list = state.list
        let last = min(list.rows.count, list.top + Layout(state).listHeight)
        for row in list.rows[min(list.top, last)..<last] where busy < titlesAtOnce {
            guard case .item(let index) = row else { continue }
            let uri = list.items[index].object
            guard state.titles[uri] == nil, !state.untitled.contains(uri),
                !state.pending.contains(.neighbour(uri))
            else { continue }
            let asked = object(.neighbour(uri), uri, &state)
            if asked.isEmpty { state.untitled.insert(uri) }
            busy += asked.count
            effects += asked
        }
        return effects
    }

    /// Takes a conflict's object, once it is seen which one that is.
    static func subject(_ state: inout InspectorState) -> [InspectorEffect] {
        guard let uri = state.conflict?.item.object, !uri.isEmpty else { return [] }
        if state.subject?.uri != uri { state.subject = InspectorState.ObjectState(uri: uri) }
        return object(.object(uri), uri, &state)
    }
}
