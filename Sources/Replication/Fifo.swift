/// A first-in, first-out sequence whose front is taken off in constant time on average.
///
/// Downside: up to as many elements as are left stay referenced after they were taken.
struct Fifo<Element: Sendable>: Sendable {
    private var storage: [Element] = []
    private var start = 0

    var count: Int { storage.count - start }
    var isEmpty: Bool { start == storage.count }
    var first: Element? { isEmpty ? nil : storage[start] }
    var last: Element? { isEmpty ? nil : storage.last }

    /// The element at a place counted from the front; within `0..<count`.
    subscript(offset: Int) -> Element { storage[start + offset] }

    mutating func append(_ element: Element) { storage.append(element) }

    mutating func insert(_ element: Element, at offset: Int) {
        storage.insert(element, at: start + offset)
    }

    mutating func popFirst() -> Element? {
        guard start < storage.count else { return nil }
        let element = storage[start]
        start += 1
        if start == storage.count {
            storage.removeAll(keepingCapacity: start <= 64)
            start = 0
        } else if start >= 32, start * 2 >= storage.count {
            storage.removeFirst(start)
            start = 0
        }
        return element
    }

    mutating func popLast() -> Element? { isEmpty ? nil : storage.removeLast() }
}
