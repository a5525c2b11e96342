import Merge
import Testing

@Suite("Register")
struct RegisterTests {
    private func sibling(_ number: Int, _ sequence: UInt64, at time: UInt64) -> Sibling<Int> {
        Sibling(stamp: stamp(number, sequence, at: time), value: number)
    }

    @Test("A write removes what it has seen and nothing else, whatever their stamps")
    func appliesTheRule() {
        var register = Register(siblings: [sibling(1, 1, at: 5), sibling(2, 1, at: 9)])
        register.apply(sibling(3, 1, at: 7), seen: vector([2: 1]))
        #expect(register.siblings.map(\.value) == [1, 3])
        register.apply(sibling(4, 1, at: 1), seen: VersionVector())
        #expect(register.siblings.map(\.value) == [4, 1, 3])
        register.apply(sibling(5, 1, at: 2), seen: vector([1: 1, 2: 1, 3: 1, 4: 1]))
        #expect(register.siblings.map(\.value) == [5])
    }

    @Test("A register restored in another order is the same value")
    func restoredInAnyOrder() {
        let siblings = [sibling(1, 1, at: 5), sibling(2, 1, at: 9), sibling(3, 1, at: 7)]
        #expect(Register(siblings: siblings) == Register(siblings: siblings.reversed()))
        #expect(Register(siblings: siblings).visible(.earliest)?.value == 1)
        #expect(Register(siblings: siblings).visible(.latest)?.value == 2)
        #expect(Register<Int>().visible(.latest) == nil)
    }

    @Test("Applying a sibling again changes nothing")
    func isIdempotent() {
        var register = Register(sibling(1, 1, at: 5))
        register.apply(sibling(2, 1, at: 4), seen: VersionVector())
        let before = register
        register.apply(sibling(2, 1, at: 4), seen: VersionVector())
        register.apply(sibling(1, 1, at: 5), seen: VersionVector())
        #expect(register == before)
    }

    @Test("Only siblings that differ in value are a conflict")
    func conflict() {
        let first = Sibling(stamp: stamp(1, 1, at: 1), value: PropertyValue.double(.nan))
        let same = Sibling(stamp: stamp(2, 1, at: 2), value: PropertyValue.double(-.nan))
        let other = Sibling(stamp: stamp(3, 1, at: 3), value: PropertyValue.double(0))
        #expect(!Register(first).isInConflict)
        #expect(!Register(siblings: [first, same]).isInConflict)
        #expect(Register(siblings: [first, same, other]).isInConflict)
    }
}
