import Merge

/// The one writer of links. A link is shown, and a conflict over it open, only while both its ends are
/// alive; its register stays, so that with an end that returns they return too (MODEL P7).
struct LinkWriter: StorePart {
    let session: StoreSession

    /// Applies the making or taking away of a link.
    func applyLink(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID, isAlive: Bool,
        stamp: Stamp, seen: VersionVector
    ) throws {
        let old = try linkStore.loadLink(link, source: source, target: target)
        var new = old
        new.apply(Sibling(stamp: stamp, value: isAlive), seen: seen)
        try write(link, source: source, target: target, over: old, new, by: stamp)
    }

    /// Writes a link's new register over its old one: table, digest, journal. An empty one takes it
    /// away.
    func write(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID, over old: Register<Bool>,
        _ new: Register<Bool>, by stamp: Stamp
    ) throws {
        let isOpen = try linkStore.hasLivingEnds(link, source: source, target: target)
        let before = history.settling(link, old)
        if let hash = LinkDigest.hash(before, source, target, old, hasLivingEnds: isOpen) {
            state.digest.subtract(hash)
        }
        let after = history.settling(link, new)
        if let hash = LinkDigest.hash(after, source, target, new, hasLivingEnds: isOpen) {
            state.digest.add(hash)
        }
        if new.siblings.isEmpty {
            try linkStore.removeLink(link, source: source, target: target)
        } else {
            try linkStore.writeLink(link, source: source, target: target, new)
        }
        countTracker.noteCounts(link, source: source, target: target)
        derivedAttributes.note(link, source: source, target: target)
        try collectionList.noteUncollected(link, source: source, target: target, new)
        try refreshGroupedLink(link, source: source, target: target)
        group.updated.append(ManagedObjectID(entityName: link.source, row: source))
        group.updated.append(ManagedObjectID(entityName: link.target, row: target))
        if isOpen {
            try journal.update(link, source: source, target: target, old: old, new: new, by: stamp)
        }
    }

    /// Closes and opens the conflicts over links after a transaction made an end of them dead or
    /// alive. The objects at the other ends are counted again.
    ///
    /// To be called when all its rows are written and before any link of it is.
    func settleLinks(
        died: [(RowID, EntityTable)], revived: [(RowID, EntityTable)], by stamp: Stamp
    ) throws {
        if model.links.isEmpty || (died.isEmpty && revived.isEmpty) { return }
        let dead = Set(died.map(\.0))
        let returned = Set(revived.map(\.0))
        for link in model.links {
            let sourceRoot = table(link.source).entity.root
            let targetRoot = table(link.target).entity.root
            func wasAlive(_ row: RowID, _ root: String) throws -> Bool {
                if dead.contains(row) { return true }
                return try !returned.contains(row) && rowStore.isAlive(row, root: root)
            }
            // Both ends may have changed; the link is still looked at once.
            var settled = Set<LinkEnds>()
            for (row, table) in died + revived {
                var found: [LinkEnds] = []
                if table.entity.root == sourceRoot {
                    found += try linkStore.disputedLinks(link, "source", row)
                    try countTracker.noteCounts(link, ofAll: "target", with: "source", row)
                    try derivedAttributes.note(link, ofAll: "target", with: "source", row)
                }
                if table.entity.root == targetRoot {
                    found += try linkStore.disputedLinks(link, "target", row)
                    try countTracker.noteCounts(link, ofAll: "source", with: "target", row)
                    try derivedAttributes.note(link, ofAll: "source", with: "target", row)
                }
                for ends in found where settled.insert(ends).inserted {
                    let before =
                        try wasAlive(ends.source, sourceRoot) && wasAlive(ends.target, targetRoot)
                    try settle(link, ends, wasOpen: before, by: stamp)
                }
            }
        }
    }

    func settle(
        _ link: ManagedObjectModel.Link, _ ends: LinkEnds, wasOpen: Bool, by stamp: Stamp
    ) throws {
        let (source, target) = (ends.source, ends.target)
        let isOpen = try linkStore.hasLivingEnds(link, source: source, target: target)
        if isOpen == wasOpen { return }
        let register = try linkStore.loadLink(link, source: source, target: target)
        let settled = history.settling(link, register)
        if let hash = LinkDigest.hash(settled, source, target, register, hasLivingEnds: wasOpen) {
            state.digest.subtract(hash)
        }
        if let hash = LinkDigest.hash(settled, source, target, register, hasLivingEnds: isOpen) {
            state.digest.add(hash)
        }
        try journal.update(
            link, source: source, target: target, old: wasOpen ? register : Register(),
            new: isOpen ? register : Register(), by: stamp)
    }

    // MARK: Links

    /// Shows links where their ends are shown now.
    ///
    /// A link's registers stay with the rows it was made between. Of two rows that are not eclipsed
    /// `_alive` tells whether the one, or a row that it eclipses, has a link to the other, or to a
    /// row that that one eclipses; where they have none of their own, a row without registers
    /// stands for it. Whether the ends are alive is none of its business, for readers join them; that
    /// they are of the link's entities is.
    func moveLinks(_ regrouping: Regrouping) throws {
        if model.links.isEmpty || regrouping.moved.isEmpty { return }
        let before = Dictionary(
            regrouping.moved.map { ($0.row, $0.from) }, uniquingKeysWith: { first, _ in first })
        for link in model.links {
            let sourceRoot = table(link.source).entity.root
            let targetRoot = table(link.target).entity.root
            var found = Set<LinkEnds>()
            for (row, table, _, _) in regrouping.moved {
                for (end, root) in [("source", sourceRoot), ("target", targetRoot)]
                where root == table.entity.root {
                    for pair in try linkStore.pairs(of: link, end, row) {
                        found.insert(pair)
                        let sources = try [
                            before[pair.source] ?? nil,
                            rowStore.shownRow(pair.source, root: sourceRoot) ?? pair.source,
                        ].compactMap { $0 }
                        let targets = try [
                            before[pair.target] ?? nil,
                            rowStore.shownRow(pair.target, root: targetRoot) ?? pair.target,
                        ].compactMap { $0 }
                        for source in sources {
                            for target in targets {
                                found.insert(LinkEnds(source: source, target: target))
                            }
                        }
                    }
                }
            }
            for pair in found.sorted() {
                try refreshLink(link, source: pair.source, target: pair.target)
            }
        }
    }

    /// Brings `_alive` up to date after a link's register has changed. If nothing is eclipsed, the
    /// writer of the register has done so.
    func refreshGroupedLink(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID
    ) throws {
        guard state.eclipsed > 0, linkStore.isGrouped(link) else { return }
        try refreshLink(link, source: source, target: target)
        let shownSource =
            try rowStore.shownRow(source, root: table(link.source).entity.root) ?? source
        let shownTarget =
            try rowStore.shownRow(target, root: table(link.target).entity.root) ?? target
        if shownSource == source, shownTarget == target { return }
        try refreshLink(link, source: shownSource, target: shownTarget)
        group.updated.append(ManagedObjectID(entityName: link.source, row: shownSource))
        group.updated.append(ManagedObjectID(entityName: link.target, row: shownTarget))
    }

    /// Brings `_alive` of a pair of rows up to date.
    private func refreshLink(
        _ link: ManagedObjectModel.Link, source: RowID, target: RowID
    ) throws {
        countTracker.noteCounts(link, source: source, target: target)
        derivedAttributes.note(link, source: source, target: target)
        let register = try linkStore.loadLink(link, source: source, target: target)
        let policy = history.settling(link, register).policy
        var isShown = LinkCoding.isAlive(register, policy: policy)
        if !isShown, try rowStore.survivor(of: source) == nil,
            try rowStore.survivor(of: target) == nil
        {
            isShown = try linkStore.memberLinks(link, source: source, target: target).contains {
                $0.isAlive && ($0.source != source || $0.target != target)
            }
        }
        if isShown { isShown = try linkStore.haveFittingEnds(link, source: source, target: target) }
        if register.siblings.isEmpty, !isShown {
            return try linkStore.removeLink(link, source: source, target: target)
        }
        try linkStore.writeLink(link, source: source, target: target, register, isShown: isShown)
    }

    /// Hides links to rows that are shown again and are not of the links' entities. There are such links
    /// where an object that was inserted with them became one with another.
    func hideLinks(toMisfits rows: [(RowID, EntityTable)]) throws {
        for (row, table) in rows where table.isGrouped {
            for link in model.links {
                for (end, name) in [("source", link.source), ("target", link.target)] {
                    let entity = self.table(name).entity
                    guard entity.root == table.entity.root,
                        !entity.familyNames.contains(table.entity.name)
                    else { continue }
                    for pair in try linkStore.pairs(of: link, end, row) {
                        try refreshLink(link, source: pair.source, target: pair.target)
                    }
                }
            }
        }
    }
}
