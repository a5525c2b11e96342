// Strict reading of settings: every key must be known, every value of its type, and every error
// says where it is. A setting comes from a flag, else the environment, else the file.
//
// Threading: used by one thread while a configuration is read.

internal import Yams

/// Where a setting was found, and its node.
struct Setting {
    /// The key with its path, such as `mesh.peers[1].exchange`.
    let key: String
    /// The file, the environment variable or the flag that says so.
    let origin: String
    /// The line in the file, 1 for the first; nil for a flag or a variable.
    let line: Int?
    let node: Yams.Node

    func failure(_ reason: String) -> NodeError {
        SettingsReader.failure(origin: origin, key: key, line: line, reason)
    }

    /// The text of a scalar that YAML does not take for a number, a truth value or nothing.
    func text() throws(NodeError) -> String {
        guard case .scalar(let scalar) = node else { throw failure("must be text, not a \(kind)") }
        // Only the file has types; a variable or flag is text whatever it looks like.
        guard line == nil || scalar.style != .plain || node.tag == Tag(.str) else {
            throw failure("must be text; put \(scalar.string) in quotes")
        }
        guard !scalar.string.isEmpty else { throw failure("must not be empty") }
        return scalar.string
    }

    /// A whole number in decimal, within bounds. One with a zero in front is refused: YAML 1.1 reads 010 as
    /// 8, YAML 1.2 as 10.
    func integer(_ range: ClosedRange<Int>) throws(NodeError) -> Int {
        let bounds = "a whole number from \(range.lowerBound) to \(range.upperBound)"
        guard case .scalar(let scalar) = node else { throw failure("must be \(bounds)") }
        guard line == nil || scalar.style == .plain, let value = Int(scalar.string),
            String(value) == scalar.string
        else { throw failure("must be \(bounds), not \(Self.quoted(scalar.string))") }
        guard range.contains(value) else { throw failure("must be \(bounds), not \(value)") }
        return value
    }

    func boolean() throws(NodeError) -> Bool {
        guard case .scalar(let scalar) = node else { throw failure("must be true or false") }
        switch (scalar.string, line == nil || scalar.style == .plain) {
        case ("true", true): return true
        case ("false", true): return false
        default: throw failure("must be true or false, not \(Self.quoted(scalar.string))")
        }
    }

    /// Text that `read` understands; `form` says what it should look like.
    func parsed<Value>(_ form: String, _ read: (String) -> Value?) throws(NodeError) -> Value {
        let text = try text()
        guard let value = read(text) else {
            throw failure("must be \(form), not \(Self.quoted(text))")
        }
        return value
    }

    /// The settings of the elements of a list.
    func elements() throws(NodeError) -> [Setting] {
        guard case .sequence(let sequence) = node else {
            throw failure("must be a list, not a \(kind)")
        }
        return sequence.enumerated().map { index, element in
            Setting(
                key: "\(key)[\(index)]", origin: origin,
                line: line == nil ? nil : element.mark?.line ?? line, node: element)
        }
    }

    /// The node's kind, in words.
    var kind: String {
        switch node {
        case .scalar: "single value"
        case .sequence: "list"
        case .mapping: "group of settings"
        case .alias: "reference"
        }
    }

    /// A value in quotes, cut so that a message stays one line.
    static func quoted(_ text: String) -> String {
        let line = text.prefix(60).map { $0.isNewline ? " " : String($0) }.joined()
        return "'\(line)\(text.count > 60 ? "..." : "")'"
    }
}

/// The settings of one group, such as `http`.
struct SettingsReader {
    /// Flags and environment; what goes before the file.
    struct Outside {
        var overrides: NodeConfiguration.Overrides
        var environment: [String: String]
    }

    private let path: String
    private let origin: String
    private let outside: Outside?
    private let known: [String]
    private var settings: [String: Setting] = [:]

    /// Opens a group.
    ///
    /// - Parameters:
    ///   - setting: the group's node; nil where the file has none.
    ///   - path: the key of the group, empty for the file itself.
    ///   - known: the keys that it may have; others are refused.
    ///   - outside: flags and environment, which may override scalars here; nil for none.
    init(
        _ setting: Setting?, path: String, origin: String, known: [String], outside: Outside?
    ) throws(NodeError) {
        self.path = path
        self.origin = origin
        self.outside = outside
        self.known = known
        guard let setting else { return }
        guard case .mapping(let mapping) = setting.node else {
            throw setting.failure("must be a group of settings, not a \(setting.kind)")
        }
        for (keyNode, value) in mapping {
            let line = setting.line == nil ? nil : keyNode.mark?.line
            guard let name = keyNode.scalar?.string, known.contains(name) else {
                throw Self.failure(
                    origin: setting.origin, key: join(keyNode.scalar?.string ?? "(a group)"),
                    line: line,
                    "is not a setting; known here: \(known.sorted().joined(separator: ", "))")
            }
            settings[name] = Setting(
                key: join(name), origin: setting.origin, line: line, node: value)
        }
    }

    /// A setting from a flag, the environment or the file; nil where none has it.
    func optional(_ name: String) throws(NodeError) -> Setting? {
        guard known.contains(name) else { fatalError("\(name) is read but not listed as known.") }
        let key = join(name)
        if let (flag, text) = outside?.overrides.value(for: key) {
            return Setting(key: key, origin: flag, line: nil, node: Yams.Node(text))
        }
        let variable = Self.variable(for: key)
        if let text = outside?.environment[variable] {
            return Setting(key: key, origin: variable, line: nil, node: Yams.Node(text))
        }
        return settings[name]
    }

    /// A setting that must be there.
    func required(_ name: String) throws(NodeError) -> Setting {
        if let setting = try optional(name) { return setting }
        throw Self.failure(origin: origin, key: join(name), line: nil, "is missing")
    }

    /// A group or list as the file has it.
    func group(_ name: String) -> Setting? { settings[name] }

    private func join(_ name: String) -> String { path.isEmpty ? name : "\(path).\(name)" }

    /// The environment variable of a key: `http.maxBodyBytes` is TRIBUTARY_HTTP_MAX_BODY_BYTES.
    ///
    /// The node's number is TRIBUTARY_NODE_NUMBER, since TRIBUTARY_NODE is the client's URL.
    static func variable(for key: String) -> String {
        guard key != "node" else { return "TRIBUTARY_NODE_NUMBER" }
        var name = "TRIBUTARY_"
        for character in key {
            if character == "." {
                name += "_"
            } else {
                if character.isUppercase { name += "_" }
                name += character.uppercased()
            }
        }
        return name
    }

    static func failure(origin: String, key: String, line: Int?, _ reason: String) -> NodeError {
        let place = line.map { "\(origin):\($0)" } ?? origin
        return NodeError(
            .configurationInvalid, "\(place): \(key) \(reason)",
            context: [
                "file": origin, "key": key, "line": line.map(String.init) ?? "", "reason": reason,
            ])
    }
}
