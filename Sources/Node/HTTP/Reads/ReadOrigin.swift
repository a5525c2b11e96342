// For whom a read is.

/// For whom a read is, and how it is treated. It goes along with the task that answers a request.
struct ReadOrigin: Sendable {
    /// The origin of the request that the running task answers.
    @TaskLocal static var current = ReadOrigin()

    /// The client that wants it.
    var client = ClientPresence()
    /// The read's text for status, as `GET /v1/history`.
    var text = ""
    /// Whether it is short by its nature, so that it waits behind no other read: as status is.
    var isBrief = false
}
