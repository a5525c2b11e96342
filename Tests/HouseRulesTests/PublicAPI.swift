/// What a module shows to other packages, read from its sources: one line a declaration, with the type it
/// is in.
struct PublicAPI {
    private struct Scope {
        let name: String
        let indent: Int
        let kind: String
        let isPublic: Bool
    }

    private static let containers: Set<Substring> = [
        "class", "struct", "enum", "actor", "protocol", "extension",
    ]
    private static let modifiers: Set<Substring> = [
        "public", "open", "package", "internal", "private", "fileprivate", "final", "indirect",
        "static", "mutating", "nonmutating", "convenience", "override", "required", "weak",
    ]

    /// Sorted; each once.
    private(set) var declarations: Set<String> = []

    /// Reads a file in.
    mutating func add(_ lines: [Substring]) {
        var scopes: [Scope] = []
        var index = 0
        while index < lines.count {
            let line = lines[index]
            index += 1
            let text = line.drop { $0 == " " }
            let indent = line.count - text.count
            if text.isEmpty || text.hasPrefix("//") { continue }
            if text.hasPrefix("}") {
                while let last = scopes.last, last.indent >= indent { scopes.removeLast() }
                continue
            }
            // Statements are deeper than what the type they are in declares.
            guard indent == (scopes.last.map { $0.indent + 4 } ?? 0) else { continue }
            var declaration = text
            while index < lines.count {
                let next = lines[index].drop { $0 == " " }
                let goesOn = next.hasPrefix("where ") && !declaration.hasSuffix("{")
                if Self.isWhole(declaration) && !goesOn || next.hasPrefix("//") { break }
                declaration += " " + next
                index += 1
            }
            let words = declaration.split(separator: " ").filter { !$0.hasPrefix("@") }
            let isPublic = words.prefix { Self.modifiers.contains($0) }.contains {
                $0 == "public" || $0 == "open"
            }
            let keyword = words.first { !Self.modifiers.contains($0) }
            let top = scopes.last
            let isImplied =
                top.map {
                    $0.isPublic
                        && ($0.kind == "protocol" || ($0.kind == "enum" && keyword == "case"))
                }
                ?? false
            if keyword != "import", isPublic || isImplied {
                note(Self.head(declaration), in: scopes)
            }
            guard let keyword, Self.containers.contains(keyword), declaration.hasSuffix("{"),
                let place = words.firstIndex(of: keyword), place + 1 < words.count
            else { continue }
            let name = words[place + 1].prefix {
                $0.isLetter || $0.isNumber || $0 == "." || $0 == "_"
            }
            scopes.append(
                Scope(
                    name: String(name), indent: indent, kind: String(keyword),
                    isPublic: isPublic))
        }
    }

    private mutating func note(_ head: Substring, in scopes: [Scope]) {
        let path = scopes.map(\.name).joined(separator: ".")
        let text = head.split(separator: " ").joined(separator: " ")
            .replacing("( ", with: "(").replacing(" )", with: ")")
        declarations.insert(path.isEmpty ? text : "\(path): \(text)")
    }

    /// Whether a declaration goes on in no other line.
    private static func isWhole(_ text: Substring) -> Bool {
        var depth = 0
        for character in text {
            if "([<".contains(character) { depth += 1 }
            if ")]".contains(character) { depth -= 1 }
            if character == ">", depth > 0 { depth -= 1 }
        }
        // The arrow of a function type closes nothing.
        depth += text.split(separator: " ").count { $0 == "->" }
        let isOpenEnded = ["(", ",", "->", ":", "="].contains { text.hasSuffix($0) }
        return depth <= 0 && !isOpenEnded || text.hasSuffix("{") || text.hasSuffix("}")
    }

    /// A declaration without its body.
    private static func head(_ text: Substring) -> Substring {
        guard let brace = text.firstIndex(of: "{") else { return text }
        return text[..<brace]
    }
}
