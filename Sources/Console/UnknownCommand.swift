// A subcommand that does not exist, and what may have been meant.

package import ArgumentParser

/// A word in a subcommand's place that is none.
package struct UnknownCommand: Hashable {
    package let word: String
    /// The command before it, such as `tributary conflicts`.
    package let parent: String
    /// The subcommands there are.
    package let known: [String]

    /// Looks for one; nil where every word in a subcommand's place is one.
    ///
    /// - Parameters:
    ///   - arguments: without the program's name. After `help` come the names of a command only.
    ///   - root: the command that they are for.
    package init?(in arguments: [String], of root: any ParsableCommand.Type) {
        var command = root
        var path = [root.configuration.commandName ?? ""]
        let isHelp = arguments.first == "help"
        for word in isHelp ? arguments.dropFirst() : arguments[...] {
            let children = command.configuration.subcommands
            guard !children.isEmpty, !word.hasPrefix("-") else { return nil }
            if word == "help", !isHelp { return nil }
            guard let next = children.first(where: { $0.configuration.commandName == word }) else {
                self.word = word
                parent = path.joined(separator: " ")
                known = children.compactMap { $0.configuration.commandName }
                return
            }
            command = next
            path.append(word)
        }
        return nil
    }

    /// The command that was probably meant: at most two letters away, or longer.
    package var suggestion: String? {
        let near = known.map { (name: $0, distance: Self.distance(word.lowercased(), $0)) }
            .filter { $0.distance <= min(2, $0.name.count / 2) }
            .min { $0.distance < $1.distance }
        return near?.name ?? known.first { word.count >= 3 && $0.hasPrefix(word.lowercased()) }
    }

    /// The failure that reports it.
    ///
    /// - Parameter elsewhere: the commands of other programs, with the name of each one's program.
    package func failure(elsewhere: [String: String] = [:]) -> CommandFailure {
        if !parent.contains(" "), let program = elsewhere[word] {
            return .usage(
                "\(word) is a command of \(program), which is built from the same sources. "
                    + "See `\(program) \(word) --help`.")
        }
        let hint =
            suggestion.map { "Did you mean `\(parent) \($0)`?" }
            ?? "There are \(known.joined(separator: ", "))."
        return .usage("\(parent) has no command \(word). \(hint) See `\(parent) --help`.")
    }

    /// How many letters must be added, left out or exchanged to come from one word to another.
    package static func distance(_ left: String, _ right: String) -> Int {
        // A subcommand's name is short; what is long is none.
        guard left.utf8.count <= 40 else { return .max }
        let right = Array(right.utf8)
        var row = Array(0...right.count)
        for (index, letter) in left.utf8.enumerated() {
            var diagonal = row[0]
            row[0] = index + 1
            for column in right.indices {
                let substituted = diagonal + (letter == right[column] ? 0 : 1)
                diagonal = row[column + 1]
                row[column + 1] = min(substituted, diagonal + 1, row[column] + 1)
            }
        }
        return row[right.count]
    }
}
