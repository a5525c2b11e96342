import Testing

/// The suites that start real processes, one after the other: together they would fight for the
/// machine, and what they wait for would come late.
@Suite("Real processes", .serialized)
enum EndToEnd {}

/// Something that a test could not go on without.
struct EndToEndError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// Random numbers of a seed, the same on every machine (SplitMix64).
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
