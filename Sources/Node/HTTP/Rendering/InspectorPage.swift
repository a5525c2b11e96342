// The inspector's page, as it is built into the program.

internal import CInspectorPage
internal import HTTPTypes
internal import Merge

/// The files of the page at `/`.
enum InspectorPage {
    /// Nothing but its own files and this node: no script or style in the page's text, nothing from
    /// elsewhere, and no other page may frame it.
    private static let policy =
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
        + "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

    private static let types = [
        "html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8",
        "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml",
    ]

    /// The answers by the names of the files, made once.
    private static let files: [String: HTTPAnswer] = {
        var files: [String: HTTPAnswer] = [:]
        for index in 0..<Int(inspector_page_count) {
            let file = inspector_page_file(Int32(index))
            let name = String(cString: file.name)
            let bytes = Array(UnsafeBufferPointer(start: file.bytes, count: Int(file.count)))
            files[name] = answer(name, bytes)
        }
        return files
    }()

    /// The names of all files, sorted.
    static var names: [String] { files.keys.sorted() }

    /// A file as it is answered; nil where there is none of that name.
    static func file(_ name: String) -> HTTPAnswer? { files[name] }

    /// A file for a client that may have it: 304 where it has that very version.
    static func answer(with file: HTTPAnswer, to known: String?) -> HTTPAnswer {
        guard let known, let version = file.fields[.eTag],
            known == "*"
                || known.split(separator: ",").contains(where: {
                    $0.trimmingPrefix(" ").trimmingPrefix("W/") == version
                })
        else { return file }
        var answer = file
        answer.status = 304
        answer.body = .whole([])
        return answer
    }

    private static func answer(_ name: String, _ bytes: [UInt8]) -> HTTPAnswer {
        var answer = HTTPAnswer(body: .whole(bytes))
        let ending = name.split(separator: ".").last.map(String.init) ?? ""
        answer.contentType = types[ending] ?? "application/octet-stream"
        answer.fields[.cacheControl] = "no-cache"
        var hasher = StableHasher(seed: 6)
        hasher.combine(bytes)
        answer.fields[.eTag] = "\"\(String(hasher.finalize().0, radix: 16))\""
        answer.fields[.contentSecurityPolicy] = policy
        answer.fields[.xContentTypeOptions] = "nosniff"
        if let referrer = HTTPField.Name("Referrer-Policy") {
            answer.fields[referrer] = "no-referrer"
        }
        return answer
    }
}
