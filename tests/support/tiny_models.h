#pragma once
// Small models that together contain every term of the families, with sizes that four tensor ranks
// divide.

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
/// ConfigError for an unknown name.
ModelConfig tiny_model(const std::string& name);
/// An encoder-decoder model of two blocks each, as T5's first version, without dropout.
ModelConfig tiny_t5();
/// One Llama-like block, for tests that only need a model.
ModelConfig small_llama();

}  // namespace viaduct::test
