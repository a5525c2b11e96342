/// The demo's model: three entities with three policies.
enum DemoModel {
    static let json = """
        {"entities": [
          {"name": "Package", "mergePolicy": "mergeByPropertyStoreTrump",
           "attributes": [
             {"name": "name", "type": "string", "optional": false},
             {"name": "version", "type": "string"},
             {"name": "architecture", "type": "string"},
             {"name": "summary", "type": "string"},
             {"name": "installedSize", "type": "integer64"}],
           "relationships": [
             {"name": "maintainer", "destination": "Maintainer", "inverse": "packages"},
             {"name": "section", "destination": "Section", "inverse": "packages"},
             {"name": "dependencies", "destination": "Package", "inverse": "dependents", "toMany": true},
             {"name": "dependents", "destination": "Package", "inverse": "dependencies", "toMany": true}],
           "indexes": [{"name": "byName", "elements": ["name"]}]},
          {"name": "Maintainer", "mergePolicy": "error",
           "attributes": [
             {"name": "name", "type": "string", "optional": false},
             {"name": "phone", "type": "string"}],
           "relationships": [
             {"name": "packages", "destination": "Package", "inverse": "maintainer", "toMany": true}],
           "indexes": [{"name": "byName", "elements": ["name"]}]},
          {"name": "Section", "mergePolicy": "mergeByPropertyObjectTrump",
           "attributes": [
             {"name": "name", "type": "string", "optional": false},
             {"name": "note", "type": "string"}],
           "relationships": [
             {"name": "packages", "destination": "Package", "inverse": "section", "toMany": true}],
           "indexes": [{"name": "byName", "elements": ["name"]}]}]}
        """
}
