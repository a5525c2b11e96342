/// The chemical elements up to uranium with those who found them: facts, and so in the public
/// domain. The demo's input where a machine has no package database.
enum BundledElements {
    /// The list as Debian control stanzas, so that it goes the same way as a package database.
    ///
    /// An element's "dependency" is the one before it; its "section" the tens of its number.
    static func control() -> String {
        var result = ""
        var previous: Substring?
        for (index, line) in list.split(separator: "\n").enumerated() {
            let parts = line.split(separator: " ")
            guard parts.count == 3 else { continue }
            result += """
                Package: \(parts[1])
                Version: \(index + 1)
                Architecture: \(parts[0])
                Maintainer: \(parts[2])
                Section: elements-\(index / 10)0
                Installed-Size: \(index + 1)
                Description: The element \(parts[0])

                """
            if let previous { result += "Depends: \(previous)\n" }
            result += "\n"
            previous = parts[1]
        }
        return result
    }

    private static let list = """
        H Hydrogen Cavendish
        He Helium Janssen
        Li Lithium Arfwedson
        Be Beryllium Vauquelin
        B Boron Gay-Lussac
        C Carbon Antiquity
        N Nitrogen Rutherford
        O Oxygen Scheele
        F Fluorine Moissan
        Ne Neon Ramsay
        Na Sodium Davy
        Mg Magnesium Davy
        Al Aluminium Oersted
        Si Silicon Berzelius
        P Phosphorus Brand
        S Sulfur Antiquity
        Cl Chlorine Scheele
        Ar Argon Ramsay
        K Potassium Davy
        Ca Calcium Davy
        Sc Scandium Nilson
        Ti Titanium Gregor
        V Vanadium Del-Rio
        Cr Chromium Vauquelin
        Mn Manganese Gahn
        Fe Iron Antiquity
        Co Cobalt Brandt
        Ni Nickel Cronstedt
        Cu Copper Antiquity
        Zn Zinc Marggraf
        Ga Gallium Lecoq
        Ge Germanium Winkler
        As Arsenic Magnus
        Se Selenium Berzelius
        Br Bromine Balard
        Kr Krypton Ramsay
        Rb Rubidium Bunsen
        Sr Strontium Davy
        Y Yttrium Gadolin
        Zr Zirconium Klaproth
        Nb Niobium Hatchett
        Mo Molybdenum Scheele
        Tc Technetium Segre
        Ru Ruthenium Claus
        Rh Rhodium Wollaston
        Pd Palladium Wollaston
        Ag Silver Antiquity
        Cd Cadmium Stromeyer
        In Indium Reich
        Sn Tin Antiquity
        Sb Antimony Antiquity
        Te Tellurium Mueller
        I Iodine Courtois
        Xe Xenon Ramsay
        Cs Caesium Bunsen
        Ba Barium Davy
        La Lanthanum Mosander
        Ce Cerium Berzelius
        Pr Praseodymium Welsbach
        Nd Neodymium Welsbach
        Pm Promethium Marinsky
        Sm Samarium Lecoq
        Eu Europium Demarcay
        Gd Gadolinium Marignac
        Tb Terbium Mosander
        Dy Dysprosium Lecoq
        Ho Holmium Cleve
        Er Erbium Mosander
        Tm Thulium Cleve
        Yb Ytterbium Marignac
        Lu Lutetium Urbain
        Hf Hafnium Coster
        Ta Tantalum Ekeberg
        W Tungsten Elhuyar
        Re Rhenium Noddack
        Os Osmium Tennant
        Ir Iridium Tennant
        Pt Platinum Ulloa
        Au Gold Antiquity
        Hg Mercury Antiquity
        Tl Thallium Crookes
        Pb Lead Antiquity
        Bi Bismuth Geoffroy
        Po Polonium Curie
        At Astatine Segre
        Rn Radon Dorn
        Fr Francium Perey
        Ra Radium Curie
        Ac Actinium Debierne
        Th Thorium Berzelius
        Pa Protactinium Meitner
        U Uranium Klaproth
        """
}
