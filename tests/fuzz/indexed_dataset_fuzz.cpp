// Any bytes as an indexed data set: read to the last token, or refused with an IoError. The first
// byte of the input divides the rest: .bin is the last 8 · (first byte) bytes (at most all).

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/gpt_index.h"
#include "data/index_cache.h"
#include "data/indexed_dataset.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace viaduct;
  if (size == 0) return 0;
  const std::string rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t bin = std::min(rest.size(), size_t{data[0]} * 8);
  try {
    const auto dataset = IndexedDataset::from_memory(rest.substr(0, rest.size() - bin),
                                                     rest.substr(rest.size() - bin), "input");
    std::vector<double> values;
    for (int64_t i = 0; i < dataset.sequence_count(); ++i) {
      values.resize(static_cast<size_t>(dataset.sequence_length(i)));
      dataset.read(i, 0, std::span<double>(values));
      if (dataset.has_modes()) static_cast<void>(dataset.sequence_mode(i));
    }
    const DocumentRange all{0, dataset.sequence_count()};
    const GptIndexPlan plan = plan_gpt_index(dataset, Split::train, all, std::nullopt, 4);
    build_in_memory([&](IndexSink& sink) { build_gpt_index(dataset, all, plan, 4, 1, sink); });
  } catch (const IoError&) {
  } catch (const ConfigError&) {  // no tokens to train on
  }
  return 0;
}
