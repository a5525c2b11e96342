/// Why a pattern cannot be used.
package struct PatternError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The mistake in it.
    package let message: String

    /// The message.
    package var description: String { message }
}

/// A regular expression that a whole text must match.
///
/// It runs as a set of states and never backtracks: time is at most pattern times text, so a
/// pattern from outside cannot stall a reader. That excludes backreferences and lookaround, which
/// are refused. Known: literals, `.`, `[...]` with ranges and negation, `\d \w \s` and their
/// opposites, `\t \n \r \uXXXX`, groups, `|`, `* + ? {m,n}` (also with a lazy `?`), `^` and `$`.
package struct RegularExpression: Sendable {
    /// How long a pattern may be, in Unicode scalars.
    package static let maximumLength = 1_000
    /// How many states a pattern may have once its counts are written out.
    package static let maximumStates = 5_000

    /// A set of scalars.
    struct ScalarClass: Sendable {
        var ranges: [ClosedRange<UInt32>] = []
        var isNegated = false

        /// Whether it names a scalar, to match it or to leave it out.
        func names(_ scalar: UInt32) -> Bool { ranges.contains { $0.contains(scalar) } }
    }

    enum State: Sendable {
        case scalar(UInt32)
        case any
        case set(ScalarClass)
        case split(Int, Int)
        case jump(Int)
        case start
        case end
        case match
    }

    let states: [State]
    let options: ComparisonOptions

    /// Compiles a pattern.
    ///
    /// - Parameters:
    ///   - pattern: at most ``maximumLength`` scalars.
    ///   - options: whether case or diacritics are ignored.
    package init(
        _ pattern: String, options: ComparisonOptions = []
    ) throws(PatternError) {
        var compiler = try RegularExpressionCompiler(pattern, options: options)
        states = try compiler.compile()
        self.options = options
    }

    /// Whether the whole text matches.
    package func matches(_ text: String) -> Bool {
        let scalars = TextFolding.fold(text, options).unicodeScalars.map(\.value)
        var current: [Int] = []
        var next: [Int] = []
        var marks = [Int](repeating: -1, count: states.count)
        var pending: [Int] = []
        let add = { (state: Int, position: Int, list: inout [Int]) in
            pending.append(state)
            while let state = pending.popLast() {
                guard marks[state] != position else { continue }
                marks[state] = position
                switch states[state] {
                case .split(let first, let second):
                    pending.append(second)
                    pending.append(first)
                case .jump(let target): pending.append(target)
                case .start: if position == 0 { pending.append(state + 1) }
                case .end: if position == scalars.count { pending.append(state + 1) }
                default: list.append(state)
                }
            }
        }
        add(0, 0, &current)
        for (position, scalar) in scalars.enumerated() {
            guard !current.isEmpty else { return false }
            next.removeAll(keepingCapacity: true)
            for state in current where consumes(states[state], scalar) {
                add(state + 1, position + 1, &next)
            }
            swap(&current, &next)
        }
        return current.contains { if case .match = states[$0] { true } else { false } }
    }

    private func consumes(_ state: State, _ scalar: UInt32) -> Bool {
        switch state {
        case .scalar(let expected): return expected == scalar
        case .any: return scalar != 0x0A && scalar != 0x0D
        case .set(let set):
            return (set.names(scalar) || namesUpperCase(of: scalar, set)) != set.isNegated
        default: return false
        }
    }

    /// Whether a set names a scalar of the text by its upper case, as ranges do that are not folded.
    private func namesUpperCase(of scalar: UInt32, _ set: ScalarClass) -> Bool {
        guard options.contains(.caseInsensitive),
            let upper = Unicode.Scalar(scalar)?.properties.uppercaseMapping.unicodeScalars,
            upper.count == 1, let only = upper.first
        else { return false }
        return set.names(only.value)
    }
}
