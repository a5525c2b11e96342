import Merge

/// A key of an order, resolved against the model. SQL and memory both sort by its value.
struct ResolvedSortKey: Hashable, Sendable {
    let path: ResolvedPath
    let ascending: Bool
    /// How texts lie to each other; nil for the order of their bytes.
    let collation: Collation?
    /// The path to a derived attribute that has the text's keys of that order; nil where there is none.
    private(set) var kept: ResolvedPath?

    /// - Throws: ``PredicateError`` where a key path does not fit the model, or not what it is sorted by.
    init(_ descriptor: SortDescriptor, _ resolver: PathResolver) throws(PredicateError) {
        let names =
            resolver.columns == nil
            ? try PredicateParser.keyPath(descriptor.keyPath) : [descriptor.keyPath]
        path = try resolver.resolve(names, offset: 0)
        ascending = descriptor.ascending
        guard path.firstToMany == nil, path.type != nil else {
            throw PredicateError(
                "\"\(descriptor.keyPath)\" leads to no single value to sort by", offset: 0)
        }
        guard case .localizedStandard(let locale) = descriptor.comparison else {
            collation = nil
            return
        }
        guard let collation = Collation(locale) else {
            throw PredicateError(Collation.refusal(locale), offset: 0)
        }
        self.collation = collation
        switch path.terminal {
        case .column(_, .string): break
        case .attribute(let name, .string):
            let owner =
                path.steps.last.map { resolver.model.entity(named: $0.destination) }
                ?? resolver.entity
            guard let kept = owner?.keys(of: name, in: collation) else { break }
            self.kept = path
            self.kept?.terminal = .attribute(name: kept, .binary)
        default:
            throw PredicateError(
                "\"\(descriptor.keyPath)\" is no text, and localizedStandard sorts texts alone",
                offset: 0)
        }
    }

    /// The type of the value that is sorted by.
    var type: AttributeType? { collation == nil ? path.type : .binary }

    /// The value that is sorted by.
    func sql(_ builder: inout SQLBuilder) throws -> String {
        guard let collation else { return try builder.value(path) }
        if let kept { return try builder.value(kept) }
        // The locale has letters and underscores alone.
        return "\(FetchCompiler.collationKeyFunction)(CAST(\(try builder.value(path)) AS BLOB), "
            + "'\(collation.locale)')"
    }

    /// The value that is sorted by. What is kept may be of before a change, so it is made of the text.
    func value(of subject: some PredicateSubject) throws -> PropertyValue {
        let value = try PredicateEvaluator.value(path, [subject])
        guard let collation, let text = ResolvedFunction.text(value) else { return value }
        return .binary(collation.key(of: text))
    }
}

extension ManagedObjectModel.Entity {
    /// The derived attribute that has the keys of a text in an order.
    func keys(of text: String, in collation: Collation) -> String? {
        derivedAttributes.first {
            guard case .localizedStandard(text, let locale) = $0.derivation else { return false }
            return Collation(written: locale) == collation
        }?.name
    }
}
