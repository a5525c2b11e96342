import Coordinator
import Foundation
import Merge
import Node

/// Edits a note on a scratch pad, a child context with undo and validation, while another node saves the
/// same note. Shows what the merge did to the edit. Fails if anything is not as it says.
@main
struct ScratchPad {
    private struct Unexpected: Error, CustomStringConvertible { let description: String }

    private static func show(_ what: String, _ found: String, is expected: String) throws {
        print("\(what.padding(toLength: 34, withPad: " ", startingAt: 0)) \(found)")
        if found != expected { throw Unexpected(description: "\(what): \(found), not \(expected)") }
    }

    static func main() async {
        do {
            guard CommandLine.arguments.count == 1 else {
                throw Unexpected(description: "usage: scratch-pad")
            }
            let folder = FileManager.default.temporaryDirectory
                .appendingPathComponent("scratch-pad-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: folder) }
            let pair = try NodePair(in: folder.path, model: Note.model)
            try await pair.run { one, two in try await edit(on: one, beside: two) }
        } catch {
            FileHandle.standardError.write(Data("scratch-pad: \(error)\n".utf8))
            exit(1)
        }
    }

    private static func edit(
        on one: PersistentStoreCoordinator, beside two: PersistentStoreCoordinator
    ) async throws {
        let classes = ["Note": Note.self]
        let list = ManagedObjectContext(one, classes: classes)
        list.automaticallyMergesChangesFromParent = true
        let id = try await list.perform {
            let note = list.insert(Note.self)
            (note.title, note.text) = ("Shopping", "Milk")
            try list.save()
            return note.objectID
        }
        try await two.waitUntilCovered(try one.currentToken.versionVector, timeout: .seconds(30))

        let pad = ManagedObjectContext(parent: list)
        pad.automaticallyMergesChangesFromParent = true
        try await pad.perform {
            pad.undoManager = UndoManager()
            let note = try edited(id, in: pad)
            note.title = "Shoping"
            pad.processPendingChanges()
            note.title = "   "
            pad.processPendingChanges()
            do {
                try pad.save()
                throw Unexpected(description: "A note without a title was saved.")
            } catch let error as CoordinatorError {
                try show(
                    "the pad refuses a blank title:", "\(error.number) \(error.message)",
                    is: "5001 A note needs a title.")
            }
            pad.undo()
            try show("one undo:", note.title ?? "-", is: "Shoping")
            pad.undo()
            try show("another undo:", note.title ?? "-", is: "Shopping")
            pad.redo()
            note.title = " Shopping   for Sunday "
        }
        try show("the list meanwhile:", try await title(id, in: list), is: "Shopping")

        // Made before the other node saves, so that it misses nothing.
        var changes = pad.objectChanges.makeAsyncIterator()
        let other = ManagedObjectContext(two, classes: classes)
        try await other.perform {
            let note = try edited(id, in: other)
            (note.title, note.text) = ("Groceries", "Milk and bread")
            try other.save()
        }
        try await one.waitUntilCovered(try two.currentToken.versionVector, timeout: .seconds(30))
        // The list merges the commit on its queue, and then the pad on its own.
        await list.perform {}
        while let change = await changes.next() {
            if change.refreshed.contains(id) || change.missed > 0 { break }
        }
        try show("node 2 saved, the list shows:", try await title(id, in: list), is: "Groceries")
        try await pad.perform {
            let note = try edited(id, in: pad)
            try show(
                "the edit under way keeps its title:", note.title ?? "-",
                is: " Shopping   for Sunday ")
            try show("and took the new text:", note.text ?? "-", is: "Milk and bread")
            try pad.save()
        }
        try await list.perform { try list.save() }
        try await two.waitUntilCovered(try one.currentToken.versionVector, timeout: .seconds(30))
        for (name, coordinator) in [("node 1", one), ("node 2", two)] {
            let reader = ManagedObjectContext(coordinator, classes: classes)
            let shown = try await reader.perform {
                let note = try edited(id, in: reader)
                return "\(note.title ?? "-"): \(note.text ?? "-")"
            }
            try show("saved, \(name) shows:", shown, is: "Shopping for Sunday: Milk and bread")
        }
    }

    private static func edited(
        _ id: ManagedObjectID, in context: ManagedObjectContext
    ) throws -> Note {
        guard let note = try context.existingObject(with: id) as? Note else {
            throw Unexpected(description: "\(id) is no note.")
        }
        return note
    }

    private static func title(
        _ id: ManagedObjectID, in context: ManagedObjectContext
    ) async throws -> String {
        try await context.perform { try edited(id, in: context).title ?? "-" }
    }
}
