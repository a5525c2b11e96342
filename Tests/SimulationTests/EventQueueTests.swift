import Testing

@testable import Simulation

@Suite("The event queue")
struct EventQueueTests {
    @Test("Events come by time, and at one moment in the order asked for")
    func order() {
        var queue = EventQueue()
        let heard = Heard()
        let times: [UInt64] = [5, 1, 5, 3, 1, 9, 0, 5]
        for (number, time) in times.enumerated() {
            queue.add(at: time) { heard.list.append(number) }
        }
        var last: UInt64 = 0
        while let (time, action) = queue.takeFirst() {
            #expect(time >= last)
            last = time
            action()
        }
        #expect(heard.list == [6, 1, 4, 3, 0, 2, 7, 5])
        #expect(queue.nextMicroseconds == nil)
    }

    private final class Heard { var list: [Int] = [] }
}
