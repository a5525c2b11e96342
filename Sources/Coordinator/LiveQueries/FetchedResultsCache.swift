import Merge
import Synchronization

/// The sections that controllers with a cache name found, so that the next one does not look for
/// them. Thread-safe, for the whole process.
///
/// It keeps names and counts, and no objects. An entry is for one request, one section key path and
/// one state of one store; any other is found again. A controller also compares the ends of each
/// section with what it fetched, so sections that do not fit are never shown. At most
/// ``capacity`` names are kept. If there is one more, the one that was not used for longest goes.
final class FetchedResultsCache: Sendable {
    /// The one of this process.
    static let shared = FetchedResultsCache()

    /// How many names are kept.
    static let capacity = 64
    /// The most sections kept under a name. A list with more is not kept.
    static let sectionLimit = 10_000

    struct Key: Hashable {
        let request: FetchRequest
        let sectionNameKeyPath: String
        let model: [UInt8]
        let state: QueryGenerationToken
    }

    private struct Entry {
        let key: Key
        let sections: [LiveSection]
        var lastUse: UInt64
    }

    private struct State {
        var entries: [String: Entry] = [:]
        var uses: UInt64 = 0
    }

    private let state = Mutex(State())

    /// How many names are kept now.
    var count: Int { state.withLock { $0.entries.count } }

    func sections(_ name: String, _ key: Key) -> [LiveSection]? {
        state.withLock { state in
            guard let entry = state.entries[name], entry.key == key else { return nil }
            state.uses += 1
            state.entries[name]?.lastUse = state.uses
            return entry.sections
        }
    }

    func keep(_ sections: [LiveSection], _ name: String, _ key: Key) {
        guard sections.count <= Self.sectionLimit else { return remove(name) }
        state.withLock { state in
            if state.entries[name] == nil, state.entries.count >= Self.capacity,
                let oldest = state.entries.min(by: { $0.value.lastUse < $1.value.lastUse })
            {
                state.entries[oldest.key] = nil
            }
            state.uses += 1
            state.entries[name] = Entry(key: key, sections: sections, lastUse: state.uses)
        }
    }

    /// - Parameter name: nil for all.
    func remove(_ name: String?) {
        state.withLock { state in
            if let name { state.entries[name] = nil } else { state.entries = [:] }
        }
    }
}
