/// The coming events of the virtual world, in order of time; at one moment in the order in which
/// they were asked for. One thread, no waiting: time is whatever the next event says.
struct EventQueue {
    private struct Entry {
        var microseconds: UInt64
        var number: UInt64
        var action: () -> Void

        func isBefore(_ other: Entry) -> Bool {
            microseconds == other.microseconds
                ? number < other.number : microseconds < other.microseconds
        }
    }

    /// A binary heap: no parent comes after its children.
    private var heap: [Entry] = []
    private var issued: UInt64 = 0

    /// Adds an action.
    mutating func add(at microseconds: UInt64, _ action: @escaping () -> Void) {
        issued += 1
        heap.append(Entry(microseconds: microseconds, number: issued, action: action))
        var child = heap.count - 1
        while child > 0 {
            let parent = (child - 1) / 2
            guard heap[child].isBefore(heap[parent]) else { break }
            heap.swapAt(child, parent)
            child = parent
        }
    }

    /// When the next action is due; nil where there is none.
    var nextMicroseconds: UInt64? { heap.first?.microseconds }

    /// Takes the next action.
    mutating func takeFirst() -> (microseconds: UInt64, action: () -> Void)? {
        guard let first = heap.first else { return nil }
        let last = heap.removeLast()
        if !heap.isEmpty {
            heap[0] = last
            var parent = 0
            while true {
                let left = 2 * parent + 1
                guard left < heap.count else { break }
                let right = left + 1
                let child =
                    right < heap.count && heap[right].isBefore(heap[left]) ? right : left
                guard heap[child].isBefore(heap[parent]) else { break }
                heap.swapAt(child, parent)
                parent = child
            }
        }
        return (first.microseconds, first.action)
    }
}
