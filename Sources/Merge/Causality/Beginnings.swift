import Synchronization

/// The *beginning* of each actor: the vector that it had seen when it made its first transaction.
///
/// Vectors are causally closed: a vector with a transaction has all that the transaction has seen.
/// So a vector with anything of an actor has that actor's beginning, and need not say so. What a
/// vector has beyond the beginnings of its own actors is its *frontier*, and says all of it: as
/// every opening of a store begins with nearly all that there is, the frontier names about one
/// actor a node, and not every incarnation there ever was (DESIGN section 3).
///
/// Laws, watched by BeginningsTests, for every vector V that is closed:
/// 1. The closure of V's frontier is V, by these beginnings and by any others that have at least those
///    of V's actors that these have.
/// 2. A closed vector covers V exactly where it covers V's frontier.
/// 3. The closure of anything is within every closed vector that covers it.
///
/// A beginning is a frontier itself. Of an actor whose beginning is not known nothing is implied: then less
/// is left out of frontiers, and as much as before is read out of them.
package struct Beginnings: Hashable, Sendable {
    /// Each by its frontier, as its transaction says it.
    private var frontiers: [ActorID: VersionVector] = [:]
    /// The first transaction of each whose beginning is known.
    private var firsts = VersionVector()
    /// The join of all beginnings: what a vector that has all of ``firsts`` need not name.
    private var implied = VersionVector()
    /// The actors of ``firsts`` that no beginning implies: from them all others are reached.
    private var latest: [ActorID] = []
    /// Results worked out of these beginnings; others have their own.
    private var memo = Memo()

    /// Of nobody.
    package init() {}

    /// Whether both know the same of the same actors.
    package static func == (one: Self, other: Self) -> Bool { one.frontiers == other.frontiers }

    /// Goes by what is known.
    package func hash(into hasher: inout Hasher) { hasher.combine(frontiers) }

    /// How many are known.
    package var count: Int { frontiers.count }

    /// The beginning of an actor, as its frontier; nil where it is not known.
    package subscript(actor: ActorID) -> VersionVector? { frontiers[actor] }

    /// The actors with known beginnings, sorted.
    package var actors: [ActorID] { firsts.entries.map(\.actor) }

    /// Notes an actor's beginning; what is known of it already stays.
    ///
    /// - Parameter frontier: of what its first transaction has seen, as that says it.
    package mutating func note(_ actor: ActorID, _ frontier: VersionVector) {
        guard frontiers[actor] == nil else { return }
        frontiers[actor] = frontier
        firsts.advance(actor, to: 1)
        implied.join(frontier)
        latest.append(actor)
        latest.removeAll { implied[$0] > 0 }
        latest.sort()
        memo = Memo()
    }

    /// Notes all that another has.
    package mutating func join(_ other: Beginnings) {
        guard !firsts.covers(other.firsts) else { return }
        for actor in other.actors where frontiers[actor] == nil {
            if let frontier = other.frontiers[actor] { note(actor, frontier) }
        }
    }

    /// The entries of a closed vector that the beginnings of its actors do not imply.
    ///
    /// - Parameter named: an actor whose entry stays whether it is implied or not.
    package func frontier(of vector: VersionVector, naming named: ActorID? = nil) -> VersionVector {
        let implied = vector.covers(firsts) ? self.implied : self.implied(by: vector)
        return vector.filter { $0.actor == named || $0.sequence > implied[$0.actor] }
    }

    /// The closed vector that has this frontier, or another vector that covers it; as much of it as
    /// the beginnings known here tell.
    package func closure(of frontier: VersionVector) -> VersionVector {
        if !latest.isEmpty, latest.allSatisfy({ frontier[$0] > 0 }) {
            return implied.joined(frontier)
        }
        let named = frontier.entries.map(\.actor)
        let implied = memo.closures.value(named) { join(ofBeginnings: reached(from: named)) }
        return implied.joined(frontier)
    }

    /// The join of the beginnings of a vector's actors.
    private func implied(by vector: VersionVector) -> VersionVector {
        let absent = actors.filter { vector[$0] == 0 }
        return memo.implied.value(absent) {
            join(ofBeginnings: actors.filter { vector[$0] > 0 })
        }
    }

    /// Actors, and all that their beginnings imply.
    private func reached(from actors: [ActorID]) -> [ActorID] {
        var reached = Set<ActorID>()
        var open = actors
        while let actor = open.popLast() {
            guard reached.insert(actor).inserted, let beginning = frontiers[actor] else { continue }
            for entry in beginning.entries where !reached.contains(entry.actor) {
                open.append(entry.actor)
            }
        }
        return Array(reached)
    }

    private func join(ofBeginnings actors: [ActorID]) -> VersionVector {
        var sequences: [ActorID: UInt64] = [:]
        for actor in actors {
            for entry in frontiers[actor]?.entries ?? [] {
                sequences[entry.actor] = max(sequences[entry.actor] ?? 0, entry.sequence)
            }
        }
        let entries = sequences.map { VersionVector.Entry(actor: $0.key, sequence: $0.value) }
        guard let join = VersionVector(canonical: entries.sorted { $0.actor < $1.actor }) else {
            fatalError("A beginning is no vector.")
        }
        return join
    }

    /// The last few vectors that were worked out, for one after the other is about the same actors: who
    /// reads a log comes to others once an incarnation. It changes nothing but the time that is taken.
    private final class Memo: Sendable {
        let closures = Kept()
        let implied = Kept()

        final class Kept: Sendable {
            private static let most = 8
            private let values = Mutex<[(actors: [ActorID], vector: VersionVector)]>([])

            func value(_ actors: [ActorID], _ make: () -> VersionVector) -> VersionVector {
                let known = values.withLock { values in
                    values.first { $0.actors == actors }?.vector
                }
                if let known { return known }
                let made = make()
                values.withLock { values in
                    if values.count >= Self.most { values.removeFirst() }
                    values.append((actors, made))
                }
                return made
            }
        }
    }
}
