// base/multiversion.hpp - RUBATO_MULTIVERSION before a function: compiled for AVX-512, AVX2 and the
// baseline of x86-64; the loader takes the best that the processor has. Elsewhere one version,
// since NEON is every AArch64's baseline. For loops that the compiler vectorises by itself. Beware:
// fused multiply-add changes bits between versions. A file whose bits must not depend on the
// processor is built with -ffp-contract=off.
#pragma once

// The sanitizers instrument the function that chooses, which runs before they are up; clang 16
// rejects the architecture levels. RUBATO_ONE_VERSION: tests build one version at a time.
#if !defined(RUBATO_ONE_VERSION) && defined(__x86_64__) && defined(__GNUC__) && \
    !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define RUBATO_MULTIVERSION \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define RUBATO_MULTIVERSION
#endif
