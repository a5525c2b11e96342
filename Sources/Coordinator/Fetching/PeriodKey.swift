import Merge

/// A period of a date as a key of a dictionary fetch, such as `day(timestamp)` or `week(sent, 60)`.
///
/// The statement has its numbers and no bindings, so that the same key is the same expression wherever
/// it stands.
struct PeriodKey {
    let period: CalendarPeriod
    let path: ResolvedPath
    /// By how many minutes local time is ahead of UTC.
    let offset: Int64

    /// Whether a key is written as a function, which no key path is.
    static func isFunction(_ text: String) -> Bool { text.utf8.contains(UInt8(ascii: "(")) }

    /// Reads a key.
    ///
    /// - Throws: ``PredicateError`` where its syntax or its names are wrong, ``FetchRequestError`` where
    ///   it is something else.
    init(_ text: String, _ paths: PathResolver) throws {
        var resolver = PredicateResolver(paths: paths, cluster: nil, now: { 0 })
        let expression = try resolver.expression(
            try PredicateParser.expression(text), .null, 0, 0)
        guard case .apply(.period(let period), let arguments) = expression,
            case .path(let path) = arguments[0],
            case .constant(.integer(let offset), _) = arguments[1]
        else {
            throw FetchRequestError(
                "\"\(text)\" is neither a key path nor a period such as day(timestamp) or "
                    + "day(timestamp, 60)")
        }
        (self.period, self.path, self.offset) = (period, path, offset)
    }

    /// The moment at which the period begins.
    func sql(_ builder: inout SQLBuilder) throws -> String {
        let date = try builder.value(path)
        return "\(FetchCompiler.applyFunction)(\(ResolvedFunction.period(period).code), \(date), "
            + "\(offset))"
    }
}
