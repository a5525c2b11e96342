import Merge
import TestSupport
import Testing

@testable import Coordinator

/// Sorting by `localizedStandard`: the order of a language, the same in SQL, in memory and by kept keys.
@Suite("Sorting in the order of a language")
struct CollationTests {
    private static func sorted(_ texts: [String], _ locale: String) throws -> [String] {
        let collation = try #require(Collation(locale))
        return texts.sorted {
            collation.key(of: $0).lexicographicallyPrecedes(collation.key(of: $1))
        }
    }

    @Test("Each language has its own alphabet")
    func alphabets() throws {
        let names = ["Zebra", "Ärzte", "Apfel", "Öl", "Åsa", "Ost", "ärger", "zu"]
        #expect(
            try Self.sorted(names, "de")
                == ["Apfel", "ärger", "Ärzte", "Åsa", "Öl", "Ost", "Zebra", "zu"])
        #expect(
            try Self.sorted(names, "sv_SE")
                == ["Apfel", "Ost", "Zebra", "zu", "Åsa", "ärger", "Ärzte", "Öl"])
        #expect(try Self.sorted(["ch", "c", "d", "h", "i"], "cs") == ["c", "d", "h", "ch", "i"])
        #expect(try Self.sorted(["ch", "c", "d", "h"], "") == ["c", "ch", "d", "h"])
    }

    @Test("Numbers in texts compare by their value, letters before case")
    func order() throws {
        for (sorted, locale) in [
            (["file 2", "file 10", "File 10", "file 11b", "file 100"], "en"),
            (["a", "A", "á", "Á", "b", "B"], "fr"),
            (["", " ", "_", "😀", "1", "2", "10", "a", "Ω", "日"], ""),
            (["v1.2.9", "v1.2.10", "v1.10.1"], "de"),
            (["strasse", "straße", "strassen"], "de"),
        ] {
            #expect(try Self.sorted(sorted.reversed(), locale) == sorted)
        }
        let root = try #require(Collation(""))
        // One text in two spellings, what nobody sees, and equal numbers: their bytes decide.
        for (left, right) in [
            ("e\u{301}", "é"), ("a\u{307}\u{323}", "a\u{323}\u{307}"), ("a\u{0}b", "ab"),
            ("007", "7"),
        ] {
            let keys = [left, right].map { root.key(of: $0) }
            #expect(keys[0].prefix { $0 != 0 } == keys[1].prefix { $0 != 0 })
            #expect(keys[0].lexicographicallyPrecedes(keys[1]), "\(left) \(right)")
        }
        let long = String(repeating: "日本", count: 20_000)
        #expect(root.key(of: long) != root.key(of: long + "x"))
    }

    @Test("A locale is a language that has an order, in any spelling; another one is refused")
    func locales() throws {
        for (text, locale) in [
            ("", ""), ("de", "de"), ("DE", "de"), ("sv-se", "sv_SE"), ("zh_hant_tw", "zh_Hant_TW"),
            ("es-419", "es_419"), ("de_ZZ", "de_ZZ"),
        ] {
            #expect(Collation(text)?.locale == locale)
        }
        for text in [
            "xx", "root", "de_", "_de", "de_DE_x", "de@collation=phonebook", "de-u-kn-false", "d e",
            "deutsch", "C", "'", "de\u{0}", "Español",
        ] {
            #expect(Collation(text) == nil, "\(text)")
        }
        #expect(Collation("de_AT") == Collation("de-AT"))
        #expect(Collation("de_AT") != Collation("de"))
        // More than are kept at a time.
        for number in 100..<300 { #expect(Collation("en_\(number)")?.key(of: "a").count == 7) }
    }

    @Test("A sort list's texts are read and written")
    func texts() {
        let all: [(String, SortDescriptor)] = [
            ("name", SortDescriptor("name")), ("-name", SortDescriptor("name", ascending: false)),
            (
                "localizedStandard:(owner.name)",
                SortDescriptor("owner.name", comparison: .localizedStandard(locale: ""))
            ),
            (
                "-localizedStandard:(name, sv_SE)",
                SortDescriptor(
                    "name", ascending: false, comparison: .localizedStandard(locale: "sv_SE"))
            ),
        ]
        for (text, descriptor) in all {
            #expect(SortDescriptor(text: text) == descriptor)
            #expect(descriptor.text == text)
        }
        #expect(
            SortDescriptor(text: "localizedStandard:( name,de )").text
                == "localizedStandard:(name, de)")
        for text in [
            "localizedStandard:()", "localizedStandard:(name", "localizedStandard:(name, )",
            "localizedStandard:(name, de, sv)", "localizedStandard(name)",
        ] {
            #expect(SortDescriptor(text: text) == SortDescriptor(text))
        }
    }

    @Test("What is no text, and a locale that has no order, is refused")
    func refusals() throws {
        let (store, context) = try TestStore.withContext()
        try context.performAndWait {
            for (sort, reason) in [
                ("localizedStandard:(n, de)", "\"n\" is no text"),
                ("localizedStandard:(owner, de)", "leads to no single value"),
                ("localizedStandard:(tags.name, de)", "leads to no single value"),
                ("localizedStandard:(tags.@count)", "\"tags.@count\" is no text"),
                ("localizedStandard:(owner.entity.name)", "is no text"),
                ("localizedStandard:(p, tlh)", "locale \"tlh\""),
                ("localizedStandard:(nothing)", "no property \"nothing\""),
                ("localizedStandard:(p", "is no key path"),
            ] {
                let request = try store.request("Item", sort: sort)
                for isPending in [false, true] {
                    if isPending { context.insert("Item") }
                    let error = #expect(throws: CoordinatorError.self) {
                        try context.fetch(request)
                    }
                    #expect(error?.code == .invalidPredicate)
                    #expect(error?.message.contains(reason) == true, "\(sort): \(error as Any)")
                    context.rollback()
                }
            }
        }
    }

    @Test("A fetch sorts so with unsaved changes too, through a to-one, and null comes first")
    func contexts() throws {
        let (store, context) = try TestStore.withContext()
        try store.save { context in
            for name in ["file 10", "Ärger", "zu"] {
                let person = context.insert("Person", ["name": name])
                context.insert("Item", ["p": name]).setRelatedObject(person, forKey: "owner")
            }
            context.insert("Item", ["q": "of nobody"])
        }
        try context.performAndWait {
            func names(_ sort: String) throws -> [String?] {
                try context.fetch(store.request("Item", sort: sort)).map { $0["p"] }
            }
            for key in ["p", "owner.name"] {
                let german = "localizedStandard:(\(key), de)"
                #expect(try names(german) == [nil, "Ärger", "file 10", "zu"])
                #expect(try names("-" + german) == ["zu", "file 10", "Ärger", nil])
                #expect(
                    try names("localizedStandard:(\(key), sv)") == [nil, "file 10", "zu", "Ärger"])
            }
            context.insert("Item", ["p": "File 9"])
            #expect(
                try names("localizedStandard:(p, sv)")
                    == [nil, "File 9", "file 10", "zu", "Ärger"])
            let owner = try context.fetch(store.request("Person", where: "name == 'zu'")).first
            owner?["name"] = "file 2"
            #expect(
                try names("-localizedStandard:(owner.name, de)")
                    == ["file 10", "zu", "Ärger", nil, "File 9"])
        }
    }

    @Test("Groups are sorted so by their names")
    func groups() throws {
        let (store, context) = try TestStore.withContext()
        try store.save { context in
            for name in ["ö", "o", "z", "ö"] { context.insert("Item", ["p": name]) }
        }
        try context.performAndWait {
            var request = try store.request("Item", sort: "localizedStandard:(p, sv)")
            request.propertiesToFetch = [.keyPath("p")]
            request.propertiesToGroupBy = ["p"]
            func names() throws -> [PropertyValue?] {
                try context.fetchDictionaries(request).map { $0.first?.1 }
            }
            let expected = ["o", "z", "ö"].map { PropertyValue.string($0) }
            #expect(try names() == expected)
            request.propertiesToGroupBy = []
            request.returnsDistinctResults = true
            #expect(try names() == expected)
            request.propertiesToFetch = [.keyPath("n")]
            request.sortDescriptors = [SortDescriptor(text: "localizedStandard:(n)")]
            #expect(throws: CoordinatorError.self) { try names() }
        }
    }

    @Test("A controller puts objects in their places, and its sections go by the key")
    func controllers() throws {
        let (store, context) = try TestStore.withContext()
        try store.save { context in
            for name in ["b 10", "b 2", "ä", ""] { context.insert("Item", ["p": name]) }
            context.insert("Item")
        }
        let mirror = ResultsMirror()
        try context.performAndWait {
            let controller = FetchedResultsController<ManagedObject>(
                fetchRequest: try store.request("Item", sort: "localizedStandard:(p, de)"),
                managedObjectContext: context, sectionNameKeyPath: "p", cacheName: nil)
            controller.delegate = mirror
            try controller.performFetch()
            mirror.copy(controller)
            func sections() -> [String] { (controller.sections ?? []).map(\.name) }
            #expect(sections() == ["", "ä", "b 2", "b 10"])
            context.insert("Item", ["p": "B 3"])
            // Equal to the language, and two sections.
            context.insert("Item", ["p": "7"])
            let seven = context.insert("Item", ["p": "007"])
            context.processPendingChanges()
            #expect(sections() == ["", "007", "7", "ä", "b 2", "B 3", "b 10"])
            #expect(controller.sections?.map(\.numberOfObjects) == [2, 1, 1, 1, 1, 1, 1])
            seven["p"] = "b 2"
            context.processPendingChanges()
            #expect(sections() == ["", "7", "ä", "b 2", "B 3", "b 10"])
            context.delete(seven)
            try context.fetch(store.request("Item", where: "p == '7'")).first?["p"] = "07"
            context.processPendingChanges()
            #expect(sections() == ["", "07", "ä", "b 2", "B 3", "b 10"])
            context.delete(
                try #require(try context.fetch(store.request("Item", where: "p == '07'")).first))
            try context.fetch(store.request("Item", where: "p == 'ä'")).first?["p"] = "Z"
            context.processPendingChanges()
            #expect(sections() == ["", "b 2", "B 3", "b 10", "Z"])
            #expect(mirror.faults.isEmpty)
        }
    }
}
