#include "train/step_figures.h"

namespace viaduct {
namespace {

/// The place of each figure in the call.
enum class Figure : size_t {
  stop,
  folder_deleted,
  writes,
  run_seconds,
  tokens,
  token_flops,
  attention_flops,
  attention_flops_full,
  step_seconds,
  data_seconds,
  communication_seconds,
  peak_memory_bytes,
  count
};

}  // namespace

std::vector<HostFigure> host_figures(const RankFigures& mine) {
  std::vector<HostFigure> figures(static_cast<size_t>(Figure::count));
  const auto set = [&](Figure figure, double value, bool counted = true) {
    figures[static_cast<size_t>(figure)] = {value, counted};
  };
  set(Figure::stop, mine.requests.stop ? 1 : 0);
  set(Figure::folder_deleted, mine.requests.folder_deleted ? 1 : 0);
  set(Figure::writes, mine.requests.writes ? 1 : 0);
  set(Figure::run_seconds, mine.requests.run_seconds);
  set(Figure::tokens, static_cast<double>(mine.tokens), mine.counted);
  set(Figure::token_flops, mine.flops.token_part, mine.counted);
  set(Figure::attention_flops, mine.flops.attention_part, mine.counted);
  set(Figure::attention_flops_full, mine.flops.attention_part_full, mine.counted);
  set(Figure::step_seconds, mine.last.step_seconds);
  set(Figure::data_seconds, mine.last.data_seconds);
  set(Figure::communication_seconds, mine.last.communication_seconds);
  set(Figure::peak_memory_bytes, static_cast<double>(mine.peak_memory_bytes));
  return figures;
}

RunFigures figures_of_run(std::span<const FigureOfRanks> merged) {
  const auto of = [&](Figure figure) -> const FigureOfRanks& {
    return merged[static_cast<size_t>(figure)];
  };
  RunFigures run;
  run.requests = {of(Figure::stop).most > 0, of(Figure::folder_deleted).most > 0,
                  of(Figure::writes).most > 0, of(Figure::run_seconds).most};
  run.tokens = of(Figure::tokens).sum;
  run.flops = {of(Figure::token_flops).sum, of(Figure::attention_flops).sum,
               of(Figure::attention_flops_full).sum};
  run.ranks.step_seconds = of(Figure::step_seconds);
  run.ranks.data_seconds = of(Figure::data_seconds);
  run.ranks.communication_seconds = of(Figure::communication_seconds);
  run.ranks.peak_memory_bytes = of(Figure::peak_memory_bytes);
  return run;
}

}  // namespace viaduct
