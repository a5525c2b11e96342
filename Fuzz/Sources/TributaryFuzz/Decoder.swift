/// Something that reads foreign bytes, with what is demanded of it.
struct Decoder: Sendable {
    /// The name, and that of its folders in Corpus and Regressions.
    let name: String
    /// The longest input that is tried, in bytes; longer ones only cost time.
    let maximumLength: Int
    /// Some valid inputs to begin from.
    let seeds: @Sendable (inout Random) throws -> [[UInt8]]
    /// Reads an input. What must not be, stops the process.
    let run: @Sendable ([UInt8]) -> Void

    /// All of them; the cheap ones first.
    static let all: [Decoder] = [
        .transaction, .message, .replicator, .json, .cbor, .text, .pattern, .target, .configuration,
        .model, .predicate, .fetch, .save, .body, .apply, .records, .cells, .store,
        .copy,
    ]
}

extension Decoder {
    /// The seeds with the names of their files: the same in every run.
    func madeSeeds() throws -> [(name: String, bytes: [UInt8])] {
        var random = Random(seed: 1)
        return try seeds(&random).enumerated().map { number, seed in
            precondition(seed.count <= maximumLength, "\(name) \(number)")
            let digits = String(number + 1)
            return ("seed-" + String(repeating: "0", count: 3 - digits.count) + digits, seed)
        }
    }
}

extension Decoder: CustomStringConvertible {
    var description: String { name }
}

/// Stops the process where something that must hold does not: a finding.
func demand(_ holds: Bool, _ message: @autoclosure () -> String) {
    if !holds { fatalError("FINDING: \(message())") }
}

/// Runs what may throw errors of one type only; any other stops the process.
///
/// - Returns: the result, or nil where it threw.
func attempt<Result, Failure: Error>(
    throwing type: Failure.Type, where isExpected: (Failure) -> Bool = { _ in true },
    _ body: () throws -> Result
) -> Result? {
    do {
        return try body()
    } catch let error as Failure where isExpected(error) {
        return nil
    } catch { fatalError("FINDING: an error that callers do not expect: \(error)") }
}

/// Runs what has to succeed, since nothing in it depends on the input.
func must<Result>(_ body: () throws -> Result) -> Result {
    do { return try body() } catch { fatalError("FINDING: \(error)") }
}
