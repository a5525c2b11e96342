// The node's side of TLS: its certificate and key, and channels that speak under them.
//
// Threading: values; the context inside is made once and safe to use from every event loop.

internal import HummingbirdCore
internal import Logging
internal import NIOCore
internal import NIOHTTP1
internal import NIOSSL

/// A certificate with its private key, ready to be served.
package struct TLSIdentity: Sendable {
    /// No chain of certificates is longer.
    private static let maximumBytes = 1 << 20

    let context: NIOSSLContext
    /// The certificates as they were read, to tell whether a file has changed.
    let certificates: [UInt8]

    /// Reads certificate and key.
    ///
    /// - Parameters:
    ///   - certificateFile: the node's certificate and what leads from it to a root, PEM.
    ///   - keyFile: its private key, PEM, mode 0600.
    /// - Throws: ``NodeError`` with `secretUnreadable` for the key, `configurationInvalid` for the
    ///   certificate or where the two do not belong together. Nothing of the key is in an error.
    package init(certificateFile: String, keyFile: String) throws(NodeError) {
        do {
            certificates = try SmallFile.read(
                certificateFile, maximumBytes: Self.maximumBytes
            ).bytes
        } catch {
            throw Self.failure("certificateFile", certificateFile, error.reason)
        }
        guard let chain = try? NIOSSLCertificate.fromPEMBytes(certificates), !chain.isEmpty else {
            throw Self.failure("certificateFile", certificateFile, "holds no certificate in PEM")
        }
        let text = try SecretFile.read(
            keyFile, key: "http.tls.keyFile", maximumBytes: SecretFile.maximumKeyBytes)
        guard let key = try? NIOSSLPrivateKey(bytes: Array(text.utf8), format: .pem) else {
            throw NodeError(
                .secretUnreadable, "http.tls.keyFile: \(keyFile) holds no private key in PEM",
                context: ["key": "http.tls.keyFile", "file": keyFile])
        }
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: chain.map { .certificate($0) }, privateKey: .privateKey(key))
        configuration.minimumTLSVersion = .tlsv12
        // Clients prove themselves by tokens; no root is needed here, and none takes memory.
        configuration.trustRoots = .certificates([])
        configuration.applicationProtocols = ["http/1.1"]
        guard let context = try? NIOSSLContext(configuration: configuration) else {
            throw Self.failure(
                "keyFile", keyFile, "is not the key of the certificate in \(certificateFile)")
        }
        self.context = context
    }

    private static func failure(_ key: String, _ file: String, _ reason: String) -> NodeError {
        NodeError(
            .configurationInvalid, "http.tls.\(key): \(file) \(reason)",
            context: ["key": "http.tls.\(key)", "file": file])
    }
}

/// The HTTP channel, under TLS where the server has an identity.
struct SecuredChannel: ServerChildChannel {
    let base: HTTP1Channel
    /// The identity for the next connection; nil for HTTP in clear.
    let identity: @Sendable () -> TLSIdentity?
    /// All connections of the server.
    let connections: HTTPConnections

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<HTTP1Channel.Value> {
        let connections = connections
        let admission = connections.admit(channel)
        channel.closeFuture.whenComplete { _ in connections.remove(channel) }
        let identity = identity()
        return channel.eventLoop.makeCompletedFuture {
            guard let identity else { return }
            try channel.pipeline.syncOperations.addHandler(
                NIOSSLServerHandler(context: identity.context))
        }.flatMap { base.setup(channel: channel, logger: logger) }
            .flatMapThrowing { value in
                let pipeline = channel.pipeline.syncOperations
                let handler = HTTPConnectionHandler(connections, admission: admission)
                let parser = try pipeline.handler(
                    type: ByteToMessageHandler<HTTPRequestDecoder>.self)
                try pipeline.addHandler(handler, position: .after(parser))
                let encoder = try pipeline.handler(type: HTTPResponseEncoder.self)
                try pipeline.addHandler(HTTPByteWatch(handler), position: .before(encoder))
                return value
            }
    }

    func handle(value: HTTP1Channel.Value, logger: Logger) async {
        await withTaskExecutorPreference(LoopExecutor(value.channel.eventLoop)) {
            await base.handle(value: value, logger: logger)
        }
    }
}
