// The client's side of TLS: whom it believes.
//
// Threading: values; the context inside is made once and safe to use from every event loop.

internal import Glibc
internal import NIOCore
internal import NIOSSL

/// Which certificates a client believes. The name or address in the URL must be in them always.
public enum TLSTrust: Hashable, Sendable {
    /// Those that the system's own roots lead to.
    case system
    /// Those that the roots in a PEM file lead to.
    case file(String)
}

/// The settings that a client needs to speak TLS to one host.
struct ClientTLS: Sendable {
    private let context: NIOSSLContext
    /// No file of roots is longer.
    private static let maximumRootsBytes = 8 << 20

    /// The name that the certificate must have; nil for an address, which it must have likewise.
    private let hostname: String?

    /// - Throws: ``ClientError`` with `requestInvalid` where the roots cannot be read.
    init(_ trust: TLSTrust, host: String) throws(ClientError) {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv12
        configuration.applicationProtocols = ["http/1.1"]
        if case .file(let file) = trust {
            var status = stat()
            guard stat(file, &status) == 0, access(file, R_OK) == 0 else {
                throw ClientError(
                    .requestInvalid, "\(file) cannot be read: \(String(cString: strerror(errno)))")
            }
            guard status.st_mode & S_IFMT == S_IFREG, status.st_size <= Self.maximumRootsBytes
            else {
                throw ClientError(
                    .requestInvalid,
                    "\(file) is no file of certificates in PEM of at most 8 MiB")
            }
            guard let roots = try? NIOSSLCertificate.fromPEMFile(file), !roots.isEmpty else {
                throw ClientError(.requestInvalid, "\(file) holds no certificate in PEM")
            }
            configuration.trustRoots = .certificates(roots)
        }
        do {
            context = try NIOSSLContext(configuration: configuration)
        } catch {
            throw ClientError(
                .requestInvalid, "The system's roots of trust cannot be read", cause: error)
        }
        hostname = Self.isAddress(host) ? nil : host
    }

    /// Puts TLS at the beginning of a channel that has no handlers yet.
    func begin(_ channel: any Channel) throws {
        try channel.pipeline.syncOperations.addHandler(
            NIOSSLClientHandler(context: context, serverHostname: hostname))
    }

    /// Whether an error is TLS's own: the certificate is not believed, or it is no TLS.
    static func isFailure(_ error: any Error) -> Bool {
        if case .uncleanShutdown? = error as? NIOSSLError { return false }
        return error is NIOSSLError || error is BoringSSLError || error is NIOSSLExtraError
    }

    private static func isAddress(_ text: String) -> Bool {
        var bytes = in6_addr()
        return inet_pton(AF_INET, text, &bytes) == 1 || inet_pton(AF_INET6, text, &bytes) == 1
    }
}
