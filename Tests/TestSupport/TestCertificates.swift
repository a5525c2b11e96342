// Certificates and keys made for these tests, valid for a hundred years. The root's key is gone.

public import Foundation

/// PEM texts, and files of them.
public enum TestCertificates {
    /// The root that the nodes' certificates lead to.
    public static let root = """
        -----BEGIN CERTIFICATE-----
        MIIBmDCCAT2gAwIBAgIUc2W+THwByDE9OyMRitAONOESc4QwCgYIKoZIzj0EAwIw
        GDEWMBQGA1UEAwwNVGVzdCByb290IG9uZTAgFw0yNjExMjExMTQ4MzJaGA8yMTI2
        MTAyODExNDgzMlowGDEWMBQGA1UEAwwNVGVzdCByb290IG9uZTBZMBMGByqGSM49
        AgEGCCqGSM49AwEHA0IABBKlYg0k75pOoUWuhzkQutcMk1CNX2Y4CdJopVFQT75Z
        ozdiyJuSl/P2Xl6hWSSWSxTWlF1jjCh2Ku8StAY4A+ajYzBhMB0GA1UdDgQWBBSi
        YxJhOxiYh5R0dC3BJHWg/AfodTAfBgNVHSMEGDAWgBSiYxJhOxiYh5R0dC3BJHWg
        /AfodTAPBgNVHRMBAf8EBTADAQH/MA4GA1UdDwEB/wQEAwICBDAKBggqhkjOPQQD
        AgNJADBGAiEAmULGgEh10GK7VMQ8zTFGzXNzKIh4kvDU6jjclCPmuAMCIQC4F0UG
        e4YgfibCmM41dnsAkkKcriypmbN5mV9kz222Pw==
        -----END CERTIFICATE-----
        """

    /// A root that they do not lead to.
    public static let otherRoot = """
        -----BEGIN CERTIFICATE-----
        MIIBljCCAT2gAwIBAgIUE2H+TNpuDnVPNsM4ENa5L6jXmKswCgYIKoZIzj0EAwIw
        GDEWMBQGA1UEAwwNVGVzdCByb290IHR3bzAgFw0yNjExMjExMTQ4MzJaGA8yMTI2
        MTAyODExNDgzMlowGDEWMBQGA1UEAwwNVGVzdCByb290IHR3bzBZMBMGByqGSM49
        AgEGCCqGSM49AwEHA0IABOQvpNrYDZPbmI7+zDjN2tPGnOTAipIE2rOaAg2Ic5xN
        YWkTFwkaJGUhpVJQNgW2+P3TghV4wQU9dVi85AOyVSOjYzBhMB0GA1UdDgQWBBTF
        CaLm3BRoL2djgItBhZp/NTmBXzAfBgNVHSMEGDAWgBTFCaLm3BRoL2djgItBhZp/
        NTmBXzAPBgNVHRMBAf8EBTADAQH/MA4GA1UdDwEB/wQEAwICBDAKBggqhkjOPQQD
        AgNHADBEAiA5WRtGO4BYqlyf0aINKa58BZoAOJujW0RiUB+GvTAbNgIgTrBbyMpx
        9nySLEkqhUao+IEN8yCBuOQJitrU5S/A5fw=
        -----END CERTIFICATE-----
        """

    /// For localhost and 127.0.0.1.
    public static let certificate = """
        -----BEGIN CERTIFICATE-----
        MIIBqjCCAU+gAwIBAgIUdSs6yherjGPeC8kYnwJawLFdOHQwCgYIKoZIzj0EAwIw
        GDEWMBQGA1UEAwwNVGVzdCByb290IG9uZTAgFw0yNjExMjExMTQ4MzJaGA8yMTI2
        MTAyODExNDgzMlowDzENMAsGA1UEAwwEbm9kZTBZMBMGByqGSM49AgEGCCqGSM49
        AwEHA0IABFxeXrySs5C3glR/qVCsrKPhOHATmo0W+b8LTVZK1FmfzJ4R4/7k54VU
        1LBHnK/O2jPCQAJKQkWrvh/FazopiVejfjB8MBoGA1UdEQQTMBGCCWxvY2FsaG9z
        dIcEfwAAATAJBgNVHRMEAjAAMBMGA1UdJQQMMAoGCCsGAQUFBwMBMB0GA1UdDgQW
        BBQagwh5aWmLER0Ew9J0OMzrlyM3qzAfBgNVHSMEGDAWgBSiYxJhOxiYh5R0dC3B
        JHWg/AfodTAKBggqhkjOPQQDAgNJADBGAiEAueBxktdFAVegWZlBYvTndfh/Fybv
        dYSE2MMNpgG5UEwCIQCnnLUlEoxA1gD9k3gRRKQBhFhLFf7am/s8fwJh2KgyRw==
        -----END CERTIFICATE-----
        """

    /// Its key; it protects nothing.
    public static let key = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQghSm8kvKiL9SggcfQ
        EsEUYG014n52Ha7jBBH28d1BqHKhRANCAARcXl68krOQt4JUf6lQrKyj4ThwE5qN
        Fvm/C01WStRZn8yeEeP+5OeFVNSwR5yvztozwkACSkJFq74fxWs6KYlX
        -----END PRIVATE KEY-----
        """

    /// Another for the same names.
    public static let nextCertificate = """
        -----BEGIN CERTIFICATE-----
        MIIBqTCCAU+gAwIBAgIUdSs6yherjGPeC8kYnwJawLFdOHUwCgYIKoZIzj0EAwIw
        GDEWMBQGA1UEAwwNVGVzdCByb290IG9uZTAgFw0yNjExMjExMTQ4MzNaGA8yMTI2
        MTAyODExNDgzM1owDzENMAsGA1UEAwwEbm9kZTBZMBMGByqGSM49AgEGCCqGSM49
        AwEHA0IABJTNV4MhQdbOJbiufsIk5oMhbtSCJM2J8eg7sXmt9+m81YOSrVac2inh
        vVgoMvrfR3Nonah4YIUGD6m3Wb2DeM6jfjB8MBoGA1UdEQQTMBGCCWxvY2FsaG9z
        dIcEfwAAATAJBgNVHRMEAjAAMBMGA1UdJQQMMAoGCCsGAQUFBwMBMB0GA1UdDgQW
        BBSkdytFwE2nfBV0NPB8CC7lkp1R5TAfBgNVHSMEGDAWgBSiYxJhOxiYh5R0dC3B
        JHWg/AfodTAKBggqhkjOPQQDAgNIADBFAiBhCUz/56iQwkl9fcBP/bfpAK2eJZLw
        feywHE9u/FiR4AIhAPLuNIqTlwEsBQ2quKZwErbLjdXuccnPbLGVYMqbqC7O
        -----END CERTIFICATE-----
        """

    /// Its key; it protects nothing.
    public static let nextKey = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgGZj/c/kKw8VEnhAg
        4O1uh4/ACXImzSXOy3sB2zylbaOhRANCAASUzVeDIUHWziW4rn7CJOaDIW7UgiTN
        ifHoO7F5rffpvNWDkq1WnNop4b1YKDL630dzaJ2oeGCFBg+pt1m9g3jO
        -----END PRIVATE KEY-----
        """

    /// For elsewhere.example only.
    public static let foreignCertificate = """
        -----BEGIN CERTIFICATE-----
        MIIBrDCCAVKgAwIBAgIUdSs6yherjGPeC8kYnwJawLFdOHYwCgYIKoZIzj0EAwIw
        GDEWMBQGA1UEAwwNVGVzdCByb290IG9uZTAgFw0yNjExMjExMTQ4MzNaGA8yMTI2
        MTAyODExNDgzM1owDzENMAsGA1UEAwwEbm9kZTBZMBMGByqGSM49AgEGCCqGSM49
        AwEHA0IABFCA73gITxbexPcqXvFFaw74+YspbI4duOlXtxZEjmXlBYZMyN8/u4xX
        fTI8OcsvyUj9XjabwtKuuIJce99Mj3ajgYAwfjAcBgNVHREEFTATghFlbHNld2hl
        cmUuZXhhbXBsZTAJBgNVHRMEAjAAMBMGA1UdJQQMMAoGCCsGAQUFBwMBMB0GA1Ud
        DgQWBBQtj3f5oUsiKqBbMfpBrubZZWG3RzAfBgNVHSMEGDAWgBSiYxJhOxiYh5R0
        dC3BJHWg/AfodTAKBggqhkjOPQQDAgNIADBFAiEAnsnRhOUI/vy7nJcPwUCfaQC+
        OIYGas++u9ahN86HppECIANWzg0zPvy4x+SW1eLNHALbQwX2/VYrxkP/bUfwFMQp
        -----END CERTIFICATE-----
        """

    /// Its key; it protects nothing.
    public static let foreignKey = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgwzqO3iBZehIIjzsq
        0m2TeC4m6rQASXT2Bx/6C3A2LWyhRANCAARQgO94CE8W3sT3Kl7xRWsO+PmLKWyO
        HbjpV7cWRI5l5QWGTMjfP7uMV30yPDnLL8lI/V42m8LSrriCXHvfTI92
        -----END PRIVATE KEY-----
        """

    /// Writes a text to a new file with a mode; gives its path.
    public static func write(
        _ text: String, _ name: String, in folder: URL, mode: Int = 0o600
    ) throws -> String {
        let file = folder.appendingPathComponent(name)
        try Data((text + "\n").utf8).write(to: file)
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: file.path)
        return file.path
    }
}
