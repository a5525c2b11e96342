import Merge
import Testing

@testable import Replication

@Suite("For whom a frame counts")
struct AdmissionTests {
    private static let own = Reporter.own
    private static let elder = ActorID(node: own.node, incarnation: 40)

    private static func heads(_ actor: ActorID, met: [ActorID] = []) -> Heads {
        Heads(
            actor: actor, vector: VersionVector(), durable: VersionVector(),
            digest: ProjectionDigest(), clock: .zero, wallMilliseconds: 0, modelHash: model,
            met: met)
    }

    private static func admission(
        _ message: Message, sender: NodeID, socket: NodeID?
    ) -> Admission {
        Admission(
            Envelope(cluster: "test", sender: sender, message: message), from: socket, own: own)
    }

    @Test("A peer's frame counts for it, unless it comes over another's socket")
    func peers() {
        let (second, third) = (World.id(2), World.id(3))
        let message = Message.heads(Self.heads(Reporter.second))
        #expect(Self.admission(message, sender: second, socket: second) == .peer(second))
        #expect(Self.admission(message, sender: second, socket: nil) == .peer(second))
        #expect(
            Self.admission(message, sender: second, socket: third)
                == .alarm(.unexpectedSender(expected: third, claimed: second)))
    }

    @Test("Heads under this node's number are a double's, its own, or a member's word for a double")
    func own() {
        let (own, second) = (Self.own.node, World.id(2))
        func admission(_ message: Message, socket: NodeID? = second) -> Admission {
            Self.admission(message, sender: own, socket: socket)
        }
        let double = Admission.alarm(.twoNodesWithOneID(own, incarnation: nil))
        #expect(admission(.heads(Self.heads(Self.elder))) == double)
        #expect(admission(.hello(Self.heads(Self.elder))) == double)
        let introduction = Self.heads(Self.elder, met: [Self.own])
        #expect(admission(.heads(introduction)) == .introduction(introduction))
        #expect(admission(.hello(introduction)) == double)
        // At a peer's address this node has found itself.
        let found = Admission.alarm(.unexpectedSender(expected: second, claimed: own))
        #expect(admission(.heads(Self.heads(Self.own))) == found)
        #expect(admission(.heads(Self.heads(Self.own)), socket: own) == .nobody)
        #expect(admission(.heads(Self.heads(Self.own)), socket: nil) == .nobody)
        #expect(admission(.notification([])) == .nobody)
    }

    @Test("A foreign frame names what differs, a damaged one nothing")
    func foreign() {
        let cluster = MessageFailure.otherCluster("other", sender: World.id(2))
            .refusal(cluster: "test")
        #expect(cluster?.claimed == World.id(2))
        #expect(cluster?.refusal == Refusal(part: .cluster, ours: "test", theirs: "other"))
        let revision = MessageFailure.otherRevision(99, sender: World.id(2))
            .refusal(cluster: "test")
        #expect(revision?.refusal.part == .revision && revision?.refusal.theirs == "99")
    }

    @Test("The wall clock goes on between inputs, and never over its end")
    func wallClock() {
        var clock = WallClock()
        clock.set(1_000, at: 5)
        #expect(clock.milliseconds(at: 5) == 1_000 && clock.milliseconds(at: 8) == 1_003)
        clock.set(.max, at: 8)
        #expect(clock.milliseconds(at: 9) == .max)
    }
}
