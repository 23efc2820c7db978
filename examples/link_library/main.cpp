// How much work is it to train Llama 3 8B on one row of 8,192 tokens? A program that links the installed library.
#include <cstdio>

#include "model/flops.h"

int main() {
  const viaduct::FlopSizes sizes{.layers = 32, .hidden = 4096, .feed_forward = 14336, .heads = 32, .key_value_heads = 8,
                                 .head_dim = 128, .vocabulary = 128256, .gated_mlp = true};
  std::printf("%.1f TFLOP\n", viaduct::training_flops(sizes, 1, 8192).model() / 1e12);
}
