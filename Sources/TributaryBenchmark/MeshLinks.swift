import ArgumentParser
import LinkProxy

/// The links between nodes, each direction of each through proxies of its own, so that they can
/// fail and be mended while the nodes run.
final class MeshLinks {
    /// How all links fail at once.
    enum Partition: String, CaseIterable, ExpressibleByArgument {
        /// Packets vanish. Connections hang, and so do those that are tried meanwhile; what has
        /// lost something is reset once the links are mended.
        case dropped
        /// Packets wait. Connections hang, until one end gives them up and the other does not hear
        /// of that; once the links are mended what is stale comes first.
        case held
        /// Connections are closed, and those that are tried meanwhile as soon as they are made.
        case cut

        /// The event, for the head of a column.
        var title: String {
            switch self {
            case .dropped: "packets dropped"
            case .held: "packets held"
            case .cut: "connections cut"
            }
        }
    }

    private var proxies: [LinkProxy] = []

    private init() {}

    /// Runs a benchmark with links, and ends them whatever happens.
    static func with<Result>(
        _ body: (MeshLinks) async throws -> Result
    ) async throws -> Result {
        let links = MeshLinks()
        do {
            let result = try await body(links)
            await links.shutdown()
            return result
        } catch {
            await links.shutdown()
            throw error
        }
    }

    /// Makes a way to a port; gives the port to connect to instead.
    func port(towards target: Int) async throws -> Int {
        let proxy = try await LinkProxy(targetPort: target)
        proxies.append(proxy)
        return proxy.port
    }

    /// Has all links fail: no byte that is sent from now on arrives before they are mended.
    func fail(_ partition: Partition) async {
        for proxy in proxies {
            switch partition {
            case .dropped: await proxy.set(LinkFault(passage: .lost))
            case .held: await proxy.stall()
            case .cut: await proxy.cut()
            }
        }
    }

    /// Mends all links.
    func heal() async {
        for proxy in proxies { await proxy.heal() }
    }

    private func shutdown() async {
        for proxy in proxies { await proxy.shutdown() }
    }
}
