import GRDB

/// Columns of rows that a damaged file may not have, or may hold something else in.
extension Row {
    /// A column's integer.
    ///
    /// - Throws: ``CoordinatorError`` (`storeDamaged`) where there is none.
    func integer(_ column: String) throws -> Int64 { try value(column) }

    /// A column's text; see ``integer(_:)``.
    func text(_ column: String) throws -> String { try value(column) }

    private func value<Value: DatabaseValueConvertible & StatementColumnConvertible>(
        _ column: String
    ) throws -> Value {
        do {
            return try decode(Value.self, forColumn: column)
        } catch {
            throw CoordinatorError(
                .storeDamaged, "The store has no \(column) that Tributary has written.")
        }
    }
}
