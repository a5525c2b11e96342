/// The version of a row: a set of dots, nearly always one. Core Data's Z_OPT, made distributed.
///
/// A survivor's version (DESIGN section 5.5) has the dots of the rows it eclipses too, each under
/// its row: what it shows may come from any of them (MODEL P3).
public struct RowVersion: Hashable, Sendable, CustomStringConvertible {
    /// The row's own dots, sorted and unique.
    public let dots: [Dot]
    /// The rows that it eclipses, sorted by row; nearly always none.
    public let eclipsed: [Eclipsed]

    /// The part of a row that is eclipsed.
    public struct Eclipsed: Hashable, Sendable {
        /// The row.
        public let row: RowID
        /// Its dots, sorted and unique.
        public let dots: [Dot]

        /// Pairs a row with its dots in any order.
        public init(row: RowID, dots: [Dot]) {
            self.row = row
            self.dots = dots.count < 2 ? dots : Array(Set(dots)).sorted()
        }
    }

    /// Makes a version of dots in any order.
    ///
    /// - Parameter eclipsed: the rows that it eclipses, each once, in any order.
    public init(dots: [Dot], eclipsed: [Eclipsed] = []) {
        self.dots = dots.count < 2 ? dots : Array(Set(dots)).sorted()
        self.eclipsed = eclipsed.count < 2 ? eclipsed : eclipsed.sorted { $0.row < $1.row }
    }

    /// All dots, those of eclipsed rows included, in no particular order.
    public var allDots: [Dot] {
        eclipsed.isEmpty ? dots : dots + eclipsed.flatMap(\.dots)
    }

    /// The dots joined by `+`; each eclipsed row's after `~pDECIMAL~`.
    public var description: String {
        let own = Self.text(dots)
        if eclipsed.isEmpty { return own }
        return own + eclipsed.map { "~\($0.row)~\(Self.text($0.dots))" }.joined()
    }

    private static func text(_ dots: [Dot]) -> String {
        dots.map(\.description).joined(separator: "+")
    }

    /// Reads what ``description`` prints; nil where it is anything else, has more than 1024 dots, or
    /// one whose sequence no transaction can have.
    public init?(_ text: some StringProtocol) {
        let parts = text.split(separator: "~", omittingEmptySubsequences: false)
        guard parts.count % 2 == 1, let own = parts.first.flatMap({ Self.dots($0) }) else {
            return nil
        }
        var eclipsed: [Eclipsed] = []
        var count = own.count
        for index in stride(from: 1, to: parts.count, by: 2) {
            guard let row = RowID(parts[index]), let dots = Self.dots(parts[index + 1]) else {
                return nil
            }
            if let last = eclipsed.last, last.row >= row { return nil }
            count += dots.count
            guard count <= 1024 else { return nil }
            eclipsed.append(Eclipsed(row: row, dots: dots))
        }
        self.init(dots: own, eclipsed: eclipsed)
    }

    private static func dots(_ text: some StringProtocol) -> [Dot]? {
        var dots: [Dot] = []
        for part in text.split(separator: "+", omittingEmptySubsequences: false) {
            guard let dot = Dot(part), dot.sequence >> Dot.sequenceBits == 0, dots.count < 1024
            else { return nil }
            if let last = dots.last, last >= dot { return nil }
            dots.append(dot)
        }
        return dots.isEmpty ? nil : dots
    }
}
