#pragma once
// The models that viaduct eval measures: the model itself, or with --adapter the model under each
// of several adapters, one after the other, in one world of ranks.

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "model_options.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "standard_streams.h"

namespace viaduct::cli {

/// What is measured of a model, `Evaluation` with its `run`; and of one adapter of several the name
/// that stands in the results, else "".
template <class Evaluation>
struct EvaluatedModel {
  std::string name;
  Evaluation evaluation;
};

/// The results of each model in their order, by evaluate(evaluation, device, ops, world, progress)
/// on all ranks; `print` gets them on rank 0, when everything is done. The models are in memory one
/// at a time.
template <class Score, class Evaluation, class Evaluate, class Print>
void measure(const std::vector<EvaluatedModel<Evaluation>>& models, const Launch& launch,
             const Evaluate& evaluate, const Print& print) {
  const DistConfig& dist = models.front().evaluation.run.config.dist;
  run_ranks(dist, launch, [&](std::shared_ptr<Communicator> world) {
    const bool leads = world->rank() == 0;
    const bool shows = leads && ::isatty(STDERR_FILENO) == 1;
    std::vector<Score> scores;
    for (size_t i = 0; i < models.size(); ++i) {
      const Evaluation& evaluation = models[i].evaluation;
      if (leads) log_notes(evaluation.run);
      const RankDevice rank = make_rank_device(dist);
      // The last one ends the world while its device is there.
      auto of_model = i + 1 < models.size() ? world : std::move(world);
      scores.push_back(evaluate(
          evaluation, *rank.device, rank.ops, std::move(of_model), [&](int64_t done, int64_t of) {
            if (shows)
              say("\r{}{}{} of {}{}", models[i].name, models[i].name.empty() ? "" : ": ", done,
                  counted(of, "micro-batch", "micro-batches"), done < of ? "" : "\n");
          }));
    }
    if (leads) print(scores);
  });
}

/// Whether the results have names: of several models, or of one that was given a name.
template <class Evaluation>
bool have_names(const std::vector<EvaluatedModel<Evaluation>>& models) {
  return models.size() > 1 || !models.front().name.empty();
}

/// The width of the column of names.
template <class Evaluation>
size_t name_width(const std::vector<EvaluatedModel<Evaluation>>& models) {
  size_t width = std::string_view("adapter").size();
  for (const auto& model : models) width = std::max(width, model.name.size());
  return width;
}

}  // namespace viaduct::cli
