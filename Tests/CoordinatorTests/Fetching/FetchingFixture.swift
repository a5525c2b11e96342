import GRDB
import Merge
import TestSupport

@testable import Coordinator

/// A small world: people with friends, pets and managers, in SQLite and in memory.
struct FetchingFixture {
    static func model() throws -> ManagedObjectModel {
        try ManagedObjectModel(entities: [
            EntityDescription(
                "Person",
                attributes: [
                    .init("name", .string), .init("age", .integer64), .init("weight", .double),
                    .init("ratio", .float), .init("balance", .decimal), .init("born", .date),
                    .init("isMember", .boolean), .init("token", .uuid), .init("home", .uri),
                    .init("photo", .binary), .init("mood", .string, isTransient: true),
                ],
                relationships: [
                    .init("manager", to: "Person", inverse: "reports"),
                    .init("reports", to: "Person", inverse: "manager", isToMany: true),
                    .init("groups", to: "Group", inverse: "members", isToMany: true),
                    .init("pets", to: "Animal", inverse: "owner", isToMany: true),
                    .init("desk", to: "Desk", inverse: "user"),
                ]),
            EntityDescription("Employee", parent: "Person", attributes: [.init("title", .string)]),
            EntityDescription(
                "Group", attributes: [.init("label", .string)],
                relationships: [.init("members", to: "Person", inverse: "groups", isToMany: true)]),
            EntityDescription(
                "Animal", attributes: [.init("name", .string), .init("age", .integer16)],
                relationships: [.init("owner", to: "Person", inverse: "pets")]),
            EntityDescription(
                "Desk", attributes: [.init("place", .string)],
                relationships: [.init("user", to: "Person", inverse: "desk")]),
        ])
    }

    static let codes = EntityCodes(["Person": 1, "Employee": 2, "Group": 3, "Animal": 4, "Desk": 5])

    /// What `now()` is.
    static let now: @Sendable () -> Int64 = { 1_769_860_800_500 }

    let model: ManagedObjectModel
    let world: World
    let queue: DatabaseQueue

    /// Fills the world at random.
    init(seed: UInt64, people: Int = 14) throws {
        var choices = SeededGenerator(seed: seed)
        model = try Self.model()
        world = World(model: model)
        let names = [
            "Ada", "ada", "Ädä", "Bob", "Bobby", "", "élan", "ELAN", "straße", "STRASSE", "a*b",
            "x\u{0}y", "\u{10FFFF}", "\u{D7FF}z", "O'Neil", "50%", "a\\b", "日本", "e\u{301}",
        ]
        let decimals = ["0", "1", "-1", "10", "9.5", "9.50001", "-9.5", "123456789012345678901"]
        for number in 1...people {
            let row = world.insert(choices.chance(30) ? "Employee" : "Person", Int64(number * 7))
            func set(_ name: String, _ value: PropertyValue) {
                row.values[name] = choices.chance(20) ? .null : value
            }
            set("name", .string(choices.pick(names)))
            set("age", .integer(choices.pick([0, 1, 17, 18, 40, -3, .max, .min])))
            set(
                "weight",
                .double(
                    choices.pick([
                        0, -0.0, 1.5, 17, .nan, .infinity, -.infinity, .leastNonzeroMagnitude,
                    ])))
            set("ratio", .double(Double(choices.pick([Float(0.1), 0.5, .nan, 3]))))
            set("balance", .decimal(choices.pick(decimals)))
            set("born", .date(choices.pick([0, 1_000, -1_000, 1_769_860_800_000])))
            set("isMember", .boolean(choices.chance(50)))
            set(
                "token",
                .uuid(choices.pick([0, 1, .max]), choices.pick([0, 0xA000_0000_0000_0000])))
            set("home", .uri(choices.pick(["http://a", "http://b", "HTTP://A"])))
            set("photo", .binary(choices.pick([[], [0], [255], [1, 2, 3]])))
        }
        for number in 1...6 {
            let animal = world.insert("Animal", Int64(1_000 + number))
            animal.values["name"] = .string(choices.pick(["Rex", "Ada", "Kitty"]))
            animal.values["age"] = choices.chance(30) ? .null : .integer(choices.pick([1, 5, 18]))
            world.insert("Group", Int64(2_000 + number)).values["label"] =
                .string(choices.pick(["red", "Blue", "Bob"]))
            world.insert("Desk", Int64(3_000 + number)).values["place"] =
                .string(choices.pick(["hall", "attic"]))
        }
        let persons = world.rows(of: "Person")
        var desks = world.rows(of: "Desk")
        for person in persons {
            if choices.chance(60) { person.references["manager"] = choices.pick(persons) }
            if choices.chance(50), let desk = desks.popLast() {
                desk.references["user"] = person
            }
        }
        for animal in world.rows(of: "Animal") where choices.chance(80) {
            animal.references["owner"] = choices.pick(persons)
        }
        for group in world.rows(of: "Group") {
            for person in persons where choices.chance(25) {
                world.links.append((group.row.rawValue, person.row.rawValue, choices.chance(80)))
            }
        }
        queue = try DatabaseQueue()
        try store()
    }

    /// A world that is filled by hand.
    init(_ fill: (World) -> Void) throws {
        model = try Self.model()
        world = World(model: model)
        fill(world)
        queue = try DatabaseQueue()
        try store()
    }

    /// Writes the world into tables of the store's layout.
    private func store() throws {
        try queue.write { database in
            PredicateFunctions.register(on: database)
            for root in ["Person", "Group", "Animal", "Desk"] {
                let family = world.objects.filter { model.entity(named: $0.entity)?.root == root }
                var columns: [String] = []
                for entity in model.entities where entity.root == root {
                    for property in entity.properties where !columns.contains(property.name) {
                        columns.append(property.name)
                    }
                }
                let shared = model.entity(named: root)?.sharesTable == true
                let definitions = columns.map { "\"\($0)\"" }.joined(separator: ", ")
                try database.execute(
                    sql: "CREATE TABLE \"\(root)\" (_id INTEGER PRIMARY KEY"
                        + (shared ? ", _entity INTEGER" : "") + ", \(definitions))")
                for object in family {
                    var cells: [String] = [String(object.row.rawValue)]
                    if shared { cells.append(String(Self.codes.code(object.entity))) }
                    for column in columns {
                        if let target = object.references[column] {
                            cells.append(String(target.row.rawValue))
                        } else {
                            cells.append(Self.literal(object.values[column] ?? .null))
                        }
                    }
                    try database.execute(
                        sql: "INSERT INTO \"\(root)\" VALUES (\(cells.joined(separator: ", ")))")
                }
            }
            try database.execute(
                sql: "CREATE TABLE \"Group.members\" (source INTEGER, target INTEGER, "
                    + "_alive INTEGER, PRIMARY KEY (source, target))")
            for (source, target, isAlive) in world.links {
                try database.execute(
                    sql: "INSERT INTO \"Group.members\" VALUES (\(source), \(target), "
                        + "\(isAlive ? 1 : 0))")
            }
        }
    }

    /// A value as an SQL literal of the store's layout, exact to the byte.
    static func literal(_ value: PropertyValue) -> String {
        func text(_ text: String) -> String { "CAST(\(blob(Array(text.utf8))) AS TEXT)" }
        func blob(_ bytes: [UInt8]) -> String {
            "x'" + bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined() + "'"
        }
        switch value {
        case .null: return "NULL"
        case .boolean(let truth): return truth ? "1" : "0"
        case .integer(let number), .date(let number):
            return number == .min ? "(-9223372036854775807 - 1)" : String(number)
        case .double(let number):
            if number.isNaN { return "x'7FF8000000000000'" }
            if number.isInfinite { return number < 0 ? "-9e999" : "9e999" }
            return number.description
        case .decimal(let string), .string(let string), .uri(let string): return text(string)
        case .binary(let bytes): return blob(bytes)
        case .uuid(let first, let last): return text(ValueText.uuid(first, last))
        case .reference(let row): return String(row.rawValue)
        }
    }

    /// Puts bindings into a statement, so that texts with zero characters arrive whole.
    static func bound(_ compiled: CompiledFetch) -> String {
        var parts = compiled.sql.split(separator: "?", omittingEmptySubsequences: false)
        var result = String(parts.removeFirst())
        for (part, binding) in zip(parts, compiled.bindings) { result += literal(binding) + part }
        precondition(parts.count == compiled.bindings.count)
        return result
    }

    /// The first column of what a fetch gives.
    func rows(_ request: Coordinator.FetchRequest) throws -> [Int64] {
        let compiled = try FetchCompiler(
            model: model, codes: Self.codes, cluster: "demo", now: Self.now
        ).compile(request)
        return try queue.read { try Int64.fetchAll($0, sql: Self.bound(compiled)) }
    }
}

/// Objects in memory.
final class World {
    final class Object: PredicateSubject {
        let entity: String
        let row: RowID
        unowned let world: World
        var values: [String: PropertyValue] = [:]
        var references: [String: Object] = [:]

        init(_ entity: String, _ row: RowID, _ world: World) {
            self.entity = entity
            self.row = row
            self.world = world
        }

        var predicateRow: RowID { row }
        var predicateEntity: String? { entity }
        func predicateValue(ofAttribute name: String) -> PropertyValue { values[name] ?? .null }
        func predicateTarget(ofToOne name: String) -> Object? {
            name == "desk"
                ? world.rows(of: "Desk").first { $0.references["user"] === self }
                : references[name]
        }
        func predicateTargets(ofToMany name: String) -> [Object] {
            switch name {
            case "reports": world.objects.filter { $0.references["manager"] === self }
            case "pets": world.objects.filter { $0.references["owner"] === self }
            case "groups":
                world.objects(world.links.compactMap { $0.1 == row.rawValue && $0.2 ? $0.0 : nil })
            default:
                world.objects(world.links.compactMap { $0.0 == row.rawValue && $0.2 ? $0.1 : nil })
            }
        }
    }

    let model: ManagedObjectModel
    var objects: [Object] = []
    var links: [(Int64, Int64, Bool)] = []

    init(model: ManagedObjectModel) { self.model = model }

    @discardableResult
    func insert(_ entity: String, _ row: Int64) -> Object {
        let object = Object(entity, RowID(row), self)
        objects.append(object)
        return object
    }

    fileprivate func objects(_ rows: [Int64]) -> [Object] {
        rows.compactMap { row in objects.first { $0.row.rawValue == row } }
    }

    func rows(of entity: String) -> [Object] {
        let family = model.entity(named: entity)?.familyNames ?? []
        return objects.filter { family.contains($0.entity) }
    }
}
