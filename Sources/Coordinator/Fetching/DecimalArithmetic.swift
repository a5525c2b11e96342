import Merge

/// Arithmetic of decimals in their canonical texts: exact, rounded half to even to 38 digits and 38
/// places. What has more than 38 digits before its point is nil.
enum DecimalArithmetic {
    static func add(_ left: String, _ right: String) -> String? {
        var sum = DecimalSum()
        sum.add(left)
        sum.add(right)
        return sum.total
    }

    static func negate(_ decimal: String) -> String {
        if decimal == "0" { return decimal }
        return decimal.utf8.first == UInt8(ascii: "-") ? String(decimal.dropFirst()) : "-" + decimal
    }

    static func absolute(_ decimal: String) -> String {
        decimal.utf8.first == UInt8(ascii: "-") ? String(decimal.dropFirst()) : decimal
    }

    /// The decimal without its fraction.
    static func truncate(_ decimal: String) -> String {
        let whole = String(decimal.prefix { $0 != "." })
        return whole == "-0" ? "0" : whole
    }

    /// The greatest whole number that is not greater; nil where that has too many digits.
    static func floor(_ decimal: String) -> String? {
        let hasFraction = decimal.utf8.contains(UInt8(ascii: "."))
        let isNegative = decimal.utf8.first == UInt8(ascii: "-")
        return hasFraction && isNegative ? add(truncate(decimal), "-1") : truncate(decimal)
    }

    static func multiply(_ left: String, _ right: String) -> String? {
        let (first, second) = (Digits(left), Digits(right))
        var product = [Int](repeating: 0, count: first.values.count + second.values.count)
        for (index, digit) in first.values.enumerated() {
            for (other, factor) in second.values.enumerated() {
                product[index + other + 1] += digit * factor
            }
        }
        for place in product.indices.dropFirst().reversed() {
            product[place - 1] += product[place] / 10
            product[place] %= 10
        }
        return text(
            product, scale: first.scale + second.scale,
            isNegative: first.isNegative != second.isNegative)
    }

    private struct Digits {
        let isNegative: Bool
        /// The digits, that of the highest place first.
        let values: [Int]
        /// How many of them come after the point.
        let scale: Int

        init(_ text: String) {
            isNegative = text.utf8.first == UInt8(ascii: "-")
            let parts = (isNegative ? text.dropFirst() : text[...]).utf8
                .split(separator: UInt8(ascii: "."))
            values = parts.joined().map { Int($0) - 48 }
            scale = parts.count == 2 ? parts[1].count : 0
        }
    }

    private static func text(_ digits: [Int], scale: Int, isNegative: Bool) -> String? {
        guard let first = digits.firstIndex(where: { $0 != 0 }) else { return "0" }
        let dropped = max(0, digits.count - first - 38, scale - 38)
        // A digit before them takes what rounding carries.
        var kept = [0] + digits.dropLast(min(dropped, digits.count))
        // What is dropped beside digits that are not there is less than half of the last place.
        if dropped <= digits.count, let next = digits.suffix(dropped).first, next >= 5 {
            let isTie = next == 5 && digits.suffix(dropped).dropFirst().allSatisfy { $0 == 0 }
            if !isTie || (kept.last ?? 0) % 2 == 1 {
                var place = kept.count - 1
                while kept[place] == 9 {
                    kept[place] = 0
                    place -= 1
                }
                kept[place] += 1
            }
        }
        var places = scale - dropped
        if places < 0 {
            kept += repeatElement(0, count: -places)
            places = 0
        }
        if kept.count <= places {
            kept.insert(contentsOf: repeatElement(0, count: places + 1 - kept.count), at: 0)
        }
        let numeral = kept.map(String.init).joined()
        let point = numeral.index(numeral.endIndex, offsetBy: -places)
        return PropertyValue.canonicalDecimal(
            (isNegative ? "-" : "") + numeral[..<point] + (places > 0 ? "." : "")
                + numeral[point...])
    }
}
