import Merge

/// The shapes of a transaction in the making: each once, in order of first use.
struct ShapeTable {
    private(set) var shapes: [ChangeShape] = []
    private var places: [ChangeShape: Int] = [:]
    private var last: (table: EntityTable, assigned: [Int], carried: [Int], position: Int)?

    mutating func position(of shape: ChangeShape) -> Int {
        if let found = places[shape] { return found }
        places[shape] = shapes.count
        shapes.append(shape)
        return shapes.count - 1
    }

    /// A bulk save has long runs of one shape, so the last one is tried first.
    mutating func position(
        of table: EntityTable, assigned: [(position: Int, value: PropertyValue)],
        carried: [(position: Int, value: PropertyValue)]
    ) -> Int {
        if let last, last.table === table,
            last.assigned.elementsEqual(assigned, by: { $0 == $1.position }),
            last.carried.elementsEqual(carried, by: { $0 == $1.position })
        {
            return last.position
        }
        let names = table.entity.properties
        let found = position(
            of: ChangeShape(
                entity: table.entity.name, assigned: assigned.map { names[$0.position].name },
                carried: carried.map { names[$0.position].name }))
        last = (table, assigned.map(\.position), carried.map(\.position), found)
        return found
    }
}
