/// A period of the calendar that a date falls in. Its beginning is computed with integers, by the
/// proleptic Gregorian calendar without leap seconds.
enum CalendarPeriod: Int64, Hashable, Sendable, CaseIterable {
    case hour = 1
    case day
    /// A week of ISO 8601, which begins on Monday.
    case week
    case month, quarter, year

    /// How far local time may be from UTC, in minutes: 18 hours, as in ISO 8601's profiles.
    static let offsets: ClosedRange<Int64> = -1_080...1_080

    private static let millisecondsOfHour: Int64 = 3_600_000
    private static let millisecondsOfDay: Int64 = 86_400_000

    /// The moment at which the period of a date begins.
    ///
    /// - Parameters:
    ///   - date: in milliseconds since 1970 in UTC, below 0 before.
    ///   - offset: by how many minutes local time is ahead of UTC.
    /// - Returns: nil where the offset is not in ``offsets``, or 64 bits do not hold the moment.
    func start(of date: Int64, offset: Int64) -> Int64? {
        guard Self.offsets.contains(offset) else { return nil }
        let ahead = offset * 60_000
        let (local, overflows) = date.addingReportingOverflow(ahead)
        if overflows { return nil }
        let day = Self.quotient(local, Self.millisecondsOfDay)
        let begin: (partialValue: Int64, overflow: Bool)
        switch self {
        case .hour:
            begin = Self.quotient(local, Self.millisecondsOfHour)
                .multipliedReportingOverflow(by: Self.millisecondsOfHour)
        default:
            begin = firstDay(of: day).multipliedReportingOverflow(by: Self.millisecondsOfDay)
        }
        if begin.overflow { return nil }
        let (moment, isBeyond) = begin.partialValue.subtractingReportingOverflow(ahead)
        return isBeyond ? nil : moment
    }

    /// The first day of the period, in days since 1970.
    private func firstDay(of day: Int64) -> Int64 {
        switch self {
        case .hour, .day: return day
        // The 1st of January 1970 was a Thursday.
        case .week: return Self.quotient(day + 3, 7) * 7 - 3
        case .month, .quarter, .year:
            let (year, month) = Self.civil(day)
            let first: Int64 =
                switch self {
                case .month: month
                case .quarter: (month - 1) / 3 * 3 + 1
                default: 1
                }
            return Self.day(year, first)
        }
    }

    /// The quotient rounded down, so that what is before 1970 is in the right period.
    private static func quotient(_ number: Int64, _ divisor: Int64) -> Int64 {
        number / divisor - (number % divisor < 0 ? 1 : 0)
    }

    // Years are counted from March here, so that a leap day is the last of its year. Four centuries
    // have 146,097 days. The 1st of March of the year 0 is 719,468 days before 1970.
    // https://howardhinnant.github.io/date_algorithms.html

    /// The year and the month, 1 to 12, of a day since 1970.
    private static func civil(_ day: Int64) -> (year: Int64, month: Int64) {
        let sinceMarch = day + 719_468
        let era = quotient(sinceMarch, 146_097)
        let dayOfEra = sinceMarch - era * 146_097
        let yearOfEra =
            (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        let month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month)
    }

    /// The first day of a month, 1 to 12, in days since 1970.
    private static func day(_ year: Int64, _ month: Int64) -> Int64 {
        let year = month <= 2 ? year - 1 : year
        let era = quotient(year, 400)
        let yearOfEra = year - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return era * 146_097 + dayOfEra - 719_468
    }
}
