#include "run/sentinel_tokens.h"

#include <fmt/format.h>

namespace viaduct {

std::optional<Sentinels> sentinel_tokens(const Tokenizer* tokenizer, int64_t extra,
                                         std::optional<int64_t> tokens) {
  const auto id = [&](int64_t number) -> std::optional<int32_t> {
    if (tokenizer == nullptr) return std::nullopt;
    return tokenizer->find(fmt::format("<extra_id_{}>", number));
  };
  if (const auto first = id(0)) {
    Sentinels sentinels{.first = *first, .count = 1, .of_tokenizer = true};
    while (id(sentinels.count) == *first - sentinels.count) ++sentinels.count;
    return sentinels;
  }
  if (extra == 0 || !tokens) return std::nullopt;
  return Sentinels{.first = static_cast<int32_t>(*tokens - 1), .count = extra};
}

}  // namespace viaduct
