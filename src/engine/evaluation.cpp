#include "engine/evaluation.h"

#include <algorithm>
#include <exception>

#include "checkpoint/on_all_ranks.h"
#include "engine/sample_batch.h"

namespace viaduct {

EvaluationSet each_row_once(std::string name, std::shared_ptr<const SampleSource> source,
                            const MicroBatchPlace& place) {
  EvaluationSet set{std::move(name), std::move(source)};
  set.rows = set.source->size();
  const int64_t at_once = place.micro_batch_size * place.dp_size;
  set.micro_batches = (set.rows + at_once - 1) / at_once;
  return set;
}

HostBatch evaluation_batch(const EvaluationSet& set, int64_t index, const MicroBatchPlace& place) {
  const Sampler sampler(set.source->size(), Sampler::AtEnd::wrap);
  const auto rows = micro_batch_rows(sampler, 0, index, place);
  HostBatch batch = read_batch(*set.source, rows);
  const int64_t length = set.source->sequence_length();
  for (size_t r = 0; r < rows.size(); ++r) {
    if (rows[r].ordinal < set.rows) continue;
    const auto begin = static_cast<int64_t>(r) * length;
    std::fill_n(batch.targets.begin() + begin, length, -1);
    std::fill_n(batch.loss_weight.begin() + begin, length, 0.0f);
  }
  return batch;
}

std::optional<EvaluationSums> evaluate(Engine& engine, const EvaluationSet& set,
                                       const MicroBatchPlace& place, const EvaluationHooks& hooks) {
  EvaluationSums sums;
  std::exception_ptr unread;  // the other ranks wait for what this one computes all the same
  const int64_t at_once = evaluated_at_once(engine.groups().stages());
  for (int64_t begin = 0; begin < set.micro_batches; begin += at_once) {
    if (hooks.stop && hooks.stop()) return std::nullopt;
    sums.loss += engine.evaluate(std::min(at_once, set.micro_batches - begin), [&](int64_t i) {
      HostBatch batch;
      try {
        if (!unread) batch = evaluation_batch(set, begin + i, place);
      } catch (const std::exception&) {
        unread = std::current_exception();
      }
      if (unread)
        return blank_rows(place.micro_batch_size, set.source->sequence_length(),
                          set.source->encoder_length());
      sums.scored += batch.scored_weight();
      if (hooks.read) hooks.read(batch, begin + i);
      return batch;
    });
  }
  Communicator& world = engine.groups().world();
  const HostFigure figures[] = {{sums.scored, leads_data_place(engine.groups())},
                                {unread ? 1.0 : 0.0}};
  const std::vector<FigureOfRanks> merged = world.host().post(figures).wait();
  if (merged[1].most > 0) {
    const auto mine = [&] {
      if (unread) std::rethrow_exception(unread);
    };
    try {
      run_on_all(world, mine, "reading rows to evaluate");
    } catch (const CommError&) {
      throw;
    } catch (const std::exception& error) {
      throw UnreadRows(error.what());
    }
  }
  sums.scored = merged[0].sum;
  return sums;
}

}  // namespace viaduct
