/// Some of a series whose length nobody knows beforehand, spread evenly over all of it.
///
/// Which elements are kept depends on their places alone. Invariants: there are never more than the
/// capacity, the first is always kept, and all are equally far apart.
struct EvenSample<Element: Sendable>: Sendable {
    /// The most that are kept; even, so that what is thinned out goes on in step.
    let capacity: Int
    private(set) var elements: [Element] = []
    /// How long the series is.
    private(set) var count = 0
    private var distance = 1

    init(capacity: Int) {
        precondition(capacity > 0 && capacity.isMultiple(of: 2))
        self.capacity = capacity
    }

    mutating func append(_ element: Element) {
        defer { count += 1 }
        if elements.count == capacity {
            elements = stride(from: 0, to: capacity, by: 2).map { elements[$0] }
            distance *= 2
        }
        if count.isMultiple(of: distance) { elements.append(element) }
    }
}
