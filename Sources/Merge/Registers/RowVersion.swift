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

    /// The dots joined by `+`. Where rows are eclipsed, each one's dots follow a mark that names the row
    /// and looks like a dot of the sequence 0, which no transaction has.
    public var description: String {
        let own = Self.text(dots)
        if eclipsed.isEmpty { return own }
        return own + eclipsed.map { "+\(Self.mark($0.row))+\(Self.text($0.dots))" }.joined()
    }

    private static func text(_ dots: [Dot]) -> String {
        dots.map(\.description).joined(separator: "+")
    }

    private static func mark(_ row: RowID) -> String {
        "1.\(String(row.rawValue, radix: 16))-0"
    }

    /// The row that a mark names; nil where the text is none.
    private static func row(ofMark text: some StringProtocol) -> RowID? {
        guard text.hasPrefix("1."), text.hasSuffix("-0"),
            let number = Int64(text.dropFirst(2).dropLast(2), radix: 16), number > 0,
            mark(RowID(number)).utf8.elementsEqual(text.utf8)
        else { return nil }
        return RowID(number)
    }

    /// Reads what ``description`` prints; nil where it is anything else, has more than 1024 dots, or one
    /// whose sequence no transaction can have.
    public init?(_ text: some StringProtocol) {
        var groups: [(row: RowID?, dots: [Substring])] = [(nil, [])]
        for word in text.split(separator: "+", omittingEmptySubsequences: false) {
            if let row = Self.row(ofMark: word) {
                groups.append((row, []))
            } else {
                groups[groups.count - 1].dots.append(Substring(word))
            }
        }
        guard groups.reduce(0, { $0 + $1.dots.count }) <= 1024 else { return nil }
        var own: [Dot] = []
        var eclipsed: [Eclipsed] = []
        for (row, words) in groups {
            guard let dots = Self.dots(words) else { return nil }
            guard let row else {
                own = dots
                continue
            }
            if let last = eclipsed.last, last.row >= row { return nil }
            eclipsed.append(Eclipsed(row: row, dots: dots))
        }
        self.init(dots: own, eclipsed: eclipsed)
    }

    private static func dots(_ words: [Substring]) -> [Dot]? {
        var dots: [Dot] = []
        for part in words {
            guard let dot = Dot(part), dot.sequence >> Dot.sequenceBits == 0, dots.count < 1024
            else { return nil }
            if let last = dots.last, last >= dot { return nil }
            dots.append(dot)
        }
        return dots.isEmpty ? nil : dots
    }
}
