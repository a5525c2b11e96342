import Foundation
import GRDB

/// The functions and the collation that compiled fetches call. Every connection that reads must
/// have them.
enum PredicateFunctions {
    /// Registers all of them on a connection.
    static func register(on database: Database) {
        database.add(function: fold)
        database.add(function: compare)
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

    private static func text(_ value: DatabaseValue) -> String? {
        // An empty BLOB comes as no data, and is no NULL.
        if value.isNull { return nil }
        return String(decoding: Data.fromDatabaseValue(value) ?? Data(), as: UTF8.self)
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
