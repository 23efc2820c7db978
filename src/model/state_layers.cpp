#include "model/state_layers.h"

namespace viaduct {
namespace {

struct Kind {
  std::string_view layers, type;
};
// Types as Hugging Face's code has them, by kind of layer.
constexpr Kind kKinds[] = {
    {"Mamba", "falcon_mamba"},
    {"Mamba", "jamba"},
    {"Mamba", "mamba"},
    {"Mamba", "zamba"},
    {"Mamba 2", "bamba"},
    {"Mamba 2", "falcon_h1"},
    {"Mamba 2", "granitemoehybrid"},
    {"Mamba 2", "mamba2"},
    {"Mamba 2", "nemotron_h"},
    {"Mamba 2", "zamba2"},
    {"gated delta nets", "olmo_hybrid"},
    {"gated delta nets", "qwen3_5"},
    {"gated delta nets", "qwen3_5_moe"},
    {"gated delta nets", "qwen3_5_moe_text"},
    {"gated delta nets", "qwen3_5_text"},
    {"gated delta nets", "qwen3_next"},
    {"Kimi delta attention", "kimi_linear"},
    {"lightning attention", "minimax"},
    {"RG-LRU", "recurrent_gemma"},
    {"RWKV", "rwkv"},
    {"short convolutions", "lfm2"},
    {"short convolutions", "lfm2_moe"},
    {"short convolutions", "lfm2_vl"},
    {"xLSTM", "xlstm"},
};

}  // namespace

std::string_view state_layers_of(std::string_view model_type) {
  for (const Kind& kind : kKinds)
    if (kind.type == model_type) return kind.layers;
  return {};
}

}  // namespace viaduct
