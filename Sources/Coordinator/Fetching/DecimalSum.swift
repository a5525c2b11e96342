import Merge

/// The sum of decimals, exact whatever their order; in as much memory for many as for one.
///
/// A decimal has up to 38 digits before its point and 38 after it, so all of them are multiples of
/// one unit. What is over the 38 digits that a decimal can have is rounded at the end, half to even.
struct DecimalSum {
    private static let base: UInt64 = 10_000_000_000_000_000_000
    /// The digits of a limb.
    private static let width = 19
    /// The digits after the point.
    private static let scale = 38
    /// The limbs: two after the point, two before it, and one for what is carried.
    private static let limbs = 5

    /// The sum of the positive values, and that of the negative ones without its sign; the least
    /// limb comes first.
    private var positive = [UInt64](repeating: 0, count: limbs)
    private var negative = [UInt64](repeating: 0, count: limbs)
    private var count: UInt64 = 0

    /// Adds a decimal in its canonical text.
    mutating func add(_ text: String) {
        let isNegative = text.utf8.first == UInt8(ascii: "-")
        let parts = (isNegative ? text.dropFirst() : text[...]).utf8
            .split(separator: UInt8(ascii: "."), maxSplits: 1)
        let digits =
            Array(parts[0]) + (parts.count == 2 ? Array(parts[1]) : [])
        // The place of the first digit, counted from the last after the point.
        var place = parts[0].count + Self.scale
        var limbs = [UInt64](repeating: 0, count: Self.limbs)
        for digit in digits {
            place -= 1
            limbs[place / Self.width] += UInt64(digit - 48) * Self.powers[place % Self.width]
        }
        count += 1
        if isNegative { Self.add(limbs, to: &negative) } else { Self.add(limbs, to: &positive) }
    }

    private static let powers: [UInt64] = (0..<width).reduce(into: []) { powers, _ in
        powers.append((powers.last ?? 0) == 0 ? 1 : powers[powers.count - 1] * 10)
    }

    private static func add(_ limbs: [UInt64], to sum: inout [UInt64]) {
        var carry: UInt64 = 0
        for index in sum.indices {
            let (value, overflow) = sum[index].addingReportingOverflow(limbs[index] + carry)
            carry = overflow || value >= base ? 1 : 0
            sum[index] = carry == 1 ? value &- base : value
        }
    }

    /// The sum as a decimal's canonical text; nil where it has over 38 digits before the point.
    var total: String? { Self.text(digits, isNegative: isNegative) }

    /// The mean; nil where nothing was added.
    var average: String? {
        if count == 0 { return nil }
        var quotient: [UInt8] = []
        var remainder: UInt64 = 0
        // Two digits more than are kept, so that what is left over decides no more than a tie.
        for digit in digits + [0, 0] {
            let dividend = remainder * 10 + UInt64(digit)
            quotient.append(UInt8(dividend / count))
            remainder = dividend % count
        }
        if remainder > 0 { quotient[quotient.count - 1] |= 1 }
        return Self.text(quotient, isNegative: isNegative)
    }

    private var isNegative: Bool {
        positive.reversed().lexicographicallyPrecedes(negative.reversed())
    }

    /// All digits of the sum without its sign, those of the greatest limb first.
    private var digits: [UInt8] {
        let (greater, less) = isNegative ? (negative, positive) : (positive, negative)
        var borrow: UInt64 = 0
        var digits: [UInt8] = []
        for index in greater.indices {
            let subtrahend = less[index] + borrow
            borrow = greater[index] < subtrahend ? 1 : 0
            var limb = greater[index] &- subtrahend
            if borrow == 1 { limb &+= Self.base }
            for _ in 0..<Self.width {
                digits.append(UInt8(limb % 10))
                limb /= 10
            }
        }
        return digits.reversed()
    }

    /// The canonical text of digits whose whole part is as long as that of ``digits``.
    private static func text(_ digits: [UInt8], isNegative: Bool) -> String? {
        let whole = limbs * width - scale
        guard let first = digits.firstIndex(where: { $0 != 0 }) else { return "0" }
        let end = min(first + 38, whole + scale, digits.count)
        var kept = [0] + digits[..<end]
        if let next = digits[end...].first, next >= 5 {
            let isTie = next == 5 && digits[(end + 1)...].allSatisfy { $0 == 0 }
            if !isTie || kept[end] % 2 == 1 {
                var place = end
                while kept[place] == 9 {
                    kept[place] = 0
                    place -= 1
                }
                kept[place] += 1
            }
        }
        // What is rounded to tens and more is followed by zeros up to the point.
        kept += repeatElement(0, count: max(0, whole + 1 - kept.count))
        var bytes = kept.map { $0 + 48 }
        bytes.insert(UInt8(ascii: "."), at: whole + 1)
        return PropertyValue.canonicalDecimal(
            (isNegative ? "-" : "") + String(decoding: bytes, as: UTF8.self))
    }
}
