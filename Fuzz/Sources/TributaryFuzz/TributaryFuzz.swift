import CFuzzer
import Foundation

/// The program: `TributaryFuzz list | seeds FOLDER | DECODER [arguments of libFuzzer]`.
///
/// The fuzzing flag brings a main function of its own, and the linker decides which one counts.
/// So all is done in ``initialize(_:_:)``, which libFuzzer calls first under either.
@main
enum TributaryFuzz {
    static func main() {
        // libFuzzer keeps pointers into these for as long as the process lives.
        let arguments = CommandLine.arguments
        var count = CInt(arguments.count)
        let words = UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>.allocate(
            capacity: arguments.count + 1)
        for (index, argument) in arguments.enumerated() { words[index] = strdup(argument) }
        words[arguments.count] = nil
        var pointer = words
        exit(LLVMFuzzerRunDriver(&count, &pointer) { testOne($0, $1) })
    }

    /// Writes the seeds of every decoder: the same in every run.
    fileprivate static func writeSeeds(to folder: URL) throws {
        for decoder in Decoder.all {
            let own = folder.appendingPathComponent(decoder.name)
            try FileManager.default.createDirectory(at: own, withIntermediateDirectories: true)
            for seed in try decoder.madeSeeds() {
                try Data(seed.bytes).write(to: own.appendingPathComponent(seed.name))
            }
        }
    }

    fileprivate static func stop(_ message: String) -> Never {
        FileHandle.standardError.write(Data("\(message)\n".utf8))
        exit(2)
    }
}

/// The decoder that this process fuzzes; libFuzzer's callbacks can carry no context.
private enum CurrentDecoder {
    // Set once before the first input; libFuzzer calls on the thread that set it.
    nonisolated(unsafe) static var run: ([UInt8]) -> Void = { _ in }
}

private let decoderVariable = "TRIBUTARY_FUZZ_DECODER"

private func choose(_ name: String) {
    guard let decoder = Decoder.all.first(where: { $0.name == name }) else {
        TributaryFuzz.stop("there is no decoder \(name)")
    }
    CurrentDecoder.run = decoder.run
}

/// libFuzzer's first call: takes the decoder's name out of the arguments.
@_cdecl("LLVMFuzzerInitialize")
func initialize(
    _ count: UnsafeMutablePointer<CInt>,
    _ words: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>
) -> CInt {
    if let name = ProcessInfo.processInfo.environment[decoderVariable] {
        choose(name)
        return 0
    }
    let arguments = (0..<Int(count.pointee)).compactMap { words.pointee[$0] }
        .map { String(cString: $0) }
    guard arguments.count >= 2 else {
        TributaryFuzz.stop("usage: list | seeds FOLDER | DECODER [arguments of libFuzzer]")
    }
    switch arguments[1] {
    case "list":
        for decoder in Decoder.all { print(decoder.name, decoder.maximumLength) }
        exit(0)
    case "seeds":
        guard arguments.count == 3 else { TributaryFuzz.stop("usage: seeds FOLDER") }
        must { try TributaryFuzz.writeSeeds(to: URL(fileURLWithPath: arguments[2])) }
        exit(0)
    case let name:
        choose(name)
        // libFuzzer starts itself again to make a finding smaller, with what is left of the words.
        setenv(decoderVariable, name, 1)
        for index in 1..<arguments.count { words.pointee[index] = words.pointee[index + 1] }
        count.pointee -= 1
        return 0
    }
}

/// libFuzzer's call for each input.
@_cdecl("LLVMFuzzerTestOneInput")
func testOne(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    CurrentDecoder.run(Array(UnsafeBufferPointer(start: bytes, count: count)))
    return 0
}
