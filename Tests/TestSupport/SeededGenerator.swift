/// SplitMix64: a small generator whose sequence is fixed by its seed on every machine.
public struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    /// Begins with a seed.
    public init(seed: UInt64) { state = seed }

    /// The next number.
    public mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var word = state
        word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
        word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
        return word ^ (word >> 31)
    }

    /// A number in `0..<bound`; the bias is far below what a test could notice.
    public mutating func below(_ bound: Int) -> Int {
        Int(truncatingIfNeeded: (next() >> 33) % UInt64(bound))
    }

    /// True once in so many times.
    public mutating func once(in times: Int) -> Bool { below(times) == 0 }

    /// One of the elements.
    public mutating func pick<Element>(_ elements: [Element]) -> Element {
        elements[below(elements.count)]
    }

    /// True in so many of a hundred cases.
    public mutating func chance(_ percent: Int) -> Bool { below(100) < percent }
}
