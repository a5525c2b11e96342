// What the header declares is defined by the toolchain's libFuzzer.
#include "CFuzzer.h"
