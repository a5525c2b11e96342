import Synchronization

/// A merge policy of an application's own for an attribute: which of several concurrent writes readers
/// see. Each node decides by itself, so what decides must be a pure function.
///
/// A program registers its policies before it opens a store or a model that names them, under a name
/// and a version; `"mergePolicy": "largest@1"` in a model names one. Both are part of the model's hash, so
/// nodes that would decide differently do not merge: a program without the policy refuses the model,
/// and holds back transactions made with it, as with a model that it does not know. Who changes the
/// function gives it another version, and migrates the model.
///
/// The function sees the writes that no other has seen, and no base: what they overwrote is gone
/// from one node sooner than from another. Of objects that a unique key has made one it sees what each
/// of them shows.
///
/// A version stays registered as long as a store knows a model that names it: to migrate a store, and
/// to apply what was written before, the program needs both.
///
/// - Important: The function gets the same writes in the same order everywhere, and must give the same
///   answer for ever, whatever the machine, the time and the calls before. Otherwise nodes show different
///   values, which their digests find (the alarm `digestMismatch`). It is called while a store writes
///   or reads, so it must be quick and must not use a store; one that hangs holds up all saves.
public struct NamedMergePolicy: Hashable, Sendable {
    /// One of the concurrent writes.
    public struct Write: Hashable, Sendable {
        /// The value written.
        public let value: PropertyValue
        /// When, by the writer's hybrid clock.
        public let timestamp: HybridTimestamp
        /// The transaction that wrote it.
        public let dot: Dot

        /// Describes a write.
        public init(value: PropertyValue, timestamp: HybridTimestamp, dot: Dot) {
            self.value = value
            self.timestamp = timestamp
            self.dot = dot
        }
    }

    /// Chooses a write by its place. Gets two writes or more, the earliest first, equal values among them.
    public typealias Function = @Sendable ([Write]) -> Int

    /// The most policies that a program may register.
    public static let limit = 1000

    private struct Entry {
        let name: String
        let version: Int
        let function: Function
        /// Where it was registered.
        let source: SourcePlace
    }

    private static let entries = Mutex<[Entry]>([])

    /// The place in the list of entries.
    let place: UInt16

    /// Registers a policy for the rest of the program's life. Usable from any thread.
    ///
    /// - Parameters:
    ///   - name: 1 to 64 of a-z, A-Z, 0-9, "-" and "_".
    ///   - version: 1 or more; another one for each function that chooses differently.
    ///   - function: Gives the place of the write that readers see.
    /// - Returns: The policy, for an attribute's `mergePolicy`.
    /// - Precondition: The name and version are not registered yet, and there are fewer than ``limit``.
    @discardableResult
    public static func register(
        _ name: String, version: Int, file: StaticString = #fileID, line: UInt = #line,
        choosing function: @escaping Function
    ) -> MergePolicy {
        let source = SourcePlace(file, line)
        require(
            isName(name),
            "\"\(name)\" is no name of a merge policy: 1 to 64 of a-z, A-Z, 0-9, - and _.",
            at: source)
        require(
            version > 0, "Merge policy \(name) has the version \(version); the least is 1.",
            at: source)
        return entries.withLock { entries in
            require(
                !entries.contains { $0.name == name && $0.version == version },
                "Merge policy \(name)@\(version) is registered already.", at: source)
            require(
                entries.count < limit, "More than \(limit) merge policies are registered.",
                at: source)
            entries.append(Entry(name: name, version: version, function: function, source: source))
            return .named(NamedMergePolicy(place: UInt16(entries.count - 1)))
        }
    }

    /// The policy of a model's text, `name@version`; nil where the program has not registered it.
    package static func registered(_ text: String) -> NamedMergePolicy? {
        entries.withLock { entries in
            entries.firstIndex { "\($0.name)@\($0.version)" == text }
                .map { NamedMergePolicy(place: UInt16($0)) }
        }
    }

    /// Whether a text could be that of a policy.
    package static func isText(_ text: String) -> Bool {
        let parts = text.split(separator: "@", omittingEmptySubsequences: false)
        guard parts.count == 2, let version = Int(parts[1]) else { return false }
        return isName(String(parts[0])) && version > 0 && String(version) == parts[1]
    }

    private static func isName(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count)
            && text.utf8.allSatisfy {
                (0x61...0x7A).contains($0) || (0x41...0x5A).contains($0)
                    || (0x30...0x39).contains($0)
                    || $0 == 0x2D || $0 == 0x5F
            }
    }

    private var entry: Entry { Self.entries.withLock { $0[Int(place)] } }

    /// Its name and version, `name@version`.
    public var text: String {
        let entry = entry
        return "\(entry.name)@\(entry.version)"
    }

    /// The place of the write that readers see.
    ///
    /// - Precondition: There is one.
    package func chosen(among writes: [Write]) -> Int {
        if writes.count == 1 { return 0 }
        let entry = entry
        let chosen = entry.function(writes)
        require(
            writes.indices.contains(chosen),
            "Merge policy \(entry.name)@\(entry.version) chose the write \(chosen) of \(writes.count).",
            at: entry.source)
        return chosen
    }
}
