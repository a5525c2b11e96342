// From keys to decisions over conflicts.

internal import Coordinator

/// Makes decisions.
enum Deciding {
    /// Whether the person may decide; says why not.
    private static func mayDecide(_ state: inout InspectorState) -> Bool {
        guard !state.source.isReadOnly else {
            state.say(
                "A store's file is only read. To decide, ask a node: tributary inspect --node URL.",
                .failure)
            return false
        }
        guard state.connection == .live else {
            state.say("The node does not answer now. Decide when it does.", .failure)
            return false
        }
        return true
    }

    /// The chosen conflict, whole; says why it is not there.
    private static func conflict(_ state: inout InspectorState) -> Conflict? {
        guard mayDecide(&state) else { return nil }
        guard state.chosen != nil else {
            state.say("Choose a conflict first.", .failure)
            return nil
        }
        guard let conflict = state.chosenConflict else {
            state.say("The conflict is still being loaded.", .failure)
            return nil
        }
        return conflict
    }

    private static func decision(
        _ conflict: Conflict, _ way: Decision.Way, _ summary: String, _ state: InspectorState
    ) -> Decision {
        Decision(
            id: conflict.item.id, object: conflict.item.object, dots: conflict.dots, way: way,
            summary: summary, author: state.source.author)
    }

    private static func confirm(_ decision: Decision, _ state: inout InspectorState) {
        state.message = nil
        state.prompt = .confirm([decision], skipped: 0, LineEditor())
    }

    /// What is decided about, such as `phone of Person p17 "Ada"`.
    static func subject(_ item: ConflictItem, _ state: InspectorState) -> String {
        let title = state.title(of: item.object)
        return item.property.map { "\($0) of \(title)" } ?? title
    }

    // MARK: Ways

    static func takeSide(_ number: Int, _ state: inout InspectorState) {
        guard let conflict = conflict(&state) else { return }
        guard conflict.sides.indices.contains(number - 1) else {
            let count = conflict.sides.count
            state.say(
                count == 0
                    ? "This conflict has no sides to choose from: press e to give a value."
                    : "There is no side \(number): this conflict has \(count).", .failure)
            return
        }
        let side = conflict.sides[number - 1]
        let value = side.isDeleted ? "deleted" : ValueLines.brief(side.value, maximum: 60)
        let subject = subject(conflict.item, state)
        let summary =
            side.isDeleted
            ? "\(subject) is deleted, as side \(number) says."
            : "\(subject) becomes \(value) (side \(number), \(side.origin))."
        guard conflict.item.isOpen else {
            return save(side.value, isDeleted: side.isDeleted, summary, conflict, &state)
        }
        guard !side.dot.isEmpty else {
            state.say("Nobody wrote side \(number), so it cannot be chosen.", .failure)
            return
        }
        let isAmbiguous = conflict.sides.filter { $0.dot == side.dot }.count > 1
        let way = Decision.Way.side(
            number, dot: side.dot, object: isAmbiguous ? side.object : nil)
        confirm(decision(conflict, way, summary, state), &state)
    }

    /// Writes a value by an ordinary save: the conflict is closed, so nothing is left to resolve.
    private static func save(
        _ value: JSONValue, isDeleted: Bool, _ summary: String, _ conflict: Conflict,
        _ state: inout InspectorState
    ) {
        guard let property = conflict.item.property, conflict.item.kind == "update", !isDeleted
        else {
            state.say(
                "This conflict is closed: press u to undo its outcome, or change the object itself.",
                .failure)
            return
        }
        guard state.subject?.uri == conflict.item.object, let object = state.subject?.object else {
            let reason = state.subject?.failure ?? "It is still being loaded."
            state.say("The object cannot be changed now: \(reason)", .failure)
            return
        }
        let way = Decision.Way.save(
            property: property, value, version: object["version"]?.string)
        confirm(decision(conflict, way, summary, state), &state)
    }

    static func askForValue(_ state: inout InspectorState) {
        guard let conflict = conflict(&state) else { return }
        let item = conflict.item
        if item.kind == "uniqueness" || item.kind == "delete" {
            state.say(
                "A value does not decide this conflict: choose a side, or press d to delete.",
                .failure)
            return
        }
        guard item.isOpen || (item.kind == "update" && item.property != nil) else {
            state.say("This conflict is closed: press u to undo its outcome.", .failure)
            return
        }
        let type = item.property.flatMap { state.model.type(of: $0, in: item.entity) }
        let isTypeable = type.map { !["binary", "transformable"].contains($0) } ?? false
        if item.property != nil, !isTypeable {
            state.say(
                "Only text, numbers, truth values, dates and references can be typed.", .failure)
            return
        }
        let current = state.subject?.object?["values"]?.object
        let visible =
            item.isOpen
            ? conflict.sides.first { $0.isVisible }?.value : item.property.flatMap { current?[$0] }
        let text: String =
            switch visible {
            case .string(let text)? where item.property != nil:
                ObjectURI(text).map { "\($0.entityName)/\($0.row)" } ?? text
            case .integer?, .double?, .boolean?: visible.map { JSONWriter.text(of: $0) } ?? ""
            default: ""
            }
        state.message = nil
        state.prompt = .value(property: item.property, type: type, LineEditor(text))
    }

    static func takeValue(
        _ property: String?, _ type: String?, _ editor: LineEditor, _ state: inout InspectorState
    ) {
        guard let conflict = conflict(&state) else { return state.prompt = nil }
        var (name, text, type) = (property ?? "", editor.text, type)
        if property == nil {
            guard let equals = text.firstIndex(of: "=") else {
                state.say("Type the property too, such as phone = 555.", .failure)
                return
            }
            name = text[..<equals].split(separator: " ").joined()
            text = String(text[text.index(after: equals)...].drop { $0 == " " })
            type = state.model.type(of: name, in: conflict.item.entity)
            guard type != nil else {
                state.say("\(conflict.item.entity) has no attribute \(name).", .failure)
                return
            }
        }
        let item = conflict.item
        let typed =
            type == ModelFacts.toOne
            ? state.model.reference(text, from: name, of: item.object, in: item.entity)
            : ModelFacts.value(text, type: type)
        switch typed {
        case .failure(let mistake): state.say("Type \(mistake.expected).", .failure)
        case .success(let value):
            let title = state.title(of: conflict.item.object)
            let summary = "\(name) of \(title) becomes \(ValueLines.brief(value, maximum: 60))."
            guard conflict.item.isOpen else {
                state.prompt = nil
                return save(value, isDeleted: false, summary, conflict, &state)
            }
            confirm(
                decision(conflict, .value(property: name, value), summary, state), &state)
        }
    }

    static func delete(_ state: inout InspectorState) {
        guard let conflict = conflict(&state) else { return }
        guard conflict.item.isOpen else {
            state.say("This conflict is closed: nothing is left to decide here.", .failure)
            return
        }
        let summary = "\(state.title(of: conflict.item.object)) is deleted, the whole object."
        confirm(decision(conflict, .delete, summary, state), &state)
    }

    static func undo(_ state: inout InspectorState) {
        guard let conflict = conflict(&state) else { return }
        guard conflict.item.state != .unresolved else {
            state.say(
                "There is nothing to undo: nobody has decided this conflict yet.", .failure)
            return
        }
        let subject = subject(conflict.item, state)
        if let last = state.lastSave, last.object == conflict.item.object,
            last.property == conflict.item.property
        {
            let summary = "\(subject) gets back the value it had before you changed it here."
            confirm(decision(conflict, .undoSave(dot: last.dot), summary, state), &state)
            return
        }
        let summary = "What the outcome for \(subject) replaced is written again."
        confirm(decision(conflict, .undo, summary, state), &state)
    }

    static func askForPolicy(_ state: inout InspectorState) {
        guard mayDecide(&state) else { return }
        guard state.list.markedCount > 0 || state.chosen != nil else {
            state.say("Mark conflicts with space first, or choose one.", .failure)
            return
        }
        state.message = nil
        state.prompt = .policy(0)
    }

    static func takePolicy(_ index: Int, _ state: inout InspectorState) {
        let policy = Policy.all[index]
        let marked = state.list.markedItems
        let items = marked.isEmpty ? [state.chosen].compactMap { $0 } : marked
        let open = items.filter { $0.isOpen && !$0.sides.isEmpty }
        guard !open.isEmpty else {
            state.prompt = nil
            state.say("None of these is open: a policy decides open conflicts only.", .failure)
            return
        }
        let decisions = open.map { item in
            var dots: [String] = []
            for side in item.sides where !side.dot.isEmpty && !dots.contains(side.dot) {
                dots.append(side.dot)
            }
            return Decision(
                id: item.id, object: item.object, dots: dots, way: .policy(policy.name),
                summary: "\(subject(item, state)): \(policy.text).", author: state.source.author)
        }
        state.prompt = .confirm(decisions, skipped: items.count - open.count, LineEditor())
    }

    // MARK: Making them

    static func make(
        _ decisions: [Decision], note: String, _ state: inout InspectorState
    ) -> [InspectorEffect] {
        state.prompt = nil
        let decisions = decisions.map { decision in
            var decision = decision
            decision.note = note
            return decision
        }
        if decisions.count == 1, let decision = decisions.first {
            state.say("Asked the node…")
            return send(decision, .decision(decision), &state)
        }
        state.bulk = InspectorState.Bulk(decisions: decisions)
        return nextOfBulk(&state)
    }

    private static func send(
        _ decision: Decision, _ purpose: Purpose, _ state: inout InspectorState
    ) -> [InspectorEffect] {
        guard state.pending.insert(purpose).inserted else { return [] }
        state.logged[purpose] = state.log.begin(
            decision.command(state.source), at: state.now)
        let (path, body) = decision.request
        return [.request(InspectorRequest(purpose, "POST", path, body, isChange: true))]
    }

    /// Makes the next of several, or ends them.
    static func nextOfBulk(_ state: inout InspectorState) -> [InspectorEffect] {
        guard let bulk = state.bulk else { return [] }
        if bulk.position < bulk.decisions.count, !bulk.isStopped {
            let decision = bulk.decisions[bulk.position]
            state.say(
                "\(bulk.position + 1) of \(bulk.decisions.count)… Esc stops after this one.")
            return send(decision, .bulk(decision), &state)
        }
        let left = bulk.decisions.count - bulk.position
        var text = "\(bulk.done) resolved"
        if bulk.failed > 0 { text += ", \(bulk.failed) refused (\(bulk.firstFailure))" }
        if left > 0 { text += ", \(left) left as they were" }
        state.say(
            text.hasSuffix(".") ? text : text + ".",
            bulk.failed > 0 || left > 0 ? .failure : .success)
        state.bulk = nil
        state.list.clearMarks()
        return Loading.status(&state) + (state.list.isLoading ? [] : Loading.list(&state))
    }
}
