#include "model/model_config.h"

#include "base/error.h"

namespace viaduct {

void check_model_config(const ModelConfig& c) {
  std::vector<std::string> problems;
  const auto positive = [&](const char* name, int64_t value) {
    if (value < 1)
      problems.push_back(fmt::format("model: {} is {}, expected at least 1", name, value));
  };
  positive("number of layers", c.layers);
  positive("hidden size", c.hidden);
  positive("feed-forward size", c.feed_forward);
  positive("number of attention heads", c.heads);
  positive("number of key-value heads", c.kv_heads);
  positive("head size", c.head_dim);
  positive("vocabulary", c.vocabulary);
  positive("longest sequence", c.max_positions);
  if (c.heads >= 1 && c.kv_heads >= 1 && c.heads % c.kv_heads != 0) {
    problems.push_back(fmt::format("model: {} key-value heads do not divide {} attention heads",
                                   c.kv_heads, c.heads));
  }
  if (c.positions == PositionKind::rotary &&
      (c.rotary.width < 2 || c.rotary.width % 2 != 0 || c.rotary.width > c.head_dim)) {
    problems.push_back(fmt::format(
        "model: rotary width {} of head size {}: expected an even number up to the head size",
        c.rotary.width, c.head_dim));
  }
  if (!c.windows.empty() && static_cast<int64_t>(c.windows.size()) != c.layers) {
    problems.push_back(
        fmt::format("model: {} sliding windows for {} layers", c.windows.size(), c.layers));
  }
  if (!problems.empty()) throw ConfigError(std::move(problems));
}

}  // namespace viaduct
