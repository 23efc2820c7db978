#include "ops/dequantize_blocks.h"

#include "ops/reference/reference.h"
#include "tensor/gguf_blocks.h"

// The values are FP32 by definition: one at a time, whatever the tensor's own format.

namespace viaduct::reference {

void dequantize_blocks(const DequantizeBlocksArgs& args) {
  const auto* blocks = static_cast<const std::byte*>(args.blocks.raw());
  dispatch_floating(args.out.dtype(), [&](auto zero) {
    auto* out = args.out.data<decltype(zero)>();
    for (int64_t i = 0; i < args.out.elements(); ++i) {
      float value = 0;
      decode_gguf_elements(args.type, blocks, i, i + 1, &value);
      out[i] = static_cast<decltype(zero)>(value);
    }
  });
}

}  // namespace viaduct::reference
