// The bounds of answers and reads.

/// The bounds of a server's answers and reads.
struct HTTPBounds: Sendable {
    /// How many bytes all answers may have that are being made or sent.
    var answerBytes = 128 << 20
    /// For how long a client may take nothing of its answer, in milliseconds.
    var slowClientMilliseconds: UInt64 = 30_000
    /// The same where its answer is in the way of others.
    var busyClientMilliseconds: UInt64 = 2_000
    /// Those of reads; the number of threads decides how many run.
    var reads = ReadLanes.Limits()

    init() {}

    init(_ options: HTTPServer.Options) {
        answerBytes = options.maximumAnswersBytes
        slowClientMilliseconds = UInt64(max(0, options.slowClientTimeout / .milliseconds(1)))
        busyClientMilliseconds = UInt64(max(0, options.busyClientTimeout / .milliseconds(1)))
        reads.waiting = max(0, options.maximumWaitingReads)
        reads.waitingLong = max(0, options.maximumWaitingLongReads)
        reads.shortMilliseconds = UInt64(max(0, options.shortRead / .milliseconds(1)))
    }
}
