#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "plan/score/published_features.h"

namespace viaduct {
namespace {

/// `layers` over `stages` chunks, divided evenly and rounded up, with fewer at the end,
/// where the loss takes a layer's place: "Ett|tt|tt|tL".
std::string layout_text(int64_t layers, int64_t stages) {
  const int64_t each = (layers + stages - 1) / stages;
  std::string text = "E";
  for (int64_t stage = 0; stage < stages; ++stage) {
    // At least one layer for each stage behind this one.
    const int64_t here = std::clamp<int64_t>(layers - (stages - 1 - stage), 0, each);
    text += (stage == 0 ? "" : "|") + std::string(static_cast<size_t>(here), 't');
    layers -= here;
  }
  return text + "L";
}

/// Sizes of a single GPU, or of data ranks alone, need not be stated.
int64_t size_or_one(const PublishedRow& row, const char* column, bool implied) {
  const auto value = row.count(column);
  if (value) return *value;
  if (!implied) throw UnsupportedRow("the source does not state the layout");
  return 1;
}

void add_stages(int64_t layers, int64_t pp, int64_t vpp, PublishedRun& run) {
  const int64_t stages = pp * vpp;
  if (stages == 1) return;
  if (layers % stages == 0) {
    if (vpp > 1)
      run.overrides.push_back(fmt::format("model.virtual_pipeline_model_parallel_size={}", vpp));
    return;
  }
  if ((layers + 2) % stages == 0) {  // embedding and loss take a layer's place each
    if (vpp > 1)
      run.overrides.push_back(fmt::format("model.virtual_pipeline_model_parallel_size={}", vpp));
    run.overrides.emplace_back("model.account_for_embedding_in_pipeline_split=true");
    run.overrides.emplace_back("model.account_for_loss_in_pipeline_split=true");
    return;
  }
  if (layers < stages)
    throw UnsupportedRow(fmt::format("{} on {} of {}", counted(layers, "layer"),
                                     counted(pp, "stage"), counted(vpp, "chunk")));
  run.overrides.push_back(
      fmt::format("model.pipeline_model_parallel_layout=\"{}\"", layout_text(layers, stages)));
  run.notes.push_back(
      fmt::format("{} layers on {} chunks: the last chunks have fewer", layers, stages));
}

}  // namespace

int64_t expert_ranks(const PublishedRow& row) {
  constexpr int64_t kMost = 64;
  if (const auto stated = row.count("ep")) return *stated;
  if (!row.notes_mention("DeepEP")) return 1;
  const int64_t model_ranks =
      row.count("tp").value_or(1) * row.count("pp").value_or(1) * row.count("cp").value_or(1);
  return std::clamp<int64_t>(row.needed_count("n_gpus") / model_ranks, 1, kMost);
}

void add_layout(const PublishedRow& row, int64_t layers, PublishedRun& run) {
  const int64_t gpus = row.needed_count("n_gpus");
  // Full sharding without a stated layout is data parallelism alone.
  const bool implied = gpus == 1 || row.text("fsdp").size() > 2;
  const int64_t tp = size_or_one(row, "tp", implied), pp = size_or_one(row, "pp", implied);
  const int64_t cp = row.count("cp").value_or(1);
  const int64_t batch = row.needed_count("global_batch"), length = row.needed_count("seq_len");
  const int64_t model_ranks = tp * pp * cp;
  if (gpus % model_ranks != 0)
    throw UnsupportedRow(
        fmt::format("tp {} · pp {} · cp {} do not divide {} GPUs", tp, pp, cp, gpus));
  std::optional<int64_t> micro = row.count("micro_batch");
  if (!micro) {
    // torchtitan accumulates no gradients: a rank's rows are one micro-batch, with stages as many
    // micro-batches as there are of these (pipelining_utils.py).
    const int64_t rows = batch / (gpus / model_ranks);
    micro = of_torchtitan(row) ? std::max<int64_t>(1, rows / pp) : 1;
    run.notes.push_back(fmt::format("micro_batch not stated, assumed to be {}", *micro));
  }
  const auto add = [&](const char* field, int64_t value) {
    run.overrides.push_back(fmt::format("{}={}", field, value));
  };
  add("model.seq_length", length), add("model.max_position_embeddings", length);
  add("model.tensor_model_parallel_size", tp), add("model.pipeline_model_parallel_size", pp);
  add("model.context_parallel_size", cp);
  const int64_t ep = expert_ranks(row);
  if (ep > 1) add("model.expert_model_parallel_size", ep);
  if (ep > 1 && !row.count("ep"))
    run.notes.push_back(fmt::format("ep not stated, assumed to be {}", ep));
  if (const auto etp = row.count("etp"); etp && !row.text("ep").empty()) {
    add("model.expert_tensor_parallel_size", *etp);
  } else if (ep > 1 && bridge_release(row) > 0) {
    add("model.expert_tensor_parallel_size", 1);  // as all of its recipes with experts
  }
  add("dist.ranks", gpus), add("train.global_batch_size", batch);
  add("train.micro_batch_size", *micro);
  run.batch = batch, run.stages = pp;
  const int64_t rows = gpus / model_ranks * *micro;  // of a micro-batch on all data ranks
  run.micro_batches = batch % rows == 0 ? batch / rows : 0;
  int64_t vpp = row.count("vpp").value_or(1);
  if (row.text("vpp").empty() && pp > 1 && row.notes_mention("interleaved")) {
    vpp = 2;
    run.notes.emplace_back("virtual stages not stated, assumed to be 2");
  }
  // First and last stage have one layer less, and with that their first and last chunk none: so
  // chunks have one layer (The Llama 3 Herd of Models, arXiv 2407.21783, section 3.3.2).
  if (row.text("vpp").empty() && pp > 1 && row.text("framework").starts_with("Meta") &&
      (layers + 2) % pp == 0) {
    vpp = (layers + 2) / pp;
    run.notes.push_back(
        fmt::format("virtual stages not stated: {} of one layer", counted(vpp, "chunk")));
  }
  add_stages(layers, pp, vpp, run);
  if (tp > 1) {
    // InternEvo's configuration of the time, configs/7B_sft.py: sequence_parallel=False.
    const bool shared = !of_early_megatron(row) && !row.text("framework").starts_with("InternEvo");
    run.overrides.push_back(fmt::format("model.sequence_parallel={}", shared));
  }
}

}  // namespace viaduct
