/// Something that did not come true in time.
public struct NotInTime: Error, CustomStringConvertible {
    /// What did not, and in which time.
    public let description: String

    /// An error that says what did not come true.
    public init(_ description: String) { self.description = description }
}

/// Looks again and again until a condition holds.
///
/// Where all tests start at once, a look may be seconds after the one before. So there are a hundred
/// looks at least, however long they take.
///
/// - Parameters:
///   - what: what is waited for, for the error; evaluated only when the time is over.
///   - time: for how long; the default is far beyond what anything takes.
///   - pause: how long it waits between two looks.
public func eventually(
    _ what: @autoclosure () async -> String, within time: Duration = .seconds(120),
    every pause: Duration = .milliseconds(20), _ condition: () async throws -> Bool
) async throws {
    let deadline = ContinuousClock.now + time
    var looks = 0
    while ContinuousClock.now < deadline || looks < 100 {
        if try await condition() { return }
        looks += 1
        try await Task.sleep(for: pause)
    }
    throw NotInTime("It took longer than \(time) until \(await what())")
}
