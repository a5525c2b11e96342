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

/// What a client needs to speak TLS to one host.
struct ClientTLS: Sendable {
    private let context: NIOSSLContext
    /// The name that the certificate must have; nil for an address, which it must have likewise.
    private let hostname: String?

    /// - Throws: ``NodeError`` with `configurationInvalid` where the roots cannot be read.
    init(_ trust: TLSTrust, host: String) throws(NodeError) {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv12
        configuration.applicationProtocols = ["http/1.1"]
        if case .file(let file) = trust {
            let bytes: [UInt8]
            do {
                bytes = try SmallFile.read(file, maximumBytes: 8 << 20).bytes
            } catch {
                throw NodeError(
                    .configurationInvalid, "\(file) \(error.reason)", context: ["file": file])
            }
            guard let roots = try? NIOSSLCertificate.fromPEMBytes(bytes), !roots.isEmpty else {
                throw NodeError(
                    .configurationInvalid, "\(file) holds no certificate in PEM",
                    context: ["file": file])
            }
            configuration.trustRoots = .certificates(roots)
        }
        do {
            context = try NIOSSLContext(configuration: configuration)
        } catch {
            throw NodeError(
                .configurationInvalid, "The system's roots of trust cannot be read", cause: error)
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
