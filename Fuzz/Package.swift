// swift-tools-version:6.2
import PackageDescription

// Fuzzing of every decoder of foreign bytes. A package of its own, so that nothing of it is built
// with the product. `run` passes the sanitizers' flags, which must reach the product's modules too.

let settings: [SwiftSetting] = [
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
]

let package = Package(
    name: "tributary-fuzz",
    dependencies: [
        .package(name: "tributary", path: ".."),
        .package(url: "https://github.com/groue/GRDB.swift.git", from: "7.10.0"),
    ],
    targets: [
        // The one function of libFuzzer that is called; its code is in the toolchain.
        .target(name: "CFuzzer"),
        .executableTarget(
            name: "TributaryFuzz",
            dependencies: [
                "CFuzzer",
                .product(name: "Merge", package: "tributary"),
                .product(name: "Replication", package: "tributary"),
                .product(name: "Coordinator", package: "tributary"),
                .product(name: "Node", package: "tributary"),
                .product(name: "GRDB", package: "GRDB.swift"),
            ],
            swiftSettings: settings,
            // The fuzzing flag brings a main function of its own, beside that of every program.
            linkerSettings: [.unsafeFlags(["-Xlinker", "-z", "-Xlinker", "muldefs"])]),
    ],
    swiftLanguageModes: [.v6]
)
