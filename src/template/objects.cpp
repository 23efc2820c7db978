#include "template/objects.h"

namespace viaduct {

void TemplateGenerator::fill() {
  if (made) return;
  made = true;
  items = make();
  make = nullptr;
}

std::vector<TemplateValue> TemplateGenerator::take() {
  fill();
  std::vector<TemplateValue> rest(items.begin() + static_cast<std::ptrdiff_t>(next), items.end());
  items.clear();
  next = 0;
  return rest;
}

std::optional<TemplateValue> TemplateGenerator::take_one() {
  fill();
  if (next >= items.size()) return std::nullopt;
  return items[next++];
}

std::string object_name(const TemplateObject& object) {
  if (const auto* callable = dynamic_cast<const TemplateCallable*>(&object)) {
    return callable->is_macro ? "Macro" : "function";
  }
  if (dynamic_cast<const TemplateNamespace*>(&object) != nullptr) return "Namespace";
  if (dynamic_cast<const TemplateGenerator*>(&object) != nullptr) return "generator";
  return "LoopContext";
}

}  // namespace viaduct
