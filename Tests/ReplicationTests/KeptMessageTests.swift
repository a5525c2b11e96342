import Merge
import Replication
import TestSupport
import Testing

/// Messages of revision 1 as they are kept in the repository (``Fixtures``).
@Suite("Kept messages of revision 1") struct KeptMessageTests {
    private static let file = "messages-1.txt"
    private static let samples: [Message] =
        MessageTests.samples + [
            .models(
                ModelList(
                    isAnswer: true,
                    models: [ModelText(hash: [UInt8](repeating: 7, count: 32), text: [1, 2])])),
            .transferPull(
                TransferPull(
                    id: 1, number: 2, offset: 3, credit: 4, vector: MessageTests.vector)),
            .transferPart(TransferPart(id: 1, copy: nil)),
            .transferPart(
                TransferPart(
                    id: 1,
                    copy: TransferCopy(
                        number: 2, total: 9, digest: [UInt8](repeating: 6, count: 16)),
                    offset: 3, bytes: [1, 2])),
        ]

    private static func frame(_ message: Message) -> [UInt8] {
        Envelope(cluster: "test", sender: World.id(3), message: message).encoded()
    }

    init() throws {
        guard Fixtures.areMade else { return }
        let lines = Self.samples.map { message in
            Self.frame(message).map { byte in
                (byte < 16 ? "0" : "") + String(byte, radix: 16)
            }.joined()
        }
        try Fixtures.keep(lines, as: Self.file)
    }

    @Test("They are read as what they were, and written as they are")
    func kept() throws {
        let kept = try Fixtures.lines(Self.file).map { line in
            stride(from: 0, to: line.utf8.count, by: 2).compactMap { place in
                UInt8(line.dropFirst(place).prefix(2), radix: 16)
            }
        }
        #expect(kept.count == Self.samples.count)
        for (bytes, message) in zip(kept, Self.samples) {
            #expect(try Envelope.decode(bytes, cluster: "test").message == message)
            #expect(Self.frame(message) == bytes)
        }
    }
}
