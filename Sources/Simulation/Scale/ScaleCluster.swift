internal import Coordinator
internal import Merge
internal import NodeCore
internal import Replication
internal import Synchronization

/// A cluster without faults that counts what saves and rest cost.
///
/// The product's coordinators and cores run in virtual time, over a network with 0.3 to 0.8 ms of
/// delay and on disks that take no time. It has no checkers: of 100 nodes they would cost more
/// than the nodes.
package final class ScaleCluster {
    /// How many nodes a cluster may have: as many peers as a configuration may list, less one.
    package static let nodes = 2...256
    /// How many saves may be measured.
    package static let saves = 1...10_000

    /// Why nothing could be measured.
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    static let model: ManagedObjectModel = {
        let item = EntityDescription(
            "Item", mergePolicy: .mergeByPropertyObjectTrump,
            attributes: [
                AttributeDescription("count", .integer64), AttributeDescription("name", .string),
                AttributeDescription("note", .string), AttributeDescription("weight", .double),
            ])
        guard let model = try? ManagedObjectModel(entities: [item]) else {
            fatalError("The model of the cluster is wrong.")
        }
        return model
    }()

    private enum Times {
        /// How long the cluster may take for what it does in two seconds.
        static let patience: UInt64 = 60_000
        /// From the last save before the rest until all is durable, recorded and collected.
        static let settling: UInt64 = 12_000
        static let rest: UInt64 = 10_000
        static let betweenSaves: UInt64 = 2
        static let tickMicroseconds: UInt64 = 50_000
    }

    /// What is counted at the moment.
    private enum Phase { case nothing, rest, saves }

    private let nodes: [ScaleNode]
    private var generator: SeededGenerator
    private var network = SimulatedNetwork(settings: NetworkSettings())
    private var queue = EventQueue()
    private var microseconds: UInt64 = 0
    private var phase = Phase.nothing
    private var figures: ScaleFigures
    private var inserted: Int64 = 0
    private var failure: Failure?

    /// Measures a cluster of one size.
    ///
    /// - Returns: counts that follow from the seed, and processor times that do not.
    /// - Throws: ``Failure`` where a node does what it does not without faults.
    package static func measure(
        nodes: Int, saves: Int, seed: UInt64
    ) throws -> (figures: ScaleFigures, processor: ScaleFigures.Processor) {
        precondition(Self.nodes.contains(nodes) && Self.saves.contains(saves))
        let cluster = try ScaleCluster(nodes, saves, seed)
        defer { cluster.close() }
        return try cluster.run()
    }

    private init(_ count: Int, _ saves: Int, _ seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        nodes = try (0..<count).map { try ScaleNode($0, of: count, &generator) }
        self.generator = generator
        figures = ScaleFigures(nodes: count, saves: saves, restMilliseconds: Times.rest)
    }

    private func run() throws -> (figures: ScaleFigures, processor: ScaleFigures.Processor) {
        for node in nodes {
            feed(
                .started(
                    peers: node.machine.configured,
                    wallMilliseconds: node.machine.clock.wallMilliseconds), node, .time)
            tick(node)
        }
        try live("every node takes saves") { nodes.allSatisfy(\.core.status.isSaving) }
        // Vectors have an entry for each node that has ever saved.
        for node in nodes { try save(at: node) }
        try live("all have the first saves") { isEqual }
        try live(for: Times.settling)

        begin(.rest)
        try live(for: Times.rest)
        var processor = ScaleFigures.Processor()
        processor.rest = nodes.reduce(0) { $0 + $1.spent.values.reduce(0, +) }

        begin(.saves)
        for _ in 0..<figures.saves {
            try save(at: nodes[0])
            try live(for: Times.betweenSaves)
        }
        try live("all have all saves") { isEqual }
        processor.saver = nodes[0].spent[.saves] ?? 0
        processor.appliers = nodes.dropFirst().reduce(0) { $0 + ($1.spent[.saves] ?? 0) }
        return (figures, processor)
    }

    private func begin(_ phase: Phase) {
        self.phase = phase
        for node in nodes { node.reset() }
    }

    private func close() {
        // What was still to come holds this cluster, which holds it.
        queue = EventQueue()
        for node in nodes { node.close() }
    }
}

// MARK: - Time

extension ScaleCluster {
    private func after(_ microseconds: UInt64, _ action: @escaping () -> Void) {
        queue.add(at: self.microseconds + microseconds, action)
    }

    private func setTime(_ microseconds: UInt64) {
        self.microseconds = microseconds
        for node in nodes {
            node.machine.clock.set(SimulatedClock.beginning + microseconds / 1_000)
        }
    }

    private func live(for milliseconds: UInt64) throws {
        let end = microseconds + milliseconds * 1_000
        while let next = queue.nextMicroseconds, next <= end {
            guard let (time, action) = queue.takeFirst() else { break }
            if time > microseconds { setTime(time) }
            action()
            if let failure { throw failure }
        }
        setTime(end)
    }

    /// Lives until something holds.
    private func live(_ what: String, until holds: () -> Bool) throws {
        let limit = microseconds + Times.patience * 1_000
        while !holds() {
            guard microseconds < limit else {
                throw Failure(description: "After \(Times.patience) ms not yet: \(what).")
            }
            try live(for: 50)
        }
    }

    private func tick(_ node: ScaleNode) {
        after(Times.tickMicroseconds + UInt64.random(in: 0...10_000, using: &generator)) {
            [self] in
            let wall = node.machine.clock.wallMilliseconds
            feed(.tick(wallMilliseconds: wall, awaited: []), node, .time)
            node.spend(.time) { $0.look() }
            tick(node)
        }
    }
}

// MARK: - What nodes do

extension ScaleCluster {
    private var isEqual: Bool {
        nodes.allSatisfy { $0.core.state.vector == nodes[0].core.state.vector }
    }

    /// Saves one new object.
    private func save(at node: ScaleNode) throws {
        guard let entity = Self.model.entity(named: "Item") else { return }
        inserted += 1
        let values: [(position: Int, value: PropertyValue)] = [
            (0, .integer(inserted)), (1, .string("Item \(inserted)")),
            (2, .string("a short note, \(inserted)")), (3, .double(Double(inserted) * 1.0625)),
        ]
        let request = SaveRequest(operations: [
            SaveOperation(kind: .insert, entity: entity, row: RowID(-1), values: values)
        ])
        let results = node.spend(.saves) { $0.store.coordinator.saveTogether([request]) }
        for result in results { _ = try result.get() }
        for notice in takeNotices(node) {
            feed(.committed(notice.transactions, StoreState(notice)), node, .saves)
        }
    }

    private func takeNotices(_ node: ScaleNode) -> [CommitNotice] {
        node.mailbox.notices.withLock { notices in
            defer { notices = [] }
            return notices
        }
    }

    private func feed(_ input: NodeInput, _ node: ScaleNode, _ purpose: ScaleNode.Purpose) {
        let now = microseconds / 1_000
        let actions = node.spend(purpose) { node in
            node.core.handle(input, now: now) + node.core.settleSending(now: now)
        }
        for action in actions { carryOut(action, node) }
    }

    private func carryOut(_ action: NodeAction, _ node: ScaleNode) {
        switch action {
        case .publish(let bytes):
            send(bytes, from: node, to: nodes.filter { $0 !== node }, .publish)
        case .send(let bytes, let peer):
            send(
                bytes, from: node, to: [nodes[Int(peer.rawValue) - 1]], .exchange,
                isQuestion: true)
            node.core.noteSending(to: peer, isSent: true)
        case .reply(let bytes, let peer):
            send(bytes, from: node, to: [nodes[Int(peer.rawValue) - 1]], .exchange)
        case .set(let setting): setting.set(in: node.store.coordinator)
        case .perform(let job, let delay): after(delay * 1_000) { [self] in perform(job, node) }
        case .tell(.alarm(let alarm)): fail(node, "raises the alarm \(alarm)")
        case .end(let ending): fail(node, "ends: \(ending)")
        case .connect, .tell: break
        }
    }

    private func perform(_ job: StoreJob, _ node: ScaleNode) {
        let purpose: ScaleNode.Purpose
        switch job {
        case .apply, .readLog: purpose = .saves
        default: purpose = .time
        }
        node.spend(purpose) { node in
            node.store.perform(job) { [mailbox = node.mailbox] result in
                mailbox.answers.withLock { $0.append(result) }
            }
        }
        // The core has what others saved from the answer.
        _ = takeNotices(node)
        let answers = node.mailbox.answers.withLock { answers in
            defer { answers = [] }
            return answers
        }
        for result in answers { feed(.answered(job, result), node, purpose) }
    }

    private func fail(_ node: ScaleNode, _ what: String) {
        failure = Failure(description: "Node \(node.machine.number + 1) \(what).")
    }

    // MARK: Frames

    private func send(
        _ bytes: [UInt8], from sender: ScaleNode, to receivers: [ScaleNode], _ channel: Channel,
        isQuestion: Bool = false
    ) {
        let purpose = Self.purpose(of: bytes)
        for receiver in receivers {
            let frame = SimulatedNetwork.Frame(
                from: sender.machine.number, to: receiver.machine.number,
                sender: sender.machine.number + 1, channel: channel, isQuestion: isQuestion,
                bytes: bytes, senderLife: 1, receiverLife: 1)
            guard case .arrives(let times) = network.send(frame, now: microseconds, &generator)
            else { continue }
            if phase == .saves, purpose == .saves {
                if sender === nodes[0] {
                    figures.saver.add(bytes)
                } else {
                    figures.others.add(bytes)
                }
            }
            for time in times {
                queue.add(at: time) { [self] in deliver(frame, to: receiver, purpose) }
            }
        }
    }

    private func deliver(
        _ frame: SimulatedNetwork.Frame, to node: ScaleNode, _ purpose: ScaleNode.Purpose
    ) {
        if phase == .rest { figures.rest.add(frame.bytes) }
        if phase == .saves, purpose == .saves, node !== nodes[0] {
            figures.appliers.add(frame.bytes)
        }
        feed(
            .frame(
                frame.bytes, from: NodeID(frame.sender), over: frame.channel,
                isQuestion: frame.isQuestion), node, purpose)
    }

    /// What a frame is sent for: where nodes stand is told each second, whatever they save.
    private static func purpose(of bytes: [UInt8]) -> ScaleNode.Purpose {
        switch try? Envelope.decode(bytes, cluster: World.cluster).message {
        case .heads, .hello: .time
        default: .saves
        }
    }
}
