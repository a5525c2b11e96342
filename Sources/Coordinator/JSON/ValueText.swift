/// The texts of values in JSON and in predicates: dates, UUIDs, base64. Strict, and without any
/// locale or time zone.
package enum ValueText {
    // MARK: Dates

    /// Milliseconds since 1970 as ISO 8601 with milliseconds and Z; years outside 0...9999 with a
    /// sign and at least six digits.
    package static func date(_ milliseconds: Int64) -> String {
        let (days, time) = floorDivision(milliseconds, 86_400_000)
        let (year, month, day) = civil(days: days)
        let yearText =
            (0...9_999).contains(year)
            ? padded(year, 4) : (year < 0 ? "-" : "+") + padded(abs(year), 6)
        return "\(yearText)-\(padded(month, 2))-\(padded(day, 2))T\(padded(time / 3_600_000, 2))"
            + ":\(padded(time / 60_000 % 60, 2)):\(padded(time / 1_000 % 60, 2))"
            + ".\(padded(time % 1_000, 3))Z"
    }

    /// Reads a date of the form of ``date(_:)``; seconds may have no fraction or one of one to
    /// three digits. Nil where it is anything else or no date of the calendar.
    package static func milliseconds(fromDate text: String) -> Int64? {
        var bytes = Array(text.utf8)[...]
        guard bytes.count <= 40 else { return nil }
        var sign: Int64 = 1
        var yearDigits = 4
        if bytes.first == UInt8(ascii: "+") || bytes.first == UInt8(ascii: "-") {
            sign = bytes.removeFirst() == UInt8(ascii: "-") ? -1 : 1
            yearDigits = bytes.prefix { $0 != UInt8(ascii: "-") }.count
            guard (6...9).contains(yearDigits) else { return nil }
        }
        guard let years = number(&bytes, yearDigits), skip("-", &bytes),
            let month = number(&bytes, 2), skip("-", &bytes), let day = number(&bytes, 2),
            skip("T", &bytes), let hour = number(&bytes, 2), skip(":", &bytes),
            let minute = number(&bytes, 2), skip(":", &bytes), let second = number(&bytes, 2)
        else { return nil }
        var fraction: Int64 = 0
        if skip(".", &bytes) {
            let digits = bytes.prefix { (48...57).contains($0) }.count
            guard (1...3).contains(digits), let value = number(&bytes, digits) else { return nil }
            fraction = value * [100, 10, 1][digits - 1]
        }
        guard skip("Z", &bytes), bytes.isEmpty, (1...12).contains(month), hour < 24, minute < 60,
            second < 60, sign > 0 || years > 0
        else { return nil }
        let year = sign * years
        guard day >= 1, day <= dayCount(year: year, month: month) else { return nil }
        // The first and the last day of the range are not whole, so a day before 1970 is counted
        // from its end: neither the product nor the sum then leaves the range too early.
        let time = ((hour * 60 + minute) * 60 + second) * 1_000 + fraction
        let dayNumber = days(year, month, day)
        let (start, overflow) = (dayNumber < 0 ? dayNumber + 1 : dayNumber)
            .multipliedReportingOverflow(
                by: 86_400_000)
        let (sum, overflow2) = start.addingReportingOverflow(
            dayNumber < 0 ? time - 86_400_000 : time)
        return overflow || overflow2 ? nil : sum
    }

    private static func floorDivision(_ value: Int64, _ divisor: Int64) -> (Int64, Int64) {
        let remainder = value % divisor
        return remainder < 0
            ? (value / divisor - 1, remainder + divisor) : (value / divisor, remainder)
    }

    /// The proleptic Gregorian date of a count of days since 1970-01-01.
    private static func civil(days: Int64) -> (year: Int64, month: Int64, day: Int64) {
        // Counts from 0000-03-01 in eras of 400 years, which all have the same length.
        let (era, dayOfEra) = floorDivision(days + 719_468, 146_097)
        let yearOfEra =
            (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shifted = (5 * dayOfYear + 2) / 153
        let month = shifted < 10 ? shifted + 3 : shifted - 9
        return (
            yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month,
            dayOfYear - (153 * shifted + 2) / 5 + 1
        )
    }

    private static func days(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
        let (era, yearOfEra) = floorDivision(month <= 2 ? year - 1 : year, 400)
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return era * 146_097 + dayOfEra - 719_468
    }

    private static func dayCount(year: Int64, month: Int64) -> Int64 {
        let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
        return month == 2 ? (isLeap ? 29 : 28) : [4, 6, 9, 11].contains(month) ? 30 : 31
    }

    private static func padded(_ number: Int64, _ width: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
    }

    private static func number(_ bytes: inout ArraySlice<UInt8>, _ digits: Int) -> Int64? {
        guard bytes.count >= digits else { return nil }
        var value: Int64 = 0
        for byte in bytes.prefix(digits) {
            guard (48...57).contains(byte) else { return nil }
            value = value * 10 + Int64(byte - 48)
        }
        bytes.removeFirst(digits)
        return value
    }

    private static func skip(_ character: Unicode.Scalar, _ bytes: inout ArraySlice<UInt8>) -> Bool
    {
        guard bytes.first == UInt8(ascii: character) else { return false }
        bytes.removeFirst()
        return true
    }

    // MARK: UUIDs

    /// A UUID in upper case, with hyphens.
    package static func uuid(_ first: UInt64, _ last: UInt64) -> String {
        let digits = Array("0123456789ABCDEF".utf8)
        var result: [UInt8] = []
        result.reserveCapacity(36)
        for index in 0..<32 {
            if [8, 12, 16, 20].contains(index) { result.append(UInt8(ascii: "-")) }
            let half = index < 16 ? first : last
            result.append(digits[Int((half >> UInt64(60 - index % 16 * 4)) & 15)])
        }
        return String(decoding: result, as: UTF8.self)
    }

    /// Reads a UUID of 36 characters in either case; nil where it is anything else.
    package static func uuid(from text: String) -> (UInt64, UInt64)? {
        let bytes = Array(text.utf8)
        guard bytes.count == 36 else { return nil }
        var halves: [UInt64] = [0, 0]
        var count = 0
        for (index, byte) in bytes.enumerated() {
            if [8, 13, 18, 23].contains(index) {
                guard byte == UInt8(ascii: "-") else { return nil }
                continue
            }
            let digit: UInt8
            switch byte {
            case 48...57: digit = byte - 48
            case 65...70: digit = byte - 55
            case 97...102: digit = byte - 87
            default: return nil
            }
            halves[count / 16] = halves[count / 16] << 4 | UInt64(digit)
            count += 1
        }
        return (halves[0], halves[1])
    }

    // MARK: Base64

    private static let alphabet = Array(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

    /// Bytes in base64 with padding (RFC 4648, section 4).
    package static func base64(_ bytes: [UInt8]) -> String {
        var result: [UInt8] = []
        result.reserveCapacity((bytes.count + 2) / 3 * 4)
        var index = 0
        while index < bytes.count {
            let available = min(3, bytes.count - index)
            var word = UInt32(bytes[index]) << 16
            if available > 1 { word |= UInt32(bytes[index + 1]) << 8 }
            if available > 2 { word |= UInt32(bytes[index + 2]) }
            for place in 0..<4 {
                result.append(
                    place <= available
                        ? alphabet[Int((word >> UInt32(18 - place * 6)) & 63)]
                        : UInt8(ascii: "="))
            }
            index += 3
        }
        return String(decoding: result, as: UTF8.self)
    }

    /// Reads base64 with padding; nil where it is anything else, or bits are left over.
    package static func bytes(fromBase64 text: String) -> [UInt8]? {
        guard text.utf8.count % 4 == 0 else { return nil }
        var result: [UInt8] = []
        result.reserveCapacity(text.utf8.count / 4 * 3)
        var word: UInt32 = 0
        var bits = 0
        var padding = 0
        for byte in text.utf8 {
            if byte == UInt8(ascii: "=") {
                padding += 1
                continue
            }
            guard padding == 0, let value = base64Value(byte) else { return nil }
            word = word << 6 | value
            bits += 6
            if bits >= 8 {
                bits -= 8
                result.append(UInt8((word >> UInt32(bits)) & 0xFF))
            }
        }
        guard padding <= 2, bits == padding * 2, word & ((1 << UInt32(bits)) - 1) == 0 else {
            return nil
        }
        return result
    }

    private static func base64Value(_ byte: UInt8) -> UInt32? {
        switch byte {
        case 65...90: UInt32(byte - 65)
        case 97...122: UInt32(byte - 71)
        case 48...57: UInt32(byte) + 4
        case UInt8(ascii: "+"): 62
        case UInt8(ascii: "/"): 63
        default: nil
        }
    }
}
