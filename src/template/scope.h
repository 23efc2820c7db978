#pragma once
// The names that a part of a template sees, innermost first.

#include <memory>
#include <utility>
#include <vector>

#include "template/template_value.h"

namespace viaduct::jinja {

struct Scope {
  explicit Scope(std::shared_ptr<Scope> outside) : parent(std::move(outside)) {}

  const TemplateValue* find(int name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
      for (const auto& [known, value] : scope->values) {
        if (known == name) return &value;
      }
    }
    return nullptr;
  }
  void set(int name, TemplateValue value) {
    for (auto& entry : values) {
      if (entry.first == name) {
        entry.second = std::move(value);
        return;
      }
    }
    values.emplace_back(name, std::move(value));
  }

  std::shared_ptr<Scope> parent;
  std::vector<std::pair<int, TemplateValue>> values;
  bool captured = false;  // by a macro
};
using ScopePointer = std::shared_ptr<Scope>;

}  // namespace viaduct::jinja
