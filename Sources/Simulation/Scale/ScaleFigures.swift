/// The cost of saves and of rest in a cluster of one size, all nodes together.
package struct ScaleFigures: Hashable, Sendable {
    /// Frames of the mesh and their bytes, without those of ZeroMQ and TCP.
    package struct Traffic: Hashable, Sendable {
        /// Frames, one for each node that a frame goes to.
        package var frames: UInt64 = 0
        /// Their bytes.
        package var bytes: UInt64 = 0

        mutating func add(_ frame: [UInt8]) {
            frames += 1
            bytes += UInt64(frame.count)
        }
    }

    /// How many nodes there are.
    package let nodes: Int
    /// How many saves the first node made.
    package let saves: Int
    /// How long all rested, in virtual milliseconds.
    package let restMilliseconds: UInt64
    /// The frames that the first node sent for its saves.
    package internal(set) var saver = Traffic()
    /// The frames that the others sent for these saves: none, unless something had to be pulled.
    package internal(set) var others = Traffic()
    /// The frames that the others received for these saves.
    package internal(set) var appliers = Traffic()
    /// The frames that all nodes received while they rested.
    package internal(set) var rest = Traffic()

    /// Real seconds of a processor. The one part that the seed does not decide.
    package struct Processor: Sendable {
        /// What the saves took at the first node.
        package internal(set) var saver = 0.0
        /// What they took at the others.
        package internal(set) var appliers = 0.0
        /// What the rest of all nodes took.
        package internal(set) var rest = 0.0
    }
}
