import Foundation
import GRDB
import Merge

/// The functions and the collation that compiled fetches call. Every connection that reads must
/// have them.
enum PredicateFunctions {
    /// Registers all of them on a connection.
    static func register(on database: Database) {
        database.add(function: fold)
        database.add(function: compare)
        database.add(function: apply)
        database.add(function: collationKey)
        database.add(collation: decimal)
        AggregateFunctions.register(on: database)
    }

    /// `tributary_fold(text, options)`: the text without what the options ignore. Texts come and
    /// go as bytes, because GRDB's strings end at a zero character.
    private static let fold = DatabaseFunction(
        FetchCompiler.foldFunction, argumentCount: 2, pure: true
    ) { values in
        guard let text = Self.text(values[0]), let options = Int.fromDatabaseValue(values[1]) else {
            return nil
        }
        return Data(TextFolding.fold(text, ComparisonOptions(rawValue: options)).utf8)
    }

    /// `tributary_text(kind, text, needle, options)`: 1 or 0, and NULL of NULL.
    private static let compare = DatabaseFunction(
        FetchCompiler.textFunction, argumentCount: 4, pure: true
    ) { values in
        guard let kind = Int64.fromDatabaseValue(values[0]).flatMap(TextComparison.init),
            let text = Self.text(values[1]), let needle = Self.text(values[2]),
            let options = Int.fromDatabaseValue(values[3])
        else { return nil }
        return kind.holds(text, needle, ComparisonOptions(rawValue: options))
    }

    /// `tributary_collation_key(text, locale)`: the bytes by which texts are in the locale's order.
    private static let collationKey = DatabaseFunction(
        FetchCompiler.collationKeyFunction, argumentCount: 2, pure: true
    ) { values in
        guard let text = Self.text(values[0]),
            let collation = String.fromDatabaseValue(values[1]).flatMap({ Collation($0) })
        else { return nil }
        return Data(collation.key(of: text))
    }

    private static func text(_ value: DatabaseValue) -> String? {
        // An empty BLOB comes as no data, and is no NULL.
        if value.isNull { return nil }
        return String(decoding: Data.fromDatabaseValue(value) ?? Data(), as: UTF8.self)
    }

    /// `tributary_apply(code, value...)`: the value of a function, as its column would keep it;
    /// texts come and go as bytes.
    private static let apply = DatabaseFunction(FetchCompiler.applyFunction, pure: true) { values in
        guard let code = values.first.flatMap({ Int64.fromDatabaseValue($0) }),
            let function = ResolvedFunction(code: code),
            values.count == function.operands.count + 1
        else { return nil }
        return stored(
            function.apply(
                zip(values.dropFirst(), function.operands).map { value($0, $1) }))
    }

    private static func value(_ value: DatabaseValue, _ type: AttributeType) -> PropertyValue {
        if type == .string { return text(value).map { .string($0) } ?? .null }
        switch (value.storage, type) {
        case (.null, _): return .null
        case (.int64(let number), .boolean): return .boolean(number != 0)
        case (.int64(let number), .date): return .date(number)
        case (.int64(let number), _): return .integer(number)
        case (.double(let number), _): return .double(number)
        case (.blob(let bytes), .binary): return .binary(Array(bytes))
        case (.blob, .double), (.blob, .float): return .double(.nan)
        case (.string(let text), .decimal): return .decimal(text)
        case (.string(let text), .uuid):
            return UUIDText.parse(text).map { .uuid($0.0, $0.1) } ?? .null
        case (.string(let text), .uri): return .uri(text)
        default: return .null
        }
    }

    /// A value as its column keeps it, but for texts, which come as bytes.
    private static func stored(_ value: PropertyValue) -> (any DatabaseValueConvertible)? {
        switch value {
        case .null: return nil
        case .boolean(let truth): return truth
        case .integer(let number), .date(let number): return number
        case .double(let double): return number(double)
        case .decimal(let text): return text
        case .string(let text), .uri(let text): return Data(text.utf8)
        case .binary(let bytes): return Data(bytes)
        case .uuid(let first, let last): return UUIDText.text(first, last)
        case .reference(let row): return row.rawValue
        }
    }

    /// A double as its column keeps it: SQLite has no NaN.
    static func number(_ double: Double?) -> (any DatabaseValueConvertible)? {
        double.map { $0.isNaN ? Data(SQLStatement.notANumber) as any DatabaseValueConvertible : $0 }
    }

    /// Orders decimals in their canonical texts by value, exactly.
    private static let decimal = DatabaseCollation(FetchCompiler.decimalCollation) { left, right in
        switch ValueOrder.compare(decimal: left, right) {
        case .before: .orderedAscending
        case .same: .orderedSame
        case .after: .orderedDescending
        }
    }
}
