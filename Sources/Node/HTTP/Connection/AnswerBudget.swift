// How much memory answers take.

internal import Coordinator
internal import NIOCore
internal import Synchronization

/// The bytes of all answers that are being made or sent. Thread-safe.
final class AnswerBudget: Sendable {
    /// How many bytes there may be.
    let limit: Int
    private let state = Mutex((bytes: 0, refused: UInt64(0)))
    /// Has room made for others, where that is possible.
    private let makeRoom: @Sendable () -> Void

    /// - Parameter makeRoom: is called where there is not enough room; what it frees is there for those
    ///   who come later.
    init(limit: Int, makeRoom: @escaping @Sendable () -> Void = {}) {
        self.limit = limit
        self.makeRoom = makeRoom
    }

    /// How many bytes there are.
    var bytes: Int { state.withLock { $0.bytes } }
    /// How many answers were refused.
    var refused: UInt64 { state.withLock { $0.refused } }

    /// Takes room for so many bytes.
    ///
    /// - Throws: ``HTTPError`` (503 `busy`).
    func reserve(_ count: Int) throws(HTTPError) {
        let hasRoom = state.withLock { state in
            guard count <= limit - state.bytes else {
                state.refused += 1
                return false
            }
            state.bytes += count
            return true
        }
        guard !hasRoom else { return }
        makeRoom()
        throw .busy("answers", seconds: 1)
    }

    /// Takes room that is not to be refused, as what tells of a save that was done.
    func charge(_ count: Int) { state.withLock { $0.bytes += count } }

    /// Gives room back.
    func release(_ count: Int) { state.withLock { $0.bytes -= count } }
}

/// Room in the budget for something that goes with an answer, until it is given up.
final class AnswerRoom: Sendable {
    private let budget: AnswerBudget
    private let count: Int

    /// - Throws: ``HTTPError`` (503 `busy`).
    init(_ budget: AnswerBudget, _ count: Int) throws(HTTPError) {
        self.budget = budget
        // The number of connections bounds small answers.
        self.count = count > AnswerWriter.small ? count : 0
        try budget.reserve(self.count)
    }

    deinit { budget.release(count) }
}

/// An answer in memory, in the order in which it is written. What is held of it is in the budget, and
/// goes out of it as it is sent. Thread-safe.
final class BudgetedAnswer: Sendable {
    private struct State {
        var chunks: [[UInt8]] = []
        var sent = 0
        var count = 0
        var held = 0
    }

    private let budget: AnswerBudget
    private let state = Mutex(State())

    init(_ budget: AnswerBudget) { self.budget = budget }

    /// How many bytes it has had in all.
    var count: Int { state.withLock { $0.count } }

    /// Adds bytes.
    ///
    /// - Parameter isOptional: whether it may be refused.
    /// - Throws: ``HTTPError`` (503 `busy`).
    func append(_ chunk: [UInt8], isOptional: Bool = true) throws(HTTPError) {
        if isOptional { try budget.reserve(chunk.count) } else { budget.charge(chunk.count) }
        state.withLock { state in
            state.chunks.append(chunk)
            state.count += chunk.count
            state.held += chunk.count
        }
    }

    /// How many parts it has.
    var chunkCount: Int { state.withLock { $0.chunks.count } }

    /// Puts a few bytes into a part, before anything is sent.
    func insert(_ bytes: [UInt8], inChunk index: Int, at offset: Int) {
        budget.charge(bytes.count)
        state.withLock { state in
            let chunk = state.chunks[index]
            // An array that grows takes up to twice what is in it.
            var longer: [UInt8] = []
            longer.reserveCapacity(chunk.count + bytes.count)
            longer += chunk[..<offset]
            longer += bytes
            longer += chunk[offset...]
            state.chunks[index] = longer
            state.count += bytes.count
            state.held += bytes.count
        }
    }

    /// The next bytes to be sent; nil at the end. What was given before is sent, and leaves the budget.
    func next() -> [UInt8]? {
        let (chunk, freed) = state.withLock { state -> ([UInt8]?, Int) in
            var freed = 0
            if state.sent > 0 {
                freed = state.chunks[state.sent - 1].count
                state.chunks[state.sent - 1] = []
                state.held -= freed
            }
            guard state.sent < state.chunks.count else {
                state.chunks = []
                state.sent = 0
                return (nil, freed)
            }
            defer { state.sent += 1 }
            return (state.chunks[state.sent], freed)
        }
        budget.release(freed)
        return chunk
    }

    /// Writes it in parts, each once the client has taken most of what was before: so that a slow one is
    /// not taken for idle, and a stalled one is known.
    func send(_ write: HTTPAnswer.Write) async throws {
        while let chunk = next() {
            for first in stride(from: 0, to: chunk.count, by: AnswerWriter.small) {
                try await write(
                    ByteBuffer(bytes: chunk[first..<min(first + AnswerWriter.small, chunk.count)]))
            }
        }
    }

    deinit { budget.release(state.withLock { $0.held }) }
}

/// Writes an answer that is made in memory, within its own bound and the budget of all.
struct AnswerWriter {
    /// The bytes written since the last look.
    var output: [UInt8] = []
    private let answer: BudgetedAnswer
    private let maximum: Int
    private let reader: StoreReader
    private let format: BodyFormat

    /// Answers of at most so many bytes are sent in one piece, and are not in the budget.
    static let small = 64 << 10
    /// Room for what comes beyond that before it is looked at is kept; a longer one goes.
    private static let kept = 256 << 10

    init(_ services: HTTPServices, _ reader: StoreReader, _ format: BodyFormat = .json) {
        self.reader = reader
        self.format = format
        answer = BudgetedAnswer(services.answers)
        maximum = services.maximumAnswerBytes
    }

    /// An array or object that counts its elements as they come.
    struct List {
        fileprivate let isObject: Bool
        /// The place of its first element: how many parts are before, and how many bytes.
        fileprivate let chunk: Int
        fileprivate let offset: Int
        fileprivate var count = 0
    }

    /// Begins an array, or an object. Within it no other may be begun.
    mutating func beginList(isObject: Bool = false) -> List {
        if format == .json { output.append(UInt8(ascii: isObject ? "{" : "[")) }
        return List(isObject: isObject, chunk: answer.chunkCount, offset: output.count)
    }

    /// Counts an element, which the caller writes next.
    mutating func beginElement(of list: inout List) {
        format.separate(isFirst: list.count == 0, in: &output)
        list.count += 1
    }

    /// Ends a list. In CBOR the number of its elements stands before them, and is known only now.
    mutating func end(_ list: List) {
        guard format == .cbor else {
            return output.append(UInt8(ascii: list.isObject ? "}" : "]"))
        }
        var head: [UInt8] = []
        if list.isObject {
            format.beginObject(list.count, in: &head)
        } else {
            format.beginArray(list.count, in: &head)
        }
        if answer.chunkCount == list.chunk {
            output.insert(contentsOf: head, at: list.offset)
        } else {
            answer.insert(head, inChunk: list.chunk, at: list.offset)
        }
    }

    /// Looks at the bounds; to be called after each part.
    ///
    /// - Throws: ``HTTPError``: 422 `answerTooLarge` and 503 `busy`, and `CancellationError` where
    ///   nobody wants the answer any more.
    mutating func check() throws {
        try reader.checkGoingOn()
        guard output.count + answer.count <= maximum else {
            throw HTTPError.answerTooLarge(maximum)
        }
        guard output.count > Self.small else { return }
        try move()
    }

    private mutating func move() throws(HTTPError) {
        // An array that has grown takes up to twice what is in it; a copy does not.
        let exact = [UInt8](unsafeUninitializedCapacity: output.count) { buffer, count in
            count = output.count
            output.withUnsafeBytes { UnsafeMutableRawBufferPointer(buffer).copyMemory(from: $0) }
        }
        try answer.append(exact)
        output.removeAll(keepingCapacity: output.capacity <= Self.kept)
    }

    /// The answer.
    ///
    /// - Throws: ``HTTPError``: 503 `busy`.
    consuming func finish() throws(HTTPError) -> HTTPAnswer.Body {
        if answer.count == 0, output.count <= Self.small { return .whole(output) }
        try move()
        return .budgeted(answer)
    }
}
