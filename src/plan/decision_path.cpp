#include "plan/decision_path.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "plan/rules/figures.h"
#include "plan/search_limits.h"

namespace viaduct {
namespace {

std::string bytes_text(double bytes) {
  return format_bytes(static_cast<int64_t>(bytes));
}

/// Sizes of a layout, or why the trainer refuses it.
struct Tried {
  rules::Figures figures;
  std::string refused;
  bool fits = false;
};

class Walk {
 public:
  explicit Walk(const PlanRequest& request)
      : request_(request), capacity_(capacity_bytes(request.cluster, request.prediction)) {
    const RunSetup setup = setup_of_layout(
        request, {.recompute = Recompute::given},
        {"model.context_parallel_size=1", "model.encoder_pipeline_model_parallel_size=0",
         "model.encoder_tensor_model_parallel_size=0"});
    base_ = rules::figures_of(setup, std::vector<DryRun>{DryRun{}});
    base_.machine = rules::machine_of(request.cluster, request.prediction);
    layout_.recompute = Recompute::given;
    layout_.has_encoder = base_.model.encoder.any() || base_.model.vision.any();
    if (base_.experts()) layout_.ep = layout_.etp = 1;
    set_data_ranks(layout_);
    path_.layout = layout_;
  }

  DecisionPath walk() {
    cheap_memory();
    data_ranks();
    tensor_ranks();
    context_ranks();
    expert_ranks();
    pipeline_stages();
    full_sharding();
    placement();
    micro_batch();
    path_.layout = layout_;
    path_.fits = now_.fits;
    return std::move(path_);
  }

 private:
  void set_data_ranks(Layout& layout) const {
    layout.dp = base_.ranks / (layout.tp * layout.cp * layout.pp);
    layout.micro_batches =
        base_.global_batch / std::max<int64_t>(1, layout.dp * layout.micro_batch);
  }

  Tried tried(Layout& layout) const {
    Tried result;
    if (base_.ranks % (layout.tp * layout.cp * layout.pp) != 0) {
      result.refused = fmt::format("{} GPUs do not divide", base_.ranks);
      return result;
    }
    set_data_ranks(layout);
    try {
      const RunSetup setup = setup_of_layout(request_, layout);
      result.figures = rules::figures_of(setup, dry_run_stages(setup));
      result.fits = result.figures.peak() <= capacity_;
    } catch (const ConfigError& error) {
      result.refused = error.problems().front();
    }
    return result;
  }

  std::string size_text(const Tried& one) const {
    if (!one.refused.empty()) return "refused: " + one.refused;
    const rules::StageBytes& stage = one.figures.fullest();
    return fmt::format("{} of {} (states {}, activations {}){}", bytes_text(stage.peak),
                       bytes_text(capacity_), bytes_text(stage.states()),
                       bytes_text(stage.activations), one.fits ? "" : ", too much");
  }

  PathStep& step(const std::string& name) {
    path_.steps.push_back({name, false, {}});
    return path_.steps.back();
  }
  bool known() const { return now_.refused.empty() && !now_.figures.stages.empty(); }
  double excess_of_activations() const {
    return known() ? now_.figures.fullest().activations - now_.figures.fullest().states() : 0;
  }

  /// Tries growing sizes of one axis and takes the first that fits, else the last one that is not
  /// refused.
  void grow(PathStep& at, const std::string& axis, const std::vector<int>& sizes,
            int Layout::*field) {
    for (const int size : sizes) {
      Layout layout = layout_;
      layout.*field = size;
      const Tried one = tried(layout);
      at.lines.push_back(fmt::format("{} {}: {}", axis, size, size_text(one)));
      if (!one.refused.empty()) continue;
      layout_ = layout;
      now_ = one;
      at.taken = true;
      if (one.fits) return;
    }
  }

  void cheap_memory() {
    PathStep& at = step("0 cheap memory");
    const RunConfig& c = base_.config;
    const auto state = [](bool on) { return on ? "on" : "off"; };
    at.lines.push_back(
        fmt::format("flash attention {}, fused loss {}, gradients {}, recomputation {}",
                    state(base_.model.flash_attention), state(c.fusion.cross_entropy_loss_fusion),
                    c.ddp.grad_reduce_in_fp32
                        ? "FP32 (BF16 frees 2 bytes a parameter and takes 4/dp for the update)"
                        : "BF16",
                    choice_name_or(c.recompute.recompute_granularity, "none")));
    const std::vector<std::string> given = given_layout_fields(request_);
    if (!given.empty())
      at.lines.push_back(fmt::format("given and not used, since the path chooses them: {}",
                                     fmt::join(given, ", ")));
  }

  void data_ranks() {
    PathStep& at = step("1 data ranks with sharded optimizer state");
    now_ = tried(layout_);
    at.taken = true;
    at.lines.push_back(fmt::format("dp {}: {}", layout_.dp, size_text(now_)));
    if (now_.fits) at.lines.emplace_back("enough: the largest products, and the least traffic");
    if (base_.ranks > base_.global_batch)
      at.lines.push_back(
          fmt::format("{} GPUs are more than {}", base_.ranks, counted(base_.global_batch, "row")));
  }

  void tensor_ranks() {
    PathStep& at = step("2 tensor ranks, with sequence parallelism");
    if (now_.fits) return at.lines.emplace_back("not needed"), void();
    const rules::TensorLimit limit = rules::tensor_limit(base_);
    at.lines.push_back(fmt::format("{} hides communication up to tp {:.1f}; a domain has {}",
                                   limit.product, limit.ranks,
                                   counted(request_.cluster.domain, "GPU")));
    std::vector<int> sizes;
    for (int tp = 2; tp <= request_.cluster.domain; tp *= 2) {
      if (base_.model.heads % tp != 0 || base_.ranks % tp != 0) break;
      if (tp > 2 && tp > limit.ranks && 2 * limit.ranks < tp) break;
      sizes.push_back(tp);
    }
    grow(at, "tp", sizes, &Layout::tp);
  }

  void context_ranks() {
    PathStep& at = step("3 context ranks");
    if (now_.fits) return at.lines.emplace_back("not needed"), void();
    if (known() && (excess_of_activations() <= 0 || base_.length <= base_.model.hidden)) {
      at.lines.push_back(fmt::format("context ranks shard activations alone: {}",
                                     excess_of_activations() <= 0
                                         ? "states need more"
                                         : fmt::format("rows of {} tokens are at most the width {}",
                                                       base_.length, base_.model.hidden)));
      return;
    }
    std::vector<int> sizes;
    for (int cp = 2; cp <= base_.length / 1024 && cp <= base_.ranks / layout_.tp; cp *= 2)
      sizes.push_back(cp);
    grow(at, "cp", sizes, &Layout::cp);
  }

  void expert_ranks() {
    if (!base_.experts()) return;
    PathStep& at = step("5 expert ranks, before stages: experts are most of the parameters");
    std::vector<int> sizes;
    for (int ep = 2; ep <= request_.cluster.domain; ep *= 2)
      if (base_.model.moe.experts % ep == 0 && base_.ranks % ep == 0) sizes.push_back(ep);
    if (now_.fits) return at.lines.emplace_back("not needed"), void();
    grow(at, "ep", sizes, &Layout::ep);
  }

  void pipeline_stages() {
    PathStep& at = step("4 pipeline stages");
    if (now_.fits) return at.lines.emplace_back("not needed"), void();
    std::vector<int> sizes;
    for (int pp = 2; pp <= base_.model.layers && pp <= base_.ranks / (layout_.tp * layout_.cp);
         ++pp)
      if (base_.model.layers % pp == 0) sizes.push_back(pp);
    grow(at, "pp", sizes, &Layout::pp);
    if (layout_.pp == 1) return;
    for (int v = 2; v <= base_.model.layers / layout_.pp; ++v) {
      const double bubble =
          (layout_.pp - 1.0) / (static_cast<double>(layout_.micro_batches) * layout_.vpp);
      if (bubble <= 0.05 || layout_.micro_batches % layout_.pp != 0) break;
      if (base_.model.layers % (int64_t{1} * layout_.pp * v) != 0) continue;
      Layout layout = layout_;
      layout.vpp = v;
      const Tried one = tried(layout);
      at.lines.push_back(fmt::format("{} virtual stages against an ideal bubble of {:.1f} %: {}", v,
                                     100 * bubble, size_text(one)));
      if (!one.fits) break;
      layout_ = layout, now_ = one;
    }
  }

  void full_sharding() {
    PathStep& at = step("6 weights sharded over data ranks");
    Layout layout{.micro_batch = 1,
                  .recompute = Recompute::given,
                  .sharding = Sharding::full,
                  .ep = layout_.ep,
                  .etp = layout_.etp};
    if (layout_.tp * layout_.pp == 1 && now_.fits)
      return at.lines.emplace_back("not needed"), void();
    const double hides =
        base_.machine->product_flops /
        std::min(base_.machine->link, request_.cluster.domain * base_.machine->network) *
        (base_.config.ddp.grad_reduce_in_fp32 ? 8 : 6) / 6;
    const Tried one = tried(layout);
    at.lines.push_back(
        fmt::format("dp {} instead: {}; {} tokens a micro-batch, the gather hides from {:.0f} on",
                    layout.dp, size_text(one), base_.length, hides));
    if (one.fits && !now_.fits) layout_ = layout, now_ = one, at.taken = true;
    if (one.fits && !at.taken)
      at.lines.emplace_back("a candidate: compare the steps of both (viaduct plan --model)");
  }

  void placement() {
    PathStep& at = step("7 placement");
    const int domain = request_.cluster.domain, inner = layout_.tp * layout_.cp;
    at.lines.push_back(
        domain % inner == 0
            ? fmt::format("tp · cp = {} divides a domain of {}", inner, domain)
            : fmt::format("tp · cp = {} does not divide a domain of {}: groups straddle", inner,
                          domain));
  }

  void micro_batch() {
    PathStep& at = step("8 micro-batch");
    if (!now_.fits) return at.lines.emplace_back("nothing fits yet"), void();
    for (int64_t rows = 2; rows <= 16 && base_.global_batch % (layout_.dp * rows) == 0; rows *= 2) {
      Layout layout = layout_;
      layout.micro_batch = rows;
      const Tried one = tried(layout);
      at.lines.push_back(fmt::format("{} rows: {}", rows, size_text(one)));
      if (!one.fits || (layout.pp > 1 && layout.micro_batches < layout.pp)) break;
      layout_ = layout, now_ = one, at.taken = true;
    }
    if (at.lines.empty()) at.lines.emplace_back("the batch does not divide into larger ones");
  }

  const PlanRequest& request_;
  double capacity_ = 0;
  rules::Figures base_;
  Layout layout_;
  Tried now_;
  DecisionPath path_;
};

}  // namespace

DecisionPath decision_path(const PlanRequest& request) {
  VIADUCT_CHECK(ConfigError, request.cluster.gpu.has_kernels(),
                "cluster {}: there are no kernels for GPU {}", request.cluster.name,
                request.cluster.gpu.name);
  return Walk(request).walk();
}

}  // namespace viaduct
