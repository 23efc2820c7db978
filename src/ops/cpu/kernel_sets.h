#pragma once
// Declares what a kernel file defines once for each of its instruction sets, in a namespace of the
// set's name. VIADUCT_KERNELS is for families of portable, avx2 and avx512, and
// VIADUCT_KERNELS_WITH_BF16 for those of avx512_bf16 too; what they declare is a table
// `extern const Type name`. VIADUCT_KERNELS_FUNCTION… are the same for `const Type& name()`.
//
// Processors other than x86 have the portable kernels alone. A dry run there may choose the others
// (`cpu_ops(isa, for_simulation)`), which `cpu_ops` refuses to run: their tables are empty.

#if defined(__x86_64__)
#define VIADUCT_X86_KERNELS(isa, Type, name) \
  namespace isa {                            \
  extern const Type name;                    \
  }
#define VIADUCT_X86_KERNELS_FUNCTION(isa, Type, name) \
  namespace isa {                                     \
  const Type& name();                                 \
  }
#else
#include "base/error.h"

namespace viaduct::cpu {
[[noreturn]] inline void fail_without_x86() {
  fail<DeviceError>("cpu: these kernels are for x86 processors only");
}
}  // namespace viaduct::cpu

#define VIADUCT_X86_KERNELS(isa, Type, name) \
  namespace isa {                            \
  inline const Type name{};                  \
  }
#define VIADUCT_X86_KERNELS_FUNCTION(isa, Type, name) \
  namespace isa {                                     \
  [[noreturn]] inline const Type& name() {            \
    fail_without_x86();                               \
  }                                                   \
  }
#endif

#define VIADUCT_KERNELS(Type, name)     \
  namespace portable {                  \
  extern const Type name;               \
  }                                     \
  VIADUCT_X86_KERNELS(avx2, Type, name) \
  VIADUCT_X86_KERNELS(avx512, Type, name)
#define VIADUCT_KERNELS_WITH_BF16(Type, name) \
  VIADUCT_KERNELS(Type, name)                 \
  VIADUCT_X86_KERNELS(avx512_bf16, Type, name)

#define VIADUCT_KERNELS_FUNCTION(Type, name)     \
  namespace portable {                           \
  const Type& name();                            \
  }                                              \
  VIADUCT_X86_KERNELS_FUNCTION(avx2, Type, name) \
  VIADUCT_X86_KERNELS_FUNCTION(avx512, Type, name)
#define VIADUCT_KERNELS_FUNCTION_WITH_BF16(Type, name) \
  VIADUCT_KERNELS_FUNCTION(Type, name)                 \
  VIADUCT_X86_KERNELS_FUNCTION(avx512_bf16, Type, name)
