import Merge

/// Values by row, in the order in which the rows came.
///
/// A large save keeps much about each of its rows, and goes over all of them again and again: a
/// dictionary of values would be moved whenever it grows, and be searched at each step.
struct RowTable<Value> {
    /// The rows, also those that have no value any more.
    private(set) var rows: [RowID] = []
    private var values: [Value?] = []
    private var places: [RowID: Int] = [:]

    init(capacity: Int = 0) {
        rows.reserveCapacity(capacity)
        values.reserveCapacity(capacity)
        places.reserveCapacity(capacity)
    }

    /// A row's value. One that is taken away leaves the row its place.
    subscript(row: RowID) -> Value? {
        get { places[row].flatMap { values[$0] } }
        set {
            if let place = places[row] {
                values[place] = newValue
            } else if let newValue {
                places[row] = rows.count
                rows.append(row)
                values.append(newValue)
            }
        }
    }
}

extension RowTable: Sequence {
    /// Goes over the rows that have values.
    struct Iterator: IteratorProtocol {
        fileprivate let table: RowTable
        private var place = 0

        fileprivate init(_ table: RowTable) { self.table = table }

        mutating func next() -> (row: RowID, value: Value)? {
            while place < table.rows.count {
                defer { place += 1 }
                if let value = table.values[place] { return (table.rows[place], value) }
            }
            return nil
        }
    }

    func makeIterator() -> Iterator { Iterator(self) }
}
