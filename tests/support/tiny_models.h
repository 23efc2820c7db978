#pragma once
// Small models that between them contain every term that the families have, with sizes that four
// tensor ranks divide.

#include <ostream>
#include <string>
#include <vector>

#include "model/model_config.h"

namespace viaduct::test {

struct TinyModel {
  std::string name;
  ModelConfig config;
};

inline void PrintTo(const TinyModel& model, std::ostream* os) {
  *os << model.name;
}

std::vector<TinyModel> tiny_models();
/// ConfigError if there is none of that name.
ModelConfig tiny_model(const std::string& name);
/// One Llama-like block, for tests that only need a model.
ModelConfig small_llama();

}  // namespace viaduct::test
