import TestSupport

/// Comparisons of expressions.
extension DifferentialTests.Generator {
    mutating func general(_ prefix: String) -> String {
        switch choices.next() % 12 {
        case 0, 1: return "\(number(prefix, 2)) \(ordering()) \(number("", 2))"
        case 2: return "\(string(prefix, 2)) \(textComparison()) \(string("", 2))"
        case 3: return "\(date(2)) \(ordering()) \(date(2))"
        case 4: return "\(decimal(prefix, 2)) \(ordering()) \(decimal("", 2))"
        case 5:
            return choices.pick([
                "\(number(prefix, 1)) BETWEEN {\(number("", 1)), \(number("", 1))}",
                "\(string(prefix, 1)) BETWEEN\(flags()) {\(string("", 1)), \(string("", 1))}",
                "\(decimal(prefix, 1)) BETWEEN {\(decimal("", 1)), \(decimal("", 1))}",
                "\(date(1)) BETWEEN {\(date(1)), \(date(1))}",
            ])
        case 6:
            return choices.pick([
                "\(number(prefix, 1)) IN {\(number("", 1)), 17, \(number("", 1))}",
                "\(string(prefix, 1)) IN\(flags()) {\(string("", 1)), \(text())}",
                "\(date(1)) IN {\(date(1)), born}",
                "\(decimal(prefix, 1)) IN {\(decimal("", 1)), 9.5, 1}",
            ])
        case 7: return membership(prefix)
        case 8:
            let quantifier = choices.pick(["ANY", "ALL", "NONE"])
            let path = choices.pick([
                "reports", "manager.reports", "groups.members", "manager.groups.members",
                "reports.reports.reports",
            ])
            return choices.pick([
                "\(quantifier) \(path).age \(ordering()) \(number("", 1))",
                "\(quantifier) \(path).name \(textComparison()) \(string("", 1))",
                "\(quantifier) \(path).balance \(ordering()) \(decimal("", 1))",
                "\(quantifier) \(path).pets.@count \(ordering()) \(choices.next() % 3)",
                "\(quantifier) \(path).entity.name == 'Employee'",
                "\(quantifier) \(path).age IN {age, manager.age}",
                "\(quantifier) \(path) == manager",
            ])
        case 9:
            return choices.pick([
                "\(prefix)entity == 'Employee'", "\(prefix)entity.name != 'Person'",
                "\(prefix)entity IN {'Person', 'Group'}", "entity == manager.entity",
                "desk.entity == 'Desk'", "manager.objectID == desk.user.self",
                "objectID == 'x-tributary://demo/Person/p7'", "\(prefix)entity.name BEGINSWITH 'P'",
                "1 == 1", "1 + 1 > 3", "'a' <[c] 'B'", "nil == nil", "1 == nil", "nil != 'x'",
                "(manager) == nil", "TERNARY(\(comparison(2)), manager, desk.user) == manager",
                "TERNARY(\(comparison(2)), nil, name) == nil",
            ])
        case 10:
            return choices.pick(
                [
                    "(\(number(prefix, 2))) != nil", "\(string(prefix, 2)) == nil",
                    "\(date(2)) == nil", "(\(decimal(prefix, 2))) == nil",
                    "CAST(name, 'boolean') == nil", "CAST(isMember, 'integer16') == 1",
                    "CAST(CAST(token, 'string'), 'uuid') == token", "CAST(home, 'string') == home",
                    "CAST(CAST(home, 'string'), 'uri') == home", "CAST(name, 'binary') == photo",
                    "CAST(\(number("", 1)), 'float') == ratio",
                    "CAST(\(number("", 1)), 'integer32') > 1",
                ].filter { !$0.hasSuffix("== home") || $0.contains("'uri'") })
        default:
            return choices.pick([
                "\(name(prefix, 2)) MATCHES\(flags()) name", "name LIKE\(flags()) manager.name",
                "'Ada Bob' CONTAINS\(flags()) \(string(prefix, 1))",
                "'bobby' BEGINSWITH\(flags()) \(string(prefix, 1))",
                "\(string(prefix, 2)) ==[n] \(text())", "\(string(prefix, 2)) IN {\(text())}",
                "\(string(prefix, 2)) \(textComparison()) \(text())",
                "\(number(prefix, 2)) \(ordering()) \(numeral())",
                "\(number(prefix, 2)) BETWEEN {\(numeral()), \(numeral())}",
            ])
        }
    }

    private mutating func comparison(_ depth: Int) -> String {
        choices.pick([
            "age \(ordering()) \(numeral())", "name == nil", "isMember == YES",
            "ANY reports.age > 1", "NOT (manager.age < weight)", "manager.reports.@count > 1",
            "(age > 1 OR name == nil)",
        ])
    }

    private mutating func membership(_ prefix: String) -> String {
        choices.pick([
            "manager IN \(prefix)groups.members", "NOT manager IN manager.reports",
            "SELF IN manager.manager.reports", "\(prefix)reports CONTAINS desk.user",
            "desk.user IN groups.members", "NONE manager IN reports.reports",
            "\(number(prefix, 1)) IN manager.reports.age", "name IN\(flags()) groups.members.name",
            "17 IN reports.age", "\(string("", 1)) IN \(prefix)pets.name",
        ])
    }

    private mutating func name(_ prefix: String, _ depth: Int) -> String {
        choices.chance(50) ? "\(prefix)name" : string(prefix, depth)
    }

    /// An expression that is a number and no decimal.
    mutating func number(_ prefix: String, _ depth: Int) -> String {
        let collection = choices.pick(["reports", "manager.reports", "groups.members"])
            .replacing("groups.members", with: "manager.manager.reports")
        if depth == 0 || choices.chance(30) {
            return choices.pick([
                "\(prefix)age", "\(prefix)weight", "\(prefix)ratio", "\(prefix)age",
                numeral(), "\(prefix)pets.@count", "\(prefix)groups.@count",
                "\(collection).@sum.age", "\(collection).@avg.age", "\(collection).@max.weight",
                "\(collection).weight.@sum", "\(collection).@avg.ratio", "\(collection).age.@min",
                "\(collection).@distinctUnionOfObjects.name.@count", "\(collection).@count",
                "\(collection).weight.@distinctUnionOfObjects.@count", "sum:(\(collection).age)",
                "\(prefix)pets.@max.age", "count:(\(collection))", "average:(\(prefix)pets.age)",
                "\(collection).@max.manager.age",
            ])
        }
        let (left, right) = (number(prefix, depth - 1), number("", depth - 1))
        switch choices.next() % 14 {
        case 0: return "(\(left) + \(right))"
        case 1: return "(\(left) - \(right))"
        case 2: return "\(left) * \(right)"
        case 3: return "\(left) / (\(right))"
        case 4: return "-\(left)"
        case 5: return "modulus:by:(\(left), \(right))"
        case 6: return "\(choices.pick(["abs", "ceiling", "floor", "trunc", "sqrt"])):(\(left))"
        case 7: return "TERNARY(\(comparison(depth)), \(left), \(right))"
        case 8: return "CAST(\(left), '\(choices.pick(["double", "integer64", "float"]))')"
        case 9: return "length:(\(string(prefix, depth - 1)))"
        case 10: return "(\(date(depth - 1)) - \(date(depth - 1)))"
        case 11: return "(\(left) ** \(choices.pick(["2", "0.5", "-1"])))"
        default: return subquery(depth)
        }
    }

    private mutating func subquery(_ depth: Int) -> String {
        let end = choices.pick([
            "@count", "@count", "@sum.age", "@max.weight", "age.@avg", "weight.@min",
            "@distinctUnionOfObjects.name.@count",
        ])
        let members = choices.pick(["reports", "groups.@", "manager.reports", "manager.groups.@"])
        let condition = choices.pick([
            "$x.age \(ordering()) \(numeral())", "$x.age > age", "$x.manager == SELF",
            "$x.name \(textComparison()) \(text())", "NOT ($x.pets.@count > 0)",
            "ANY $x.reports.age > 1", "$x.reports.@max.age > $x.age", "$x == manager.manager",
            "SUBQUERY($x.reports, $y, $y.age > $x.age).@count > 0", "$x.entity == entity",
            "SUBQUERY($x.pets, $y, $y.age > 1 OR $y.owner == SELF).@count > 0",
            "($x.desk.place == 'hall' OR $x.weight > weight)", "NONE $x.groups.members.age > age",
            "$x.manager.reports.@count > 1", "TERNARY($x.age > 1, $x.name, name) == 'Ada'",
        ])
        guard members.hasSuffix("@") else {
            return "SUBQUERY(\(members), $x, \(condition)).\(end)"
        }
        let label = choices.pick([
            "$g.label == 'red'", "$g.members.@count > 2", "ANY $g.members.age > 17",
            "$g.label > name", "ALL $g.members.name != nil", "SELF IN $g.members",
            "SUBQUERY($g.members, $x, \(condition)).@count > 0",
        ])
        return "SUBQUERY(\(members.dropLast(2)), $g, \(label)).@count"
    }

    mutating func string(_ prefix: String, _ depth: Int) -> String {
        if depth == 0 || choices.chance(40) {
            return choices.pick([
                "\(prefix)name", "\(prefix)name", "manager.name", "\(prefix)entity.name",
                "reports.@max.name", "manager.pets.@min.name", "desk.place",
            ])
        }
        let inner = string(prefix, depth - 1)
        switch choices.next() % 6 {
        case 0: return "lowercase:(\(inner))"
        case 1: return "uppercase:(\(inner))"
        case 2: return "canonical:(\(inner))"
        case 3: return "TERNARY(\(comparison(depth)), \(inner), 'x')"
        case 4: return "CAST(\(date(depth - 1)), 'string')"
        default:
            return
                "CAST(\(choices.pick([number("", depth - 1), decimal("", depth - 1)])), 'string')"
        }
    }

    private mutating func date(_ depth: Int) -> String {
        if depth == 0 || choices.chance(40) {
            return choices.pick([
                "born", "manager.born", "now()", "reports.@max.born",
                "CAST('1969-12-31T23:59:59.000Z', 'date')",
            ])
        }
        switch choices.next() % 6 {
        case 0: return "(\(date(depth - 1)) + \(number("", depth - 1)))"
        case 1: return "(\(date(depth - 1)) - \(number("", depth - 1)))"
        case 2: return "TERNARY(\(comparison(depth)), \(date(depth - 1)), born)"
        case 3, 4:
            let period = choices.pick(["hour", "day", "week", "month:", "quarter", "year"])
            return "\(period)(\(date(depth - 1))\(choices.pick(["", ", -90", ", 60", ", age"])))"
        default: return "CAST(\(number("", depth - 1)), 'date')"
        }
    }

    private mutating func decimal(_ prefix: String, _ depth: Int) -> String {
        if depth == 0 || choices.chance(30) {
            return choices.pick([
                "\(prefix)balance", "\(prefix)balance", "reports.@sum.balance",
                "manager.reports.@avg.balance", "reports.balance.@max",
                "CAST(age, 'decimal')", "manager.reports.@min.balance",
            ])
        }
        let inner = decimal(prefix, depth - 1)
        switch choices.next() % 9 {
        case 0: return "(\(inner) + \(decimal("", depth - 1)))"
        case 1: return "(\(inner) - \(decimal("", depth - 1)))"
        case 2: return "\(inner) * \(decimal("", depth - 1))"
        case 3: return "(\(inner) + \(choices.pick(["1", "0.1", "age", "9.50001"])))"
        case 4: return "-\(inner)"
        case 5: return "\(choices.pick(["abs", "ceiling", "floor", "trunc"])):(\(inner))"
        case 6: return "TERNARY(\(comparison(depth)), \(inner), 1)"
        case 7: return "CAST(\(number("", depth - 1)), 'decimal')"
        default: return "\(inner) * 0.333333333333333333333333"
        }
    }
}
