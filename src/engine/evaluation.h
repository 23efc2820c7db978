#pragma once
// The loss of rows without training: used by the training loop at intervals and at its end, and by
// `viaduct eval`.

#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "data/sample.h"
#include "data/sampler.h"
#include "engine/engine.h"

namespace viaduct {

/// Rows that are evaluated: the same ones each time.
struct EvaluationSet {
  std::string name;  ///< its prefix where the split has several sets; else empty
  std::shared_ptr<const SampleSource> source;
  int64_t rows = 0;  ///< counted; more than the source has: it is read again from its beginning
  int64_t micro_batches = 0;  ///< of each data-parallel rank
};

/// Each row of `source` once, by ranks at `place`.
EvaluationSet each_row_once(std::string name, std::shared_ptr<const SampleSource> source,
                            const MicroBatchPlace& place);

/// Micro-batch `index` of the data-parallel rank at `place`. Rows beyond `set.rows`, which fill the
/// last micro-batches, are not scored.
HostBatch evaluation_batch(const EvaluationSet& set, int64_t index, const MicroBatchPlace& place);

struct EvaluationSums {
  double loss = 0;    // of all scored tokens of all ranks
  double scored = 0;  // how many
};

/// A rank could not read its rows: all ranks throw it together, with the same message.
class UnreadRows : public IoError {
 public:
  using IoError::IoError;
};

/// Number of micro-batches run through `pp` stages before the ranks agree whether to continue.
/// Stages idle for pp − 1 of 5 · pp − 1 micro-batches.
constexpr int64_t evaluated_at_once(int pp) {
  return pp == 1 ? 1 : 4 * pp;
}

/// Callbacks of the evaluation.
struct EvaluationHooks {
  /// Called before every `evaluated_at_once` micro-batches. All ranks must return the same; true
  /// ends the evaluation.
  std::function<bool()> stop = {};
  /// Called with each micro-batch of this rank after it is read.
  std::function<void(const HostBatch& batch, int64_t index)> read = {};
};

/// All ranks of the engine's run make the same call and get the same sums. Nothing if it was ended
/// early. UnreadRows if a rank cannot read its rows, when everything that the ranks do together is
/// done.
std::optional<EvaluationSums> evaluate(Engine& engine, const EvaluationSet& set,
                                       const MicroBatchPlace& place,
                                       const EvaluationHooks& hooks = {});

}  // namespace viaduct
