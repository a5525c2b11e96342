// Values of a request, read by the model.

internal import Coordinator
internal import Merge

/// Reads the values that a request assigns, and collects everything that is wrong with them.
struct PropertyReader {
    let model: ManagedObjectModel
    let cluster: String
    /// Objects that the request inserts, by the name it gives them.
    var named: [String: ManagedObjectID] = [:]
    /// The failures so far.
    private(set) var failures: [ValidationFailure] = []

    /// Names the property that is assigned, for failures.
    struct Place {
        let object: String
        let property: String
    }

    init(model: ManagedObjectModel, cluster: String) {
        self.model = model
        self.cluster = cluster
    }

    mutating func fail(_ place: Place, _ code: ValidationFailure.Code, _ message: String) {
        failures.append(
            ValidationFailure(
                object: place.object, property: place.property, code: code, message: message))
    }

    /// Throws everything that was wrong.
    func check() throws {
        guard let first = failures.first else { return }
        throw CoordinatorError(
            .validationFailed,
            failures.count == 1 ? first.message : "\(failures.count) values are not valid.",
            failures: failures)
    }

    /// The value of a stored property; nil, and a failure, where it is of another type.
    mutating func value(
        _ json: JSONValue, _ property: ManagedObjectModel.Property, _ place: Place
    ) -> PropertyValue? {
        switch property.content {
        case .attribute(let type):
            do {
                return try PropertyValue(json: json, type: type)
            } catch {
                fail(place, .wrongType, "\(place.property): \(error.message).")
                return nil
            }
        case .toOne(let destination):
            if json == .null { return .null }
            return reference(json, destination: destination, place).map { .reference($0) }
        }
    }

    /// What is added to a number of that type; nil, and a failure, where it is of another type.
    mutating func amount(
        _ json: JSONValue, _ type: AttributeType, _ place: Place
    ) -> PropertyValue? {
        do {
            let amount = try PropertyValue(json: json, type: type)
            if case .double(let number) = amount, !number.isFinite {
                throw JSONConversionError("expected a finite number, not \(number)")
            }
            guard !amount.isNull else { throw JSONConversionError("expected a number, not null") }
            return amount
        } catch {
            fail(place, .wrongType, "The increment of \(place.property): \(error).")
            return nil
        }
    }

    /// The row that a reference leads to; nil, and a failure, where it leads nowhere.
    mutating func reference(
        _ json: JSONValue, destination: String, _ place: Place
    ) -> RowID? {
        guard let text = json.string else {
            fail(
                place, .wrongType,
                "\(place.property): expected the URI of an object, not \(json.kind).")
            return nil
        }
        let target: ManagedObjectID
        if text.utf8.first == UInt8(ascii: "@") {
            guard let object = named[text] else {
                fail(
                    place, .danglingReference,
                    "\(place.property) refers to \(text), which the request does not insert.")
                return nil
            }
            target = object
        } else {
            guard let uri = ObjectURI(text, in: cluster) else {
                fail(place, .wrongType, "\(place.property): \"\(text)\" is no object's URI.")
                return nil
            }
            guard uri.cluster == cluster else {
                fail(
                    place, .danglingReference,
                    "\(place.property) refers to an object of cluster \(uri.cluster); this is "
                        + "\(cluster).")
                return nil
            }
            target = uri.objectID
        }
        guard let wanted = model.entity(named: destination),
            let entity = model.entity(named: target.entityName),
            entity.isKind(of: wanted) || wanted.isKind(of: entity)
        else {
            fail(
                place, .wrongType,
                "\(place.property) leads to \(destination), not to \(target.entityName).")
            return nil
        }
        return target.row
    }

    /// The rows that several references lead to.
    mutating func references(
        _ json: JSONValue, destination: String, _ place: Place
    ) -> [RowID]? {
        guard let elements = json.array else {
            fail(
                place, .wrongType,
                "\(place.property): expected an array of objects' URIs, not \(json.kind).")
            return nil
        }
        var rows: [RowID] = []
        rows.reserveCapacity(elements.count)
        for element in elements {
            if let row = reference(element, destination: destination, place) { rows.append(row) }
        }
        return rows
    }
}
