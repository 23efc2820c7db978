#include "engine/saved_frames.h"

#include <algorithm>

namespace viaduct {
namespace {

bool is_phase(const ScopeRecord& scope, const char* name) {
  return scope.kind == ScopeKind::phase && scope.micro_batch >= 0 && scope.chunk >= 0 &&
         scope.name == name;
}

}  // namespace

SavedFrames::SavedFrames(const StepRecord& record) : record_(record) {
  for (const ScopeRecord& scope : record.scopes())
    if (is_phase(scope, "backward")) backwards_.push_back(&scope);
}

const ScopeRecord* SavedFrames::phase_around(int64_t scope) const {
  while (scope >= 0) {
    const ScopeRecord& one = record_.scopes()[static_cast<size_t>(scope)];
    if (one.kind == ScopeKind::phase) return &one;
    scope = one.parent;
  }
  return nullptr;
}

std::optional<KeptFor> SavedFrames::kept_for(const AllocationRecord& allocation) const {
  const ScopeRecord* made = phase_around(allocation.scope);
  if (made == nullptr || !is_phase(*made, "forward")) return std::nullopt;
  auto next =
      std::upper_bound(backwards_.begin(), backwards_.end(), allocation.released_at,
                       [](int64_t at, const ScopeRecord* scope) { return at < scope->begin_at; });
  if (next == backwards_.begin()) return std::nullopt;
  const ScopeRecord& ended = **--next;
  if (allocation.released_at > ended.end_at || ended.chunk != made->chunk ||
      ended.micro_batch != made->micro_batch)
    return std::nullopt;
  return KeptFor{made->chunk, made->micro_batch};
}

}  // namespace viaduct
