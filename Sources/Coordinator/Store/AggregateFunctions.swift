import GRDB
import GRDBSQLite

/// The functions by which compiled fetches add up what SQLite cannot add up exactly.
///
/// The first argument of each is a position: that of the aggregate among the properties that are
/// fetched. A result that its type cannot hold is an error with that position as its message, and
/// with a code that no other step of a statement gives: see ``overflowing(_:)``.
enum AggregateFunctions {
    /// Registers all of them on a connection.
    static func register(on database: Database) {
        database.add(function: integerSum)
        database.add(
            function: DatabaseFunction(
                FetchCompiler.decimalSumFunction, argumentCount: 2, pure: true,
                aggregate: DecimalTotal.self))
        database.add(
            function: DatabaseFunction(
                FetchCompiler.decimalAverageFunction, argumentCount: 2, pure: true,
                aggregate: DecimalAverage.self))
        database.add(function: integerTotal)
        database.add(
            function: DatabaseFunction(
                FetchCompiler.totalFunction, argumentCount: 2, pure: true,
                aggregate: Total.self))
    }

    /// The position of the aggregate that a statement has failed of; nil where it has failed of
    /// something else.
    static func overflowing(_ failure: SQLFailure) -> Int? {
        failure.primary == SQLITE_RANGE ? Int(failure.message) : nil
    }

    private static func overflow(_ position: DatabaseValue?) -> DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_RANGE,
            message: position.flatMap { Int64.fromDatabaseValue($0) }.map { String($0) })
    }

    /// `tributary_integer_sum(position, high, low)`: the sum of integers. `high` is the sum of
    /// their upper 32 bits and `low` that of their lower ones. Those cannot overflow, so it does
    /// not matter in which order the integers come.
    private static let integerSum = DatabaseFunction(
        FetchCompiler.integerSumFunction, argumentCount: 3, pure: true
    ) { values in
        let (high, low) = (Int64.fromDatabaseValue(values[1]), Int64.fromDatabaseValue(values[2]))
        guard let high, let low else { return 0 }
        guard let upper = Int32(exactly: high + low >> 32) else { throw overflow(values[0]) }
        return Int64(upper) << 32 | low & 0xFFFF_FFFF
    }

    /// `tributary_decimal_sum(position, decimal)`
    private struct DecimalTotal: DatabaseAggregate {
        private var sum = DecimalSum()
        private var position: DatabaseValue?

        mutating func step(_ values: [DatabaseValue]) {
            position = values[0]
            if let text = String.fromDatabaseValue(values[1]) { sum.add(text) }
        }

        func finalize() throws -> (any DatabaseValueConvertible)? {
            guard let total = sum.total else { throw overflow(position) }
            return total
        }
    }

    /// `tributary_decimal_average(position, decimal)`: NULL of none.
    private struct DecimalAverage: DatabaseAggregate {
        private var sum = DecimalSum()

        mutating func step(_ values: [DatabaseValue]) {
            if let text = String.fromDatabaseValue(values[1]) { sum.add(text) }
        }

        func finalize() -> (any DatabaseValueConvertible)? { sum.average }
    }

    // MARK: Predicates

    /// `tributary_integer_total(isAverage, high, low, count)`: the sum or the mean of integers by
    /// the sums of their halves. A sum that 64 bits do not hold is NULL.
    private static let integerTotal = DatabaseFunction(
        FetchCompiler.integerTotalFunction, argumentCount: 4, pure: true
    ) { values in
        let numbers = values.map { Int64.fromDatabaseValue($0) ?? 0 }
        return numbers[0] == 0
            ? CollectionAggregate.sum(high: numbers[1], low: numbers[2])
            : CollectionAggregate.average(
                high: numbers[1], low: numbers[2], count: numbers[3])
    }

    /// `tributary_total(kind, number)`: for kind 0 and 1 the sum and the mean of doubles, for 2 and
    /// 3 those of decimals.
    private struct Total: DatabaseAggregate {
        private var kind: Int64?
        private var doubles = DoubleSum()
        private var decimals = DecimalSum()

        mutating func step(_ values: [DatabaseValue]) {
            if kind == nil { kind = Int64.fromDatabaseValue(values[0]) }
            switch values[1].storage {
            case .null: break
            case .blob: doubles.add(.nan)
            case .double(let number): doubles.add(number)
            case .int64(let number): doubles.add(Double(number))
            case .string(let text): decimals.add(text)
            }
        }

        func finalize() -> (any DatabaseValueConvertible)? {
            switch kind {
            case 1: PredicateFunctions.number(doubles.average)
            case 2: decimals.total
            case 3: decimals.average
            default: PredicateFunctions.number(doubles.total)
            }
        }
    }
}
