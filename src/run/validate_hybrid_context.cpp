#include <algorithm>
#include <bit>

#include "run/parallel_settings.h"
#include "run/validate_parallel.h"

namespace viaduct {

void validate_hybrid_context(const RunConfig& config, Problems& problems) {
  const ContextParallelConfig& context = config.context_parallel;
  if (!context.hybrid_context_parallel) return;
  constexpr std::string_view kField = "model.hybrid_context_parallel";
  const int pp = config.parallel.pipeline_model_parallel_size;
  if (pp > 1) {
    problems.add(
        "{}: true runs on one pipeline stage, found pipeline_model_parallel_size = {}: ranks would "
        "have different numbers of micro-batches",
        kField, pp);
  }
  if (!config.model.calculate_per_token_loss) {
    problems.add("{}: true needs model.calculate_per_token_loss = true, found false", kField);
  }
  for (const ContextExchange type : context.cp_comm_type.values()) {
    if (type == ContextExchange::p2p || type == ContextExchange::all_gather) continue;
    problems.add("{}: true needs cp_comm_type p2p or all_gather, found {}", kField,
                 choice_name(type));
    break;
  }
  const int64_t ranks = document_ranks(config);
  if (ranks > 0 && !std::has_single_bit(static_cast<uint64_t>(ranks))) {
    problems.add(
        "{}: true needs a power of two of data and context ranks, found {}; nearest: {} or {}",
        kField, ranks, std::bit_floor(static_cast<uint64_t>(ranks)),
        std::bit_ceil(static_cast<uint64_t>(ranks)));
  }
  if (!context.max_seqlen_per_dp_cp_rank) {
    problems.add(
        "model.max_seqlen_per_dp_cp_rank: required by hybrid_context_parallel: maximum tokens of a "
        "micro-batch on a rank{}",
        config.model.seq_length.is_auto()
            ? ""
            : fmt::format(", for instance seq_length / context_parallel_size = {}",
                          config.model.seq_length.value() / config.parallel.context_parallel_size));
  } else if (!config.model.seq_length.is_auto() && ranks > 0 &&
             *context.max_seqlen_per_dp_cp_rank * ranks < config.model.seq_length.value()) {
    problems.add(
        "model.max_seqlen_per_dp_cp_rank: {} · {} data and context ranks = {} tokens, but a "
        "document may have seq_length = {}; expected at least {}",
        *context.max_seqlen_per_dp_cp_rank, ranks, *context.max_seqlen_per_dp_cp_rank * ranks,
        config.model.seq_length.value(), (config.model.seq_length.value() + ranks - 1) / ranks);
  }
}

}  // namespace viaduct
