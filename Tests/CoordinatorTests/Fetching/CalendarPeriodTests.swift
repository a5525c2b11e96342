import Foundation
import Merge
import TestSupport
import Testing

@testable import Coordinator

/// Periods of dates: in predicates, and as keys of dictionary fetches.
@Suite("Periods of the calendar")
struct CalendarPeriodTests {
    private static func date(_ text: String) throws -> Int64 {
        guard case .date(let milliseconds) = PropertyValue(text: text, type: .date) else {
            throw CocoaError(.formatting)
        }
        return milliseconds
    }

    @Test(
        "A period begins where the calendar says",
        arguments: [
            ("hour", "2024-02-29T23:59:59.999Z", "2024-02-29T23:00:00.000Z"),
            ("hour", "1969-12-31T23:59:59.999Z", "1969-12-31T23:00:00.000Z"),
            ("day", "1970-01-01T00:00:00.000Z", "1970-01-01T00:00:00.000Z"),
            ("day", "1969-12-31T23:59:59.999Z", "1969-12-31T00:00:00.000Z"),
            ("day", "1600-02-29T12:00:00.000Z", "1600-02-29T00:00:00.000Z"),
            // The 1st of January 1970 was a Thursday, and that of 2021 a Friday of the year before.
            ("week", "1970-01-01T00:00:00.000Z", "1969-12-29T00:00:00.000Z"),
            ("week", "1969-12-28T23:59:59.999Z", "1969-12-22T00:00:00.000Z"),
            ("week", "2021-01-01T10:00:00.000Z", "2020-12-28T00:00:00.000Z"),
            ("week", "2024-12-30T00:00:00.000Z", "2024-12-30T00:00:00.000Z"),
            ("month", "2024-02-29T23:59:59.999Z", "2024-02-01T00:00:00.000Z"),
            ("month", "2023-03-01T00:00:00.000Z", "2023-03-01T00:00:00.000Z"),
            ("month", "1900-03-01T00:00:00.000Z", "1900-03-01T00:00:00.000Z"),
            ("month", "1900-02-28T23:00:00.000Z", "1900-02-01T00:00:00.000Z"),
            ("month", "2000-02-29T23:00:00.000Z", "2000-02-01T00:00:00.000Z"),
            ("quarter", "2024-03-31T23:59:59.999Z", "2024-01-01T00:00:00.000Z"),
            ("quarter", "1968-12-31T00:00:00.000Z", "1968-10-01T00:00:00.000Z"),
            ("year", "2024-12-31T23:59:59.999Z", "2024-01-01T00:00:00.000Z"),
            ("year", "1968-02-29T00:00:00.000Z", "1968-01-01T00:00:00.000Z"),
            ("year", "0004-02-29T00:00:00.000Z", "0004-01-01T00:00:00.000Z"),
        ])
    func begins(_ name: String, _ date: String, _ expected: String) throws {
        let period = try #require(PredicateFunction(rawValue: "\(name):")?.period)
        let start = try #require(period.start(of: try Self.date(date), offset: 0))
        #expect(ValueText.date(start) == expected)
        #expect(period.start(of: start, offset: 0) == start)
        #expect(period.start(of: start - 1, offset: 0) != start)
    }

    @Test("With an offset it begins where a clock ahead of UTC says")
    func offsets() throws {
        let date = try Self.date("2024-12-31T23:30:00.000Z")
        let start = try #require(CalendarPeriod.year.start(of: date, offset: 60))
        #expect(ValueText.date(start) == "2024-12-31T23:00:00.000Z")
        let west = try #require(CalendarPeriod.hour.start(of: date, offset: -90))
        #expect(ValueText.date(west) == "2024-12-31T23:30:00.000Z")
        #expect(CalendarPeriod.day.start(of: date, offset: 1_081) == nil)
    }

    @Test("What 64 bits do not hold is null, and nothing traps")
    func extremes() {
        for period in CalendarPeriod.allCases {
            for offset: Int64 in [-1_080, 0, 1_080] {
                for date in [Int64.min, .min + 70_000_000, .max, .max - 70_000_000] {
                    guard let start = period.start(of: date, offset: offset) else { continue }
                    #expect(start <= date)
                }
            }
            #expect(period.start(of: .max, offset: 0) != nil)
        }
        #expect(CalendarPeriod.year.start(of: .min, offset: 0) == nil)
    }

    @Test("It agrees with Foundation's calendar")
    func foundation() throws {
        var calendar = Calendar(identifier: .iso8601)
        let components: [(CalendarPeriod, Calendar.Component)] = [
            (.hour, .hour), (.day, .day), (.week, .weekOfYear), (.month, .month), (.year, .year),
        ]
        var choices = SeededGenerator(seed: 7)
        let first = try Self.date("1600-01-01T00:00:00.000Z")
        let span = UInt64(try Self.date("2400-01-01T00:00:00.000Z") - first)
        for offset in [0, 60, -570] {
            calendar.timeZone = try #require(TimeZone(secondsFromGMT: offset * 60))
            for _ in 0..<300 {
                let date = first + Int64(choices.next() % span)
                for (period, component) in components {
                    let interval = calendar.dateInterval(
                        of: component, for: Date(timeIntervalSince1970: Double(date) / 1_000))
                    let expected = interval.map { $0.start.timeIntervalSince1970 * 1_000 }
                    let start = period.start(of: date, offset: Int64(offset))
                    #expect(start.map(Double.init) == expected, "\(component) of \(date)")
                }
            }
        }
    }

    // MARK: Fetches

    /// Sales around 1970 and leap days, by shops.
    private func sales(_ count: Int, seed: UInt64) throws -> (TestStore, ManagedObjectContext) {
        let model = try ManagedObjectModel(entities: [
            EntityDescription(
                "Sale", attributes: [.init("time", .date), .init("amount", .integer64)],
                relationships: [.init("shop", to: "Shop", inverse: "sales")]),
            EntityDescription(
                "Shop", attributes: [.init("opened", .date)],
                relationships: [.init("sales", to: "Sale", inverse: "shop", isToMany: true)]),
        ])
        let store = try TestStore(model)
        var choices = SeededGenerator(seed: seed)
        let starts = try ["1969-12-28T", "2024-02-27T", "1900-02-27T"].map {
            try Self.date("\($0)00:00:00.000Z")
        }
        try store.save { context in
            let shops = starts.map { start in
                context.insert("Shop", ["opened": PropertyValue.date(start)])
            }
            for number in 0..<count {
                let time = choices.pick(starts) + Int64(choices.next() % (6 * 86_400_000))
                let sale = context.insert("Sale")
                sale["time"] = choices.chance(5) ? PropertyValue.null : .date(time)
                sale["amount"] = number
                sale.setRelatedObject(choices.pick(shops), forKey: "shop")
            }
        }
        return (store, store.context())
    }

    @Test("Groups by periods are those that memory makes, at any offset")
    func groups() throws {
        let (_, context) = try sales(400, seed: 3)
        try context.performAndWait {
            let all = try context.fetch(FetchRequest("Sale")).map { sale -> (Int64?, Int64) in
                let time: PropertyValue = sale["time"]
                guard case .date(let date) = time else { return (nil, sale["amount"] ?? 0) }
                return (date, sale["amount"] ?? 0)
            }
            for (name, period) in zip(
                ["hour", "day", "week", "month", "quarter", "year"], CalendarPeriod.allCases)
            {
                for offset: Int64 in [0, 60, -570] {
                    let key = offset == 0 ? "\(name)(time)" : "\(name)(time, \(offset))"
                    let request = FetchRequest(
                        "Sale", sortDescriptors: [SortDescriptor(key, ascending: false)],
                        resultType: .dictionary,
                        propertiesToFetch: [
                            .keyPath(key),
                            .aggregate(name: "total", function: .sum, keyPath: "amount"),
                        ], propertiesToGroupBy: [key])
                    var totals: [Int64: Int64] = [:]
                    for (date, amount) in all {
                        let start = date.flatMap { period.start(of: $0, offset: offset) }
                        totals[start ?? .min, default: 0] += amount
                    }
                    let expected = totals.keys.sorted(by: >).map { start -> [PropertyValue] in
                        [start == .min ? .null : .date(start), .integer(totals[start] ?? 0)]
                    }
                    let found = try context.fetchDictionaries(request)
                    #expect(found.map { $0.map(\.1) } == expected, "\(key)")
                    #expect(found.first?.map(\.0) == [key, "total"])
                }
            }
        }
    }

    @Test("Rows have periods, are sorted by them, and reach them through to-ones")
    func rows() throws {
        let (_, context) = try sales(50, seed: 4)
        try context.performAndWait {
            let key = "week(shop.opened, -60)"
            let request = FetchRequest(
                "Sale", sortDescriptors: [SortDescriptor(key), SortDescriptor("amount")],
                resultType: .dictionary, propertiesToFetch: [.keyPath(key), .keyPath("amount")])
            let rows = try context.fetchDictionaries(request).map { $0.map(\.1) }
            let expected = try context.fetch(
                FetchRequest("Sale", sortDescriptors: [SortDescriptor("amount")])
            ).map { sale -> [PropertyValue] in
                let opened: PropertyValue =
                    sale.relatedObject(forKey: "shop", as: ManagedObject.self)?["opened"] ?? .null
                guard case .date(let date) = opened,
                    let start = CalendarPeriod.week.start(of: date, offset: -60)
                else { return [] }
                return [.date(start), sale["amount"]]
            }
            #expect(rows.count == 50)
            let sorted = expected.enumerated().sorted { left, right in
                guard case .date(let first) = left.element[0],
                    case .date(let second) = right.element[0]
                else { return false }
                return (first, left.offset) < (second, right.offset)
            }.map(\.element)
            #expect(rows == sorted)
        }
    }

    @Test("Predicates ask for periods, in SQL and in memory")
    func predicates() throws {
        let (_, context) = try sales(300, seed: 5)
        try context.performAndWait {
            for format in [
                "day(time) == '2024-02-29T00:00:00.000Z'",
                "month(time) < '1970-01-01T00:00:00.000Z'",
                "week:(time, 60) IN {'1969-12-28T23:00:00.000Z', '2024-02-25T23:00:00.000Z'}",
                "year(time) == year(shop.opened)", "day(time + 3600) != day(time)",
                "hour(time) == time OR day(now()) == day(time)",
            ] {
                let predicate = try Predicate(format: format)
                let again = try Predicate(format: predicate.description)
                #expect(again.description == predicate.description)
                let all = try context.fetch(FetchRequest("Sale"))
                let evaluator = try PredicateEvaluator(
                    predicate, entity: context.entityNamed("Sale"),
                    model: context.managedObjectModel)
                let expected = try all.filter { try evaluator.matches(GraphSubject(object: $0)) }
                let found = try context.fetch(FetchRequest("Sale", predicate: predicate))
                #expect(found.map(\.objectID) == expected.map(\.objectID), "\(format)")
            }
            let count = try context.count(
                for: FetchRequest(
                    "Sale",
                    predicate: try Predicate(format: "day(time) == '2024-02-29T00:00:00.000Z'")))
            #expect(count > 0)
        }
    }

    @Test(
        "What is no period of a date is refused",
        arguments: [
            "day(amount)", "day(shop)", "day(time, 1081)", "day(time, amount)", "day()",
            "day(time, 1, 2)", "lowercase(time)", "day(time + 60)", "day(nothing)", "day(time",
            "day(now())", "day(time, 'Europe/Berlin')", "day(time) == 1",
        ])
    func refused(_ key: String) throws {
        let (_, context) = try sales(1, seed: 6)
        let request = FetchRequest(
            "Sale", resultType: .dictionary, propertiesToGroupBy: [key])
        context.performAndWait { () in
            let rows = Result { try context.fetchDictionaries(request) }
            #expect(throws: CoordinatorError.self) { _ = try rows.get() }
        }
    }
}
