internal import Replication

/// Choices that depend on the seed alone, and not on how a release of the standard library draws.
extension SeededGenerator {
    /// A number from 0 to below a bound.
    mutating func number(below bound: Int) -> Int {
        let drawn = next() >> 1
        return bound < 2 ? 0 : Int(drawn % UInt64(bound))
    }

    /// True in `count` of `bound` cases.
    mutating func chance(_ count: Int = 1, in bound: Int) -> Bool { number(below: bound) < count }

    /// One of several; nil of none.
    mutating func choice<Element>(_ elements: [Element]) -> Element? {
        let place = number(below: elements.count)
        return elements.isEmpty ? nil : elements[place]
    }

    /// One of several, mostly of the first few, on which all clients then meet; nil of none.
    mutating func hot<Element>(_ elements: [Element]) -> Element? {
        chance(4, in: 5) ? choice(Array(elements.prefix(4))) : choice(elements)
    }

    /// Several of a list, each once, in any order.
    mutating func some<Element>(_ elements: [Element], most: Int) -> [Element] {
        var left = elements
        var result: [Element] = []
        while result.count < most, !left.isEmpty {
            result.append(left.remove(at: number(below: left.count)))
        }
        return result
    }
}
