#include "nn/context_parallel/exchange.h"

#include <array>

#include "base/error.h"

namespace viaduct {
namespace {

constexpr std::array<std::string_view, 4> kNames{"p2p", "all_gather", "a2a", "a2a+p2p"};

}  // namespace

std::string_view context_exchange_name(ContextExchange exchange) {
  return kNames[static_cast<size_t>(exchange)];
}

ContextExchange parse_context_exchange(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<ContextExchange>(i);
  }
  fail<ConfigError>("model.cp_comm_type: expected p2p, all_gather, a2a or a2a+p2p, found {}", name);
}

}  // namespace viaduct
