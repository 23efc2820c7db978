#include "model/missing_parts.h"

namespace viaduct {
namespace {

struct Missing {
  std::string_view type, part;
};
// Types as Hugging Face's code has them.
constexpr Missing kMissing[] = {
    {"codegen",
     "qkv_proj, whose rows are four parts, each of queries, values and keys of a quarter of the "
     "heads"},
    {"persimmon", "qk_layernorm, layer norms with biases on the heads of query and key"},
    {"xglm", "positions by sines and cosines that are added to the embeddings"},
};

}  // namespace

std::string_view missing_part_of(std::string_view model_type) {
  for (const Missing& missing : kMissing)
    if (missing.type == model_type) return missing.part;
  return {};
}

}  // namespace viaduct
