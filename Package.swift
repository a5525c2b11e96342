// swift-tools-version:6.2
import PackageDescription

// Layers, lowest first; arrows in `dependencies` point downwards only (see ARCHITECTURE.md).
// What a target may import is exactly what is listed here.

let settings: [SwiftSetting] = [
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
]

let package = Package(
    name: "tributary",
    products: [
        .library(name: "Merge", targets: ["Merge"]),
        .library(name: "Replication", targets: ["Replication"]),
        .library(name: "Coordinator", targets: ["Coordinator"]),
        .library(name: "Node", targets: ["Node"]),
        .library(name: "Client", targets: ["Client"]),
        .library(name: "Tributary", targets: ["Tributary"]),
        .library(name: "Simulation", targets: ["Simulation"]),
        .executable(name: "tributary", targets: ["TributaryCLI"]),
        .executable(name: "tributary-lab", targets: ["TributaryLab"]),
        .executable(name: "tributary-benchmark", targets: ["TributaryBenchmark"]),
    ],
    dependencies: [
        .package(url: "https://github.com/groue/GRDB.swift.git", from: "7.10.0"),
        // Without its default traits: those pull in configuration files and all of Foundation.
        .package(
            url: "https://github.com/hummingbird-project/hummingbird.git", from: "2.28.0",
            traits: []),
        .package(url: "https://github.com/apple/swift-nio.git", from: "2.101.0"),
        .package(url: "https://github.com/apple/swift-nio-ssl.git", from: "2.37.0"),
        .package(url: "https://github.com/apple/swift-argument-parser.git", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log.git", from: "1.14.0"),
        .package(url: "https://github.com/apple/swift-http-types.git", from: "1.8.0", traits: []),
        .package(
            url: "https://github.com/swift-server/swift-service-lifecycle.git", from: "2.13.0"),
        .package(url: "https://github.com/jpsim/Yams.git", from: "6.2.0"),
    ],
    targets: [
        // Layer 0: pure values and functions. Standard library only.
        .target(name: "Merge", swiftSettings: settings),

        // Layer 1: the protocol, a pure state machine; and the store with its contexts.
        .target(name: "CSQLite", linkerSettings: [.linkedLibrary("sqlite3")]),
        // The inspector's page: its files are embedded when page.c is compiled.
        .target(
            name: "CInspectorPage", exclude: ["page"]),
        .target(name: "Replication", dependencies: ["Merge"], swiftSettings: settings),
        .target(
            name: "Coordinator",
            dependencies: [
                "Merge", "CSQLite",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: settings,
            // ICU of the toolchain, which Foundation is linked with.
            linkerSettings: [.linkedLibrary("_FoundationICU")]),

        // Layer 2: the shell of a node without I/O; and with it: sockets, timers, HTTP, the process.
        .target(
            name: "NodeCore", dependencies: ["Merge", "Replication", "Coordinator"],
            swiftSettings: settings),
        .systemLibrary(name: "CZeroMQ", providers: [.apt(["libzmq3-dev"])]),
        .target(
            name: "Node",
            dependencies: [
                "Merge", "Replication", "Coordinator", "NodeCore", "CZeroMQ", "CInspectorPage",
                .product(name: "HummingbirdCore", package: "hummingbird"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
                .product(name: "Yams", package: "Yams"),
            ],
            swiftSettings: settings),

        // A client of a node over HTTP; it knows nothing of the node's own code.
        .target(
            name: "Client",
            dependencies: [
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
            ],
            swiftSettings: settings),

        // Layer 3: what people hold in their hands.
        .target(
            name: "Tributary", dependencies: ["Merge", "Replication", "Coordinator", "Node"],
            swiftSettings: settings),
        // A TCP proxy for one directed link: the demo, the benchmark and the integration tests cut
        // meshes with it.
        .target(
            name: "LinkProxy",
            dependencies: [
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ],
            swiftSettings: settings),
        // What the programs of the command line share: output on a terminal, exit codes.
        .target(
            name: "Console",
            dependencies: [
                .product(name: "ArgumentParser", package: "swift-argument-parser")
            ],
            swiftSettings: settings),
        // The terminal inspector without a terminal: what it knows, what a key does, what is shown.
        .target(
            name: "Inspector", dependencies: ["Console", "Coordinator"], swiftSettings: settings),
        .executableTarget(
            name: "TributaryCLI",
            dependencies: [
                "Merge", "Coordinator", "Node", "Client", "Console", "Inspector",
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: settings),
        // What shows and proves the product, and no node needs: the demo and the simulator.
        .executableTarget(
            name: "TributaryLab",
            dependencies: [
                "Merge", "Coordinator", "Client", "Console", "LinkProxy", "Simulation",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: settings),

        .executableTarget(
            name: "TributaryBenchmark",
            dependencies: [
                "Merge", "Coordinator", "Node", "Client", "LinkProxy",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: settings),

        // The oracle: what the design says, from the set of saves alone. It stands in the test tree,
        // for it is written from the design and not from the product.
        .target(
            name: "ReferenceModel", dependencies: ["Merge", "Coordinator"],
            path: "Tests/ReferenceModel", swiftSettings: settings),
        .target(name: "TestSupport", path: "Tests/TestSupport", swiftSettings: settings),
        // A cluster in a box: the product's own node and coordinator in a virtual world.
        .target(
            name: "Simulation",
            dependencies: [
                "Merge", "Replication", "Coordinator", "NodeCore", "ReferenceModel",
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
            ],
            swiftSettings: settings),

        // What an application of the library looks like; CommandTests run it.
        .executableTarget(
            name: "contact-list", dependencies: ["Merge", "Coordinator"],
            path: "Examples/ContactList", exclude: ["README.md"], swiftSettings: settings),

        .executableTarget(
            name: "scratch-pad",
            dependencies: [
                "Merge", "Coordinator", "Node", .product(name: "Logging", package: "swift-log"),
            ],
            path: "Examples/ScratchPad", exclude: ["README.md"], swiftSettings: settings),

        // A program whose author errs: release builds must say how.
        .executableTarget(
            name: "tributary-misuse", dependencies: ["Merge", "Coordinator"], path: "Tests/Misuse",
            exclude: ["check"], swiftSettings: settings),

        // Deliberate defects of the product. The simulator must catch each.
        .executableTarget(
            name: "tributary-mutants", path: "Tests/Mutants/Runner", swiftSettings: settings),

        .testTarget(
            name: "MergeTests", dependencies: ["Merge", "TestSupport"], swiftSettings: settings),
        .testTarget(
            name: "ReplicationTests", dependencies: ["Merge", "Replication", "TestSupport"],
            swiftSettings: settings),
        .testTarget(
            name: "CoordinatorTests",
            dependencies: [
                "Merge", "Coordinator", "TestSupport",
                .product(name: "GRDB", package: "GRDB.swift"),
            ],
            swiftSettings: settings),
        .testTarget(
            name: "NodeCoreTests",
            dependencies: ["Merge", "Replication", "Coordinator", "NodeCore", "TestSupport"],
            swiftSettings: settings),
        .testTarget(
            name: "NodeTests",
            dependencies: [
                "Merge", "Replication", "Coordinator", "NodeCore", "Node", "Client", "CZeroMQ",
                "Simulation",
                "TestSupport",
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: settings),
        .testTarget(
            name: "SimulationTests",
            dependencies: [
                "Merge", "Replication", "Coordinator", "ReferenceModel", "Simulation",
                "TestSupport",
            ],
            swiftSettings: settings),
        // What CONTRIBUTING says of code and pages, by reading them.
        .testTarget(name: "HouseRulesTests", swiftSettings: settings),
        // The fuzzer's decoders, which read their corpus here; the fuzzer is a package of its own.
        .testTarget(
            name: "FuzzTests",
            dependencies: [
                "Merge", "Replication", "Coordinator", "Node",
                .product(name: "GRDB", package: "GRDB.swift"),
            ],
            path: "Fuzz/Sources",
            exclude: ["CFuzzer", "TributaryFuzz/TributaryFuzz.swift"], swiftSettings: settings),
        .testTarget(
            name: "InspectorTests",
            dependencies: ["Inspector", "Console", "Coordinator", "TestSupport"],
            exclude: ["Screens"], swiftSettings: settings),
        .testTarget(
            name: "CommandTests",
            dependencies: [
                "Merge", "Coordinator", "Node", "Client", "Console", "TributaryCLI",
                "TributaryLab", "TestSupport",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ], swiftSettings: settings),
        .testTarget(
            name: "EndToEndTests",
            dependencies: [
                "Merge", "Coordinator", "Replication", "Node", "Client", "LinkProxy", "CZeroMQ",
                "ReferenceModel", "TestSupport",
            ], swiftSettings: settings),
    ],
    swiftLanguageModes: [.v6]
)
