#include "model/model_place.h"

#include "base/error.h"
#include "model/model_config.h"
#include "pipeline/layer_map.h"

namespace viaduct {

ModelPlace model_place(const Parallelism& parallelism, const ParallelGroups& groups) {
  ModelPlace place;
  place.tp = groups.tp().size(), place.tp_rank = groups.tp().rank();
  place.vocabulary_multiple = parallelism.vocabulary_multiple;
  place.pp = groups.pp().size(), place.pp_rank = groups.pp().rank();
  if (!parallelism.layer_map.empty())
    place.chunks = chunks_of_stage(parallelism.layer_map, place.pp, place.pp_rank);
  return place;
}

void check_model_place(const ModelConfig& config, const ModelPlace& place) {
  std::vector<std::string> problems;
  const auto divides = [&](const char* what, int64_t size) {
    if (size % place.tp != 0)
      problems.push_back(fmt::format("model: {} {} do not divide by {} tensor-parallel ranks", size,
                                     what, place.tp));
  };
  VIADUCT_CHECK(ConfigError, place.tp >= 1 && place.tp_rank >= 0 && place.tp_rank < place.tp,
                "model: rank {} of {} tensor-parallel ranks", place.tp_rank, place.tp);
  divides("attention heads", config.heads);
  divides("feed-forward features", config.feed_forward);
  if (config.kv_heads % place.tp != 0 && place.tp % config.kv_heads != 0) {
    problems.push_back(
        fmt::format("model: {} key-value heads and {} tensor-parallel ranks: neither divides the "
                    "other",
                    config.kv_heads, place.tp));
  }
  if (place.vocabulary_multiple < 1) {
    problems.push_back(
        fmt::format("model: the vocabulary is padded to a multiple of {}, expected "
                    "at least 1",
                    place.vocabulary_multiple));
  }
  if (!problems.empty()) throw ConfigError(std::move(problems));
}

}  // namespace viaduct
