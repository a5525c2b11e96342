/// Changes that differ in their rows alone, one after the other: updates with the same values, or deletes
/// that keep the same. A batch request makes many of them, and their bytes name the rows by ranges.
///
///     run  = [8 + kind, shape, [first row, count, (rows left out, count) ...], value ...]
struct ChangeRun {
    /// What a run's kind is written as: the kind of its changes, and this.
    static let mark: UInt64 = 8

    /// The places of a transaction's changes: of a run all of them, else of one change.
    ///
    /// Runs are as long as they can be, so that a transaction has one form.
    static func parts(of changes: [Change]) -> [Range<Int>] {
        var parts: [Range<Int>] = []
        var first = 0
        while first < changes.count {
            var end = first + 1
            while end < changes.count, goesOn(changes[end - 1], with: changes[end]) { end += 1 }
            parts.append(first..<end)
            first = end
        }
        return parts
    }

    /// Whether two changes that follow each other are of one run.
    static func goesOn(_ change: Change, with next: Change) -> Bool {
        (change.kind == .update || change.kind == .delete) && next.kind == change.kind
            && next.shape == change.shape && next.row > change.row && next.values == change.values
    }

    /// About how many bytes changes take that are not written as a run.
    ///
    /// - Parameter valueBytes: of the values of one of them. There are at most 4,000,000 rows, and values
    ///   are of bytes in memory, so that the product is no overflow.
    static func plainSize(rows: Int, valueBytes: Int) -> Int { rows * (16 + valueBytes) }

    /// The ranges of rows, as the first row and how many, and then how many are left out and how many not.
    static func ranges(of changes: ArraySlice<Change>) -> [Int64] {
        var ranges: [Int64] = []
        var last: Int64?
        for change in changes {
            let row = change.row.rawValue
            if let last, row == last + 1 {
                ranges[ranges.count - 1] += 1
            } else {
                ranges.append(last.map { row - $0 - 1 } ?? row)
                ranges.append(1)
            }
            last = row
        }
        return ranges
    }

    /// Reads ranges, and gives each of them.
    ///
    /// - Parameter limit: the most rows.
    /// - Returns: how many rows there are.
    static func rows(
        from reader: inout CBORReader, limit: Int, _ body: (ClosedRange<Int64>) -> Void
    ) throws(DecodingFailure) -> Int {
        let numbers = try reader.array()
        guard numbers >= 2, numbers.isMultiple(of: 2) else {
            throw DecodingFailure("a run has ranges of rows", offset: reader.offset)
        }
        var last: Int64 = 0
        var total: Int64 = 0
        for _ in 0..<numbers / 2 {
            let (gap, count) = (try reader.signed(), try reader.signed())
            guard gap > 0, count > 0, count <= Int64(limit) - total else {
                throw DecodingFailure("a run's rows are out of range", offset: reader.offset)
            }
            // The first number is a row itself, the others are what is left out before the next.
            let (first, isBeyond) = gap.addingReportingOverflow(last == 0 ? 0 : last)
            let (end, isEndBeyond) = first.addingReportingOverflow(last == 0 ? count - 1 : count)
            guard !isBeyond, !isEndBeyond else {
                throw DecodingFailure("a run's rows are out of range", offset: reader.offset)
            }
            last = end
            body((end - count + 1)...end)
            total += count
        }
        guard total > 1 else {
            throw DecodingFailure("a run has several rows", offset: reader.offset)
        }
        return Int(total)
    }
}
