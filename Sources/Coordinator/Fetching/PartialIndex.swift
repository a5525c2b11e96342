import Merge

/// What an index with a predicate holds.
///
/// SQLite uses such an index for a statement that has the same terms in its WHERE, with the constants in the
/// statement's text: where one is bound it cannot tell. So a fetch that has a term of an index writes it as
/// the index does.
struct PartialIndex {
    /// A test of an attribute of the object itself.
    struct Term: Hashable, Sendable {
        let attribute: String
        let test: ValueTest
    }

    let terms: Set<Term>
    /// SQL of the condition, over the entity's table by its name.
    let sql: String

    /// - Returns: nil for an index of all objects.
    /// - Throws: ``ModelError`` where no index can have the predicate.
    init?(
        _ index: IndexDescription, of entity: ManagedObjectModel.Entity,
        in model: ManagedObjectModel
    ) throws(ModelError) {
        guard let format = index.predicate else { return nil }
        let place = "\(entity.name) index \(index.name)"
        let condition: String
        var terms = Set<Term>()
        do {
            var resolver = PredicateResolver(
                paths: PathResolver(model: model, entity: entity), cluster: nil, now: { 0 })
            let predicate = try resolver.resolve(try Predicate(format: format))
            guard Self.collect(predicate, of: entity, into: &terms) else {
                throw ModelError(
                    place,
                    "its predicate may compare stored attributes of \(entity.name) with constants, "
                        + "without options, and join that by AND, OR and NOT")
            }
            var builder = SQLBuilder(model: model, codes: EntityCodes([:]))
            builder.scopes = [.init(base: EntityTable.quote(entity.root))]
            builder.literalTerms = terms
            condition = try builder.condition(predicate)
        } catch let error as ModelError {
            throw error
        } catch {
            throw ModelError(place, "its predicate: \(error)")
        }
        self.terms = terms
        sql = condition
    }

    /// Collects the terms of a predicate; false where it has others than an index can have.
    private static func collect(
        _ predicate: ResolvedPredicate, of entity: ManagedObjectModel.Entity,
        into terms: inout Set<Term>
    ) -> Bool {
        switch predicate {
        case .constant, .computed, .relation, .quantified, .quantifiedRelation: return false
        case .and(let parts), .or(let parts):
            return parts.allSatisfy { collect($0, of: entity, into: &terms) }
        case .not(let part): return collect(part, of: entity, into: &terms)
        case .test(let path, let test):
            guard path.base == 0, path.steps.isEmpty,
                case .attribute(let name, let type) = path.terminal,
                entity.position(of: name) != nil, literal("", test, type) != nil
            else { return false }
            terms.insert(Term(attribute: name, test: test))
            return true
        }
    }

    /// A test with its constants as SQL; nil where an index cannot have it.
    static func literal(
        _ expression: String, _ test: ValueTest, _ type: AttributeType?
    ) -> String? {
        switch test {
        case .isNull: return "(\(expression) IS NULL)"
        case .isNotNull: return "(\(expression) IS NOT NULL)"
        case .compare(let comparison, let value, []):
            guard let value = literal(value) else { return nil }
            switch comparison {
            case .equal: return "(\(expression) = \(value))"
            case .notEqual: return "(\(expression) <> \(value))"
            // The order of decimals is no order of SQLite's own.
            case .less where type != .decimal: return "(\(expression) < \(value))"
            case .lessOrEqual where type != .decimal: return "(\(expression) <= \(value))"
            case .greater where type != .decimal: return "(\(expression) > \(value))"
            case .greaterOrEqual where type != .decimal: return "(\(expression) >= \(value))"
            default: return nil
            }
        case .isIn(let values, []) where !values.isEmpty && values.count <= 20:
            let literals = values.compactMap(literal)
            guard literals.count == values.count else { return nil }
            return "(\(expression) IN (\(literals.joined(separator: ", "))))"
        default: return nil
        }
    }

    private static func literal(_ value: PropertyValue) -> String? {
        switch value {
        case .integer(let number), .date(let number):
            // SQL has no text for the least.
            return number == .min ? nil : String(number)
        case .boolean(let truth): return truth ? "1" : "0"
        case .string(let text), .decimal(let text), .uri(let text):
            guard !text.utf8.contains(0), !text.utf8.contains(1) else { return nil }
            // By scalars: with a mark behind it an apostrophe is another character.
            var escaped = String.UnicodeScalarView()
            for scalar in text.unicodeScalars {
                if scalar == "'" { escaped.append(scalar) }
                escaped.append(scalar)
            }
            return "'\(String(escaped))'"
        default: return nil
        }
    }
}
