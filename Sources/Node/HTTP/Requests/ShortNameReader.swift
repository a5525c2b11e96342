// Names that people type: whole ones, and the beginnings that tables show.

internal import Coordinator
internal import Merge

extension HTTPServices {
    /// The conflict of an ID, or of the beginning of its short name.
    ///
    /// - Throws: ``HTTPError`` 400 `ambiguous`, or ``CoordinatorError`` `conflictNotFound`.
    func conflictID(_ text: String) async throws -> ConflictID {
        if let id = ConflictID(text) { return id }
        guard ConflictID.isShort(text) else {
            throw CoordinatorError(
                .conflictNotFound,
                "\"\(text)\" is no conflict's ID. They look like Person.p17.name, or 3f9a2c in short."
            )
        }
        let found = try await read { try $0.conflicts(named: text) }
        guard let first = found.first else {
            throw CoordinatorError(.conflictNotFound, "No conflict's short ID begins with \(text).")
        }
        if found.count > 1 {
            throw HTTPError.ambiguous(text, found.map { "\($0.shortName.prefix(12))  \($0)" })
        }
        return first
    }

    /// The transaction of a dot, or of the beginning of one.
    ///
    /// - Parameter wrong: the error for a text that names none.
    /// - Throws: that error, or ``HTTPError`` 400 `ambiguous`.
    func dot(_ text: String, orThrow wrong: HTTPError) async throws -> Dot {
        // The beginning of a name may be a whole one as well, of an incarnation with fewer digits.
        let found = try await read { try $0.transactions(named: text) }
        guard let first = found.first else {
            if let dot = Dot(text) { return dot }
            throw wrong
        }
        if found.count > 1 { throw HTTPError.ambiguous(text, found.map(\.description)) }
        return first
    }
}

extension HTTPError {
    /// A short name that several have.
    static func ambiguous(_ text: String, _ candidates: [String]) -> HTTPError {
        HTTPError(
            400, "ambiguous",
            "\(text) may be \(candidates.joined(separator: ", or ")). Give more of it.",
            details: ["candidates": .array(candidates.map { .string($0) })])
    }
}
