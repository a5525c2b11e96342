import Foundation
import Synchronization
import TestSupport

/// A program without a key that connects to a port and sends bytes without end, and connects again
/// when it is thrown out.
final class EndlessStranger: Sendable {
    private struct State {
        var sent = 0
        var received: [UInt8] = []
        var connections = 0
        var isStopped = false
        var hasEnded = false
    }

    private let state = Mutex(State())

    /// - Parameters:
    ///   - port: where to.
    ///   - beginning: what is sent first on each connection.
    init(port: Int, beginning: [UInt8]) {
        let thread = Thread { [self] in
            let bytes = [UInt8](repeating: 0x41, count: 64 << 10)
            while !state.withLock({ $0.isStopped }) {
                guard let connection = try? RawConnection(port: port) else {
                    usleep(10_000)
                    continue
                }
                state.withLock { $0.connections += 1 }
                var next = beginning
                while !state.withLock({ $0.isStopped }) {
                    // A node closes such a connection, or reads no further, and is right to.
                    guard (try? connection.send(next)) != nil else { break }
                    state.withLock { $0.sent += next.count }
                    next = bytes
                    if connection.hasBytes(within: .zero) {
                        guard let some = try? connection.receiveSome(upTo: 4096), !some.isEmpty
                        else { break }
                        state.withLock { state in
                            if state.received.count < 1 << 20 { state.received += some }
                        }
                    }
                    usleep(1000)
                }
                usleep(5000)
            }
            state.withLock { $0.hasEnded = true }
        }
        thread.start()
    }

    /// Ends it; gives what it sent, on how many connections, and what it got.
    func stop() async throws -> (sent: Int, connections: Int, received: [UInt8]) {
        state.withLock { $0.isStopped = true }
        try await eventually("the stranger ended", within: .seconds(30)) {
            state.withLock { $0.hasEnded }
        }
        return state.withLock { ($0.sent, $0.connections, $0.received) }
    }
}
