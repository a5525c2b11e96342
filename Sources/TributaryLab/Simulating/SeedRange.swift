// Seeds and events as people write them. Values only; usable from any thread.

import Console
import Foundation

/// An unbroken run of seeds.
struct SeedRange: Hashable, Sendable {
    var first: UInt64
    var last: UInt64

    /// Reads `FIRST...LAST`, or one number.
    static func parse(_ text: String) throws -> SeedRange {
        let failure = CommandFailure.usage(
            "\(text) is no range: write FIRST...LAST, such as 1...1000.")
        guard let dots = text.range(of: "...") else {
            guard let seed = UInt64(text) else { throw failure }
            return SeedRange(first: seed, last: seed)
        }
        guard let first = UInt64(text[..<dots.lowerBound]),
            let last = UInt64(text[dots.upperBound...]), first <= last, last < .max
        else { throw failure }
        return SeedRange(first: first, last: last)
    }

    var text: String { "\(first)...\(last)" }
}

/// Places of events in a plan.
enum EventList {
    /// Reads `0,3,5-9`.
    static func parse(_ text: String) throws -> [Int] {
        var places: [Int] = []
        for part in text.split(separator: ",", omittingEmptySubsequences: true) {
            let ends = part.split(separator: "-", omittingEmptySubsequences: false)
                .map { Int($0) }
            guard (1...2).contains(ends.count), let first = ends[0],
                let last = ends[ends.count - 1], first <= last, last < 100_000
            else { throw CommandFailure.usage("\(text) is no list of events, such as 0,3,5-9.") }
            places += first...last
        }
        return places
    }

    /// What ``parse(_:)`` reads.
    static func text(_ places: [Int]) -> String {
        var parts: [String] = []
        var index = 0
        while index < places.count {
            var end = index
            while end + 1 < places.count, places[end + 1] == places[end] + 1 { end += 1 }
            parts.append(
                end == index ? "\(places[index])" : "\(places[index])-\(places[end])")
            index = end + 1
        }
        return parts.joined(separator: ",")
    }
}
