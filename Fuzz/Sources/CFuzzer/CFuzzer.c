// The driver that the header declares is defined by the toolchain's libFuzzer.
#include "CFuzzer.h"

// The toolchain links libFuzzer with its own main function, which is never called here but wants
// this one. See the package's linker settings.
int LLVMFuzzerTestOneInput(const uint8_t *_Nullable bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *_Nullable bytes, size_t count) {
    (void)bytes;
    (void)count;
    return 0;
}
