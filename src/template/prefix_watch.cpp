#include "template/prefix_watch.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace viaduct::jinja {

std::optional<int64_t> PrefixWatch::offset(const TemplateValue& value) const {
  if (!value.is_list()) return std::nullopt;
  for (const auto& [list, before] : lists_) {
    if (list.same_object(value)) return before;
  }
  return std::nullopt;
}

bool PrefixWatch::is_loop(const TemplateValue& value) const {
  return loop_ && value.is_object() && value.as_object().get() == loop_.get();
}

void PrefixWatch::use(const TemplateValue& value) {
  if (is_loop(value) || offset(value)) look_ahead();
}

void PrefixWatch::use_item(const TemplateValue& object, const TemplateValue& index) {
  if (is_loop(object)) {
    if (index.is_text()) return use_attribute(object, index.as_text());
    return look_ahead();
  }
  const auto before = offset(object);
  if (!before) return;
  if (!index.is_integer() || index.as_integer() < 0) return look_ahead();
  const auto& items = object.as_list().items;
  // Beyond all messages there is nothing, whatever their number.
  if (static_cast<uint64_t>(index.as_integer()) >= items.size()) return;
  const int64_t needed = *before + index.as_integer() + 1;
  if (needed <= current_) return;
  if (current_ > 0) return look_ahead();
  least_ = std::max(least_, needed);
}

void PrefixWatch::use_attribute(const TemplateValue& object, const std::string& name) {
  if (offset(object)) return look_ahead();
  if (!is_loop(object)) return;
  constexpr std::array<std::string_view, 8> kBehind = {"index", "index0", "first", "previtem",
                                                       "depth", "depth0", "cycle", "changed"};
  if (std::find(kBehind.begin(), kBehind.end(), name) == kBehind.end()) look_ahead();
}

void PrefixWatch::use_slice(const TemplateValue& object, const TemplateValue (&bounds)[3],
                            const TemplateValue& result) {
  if (is_loop(object)) return look_ahead();
  const auto before = offset(object);
  if (!before) return;
  const bool rest =
      (bounds[0].is_none() || (bounds[0].is_integer() && bounds[0].as_integer() >= 0)) &&
      bounds[1].is_none() && bounds[2].is_none();
  if (!rest || !result.is_list() || current_ > 0) return look_ahead();
  lists_.emplace_back(result, *before + (bounds[0].is_none() ? 0 : bounds[0].as_integer()));
}

void PrefixWatch::begin_loop(std::shared_ptr<TemplateLoop> loop, int64_t offset) {
  loop_ = std::move(loop);
  loop_offset_ = offset;
}

}  // namespace viaduct::jinja
