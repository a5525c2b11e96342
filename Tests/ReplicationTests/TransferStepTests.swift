import Merge
import Testing

@testable import Replication

@Suite("Whether a copy is taken in, and how it goes on")
struct TransferStepTests {
    private static let limits: Limits = {
        var limits = Limits()
        limits.transferTransactions = 10
        return limits
    }()
    private let limits = Self.limits
    private static let copy = TransferCopy(number: 7, total: 100, digest: [])

    private static func vector(_ actor: ActorID, _ sequence: UInt64) -> VersionVector {
        VersionVector([.init(actor: actor, sequence: sequence)])
    }

    private static func peer(
        _ number: Int, has sequence: UInt64 = 10, recovery: Recovery = .none,
        isShort: Bool = false, failures: UInt64 = 0
    ) -> PeerProgress {
        var peer = PeerProgress(node: World.id(number), isConfigured: true)
        peer.isAgreed = true
        peer.lastHeard = 0
        peer.vector = vector(Reporter.second, sequence)
        peer.modelHash = model
        peer.recovery = recovery
        peer.isHistoryShort = isShort
        peer.failures = failures
        return peer
    }

    private static func choice(
        _ ahead: [PeerProgress], has vector: VersionVector = VersionVector(),
        begun: Replicator.Configuration.BegunTransfer? = nil, isSettling: Bool = false
    ) -> TransferNeed.Choice {
        TransferNeed(own: World.id(1), vector: vector, modelHash: model, limits: limits)
            .choice(among: ahead, begun: begun, isSettling: isSettling, now: 5)
    }

    private static func donor(_ choice: TransferNeed.Choice) -> NodeID? {
        if case .begin(let progress) = choice { progress.donor } else { nil }
    }

    @Test("A node that has nothing takes a copy where logs are long, unless it saved as much")
    func newcomer() {
        #expect(Self.donor(Self.choice([Self.peer(2)])) == World.id(2))
        #expect(Self.choice([Self.peer(2, has: 9)]) == .none)
        let saved = Self.vector(Reporter.own, 10)
        #expect(Self.choice([Self.peer(2)], has: saved) == .none)
        let taken = Self.vector(Reporter.second, 1)
        #expect(Self.choice([Self.peer(2)], has: taken) == .none)
    }

    @Test("Any node takes one where every log that it can reach is too short")
    func short() {
        let taken = Self.vector(Reporter.second, 1)
        let short = Self.peer(2, isShort: true)
        #expect(Self.donor(Self.choice([short], has: taken)) == World.id(2))
        #expect(Self.choice([short, Self.peer(3)], has: taken) == .none)
        let silent = Self.peer(3, failures: 3)
        #expect(Self.donor(Self.choice([short, silent], has: taken)) == World.id(2))
    }

    @Test("A donor has our model, and one that is vouched for goes before others")
    func donors() {
        var other = Self.peer(2)
        other.modelHash = []
        #expect(Self.choice([other]) == .none)
        let donor = Self.choice([other, Self.peer(3, recovery: .new), Self.peer(4)])
        #expect(Self.donor(donor) == World.id(4))
    }

    @Test("A copy that was begun with is gone on with, once its donor was heard")
    func begun() {
        let begun = Replicator.Configuration.BegunTransfer(
            donor: World.id(3), copy: Self.copy, offset: 40)
        let peers = [Self.peer(2), Self.peer(3)]
        guard case .begin(let progress) = Self.choice(peers, begun: begun) else {
            Issue.record("nothing is begun")
            return
        }
        #expect(progress.donor == World.id(3) && progress.offset == 40)
        #expect(Self.choice([Self.peer(2)], begun: begun, isSettling: true) == .wait)
        #expect(Self.donor(Self.choice([Self.peer(2)], begun: begun)) == World.id(2))
    }

    private func progress(_ phase: TransferProgress.Phase) -> TransferProgress {
        TransferProgress(
            donor: World.id(2), isNewcomer: true, wish: VersionVector(), phase: phase,
            progressedAt: 0)
    }

    @Test("A donor is asked, awaited while it is away, and given up when it gives nothing")
    func steps() {
        let donor = Self.peer(2)
        #expect(progress(.pausing(until: 5)).step(donor, now: 4, limits: limits) == .wait)
        #expect(progress(.pausing(until: 5)).step(donor, now: 5, limits: limits) == .ask)
        #expect(progress(.checking).step(donor, now: 5, limits: limits) == .wait)
        let away = limits.connectedMilliseconds
        #expect(progress(.pausing(until: 5)).step(donor, now: away, limits: limits) == .pause)
        let over = limits.transferPatienceMilliseconds
        #expect(progress(.pausing(until: 5)).step(donor, now: over, limits: limits) == .giveUp)
        // One that is there is given the time to make the copy.
        var heard = donor
        heard.lastHeard = over
        #expect(progress(.pausing(until: 5)).step(heard, now: over, limits: limits) == .ask)
        // One that has started again does not know that it was asked.
        var asked = progress(.asking(id: 1, deadline: 9))
        #expect(asked.step(donor, now: 1, limits: limits) == .wait)
        asked.donorActor = Reporter.second
        #expect(asked.step(donor, now: 1, limits: limits) == .ask)
        #expect(!asked.isLate(now: 8) && asked.isLate(now: 9))
    }

    @Test("Parts follow each other; another copy begins at its beginning; an empty one ends it")
    func parts() {
        func part(_ offset: UInt64, _ bytes: [UInt8] = [1]) -> TransferPart {
            TransferPart(id: 1, copy: nil, offset: offset, bytes: bytes)
        }
        let other = TransferCopy(number: 8, total: 100, digest: [])
        var progress = progress(.asking(id: 1, deadline: 9))
        #expect(progress.take(part(7), of: Self.copy, now: 1) == .outOfPlace)
        #expect(progress.take(part(0), of: Self.copy, now: 1) == .part(Self.copy))
        #expect(progress.phase == .taking && progress.place?.copy == Self.copy)
        progress.offset = 100
        #expect(progress.take(part(5), of: Self.copy, now: 2) == .outOfPlace)
        #expect(progress.take(part(5), of: other, now: 2) == .outOfPlace)
        var again = progress
        #expect(again.take(part(0), of: other, now: 2) == .part(other) && again.offset == 0)
        #expect(progress.take(part(100, []), of: Self.copy, now: 3) == .whole(Self.copy))
        #expect(progress.phase == .checking && progress.progressedAt == 3)
    }

    @Test("Copies that will not do put the next off, for longer each time")
    func refusals() {
        var taking = TransferTaking(begun: nil)
        for pause in [1, 2, 4].map({ $0 * limits.transferRetryMilliseconds }) {
            var begun = progress(.checking)
            begun.copy = Self.copy
            taking.begin(begun)
            taking.refuse(now: 0, limits: limits)
            #expect(taking.progress == nil && taking.begun == nil)
            #expect(!taking.isAllowed(now: pause - 1) && taking.isAllowed(now: pause))
        }
        var given = progress(.taking)
        given.copy = Self.copy
        given.offset = 3
        taking.begin(given)
        taking.giveUp(until: 9, isPlaceKept: true)
        #expect(taking.begun == given.place && taking.isAllowed(now: 9))
    }
}
