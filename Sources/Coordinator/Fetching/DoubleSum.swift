/// The sum of doubles, rounded once at its end, so that their order does not matter; in as much
/// memory for many as for one.
///
/// Every finite double is a multiple of 2^-1074, so they add up as integers.
struct DoubleSum {
    /// The bits of a limb. A limb has room above them for what is carried.
    private static let width = 32
    /// The bits of all doubles, and of 2^31 of the greatest of them.
    private static let limbs = 68

    private var sum = [Int64](repeating: 0, count: limbs)
    private var additions = 0
    private var hasNaN = false
    private var hasInfinity = false
    private var hasNegativeInfinity = false
    private(set) var count: Int64 = 0

    /// Adds a number.
    mutating func add(_ number: Double) {
        count += 1
        guard number.isFinite else {
            if number.isNaN {
                hasNaN = true
            } else if number > 0 {
                hasInfinity = true
            } else {
                hasNegativeInfinity = true
            }
            return
        }
        let exponent = Int(number.exponentBitPattern)
        let significand = number.significandBitPattern | (exponent == 0 ? 0 : 1 << 52)
        // The place of the lowest bit, in units of 2^-1074.
        let place = max(exponent - 1, 0)
        let index = place / Self.width
        let shift = place % Self.width
        let sign: Int64 = number.sign == .minus ? -1 : 1
        let low = (significand & 0xFFFF_FFFF) << shift
        let high = (significand >> 32) << shift
        sum[index] += sign * Int64(low & 0xFFFF_FFFF)
        sum[index + 1] += sign * Int64((low >> 32) + (high & 0xFFFF_FFFF))
        sum[index + 2] += sign * Int64(high >> 32)
        additions += 1
        if additions == 1 << 28 { carry() }
    }

    /// Brings each limb but the last to 0..<2^32.
    private mutating func carry() {
        additions = 0
        for index in 0..<Self.limbs - 1 {
            sum[index + 1] += sum[index] >> Self.width
            sum[index] &= 0xFFFF_FFFF
        }
    }

    /// The sum; of none 0.
    var total: Double {
        if hasNaN || (hasInfinity && hasNegativeInfinity) { return .nan }
        if hasInfinity { return .infinity }
        if hasNegativeInfinity { return -.infinity }
        var copy = self
        copy.carry()
        let isNegative = copy.sum[Self.limbs - 1] < 0
        if isNegative {
            for index in copy.sum.indices { copy.sum[index] = -copy.sum[index] }
            copy.carry()
        }
        return isNegative ? -copy.magnitude : copy.magnitude
    }

    /// The sum of limbs that are not negative, rounded half to even.
    private var magnitude: Double {
        guard let top = sum.lastIndex(where: { $0 != 0 }) else { return 0 }
        let highest = top * Self.width + 63 - sum[top].leadingZeroBitCount
        // The place of the last bit that a double keeps.
        let last = max(highest - 52, 0)
        var kept: UInt64 = 0
        for place in stride(from: highest, through: last, by: -1) {
            kept = kept << 1 | UInt64(bit(place))
        }
        if last > 0, bit(last - 1) == 1 {
            let isTie = (0..<max(last - 1, 0)).allSatisfy { bit($0) == 0 }
            if !isTie || kept & 1 == 1 { kept += 1 }
        }
        // Both factors are exact, and the product is too, or is infinite.
        return Double(sign: .plus, exponent: last - 1_074, significand: Double(kept))
    }

    private func bit(_ place: Int) -> Int64 {
        let index = min(place / Self.width, Self.limbs - 1)
        return sum[index] >> Int64(place - index * Self.width) & 1
    }

    /// The mean; nil of none.
    var average: Double? { count == 0 ? nil : total / Double(count) }
}
