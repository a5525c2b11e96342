// What is declared in the header is defined by the toolchain's libFuzzer.
#include "CFuzzer.h"
