import Coordinator
import Merge
import TestSupport
import Testing

/// A chain of contexts does what one context does: the same random changes are made in the innermost of
/// four and in a single one, and what they show and save is the same.
@Suite struct NestedDifferentialTests {
    @Test("Four contexts, one in another, show and save what a single one does", arguments: 1...16)
    func sameAsOne(seed: Int) throws {
        var random = SeededGenerator(seed: UInt64(seed))
        let (chainStore, flatStore) = (try TestStore(), try TestStore())
        let chain = Chain(chainStore)
        let flat = GraphSide(flatStore.context())
        let inner = GraphSide(chain.contexts[3])
        var names: [String] = []
        for step in 0..<60 {
            let change = GraphChange.random(step, names, &random)
            if case .insert(_, let name) = change { names.append(name) }
            flat.make(change)
            inner.make(change)
            if Int.random(in: 0..<4, using: &random) == 0 {
                try chain.push(from: Int.random(in: 1...3, using: &random))
            }
            if step % 20 == 19 {
                try chain.push(from: 3)
                try chain.contexts[0].performAndWait { try chain.contexts[0].save() }
                try flat.context.performAndWait { try flat.context.save() }
            }
            if step % 5 == 4 {
                let (expected, found) = (try flat.picture(), try inner.picture())
                #expect(found == expected, "seed \(seed), step \(step)")
            }
        }
        let (expected, found) = (
            try GraphSide(flatStore.context()).picture(),
            try GraphSide(chainStore.context()).picture()
        )
        #expect(found == expected, "seed \(seed), in the store")
    }

    /// A root and three contexts, one in another.
    private struct Chain {
        let contexts: [ManagedObjectContext]

        init(_ store: TestStore) {
            var contexts = [store.context()]
            for depth in 1...3 {
                contexts.append(ManagedObjectContext(parent: contexts[depth - 1]))
            }
            self.contexts = contexts
        }

        /// Saves into the parents, from an inner one outwards.
        func push(from depth: Int) throws {
            for context in contexts[1...depth].reversed() {
                try context.performAndWait { try context.save() }
            }
        }
    }
}
