// libFuzzer's entry for programs that have a main function of their own.
#pragma once

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerRunDriver(
    int *_Nonnull argc, char *_Nullable *_Nonnull *_Nonnull argv,
    int (*_Nonnull callback)(const uint8_t *_Nullable bytes, size_t count));
