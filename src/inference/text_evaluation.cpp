#include "inference/text_evaluation.h"

#include <cmath>
#include <numbers>

#include "base/clock.h"
#include "base/error.h"
#include "data/tokenizer/text_ids.h"
#include "engine/evaluation.h"
#include "run/base_model.h"
#include "run/resolved_run.h"
#include "run/same_settings.h"

namespace viaduct {

TextEvaluation prepare_text_evaluation(const TextEvaluationRequest& request) {
  const auto conversations = open_conversations(request.data);
  InferenceRequest inference = request.inference;
  if (conversations) inference.conversations = evaluated(*conversations);
  TextEvaluation evaluation{prepare_inference(inference), {}};
  const RunSetup& run = evaluation.run;
  if (conversations) {
    VIADUCT_CHECK(ConfigError, !request.stride,
                  "--stride: {}, but --data {} holds conversations, which do not overlap; the "
                  "option is for texts",
                  request.stride.value(), request.data.string());
    evaluation.data = conversation_data(*conversations, run);
    return evaluation;
  }
  const int64_t length = run.config.model.seq_length.value();
  const int64_t stride = request.stride.value_or(length);
  VIADUCT_CHECK(ConfigError, stride >= 1 && stride <= length,
                "--stride: expected 1 to {} (the sequence length), found {}", length, stride);
  evaluation.data = text_data(request.data, run, stride);
  return evaluation;
}

TextScore evaluate_text(const TextEvaluation& evaluation, Device& device, const OpTable& ops,
                        std::shared_ptr<Communicator> world,
                        FunctionRef<void(int64_t done, int64_t of)> progress) {
  const RunSetup& run = evaluation.run;
  world->record_on(&device);
  check_same_settings(world->host(), run.config);
  const GlobalRank rank{world->rank()};
  if (device.memory().system_allocations == 0) device.use_plan(plan_memory(run, rank).plan);
  const ResolvedRun resolved = resolve_run(run.config, run.model);
  Engine engine(device, ops, run.model, resolved, make_groups(resolved, world));
  OpContext context{device, ops};
  read_checked_weights(context, engine.store(), run, *world);

  const MicroBatchPlace place{run.config.train.micro_batch_rows(), engine.groups().dp().size(),
                              engine.groups().dp().rank()};
  const EvaluationSet set = each_row_once("", evaluation.data.rows, place);
  const std::vector<int32_t> bytes_of =
      run.tokenizer ? token_text_bytes(*run.tokenizer) : std::vector<int32_t>();
  double bytes = 0;
  const auto count = [&](const HostBatch& batch, int64_t index) {
    for (const int32_t target : batch.targets) {
      if (target >= 0 && static_cast<size_t>(target) < bytes_of.size())
        bytes += bytes_of[static_cast<size_t>(target)];
    }
    progress(index, set.micro_batches);
  };
  const double begin = steady_seconds();
  const EvaluationSums sums = evaluate(engine, set, place, {.read = count}).value();
  bytes = world->host().sum(bytes, leads_data_place(engine.groups()));
  TextScore score;
  score.seconds = steady_seconds() - begin;
  VIADUCT_CHECK(IoError, sums.scored > 0,
                "no token of the data is scored: their mask has no answer (viaduct data inspect "
                "shows it)");
  score.tokens = static_cast<int64_t>(sums.scored);
  score.loss = sums.loss / sums.scored;
  score.perplexity = std::exp(score.loss);
  if (bytes > 0) score.bits_per_byte = sums.loss / std::numbers::ln2 / bytes;
  return score;
}

}  // namespace viaduct
