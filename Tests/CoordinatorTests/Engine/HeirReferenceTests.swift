import Coordinator
import Merge
import Testing

/// Users of one address are one, administrators and guests alike; visits and rooms have guests alone.
@Suite("Relationships to an heir whose key another heir may have")
struct HeirReferenceTests {
    let nodes: [EngineNode]
    let admin: ManagedObjectID
    let guest: ManagedObjectID
    let visit: ManagedObjectID
    let badge: ManagedObjectID
    let room: ManagedObjectID

    /// The administrator is inserted at one node before the guest of that address is at the other.
    init() throws {
        let model = try ManagedObjectModel(entities: [
            EntityDescription(
                "User", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [.init("email", .string)], uniquenessConstraints: [["email"]]),
            EntityDescription("Admin", parent: "User"),
            EntityDescription(
                "Guest", parent: "User",
                relationships: [
                    .init("visits", to: "Visit", inverse: "guest", isToMany: true),
                    .init("rooms", to: "Room", inverse: "guests", isToMany: true),
                    .init("badge", to: "Badge", inverse: "guest"),
                ]),
            EntityDescription("VIP", parent: "Guest"),
            EntityDescription(
                "Visit", mergePolicy: .mergeByPropertyObjectTrump,
                attributes: [.init("day", .string)],
                relationships: [.init("guest", to: "Guest", inverse: "visits")]),
            EntityDescription(
                "Badge", mergePolicy: .mergeByPropertyObjectTrump,
                relationships: [.init("guest", to: "Guest", inverse: "badge")]),
            EntityDescription(
                "Room", mergePolicy: .mergeByPropertyObjectTrump,
                relationships: [.init("guests", to: "Guest", inverse: "rooms", isToMany: true)]),
        ])
        nodes = try (1...2).map { try EngineNode(model, node: $0) }
        admin = try nodes[0].insert("Admin", ["email": .string("a@b")])
        guest = try nodes[1].insert("Guest", ["email": .string("a@b")])
        visit = try nodes[1].insert("Visit", ["guest": .reference(guest.row)])
        badge = try nodes[1].insert("Badge", ["guest": .reference(guest.row)])
        room = try nodes[1].insert(
            "Room", [:], [.init(name: "guests", kind: .add, members: [guest.row])])
        try exchange(nodes[0], nodes[1])
    }

    private func expectLed(
        to row: RowID?, on all: [EngineNode]? = nil, isListed: Bool = true,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let value = row.map { PropertyValue.reference($0) } ?? .null
        for node in all ?? nodes {
            #expect(try node.value(visit, "guest") == value, sourceLocation: sourceLocation)
            #expect(try node.value(badge, "guest") == value, sourceLocation: sourceLocation)
            #expect(
                try node.members(room, "guests") == (row.map { [$0] } ?? []),
                sourceLocation: sourceLocation)
            #expect(
                try node.conflicts(kind: .dangling).map(\.id.row).sorted()
                    == (row == nil && isListed ? [visit.row, badge.row].sorted() : []),
                sourceLocation: sourceLocation)
            let report = try node.coordinator.verify()
            #expect(report.isOK, "\(report.differences)", sourceLocation: sourceLocation)
        }
    }

    @Test("Nothing leads to an administrator that is shown in a guest's place")
    func misfit() throws {
        #expect(try nodes[0].row(guest)?.objectID == admin)
        try expectLed(to: nil)
        // Who writes what they read is heard.
        try nodes[0].update(visit, ["day": .string("Monday"), "guest": .null])
        #expect(try nodes[0].value(visit, "day") == .string("Monday"))
    }

    @Test("An object with a key of its own again is shown again, until it gives the key up")
    func returns() throws {
        let conflict = try #require(try nodes[0].conflicts(kind: .uniqueness).first)
        try nodes[0].resolve(conflict.id, .change([guest: ["email": .string("c@d")]]))
        try exchange(nodes[0], nodes[1])
        try expectLed(to: guest.row)
        try nodes[1].update(guest, ["email": .string("a@b")], policy: .mergeByPropertyObjectTrump)
        try exchange(nodes[0], nodes[1])
        try expectLed(to: nil)
    }

    @Test("That a reference leads nowhere can be accepted")
    func accepted() throws {
        let conflict = try #require(
            try nodes[0].conflicts(kind: .dangling).first { $0.id.row == visit.row })
        let dot = try #require(conflict.sides.first?.dot)
        try nodes[0].resolve(conflict.id, .side(dot))
        #expect(try nodes[0].conflicts(kind: .dangling).map(\.id.row) == [badge.row])
    }

    @Test("Choosing the guest leads to it again; choosing the administrator leads nowhere")
    func chosen() throws {
        for (kept, target) in [(admin, RowID?.none), (guest, guest.row)] {
            let test = try HeirReferenceTests()
            let own = kept == admin ? test.admin : test.guest
            let conflict = try #require(try test.nodes[0].conflicts(kind: .uniqueness).first)
            let dot = try #require(conflict.sides.first { $0.object == own }?.dot)
            try test.nodes[0].resolve(conflict.id, .sideOf(own, dot))
            try exchange(test.nodes[0], test.nodes[1])
            // Who chooses the administrator deletes the guest, and has seen what leads there.
            try test.expectLed(to: target == nil ? nil : test.guest.row, isListed: false)
        }
    }

    @Test("An heir of the heir that is shown in a guest's place is shown for a reference")
    func fit() throws {
        let pair = try (1...2).map { try EngineNode(nodes[0].model, node: $0) }
        let vip = try pair[0].insert("VIP", ["email": .string("a@b")])
        let guest = try pair[1].insert("Guest", ["email": .string("a@b")])
        let visit = try pair[1].insert("Visit", ["guest": .reference(guest.row)])
        let room = try pair[1].insert(
            "Room", [:], [.init(name: "guests", kind: .add, members: [guest.row])])
        try exchange(pair[0], pair[1])
        for node in pair {
            #expect(try node.value(visit, "guest") == .reference(vip.row))
            #expect(try node.members(room, "guests") == [vip.row])
        }
    }

    @Test("A reference to a guest that an administrator is shown for is refused as if it were gone")
    func refused() throws {
        let error = #expect(throws: CoordinatorError.self) {
            try nodes[0].insert("Visit", ["guest": .reference(guest.row)])
        }
        #expect(error?.failures.map(\.code) == [.danglingReference])
    }

    @Test("A store that leads to the administrator is found to be damaged")
    func misled() throws {
        nodes[0].close()
        let made = """
            UPDATE "Visit" SET "guest" = \(admin.row.rawValue);
            UPDATE "Badge" SET "guest" = \(admin.row.rawValue);
            DELETE FROM _dangling;
            DELETE FROM _conflict WHERE kind = '\(ConflictKind.dangling.rawValue)';
            """
        try nodes[0].tamper(made)
        try nodes[0].open()
        let report = try nodes[0].coordinator.verify()
        #expect(report.differences.count { $0.contains("another entity") } == 2)
    }
}
