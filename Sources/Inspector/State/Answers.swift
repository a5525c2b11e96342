// What good answers change.

internal import Coordinator

/// Takes answers.
enum Answers {
    static func take(
        _ purpose: Purpose, _ answer: InspectorAnswer, _ state: inout InspectorState
    ) -> [InspectorEffect] {
        state.pending.remove(purpose)
        let number = state.logged.removeValue(forKey: purpose)
        var effects: [InspectorEffect] = []
        if state.connection != .live {
            if case .lost(let since, _, _, _) = state.connection {
                state.say(
                    "\(state.source.name) answers again after "
                        + "\(ValueLines.age(since, now: state.now)).", .success)
                state.isListStale = true
                state.lastList = 0
                state.conflictFailure = nil
            }
            state.connection = .live
        }
        switch (purpose, answer) {
        case (.page(let list), .page(let items, let next)):
            state.log.end(number, "\(items.count) conflicts")
            if list == state.listNumber { effects += page(items, next, &state) }
        case (.newest, .page(let items, _)):
            // Where nothing is known of what came, more may have come than one page.
            if !state.list.merge(newest: items) { state.lastList = 0 }
        case (_, .json(let json)):
            effects += take(purpose, json.object ?? JSONObject(), number, &state)
        default: break
        }
        return effects
    }

    private static func page(
        _ items: [ConflictItem], _ next: String?, _ state: inout InspectorState
    ) -> [InspectorEffect] {
        var count = items.count
        if state.isStaging {
            state.staged += items
            count = state.staged.count
        } else {
            state.list.append(items)
            count = state.list.items.count
        }
        if let next, count < ConflictList.maximum, !items.isEmpty {
            return Loading.nextPage(next, &state)
        }
        if state.isStaging { state.list.replace(state.staged) }
        state.staged = []
        state.isStaging = false
        state.list.isLoading = false
        state.list.hasMore = next != nil && !items.isEmpty
        return []
    }

    private static func take(
        _ purpose: Purpose, _ json: JSONObject, _ number: Int?, _ state: inout InspectorState
    ) -> [InspectorEffect] {
        state.log.end(number, "done")
        switch purpose {
        case .status:
            let before = state.status
            state.status = json
            let isChanged = ["generation", "token", "conflicts"].contains {
                before?[$0] != json[$0]
            }
            return before != nil && isChanged ? Loading.changed(&state) : []
        case .model: state.model = ModelFacts(json)
        case .conflict(let id):
            guard let conflict = Conflict(json) else { return [] }
            // An ID of an open conflict is answered under this very name.
            guard state.chosen?.id == id || state.chosen?.id == conflict.item.id else { return [] }
            state.conflict = conflict
            state.conflictFailure = nil
            return Loading.subject(&state)
        case .object(let uri): return object(uri, json, &state)
        case .neighbour(let uri): keepTitle(json, of: uri, &state)
        case .blame(let uri):
            if state.blame?.uri == uri { state.blame?.blame = json }
        case .versions(let uri):
            if state.blame?.uri == uri { state.blame?.versions = json }
        case .life(let uri):
            if state.object?.uri == uri { state.object?.life = json }
        case .verify:
            state.verification = json
            let isRight = json["ok"]?.boolean ?? false
            state.say(
                isRight
                    ? "The digest fits the rows, and no peer at the same place differs."
                    : "Something differs: see below.", isRight ? .success : .failure)
        case .decision(let decision): return decided(decision, json, number, &state)
        case .bulk:
            state.bulk?.done += 1
            state.log.end(number, json["transaction"]?.string ?? "nothing was left to do")
            return Deciding.nextOfBulk(&state)
        case .page, .newest: break
        }
        return []
    }

    private static func decided(
        _ decision: Decision, _ json: JSONObject, _ number: Int?, _ state: inout InspectorState
    ) -> [InspectorEffect] {
        let dot = json["transaction"]?.string
        state.log.end(number, dot.map { "saved as \($0)" } ?? "nothing was left to do")
        var end = " Press u to undo it."
        switch decision.way {
        case .undo, .undoSave:
            end = ""
            state.lastSave = nil
        case .save(let property, _, _):
            state.lastSave = dot.map { (decision.object, property, $0) }
        case .side, .value, .policy, .delete: state.lastSave = nil
        }
        state.say("Done. \(decision.summary)\(end)", .success)
        return Loading.status(&state) + Loading.changed(&state)
    }

    private static func object(
        _ uri: String, _ json: JSONObject, _ state: inout InspectorState
    ) -> [InspectorEffect] {
        keepTitle(json, of: uri, &state)
        if state.subject?.uri == uri {
            state.subject?.object = json
            state.subject?.failure = nil
        }
        guard state.object?.uri == uri else { return [] }
        state.object?.object = json
        state.object?.failure = nil
        let neighbours = neighbours(of: json)
        state.object?.neighbours = neighbours
        var effects: [InspectorEffect] = []
        for neighbour in neighbours.prefix(Self.namedNeighbours)
        where state.titles[neighbour.uri] == nil {
            effects += Loading.object(.neighbour(neighbour.uri), neighbour.uri, &state)
        }
        return effects
    }

    /// So many objects next to one are asked for what they are called.
    private static let namedNeighbours = 24

    /// The objects that an object refers to, by relationship.
    static func neighbours(of object: JSONObject) -> [InspectorState.ObjectState.Neighbour] {
        (object["values"]?.object?.members ?? []).flatMap { member in
            let values = member.value.array ?? [member.value]
            return values.compactMap { value in
                value.string.flatMap { uri in
                    ObjectURI(uri).map { _ in
                        InspectorState.ObjectState.Neighbour(relationship: member.key, uri: uri)
                    }
                }
            }
        }
    }

    private static func keepTitle(
        _ object: JSONObject, of uri: String, _ state: inout InspectorState
    ) {
        // As many as a person sees; the rest are asked for again.
        if state.titles.count > 10_000 { state.titles = [:] }
        if state.untitled.count > 10_000 { state.untitled = [] }
        if let title = title(of: object["values"]?.object) {
            state.titles[uri] = title
        } else {
            state.untitled.insert(uri)
        }
    }

    /// What people call an object: by the properties that names are usually in, or else by its first
    /// short text.
    static func title(of values: JSONObject?) -> String? {
        guard let values else { return nil }
        func text(_ key: String) -> String? {
            values[key]?.string.flatMap { $0.isEmpty || ObjectURI($0) != nil ? nil : $0 }
        }
        for key in ["name", "title", "label"] { if let text = text(key) { return cut(text) } }
        let names = ["firstName", "lastName"].compactMap(text)
        if !names.isEmpty { return cut(names.joined(separator: " ")) }
        let first = values.members.lazy.compactMap { text($0.key) }.first
        return first.map(cut)
    }

    private static func cut(_ text: String) -> String {
        text.count > 40 ? text.prefix(39) + "…" : text
    }
}

/// Takes failures.
enum Failures {
    static func take(
        _ purpose: Purpose, _ failure: InspectorFailure, _ state: inout InspectorState
    ) -> [InspectorEffect] {
        state.pending.remove(purpose)
        state.log.end(
            state.logged.removeValue(forKey: purpose), failure.message, isGood: false)
        if failure.status == 0 {
            lose(failure, &state)
        } else if state.connection != .live {
            state.connection = .live
        }
        switch purpose {
        case .page, .newest:
            state.list.isLoading = false
            state.isStaging = false
            state.isListStale = true
            if failure.status != 0 { state.say(failure.message, .failure) }
        case .conflict(let id):
            if failure.status == 0 { break }
            guard state.chosen?.id == id else { break }
            // It closed a moment ago: the list has its new name soon.
            if state.conflict?.item.id != id || failure.code != "conflictNotFound" {
                state.conflictFailure = (id, failure.message)
            }
            state.isListStale = true
            if failure.code == "conflictNotFound", !state.list.isLoading,
                state.now - state.lastList > 1_000
            {
                return Loading.list(&state)
            }
        case .object(let uri):
            let text =
                failure.code == "objectNotFound" ? "It is deleted, or never was." : failure.message
            if state.subject?.uri == uri { state.subject?.failure = text }
            if state.object?.uri == uri { state.object?.failure = text }
        case .blame(let uri):
            guard state.blame?.uri == uri else { break }
            if failure.isUnknownRoute { return Loading.versions(uri, &state) }
            state.blame?.failure = failure.message
        case .versions(let uri):
            if state.blame?.uri == uri { state.blame?.failure = failure.message }
        case .life(let uri):
            guard state.object?.uri == uri else { break }
            state.object?.lifeFailure =
                failure.isUnknownRoute ? "not available on this node" : failure.message
        case .verify: state.say(failure.message, .failure)
        case .decision(let decision): return refused(decision, failure, &state)
        case .bulk:
            state.bulk?.failed += 1
            if state.bulk?.firstFailure.isEmpty ?? false {
                state.bulk?.firstFailure = failure.message
            }
            if failure.status == 0 { state.bulk?.isStopped = true }
            return Deciding.nextOfBulk(&state)
        case .status:
            if failure.status != 0 { state.say(failure.message, .failure) }
        case .neighbour(let uri): if failure.status != 0 { state.untitled.insert(uri) }
        case .model: break
        }
        return []
    }

    private static func refused(
        _ decision: Decision, _ failure: InspectorFailure, _ state: inout InspectorState
    ) -> [InspectorEffect] {
        if failure.mayHaveHappened {
            state.say(
                "The answer was lost, so it may have been done or not: look before you decide "
                    + "again.", .failure)
            return []
        }
        if failure.isUnknownRoute {
            state.say("This node cannot undo a save. Take the other side instead.", .failure)
            return []
        }
        switch failure.code {
        case "sidesChanged":
            state.say(
                "Somebody wrote since you looked, so nothing was done. The conflict is loaded again: "
                    + "look at it and decide again.", .failure)
        case "mergeConflict":
            state.say(
                "The object has changed since you looked, so nothing was done. It is loaded again.",
                .failure)
        case "alreadyResolved":
            state.say("Somebody has resolved it already; nothing was done.", .failure)
        case "malformed" where !decision.note.isEmpty && failure.message.contains("note"):
            state.say("This node takes no notes: nothing was done. Decide without one.", .failure)
        default: state.say("Nothing was done: \(failure.message)", .failure)
        }
        guard failure.status != 0 else { return [] }
        return Loading.conflict(decision.id, &state) + Loading.status(&state)
            + (state.list.isLoading ? [] : Loading.changed(&state))
    }

    private static func lose(_ failure: InspectorFailure, _ state: inout InspectorState) {
        var (since, attempts) = (state.now, 0)
        if case .lost(let first, let count, let next, _) = state.connection {
            // Of requests that fail together one counts.
            if state.now < next { return }
            (since, attempts) = (first, count)
        }
        let pause = min(Loading.longestPause, 1_000 << Int64(min(attempts, 3)))
        state.connection = .lost(
            since: since, attempts: attempts + 1, next: state.now + pause,
            message: failure.message)
    }
}
