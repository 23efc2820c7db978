#pragma once
// How the ranks of a context group attend to each other's tokens; chosen for each layer.

#include <string_view>

namespace viaduct {

enum class ContextCommType {
  p2p,         // keys and values travel around a ring
  all_gather,  // every rank gathers all keys and values
  a2a,         // ranks exchange tokens for heads, and each attends over whole documents
  a2a_p2p,     // heads exchanged in the inner group, a ring over the outer
};

/// From "p2p", "all_gather", "a2a", "a2a+p2p"; ConfigError that lists them for other names.
ContextCommType parse_context_comm_type(std::string_view name);
std::string_view context_comm_type_name(ContextCommType type);

}  // namespace viaduct
