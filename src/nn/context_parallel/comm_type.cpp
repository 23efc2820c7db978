#include "nn/context_parallel/comm_type.h"

#include <array>

#include "base/error.h"

namespace viaduct {
namespace {

constexpr std::array<std::string_view, 4> kNames{"p2p", "all_gather", "a2a", "a2a+p2p"};

}  // namespace

ContextCommType parse_context_comm_type(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<ContextCommType>(i);
  }
  fail<ConfigError>("cp_comm_type: expected p2p, all_gather, a2a or a2a+p2p, found {}", name);
}

std::string_view context_comm_type_name(ContextCommType type) {
  return kNames[static_cast<size_t>(type)];
}

}  // namespace viaduct
