import GRDB

@testable import Coordinator

extension Decoder {
    /// Another node's copy of its store, changed as if its donor lied, taken over.
    ///
    /// Input: a byte that says whether rows are joined in any case, and whether values or bytes are
    /// changed; then changes as those of `cells` or `store`.
    static let copy = Decoder(
        name: "copy", maximumLength: 512,
        seeds: { random in
            let cells = try Decoder.cells.seeds(&random).prefix(30).enumerated()
            let bytes = try Decoder.store.seeds(&random).prefix(8).enumerated()
            return cells.map { [UInt8($0.offset & 1)] + $0.element }
                + bytes.map { [UInt8($0.offset & 1) | 2] + $0.element }
        },
        run: { input in
            var reader = InputReader(input)
            let flags = reader.byte()
            let world = CopyOfStore.shared
            let bytes =
                flags & 2 == 0
                ? world.changed { try changeCells(&reader, in: $0) }
                : changeBytes(world.copy, &reader)
            world.takeOver(bytes, joinsAlways: flags & 1 != 0)
        })
}
