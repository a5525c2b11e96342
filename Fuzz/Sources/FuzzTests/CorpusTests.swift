import Foundation
import Testing

/// What fuzzing begins from is read by every run of the tests, so that the decoders' demands keep
/// compiling and what was once a finding stays none. One after the other, as libFuzzer calls them.
@Suite("Decoders of foreign bytes", .serialized)
struct CorpusTests {
    private static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()

    /// The files of a decoder in a folder by name; none where it has no such folder.
    private static func inputs(_ decoder: Decoder, in name: String) throws -> [String: [UInt8]] {
        let own = folder.appendingPathComponent(name).appendingPathComponent(decoder.name)
        guard FileManager.default.fileExists(atPath: own.path) else { return [:] }
        var inputs: [String: [UInt8]] = [:]
        for name in try FileManager.default.contentsOfDirectory(atPath: own.path) {
            inputs[name] = Array(try Data(contentsOf: own.appendingPathComponent(name)))
        }
        return inputs
    }

    @Test("The corpus is what the decoders' seeds are now", arguments: Decoder.all)
    func seeds(of decoder: Decoder) throws {
        let kept = try Self.inputs(decoder, in: "Corpus")
        #expect(Set(kept.values) == Set(try decoder.madeSeeds().map(\.bytes)))
    }

    @Test("What once was a finding is none", arguments: Decoder.all)
    func regressions(of decoder: Decoder) throws {
        for (_, input) in try Self.inputs(decoder, in: "Regressions") { decoder.run(input) }
    }

    @Test("The corpus is read without a finding", arguments: Decoder.all)
    func corpus(of decoder: Decoder) throws {
        let inputs = try Self.inputs(decoder, in: "Corpus")
        #expect(!inputs.isEmpty)
        for (_, input) in inputs { decoder.run(input) }
    }
}
