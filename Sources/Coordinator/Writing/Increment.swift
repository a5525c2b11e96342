import Merge

extension AttributeType {
    /// The type of what can be added to values of this type; nil where nothing can.
    package var typeOfIncrements: AttributeType? {
        switch self {
        // An amount may lead from one end of a range to the other.
        case .integer16, .integer32, .integer64: .integer64
        case .double, .float, .decimal: self
        case .string, .boolean, .date, .binary, .uuid, .uri: nil
        }
    }
}

/// The sum of a stored number and what an update adds to it.
enum Increment {
    /// What an addition comes to.
    enum Outcome: Hashable {
        case sum(PropertyValue)
        /// The store has null.
        case nothingToAddTo
        /// The type cannot hold the sum, on the side of the positive numbers.
        case tooLarge
        /// The type cannot hold the sum, on the side of the negative numbers.
        case tooSmall
        /// The sum of two decimals has more than 38 digits.
        case tooLong
    }

    /// Whether an amount can be added to a type's values.
    static func fits(_ amount: PropertyValue, _ type: AttributeType) -> Bool {
        if case .double(let number) = amount, !number.isFinite { return false }
        return type.typeOfIncrements.map { Validation.fits(amount, type: $0) } ?? false
    }

    /// Adds an amount that fits the type.
    static func add(
        _ amount: PropertyValue, to value: PropertyValue, _ type: AttributeType
    ) -> Outcome {
        switch (value, amount) {
        case (.integer(let value), .integer(let amount)):
            let (sum, overflow) = value.addingReportingOverflow(amount)
            guard !overflow, Validation.fits(.integer(sum), type: type) else {
                return amount < 0 ? .tooSmall : .tooLarge
            }
            return .sum(.integer(sum))
        case (.double(let value), .double(let amount)):
            let sum =
                type == .float ? Double(Float(value) + Float(amount)) : value + amount
            // Infinity and NaN in the store stay what they are.
            guard sum.isFinite || !value.isFinite else {
                return amount < 0 ? .tooSmall : .tooLarge
            }
            return .sum(.double(sum.isNaN ? .nan : sum))
        case (.decimal(let value), .decimal(let amount)):
            return decimal(value, amount)
        default: return .nothingToAddTo
        }
    }

    private static func decimal(_ value: String, _ amount: String) -> Outcome {
        var exact = DecimalSum()
        exact.add(value)
        exact.add(amount)
        guard let total = exact.total else {
            return amount.utf8.first == UInt8(ascii: "-") ? .tooSmall : .tooLarge
        }
        // A total is rounded to 38 digits; what is left then shows in the difference.
        exact.add(total.utf8.first == UInt8(ascii: "-") ? String(total.dropFirst()) : "-\(total)")
        return exact.total == "0" ? .sum(.decimal(total)) : .tooLong
    }
}
