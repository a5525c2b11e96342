internal import NIOCore

/// Changes every n-th byte of a stream, the same ones for the same seed (SplitMix64).
struct ByteFlipper {
    private let every: Int
    private var state: UInt64
    /// How many bytes pass before the next one is changed.
    private var distance = 0

    /// - Parameter connection: the number of the connection, so that each has its own damage.
    init(_ flips: LinkFault.Flips, connection: UInt64) {
        every = flips.every
        state = flips.seed &+ connection &* 0x9E37_79B9_7F4A_7C15
        distance = Int(next() % UInt64(every))
    }

    private mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    /// Changes the bytes of the stream's next piece whose turn it is.
    mutating func apply(to buffer: inout ByteBuffer) {
        while distance < buffer.readableBytes {
            let index = buffer.readerIndex + distance
            guard let byte: UInt8 = buffer.getInteger(at: index) else { return }
            // Never 0: a change that changes nothing would be none.
            buffer.setInteger(byte ^ UInt8(1 + next() % 255), at: index)
            distance += every
        }
        distance -= buffer.readableBytes
    }
}
