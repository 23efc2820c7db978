// Rows and documents over context ranks.

#include <algorithm>
#include <bit>

#include "base/units.h"
#include "config/nearest_valid.h"
#include "run/parallel_settings.h"
#include "run/rules/rules.h"

namespace viaduct {
namespace {

/// Whether any layer uses this kind.
bool uses(const ContextParallelConfig& context, ContextExchange exchange) {
  const auto& types = context.cp_comm_type.values();
  return std::find(types.begin(), types.end(), exchange) != types.end();
}

/// Heads are exchanged over `ranks` of the context axis, which `setting` says: each gets the same
/// number.
void validate_heads(const RunConfig& config, const char* type, int ranks, const char* setting,
                    Problems& problems) {
  const int tp = config.parallel.tensor_model_parallel_size;
  const auto check = [&](const char* what, const Auto<int64_t>& heads) {
    // Fewer key-value heads than tensor ranks: each rank holds one. Other indivisible cuts are
    // reported with tp.
    if (heads.is_auto() || (heads.value() % tp != 0 && tp % heads.value() != 0)) return;
    const int64_t held = std::max<int64_t>(1, heads.value() / tp);
    if (held % ranks != 0) {
      problems.add(
          "model.cp_comm_type: {} over {} ranks: {} / tensor_model_parallel_size = {} / {} = {} is "
          "not divisible by {}; nearest: {} = {}",
          type, ranks, what, heads.value(), tp, held, ranks, setting, nearest_divisor(ranks, held));
    }
  };
  check("num_attention_heads", config.model.num_attention_heads);
  check("num_query_groups", config.model.num_query_groups);
  const auto full = config.model.full_attention_num_query_groups.value_or(std::nullopt);
  if (full) check("full_attention_num_query_groups", Auto<int64_t>(*full));
}

void validate_levels(const RunConfig& config, Problems& problems) {
  const ContextParallelConfig& context = config.context_parallel;
  const int cp = config.parallel.context_parallel_size;
  const bool two_levels = uses(context, ContextExchange::a2a_p2p);
  if (!context.hierarchical_context_parallel_sizes) {
    if (two_levels && cp > 1) {
      problems.add(
          "model.hierarchical_context_parallel_sizes: required by cp_comm_type a2a+p2p: two sizes "
          "whose product is context_parallel_size = {}, for instance [{}, {}]",
          cp, cp % 2 == 0 ? 2 : 1, cp % 2 == 0 ? cp / 2 : cp);
    }
    return;
  }
  const std::vector<int>& sizes = *context.hierarchical_context_parallel_sizes;
  if (sizes.size() != 2) {
    problems.add(
        "model.hierarchical_context_parallel_sizes: expected two sizes (a2a, p2p), found {}",
        sizes.size());
    return;
  }
  if (int64_t{sizes[0]} * sizes[1] != cp) {
    const int64_t inner = sizes[0];
    const std::string near = cp % inner == 0 ? fmt::format("[{}, {}]", inner, cp / inner)
                                             : "an inner size of " + nearest_divisor(inner, cp);
    problems.add(
        "model.hierarchical_context_parallel_sizes: {} · {} = {} is not context_parallel_size = "
        "{}; nearest: {}",
        sizes[0], sizes[1], int64_t{sizes[0]} * sizes[1], cp, near);
    return;
  }
  if (!two_levels) {
    problems.add(
        "model.hierarchical_context_parallel_sizes: only cp_comm_type a2a+p2p has levels, and no "
        "layer has it");
  } else {
    validate_heads(config, "a2a+p2p", sizes[0], "the first of hierarchical_context_parallel_sizes",
                   problems);
  }
}

/// Layers whose sizes a field gives: those of the list, or all.
bool is_listed(const std::vector<int64_t>& layers, int64_t layer) {
  const auto i = static_cast<size_t>(layer);
  return layers.empty() || (i < layers.size() && layers[i] != 0);
}

void validate_windows(const RunConfig& config, Problems& problems) {
  const ModelFields& model = config.model;
  const auto& types = config.context_parallel.cp_comm_type;
  if (model.window_size.is_auto() || !model.window_size.value()) return;
  if (model.window_layers.is_auto() || model.num_layers.is_auto()) return;
  for (int64_t layer = 0; layer < model.num_layers.value(); ++layer) {
    if (!is_listed(model.window_layers.value(), layer)) continue;
    if (types.is_list() && static_cast<size_t>(layer) >= types.values().size()) return;
    const ContextExchange exchange = config.context_parallel.exchange(layer);
    if (exchange != ContextExchange::p2p && exchange != ContextExchange::a2a_p2p) continue;
    problems.add(
        "model.cp_comm_type: {} on layer {}, which has a sliding window of {}; windows need "
        "all_gather or a2a",
        choice_name(exchange), layer, *model.window_size.value());
    return;
  }
}

void validate_chunks(const RunConfig& config, Problems& problems) {
  const ModelFields& model = config.model;
  const auto& types = config.context_parallel.cp_comm_type;
  if (model.attention_chunk_size.is_auto() || !model.attention_chunk_size.value()) return;
  if (model.num_layers.is_auto()) return;
  for (int64_t layer = 0; layer < model.num_layers.value(); ++layer) {
    if (!is_listed(model.attention_chunk_layers.value_or({}), layer)) continue;
    if (types.is_list() && static_cast<size_t>(layer) >= types.values().size()) return;
    const ContextExchange exchange = config.context_parallel.exchange(layer);
    if (exchange == ContextExchange::a2a) continue;
    problems.add(
        "model.cp_comm_type: {} on layer {}, which attends in chunks of {} tokens; chunks need a2a",
        choice_name(exchange), layer, *model.attention_chunk_size.value());
    return;
  }
}

/// What context ranks cut, and how they exchange it.
void validate_context_parallel(const RunConfig& config, Problems& problems) {
  const ContextParallelConfig& context = config.context_parallel;
  const int cp = config.parallel.context_parallel_size;
  const auto& layers = config.model.num_layers;
  if (context.cp_comm_type.is_list() && !layers.is_auto() &&
      static_cast<int64_t>(context.cp_comm_type.values().size()) != layers.value()) {
    problems.add(
        "model.cp_comm_type: {} for num_layers = {}",
        counted(static_cast<int64_t>(context.cp_comm_type.values().size()), "entry", "entries"),
        layers.value());
  }
  validate_levels(config, problems);
  if (cp > 1 || context.hybrid_context_parallel) {
    validate_windows(config, problems);
    validate_chunks(config, problems);
  }
  if (cp == 1) return;
  const auto& length = config.model.seq_length;
  if (!length.is_auto() && length.value() % (2 * int64_t{cp}) != 0) {
    problems.add(
        "model.seq_length: {} is not divisible by 2 · context_parallel_size = 2 · {}; nearest: {}",
        length.value(), cp, nearest_multiple(length.value(), 2 * int64_t{cp}));
  }
  if (uses(context, ContextExchange::a2a))
    validate_heads(config, "a2a", cp, "context_parallel_size", problems);
}

/// Documents that share different numbers of ranks.
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

void refuse_context_parallel(const RunConfig& config, const ConfigOutcome&, Problems& problems) {
  validate_context_parallel(config, problems);
  validate_hybrid_context(config, problems);
}

}  // namespace

Topic context_parallel_topic() {
  std::vector<NoEffectRule> idle{
      {{"model.cp_comm_type"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return reason_if(
             c.parallel.context_parallel_size == 1 && !c.context_parallel.hybrid_context_parallel,
             "model.context_parallel_size = 1");
       }},
      {{"model.hybrid_context_parallel"},
       [](const RunConfig& c, const ConfigOutcome&) {
         return one_document_rank(c, "each document has one rank");
       }},
  };
  return {refuse_context_parallel, std::move(idle)};
}

}  // namespace viaduct
