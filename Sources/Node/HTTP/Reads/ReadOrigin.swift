// For whom a read is.

/// For whom a read is, and how it is treated. It goes along with the task that answers a request.
struct ReadOrigin: Sendable {
    /// That of the request which the running task answers.
    @TaskLocal static var current = ReadOrigin()

    /// Who wants it.
    var client = ClientPresence()
    /// What status shows of it, such as `GET /v1/history`.
    var text = ""
    /// Whether it is short by its nature, so that it waits behind no other read: as status is.
    var isBrief = false
}
