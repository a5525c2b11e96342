// What each key does.

internal import Coordinator

/// Keys by where they are pressed.
enum Keys {
    static func press(_ key: Key, _ state: inout InspectorState) -> [InspectorEffect] {
        switch key {
        case .control("c"): return [.quit]
        case .control("z"): return [.suspend]
        case .control("l"): return [.redraw]
        default: break
        }
        if let prompt = state.prompt { return press(key, in: prompt, &state) }
        if case .escape = key, state.bulk != nil {
            state.bulk?.isStopped = true
            return []
        }
        if case .click(let row, let column) = key { return click(row, column, &state) }
        if case .wheel(let isDown, _, _) = key { return scroll(isDown ? 3 : -3, &state) }
        if state.bulk == nil { state.message = nil }
        if let effects = everywhere(key, &state) { return effects }
        switch state.view {
        case .conflicts: return conflicts(key, &state)
        case .conflict, .blame, .nodes, .log, .help: return lines(key, &state)
        case .object: return object(key, &state)
        }
    }

    // MARK: Prompts

    private static func press(
        _ key: Key, in prompt: InspectorState.Prompt, _ state: inout InspectorState
    ) -> [InspectorEffect] {
        switch prompt {
        case .filter(var editor): filter(key, &editor, &state)
        case .confirm(let decisions, let skipped, var editor):
            if key == .enter { return Deciding.make(decisions, note: editor.text, &state) }
            if key == .escape { return cancel(&state) }
            if editor.take(key) {
                state.prompt = .confirm(decisions, skipped: skipped, editor)
            }
        case .value(let property, let type, var editor):
            if key == .enter { Deciding.takeValue(property, type, editor, &state) }
            if key == .escape { return cancel(&state) }
            if editor.take(key) {
                state.message = nil
                state.prompt = .value(property: property, type: type, editor)
            }
        case .policy(let index): policy(key, index, &state)
        }
        return []
    }

    private static func cancel(_ state: inout InspectorState) -> [InspectorEffect] {
        state.prompt = nil
        state.say("Nothing was done.")
        return []
    }

    private static func filter(
        _ key: Key, _ editor: inout LineEditor, _ state: inout InspectorState
    ) {
        switch key {
        case .enter: state.prompt = nil
        case .escape:
            state.list.setFilter("")
            state.prompt = nil
        case .up: state.list.move(by: -1)
        case .down: state.list.move(by: 1)
        default:
            guard editor.take(key) else { return }
            state.list.setFilter(editor.text)
            state.prompt = .filter(editor)
        }
    }

    private static func policy(_ key: Key, _ index: Int, _ state: inout InspectorState) {
        let count = Policy.all.count
        switch key {
        case .escape: _ = cancel(&state)
        case .enter: Deciding.takePolicy(index, &state)
        case .up, .character("k"): state.prompt = .policy((index + count - 1) % count)
        case .down, .character("j"): state.prompt = .policy((index + 1) % count)
        case .character(let character):
            guard let number = character.wholeNumberValue, (1...count).contains(number) else {
                return
            }
            Deciding.takePolicy(number - 1, &state)
        default: break
        }
    }

    // MARK: Everywhere

    /// nil where the key means something else in each view.
    private static func everywhere(
        _ key: Key, _ state: inout InspectorState
    ) -> [InspectorEffect]? {
        switch key {
        case .escape, .left:
            if state.view == .object, let uri = state.trail.popLast() {
                return Loading.show(uri, &state)
            }
            if state.views.count > 1 {
                state.goBack()
            } else if key == .escape {
                if !state.list.filter.isEmpty {
                    state.list.setFilter("")
                } else {
                    state.list.clearMarks()
                }
            }
        case .character("q"):
            if state.view == .help {
                state.goBack()
            } else {
                return [.quit]
            }
        case .tab: cycle(1, &state)
        case .backTab: cycle(2, &state)
        case .character("?"): state.view == .help ? state.goBack() : state.open(.help)
        case .character("n"): state.goTo(.nodes)
        case .character("l"): state.goTo(.log)
        case .character("r"):
            var effects = Loading.status(&state, isNamed: true)
            if !state.list.isLoading { effects += Loading.list(&state, isNamed: true) }
            state.conflictFailure = nil
            if let id = state.chosen?.id { effects += Loading.conflict(id, &state) }
            return effects
        case .character("m"):
            state.isMouseOn.toggle()
            state.say(
                state.isMouseOn
                    ? "The mouse is on: click a row. Press m to select text with it again."
                    : "The mouse is off.")
            return [.mouse(state.isMouseOn)]
        default: return nil
        }
        return []
    }

    private static func cycle(_ step: Int, _ state: inout InspectorState) {
        let tabs: [InspectorState.View] = [.conflicts, .nodes, .log]
        let base = state.views.count > 1 ? state.views[1] : .conflicts
        let index = tabs.firstIndex(of: base) ?? 0
        state.goTo(tabs[(index + step) % tabs.count])
    }

    // MARK: Conflicts

    /// The keys that decide over the chosen conflict, in the list and where it is shown whole; nil for
    /// any other.
    private static func decide(
        _ key: Key, _ state: inout InspectorState
    ) -> [InspectorEffect]? {
        guard case .character(let character) = key else { return nil }
        switch character {
        case "1"..."9": Deciding.takeSide(character.wholeNumberValue ?? 0, &state)
        case "e": Deciding.askForValue(&state)
        case "d": Deciding.delete(&state)
        case "u": Deciding.undo(&state)
        case "p": Deciding.askForPolicy(&state)
        case "b":
            guard let uri = state.chosen?.object, !uri.isEmpty else { return [] }
            state.open(.blame)
            return Loading.blame(uri, &state)
        case "o":
            guard let uri = state.chosen?.object, !uri.isEmpty else { return [] }
            state.open(.object)
            state.trail = []
            return Loading.show(uri, &state)
        default: return nil
        }
        return []
    }

    private static func conflicts(
        _ key: Key, _ state: inout InspectorState
    ) -> [InspectorEffect] {
        if let effects = decide(key, &state) { return effects }
        let page = max(1, Layout(state).listHeight - 1)
        switch key {
        case .down, .character("j"): state.list.move(by: 1)
        case .up, .character("k"): state.list.move(by: -1)
        case .pageDown, .control("f"): state.list.move(by: page)
        case .pageUp, .control("b"): state.list.move(by: -page)
        case .home: state.list.move(to: 0)
        case .end, .character("G"): state.list.move(to: state.list.rows.count - 1)
        case .enter, .right: return whole(&state)
        case .character("/"): state.prompt = .filter(LineEditor(state.list.filter))
        case .character("g"): state.list.cycleGrouping()
        case .character("s"): state.list.cycleScope()
        case .character(" "): state.list.toggleMark()
        case .character("v"): state.list.toggleRange()
        case .character("a"): state.list.toggleAll()
        default: break
        }
        return []
    }

    /// Shows the chosen conflict whole, or opens or closes the group.
    private static func whole(_ state: inout InspectorState) -> [InspectorEffect] {
        if state.list.toggleGroup() { return [] }
        guard let id = state.chosen?.id else { return [] }
        state.open(.conflict)
        return Loading.conflict(id, isNamed: true, &state)
    }

    // MARK: Lines

    private static func lines(_ key: Key, _ state: inout InspectorState) -> [InspectorEffect] {
        if state.view == .conflict {
            if let effects = decide(key, &state) { return effects }
            switch key {
            case .character("J"), .character(">"): state.list.move(by: 1)
            case .character("K"), .character("<"): state.list.move(by: -1)
            default: break
            }
        }
        if state.view == .blame, let effects = decide(key, &state) { return effects }
        if state.view == .nodes, key == .character("V") {
            state.say("The node reads its whole store to compare digests…")
            return Loading.verify(&state)
        }
        let page = max(1, Layout(state).bodyHeight - 1)
        switch key {
        case .down, .character("j"): return scroll(1, &state)
        case .up, .character("k"): return scroll(-1, &state)
        case .pageDown, .character(" "), .control("f"): return scroll(page, &state)
        case .pageUp, .control("b"): return scroll(-page, &state)
        case .home: return scroll(-state.scroll, &state)
        case .end, .character("G"): return scroll(.max / 2, &state)
        default: return []
        }
    }

    private static func scroll(_ count: Int, _ state: inout InspectorState) -> [InspectorEffect] {
        if state.view == .conflicts {
            state.list.move(by: count)
        } else {
            let last = max(0, Renderer.lines(state).count - Layout(state).bodyHeight)
            state.scroll = max(0, min(last, state.scroll + count))
        }
        return []
    }

    // MARK: Objects

    private static func object(_ key: Key, _ state: inout InspectorState) -> [InspectorEffect] {
        guard let shown = state.object else { return [] }
        let count = shown.neighbours.count
        switch key {
        case .down, .character("j"):
            if count == 0 { return scroll(1, &state) }
            state.object?.cursor = min(count - 1, shown.cursor + 1)
        case .up, .character("k"):
            if count == 0 { return scroll(-1, &state) }
            state.object?.cursor = max(0, shown.cursor - 1)
        case .pageDown: return scroll(Layout(state).bodyHeight - 1, &state)
        case .pageUp: return scroll(1 - Layout(state).bodyHeight, &state)
        case .enter, .right:
            guard shown.neighbours.indices.contains(shown.cursor) else { return [] }
            state.trail.append(shown.uri)
            state.scroll = 0
            return Loading.show(shown.neighbours[shown.cursor].uri, &state)
        case .character("b"):
            state.open(.blame)
            return Loading.blame(shown.uri, &state)
        case .character("c"):
            state.goTo(.conflicts)
            state.list.setFilter(ObjectURI(shown.uri).map { "\($0.entityName).\($0.row)." } ?? "")
        default: break
        }
        keepCursorSeen(&state)
        return []
    }

    private static func keepCursorSeen(_ state: inout InspectorState) {
        let height = Layout(state).bodyHeight
        guard let line = Renderer.cursorLine(state) else { return }
        if line < state.scroll { state.scroll = line }
        if line >= state.scroll + height { state.scroll = line - height + 1 }
    }

    // MARK: Mouse

    private static func click(
        _ row: Int, _ column: Int, _ state: inout InspectorState
    ) -> [InspectorEffect] {
        let layout = Layout(state)
        if row == 0 {
            if let view = layout.tab(at: column) { state.goTo(view) }
            return []
        }
        guard state.view == .conflicts,
            (layout.listTop..<layout.listTop + layout.listHeight)
                .contains(row)
        else { return [] }
        let wanted = state.list.top + row - layout.listTop
        guard state.list.rows.indices.contains(wanted) else { return [] }
        let isSame = wanted == state.list.cursor
        state.list.move(to: wanted)
        return isSame ? whole(&state) : []
    }
}
