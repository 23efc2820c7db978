#include "train/text_evaluation.h"

#include <cmath>
#include <numbers>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/given_path.h"
#include "data/score_mask.h"
#include "data/text_check.h"
#include "data/tokenizer/text_ids.h"
#include "data/vocabulary_check.h"
#include "engine/evaluation.h"
#include "run/adapter_setup.h"
#include "run/resolved_run.h"
#include "run/same_settings.h"

namespace viaduct {
namespace {

TokenStream read_text(const std::filesystem::path& file, const RunSetup& run) {
  VIADUCT_CHECK(ConfigError, run.tokenizer.has_value(),
                "--data {}: a text needs a tokenizer, but the model's folder has none "
                "(tokenizer.tokenizer_model can name one)",
                file.string());
  const std::string text = read_file(file);
  check_file_kind(file.string(), text, false);
  check_text(file.string(), text, 0);
  return TokenStream(text_ids(*run.tokenizer, text));
}

TokenStream open_data(const std::filesystem::path& data, const RunSetup& run) {
  std::error_code error;
  if (std::filesystem::exists(data.string() + ".idx", error)) {
    auto dataset = std::make_shared<IndexedDataset>(data);
    check_mask_files(*dataset);
    check_tokenizer(*dataset,
                    {run.tokenizer ? &*run.tokenizer : nullptr, run.tokenizer_folder.string()});
    return TokenStream(std::move(dataset));
  }
  VIADUCT_CHECK(
      MissingPath, std::filesystem::is_regular_file(data, error),
      "--data {}: expected a text file or the prefix of a data set, and there is neither "
      "a file of this name nor {}.idx{}",
      data.string(), data.string(),
      std::filesystem::is_directory(data, error) ? folder_text(data) : nearest_path_text(data));
  std::filesystem::path prefix = data;
  prefix.replace_extension();
  VIADUCT_CHECK(
      ConfigError, data.extension() != ".bin" || !std::filesystem::exists(prefix.string() + ".idx"),
      "--data {}: is half of a data set; give its prefix, {}", data.string(), prefix.string());
  return read_text(data, run);
}

}  // namespace

TextEvaluation prepare_text_evaluation(const TextEvaluationRequest& request) {
  TextEvaluation evaluation{prepare_inference(request.inference), nullptr, ""};
  const int64_t length = evaluation.run.config.model.seq_length.value();
  const int64_t stride = request.stride.value_or(length);
  VIADUCT_CHECK(ConfigError, stride >= 1 && stride <= length,
                "--stride: expected 1 to {} (the sequence length), found {}", length, stride);
  evaluation.windows =
      std::make_shared<TokenWindows>(open_data(request.data, evaluation.run), length, stride);
  if (has_mask(request.data.string())) {
    evaluation.warning = fmt::format(
        "--data {}: it holds conversations with a mask, which is not used: all tokens are scored, "
        "as one text in which the conversations follow each other. The loss of what is learned is "
        "a run's validation",
        request.data.string());
  }
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
  read_run_weights(context, engine.store(), run);

  const MicroBatchPlace place{run.config.train.micro_batch_size, engine.groups().dp().size(),
                              engine.groups().dp().rank()};
  const EvaluationSet set = each_row_once("", evaluation.windows, place);
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
  score.tokens = static_cast<int64_t>(sums.scored);
  score.loss = sums.loss / sums.scored;
  score.perplexity = std::exp(score.loss);
  if (bytes > 0) score.bits_per_byte = sums.loss / std::numbers::ln2 / bytes;
  return score;
}

}  // namespace viaduct
