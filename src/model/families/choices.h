#pragma once
// Checks of what a family fixes: of a model that is written, and of a file that is read.

#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.h"
#include "config/problems.h"
#include "model/hf_config.h"

namespace viaduct::families {

/// Checks the properties that a family fixes; each problem names the field.
class FamilyChoices {
 public:
  explicit FamilyChoices(std::string family) : family_(std::move(family)) {}
  template <class Found>
  void expect(bool holds, std::string_view field, std::string_view has, const Found& found) {
    if (!holds) problems_.add("model.{}: family {} has {}, found {}", field, family_, has, found);
  }
  void throw_if_any() const { problems_.throw_if_any(); }

 private:
  std::string family_;
  Problems problems_;
};

/// For a field with one value that is supported: ConfigError for another.
template <class Value>
void expect_only(const HfConfig& config, std::string_view field, const Value& found,
                 const std::type_identity_t<Value>& supported) {
  VIADUCT_CHECK(ConfigError, found == supported, "{}: {} {} is not supported (supported: {})",
                config.where(), field, found, supported);
}

}  // namespace viaduct::families
