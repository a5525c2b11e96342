import CFuzzer
import Foundation

/// The program: `TributaryFuzz list | seeds FOLDER | DECODER [arguments of libFuzzer]`.
@main
enum TributaryFuzz {
    static func main() throws {
        let words = CommandLine.arguments
        guard words.count >= 2 else { stop("usage: list | seeds FOLDER | DECODER [arguments]") }
        switch words[1] {
        case "list":
            for decoder in Decoder.all { print(decoder.name, decoder.maximumLength) }
        case "seeds":
            guard words.count == 3 else { stop("usage: seeds FOLDER") }
            try writeSeeds(to: URL(fileURLWithPath: words[2]))
        default:
            guard let decoder = Decoder.all.first(where: { $0.name == words[1] }) else {
                stop("there is no decoder \(words[1])")
            }
            exit(drive(decoder, arguments: [words[0]] + words.dropFirst(2)))
        }
    }

    /// Writes the seeds of every decoder: the same in every run.
    private static func writeSeeds(to folder: URL) throws {
        for decoder in Decoder.all {
            let own = folder.appendingPathComponent(decoder.name)
            try FileManager.default.createDirectory(at: own, withIntermediateDirectories: true)
            var random = Random(seed: 1)
            for (number, seed) in try decoder.seeds(&random).enumerated() {
                precondition(seed.count <= decoder.maximumLength, "\(decoder.name) \(number)")
                let digits = String(number + 1)
                let name = "seed-" + String(repeating: "0", count: 3 - digits.count) + digits
                try Data(seed).write(to: own.appendingPathComponent(name))
            }
        }
    }

    private static func drive(_ decoder: Decoder, arguments: [String]) -> CInt {
        CurrentDecoder.run = decoder.run
        // libFuzzer keeps pointers into these for as long as the process lives.
        var count = CInt(arguments.count)
        let words = UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>.allocate(
            capacity: arguments.count + 1)
        for (index, argument) in arguments.enumerated() { words[index] = strdup(argument) }
        words[arguments.count] = nil
        var pointer = words
        return LLVMFuzzerRunDriver(&count, &pointer) { bytes, count in
            CurrentDecoder.run(Array(UnsafeBufferPointer(start: bytes, count: count)))
            return 0
        }
    }

    private static func stop(_ message: String) -> Never {
        FileHandle.standardError.write(Data("\(message)\n".utf8))
        exit(2)
    }
}

/// The decoder that this process fuzzes; libFuzzer's callback can carry no context.
private enum CurrentDecoder {
    // Set once before the first call; libFuzzer calls on the thread that set it.
    nonisolated(unsafe) static var run: ([UInt8]) -> Void = { _ in }
}
