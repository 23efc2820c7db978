#include "probe/probe.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/units.h"
#include "checkpoint/logical_gather.h"
#include "checkpoint/parameter_io.h"
#include "checkpoint/peft_experts.h"
#include "checkpoint/peft_image_names.h"
#include "engine/engine.h"
#include "model/expert_adapters.h"
#include "model/family.h"
#include "model/initialize.h"
#include "model/initialize_magnitudes.h"
#include "model/router_adapters.h"
#include "model/vision_names.h"
#include "nn/adapter_settings.h"
#include "nn/moe/router_log.h"
#include "probe/aux_loss.h"
#include "probe/probe_activations.h"
#include "probe/probe_batch.h"

namespace viaduct {
namespace {

using Dump = std::map<std::string, Tensor>;

Tensor scalars_tensor(const std::vector<double>& values, const Shape& shape) {
  Tensor tensor = host_tensor(DType::f32, shape);
  std::transform(values.begin(), values.end(), tensor.data<float>(),
                 [](double v) { return static_cast<float>(v); });
  return tensor;
}

/// What Hugging Face's code calls a value of the decoder where there is an encoder too.
std::string dumped_name(const std::string& name, const ModelConfig& model) {
  constexpr std::string_view kHiddenValue = "hidden.", kEncoderValue = "hidden.encoder.";
  if (!model.encoder.any() || !name.starts_with(kHiddenValue) || name.starts_with(kEncoderValue))
    return name;
  return "hidden.decoder." + name.substr(kHiddenValue.size());
}

/// Rows of a micro-batch of each data-parallel rank.
int64_t micro_batch_rows(const Engine& engine, const ProbeBatch& batch,
                         const ProbeSettings& settings) {
  const int64_t ranks = engine.groups().dp().size();
  const int64_t rows =
      settings.micro_batch_size > 0 ? settings.micro_batch_size : batch.rows / ranks;
  VIADUCT_CHECK(ConfigError, rows > 0 && batch.rows % (rows * ranks) == 0,
                "probe: the batch of {} does not divide into micro-batches of {} on {}",
                counted(batch.rows, "row"), rows, counted(ranks, "data-parallel rank"));
  return rows;
}

/// The step over all rows of a batch, each data-parallel rank over its own; returns loss and norm.
StepResult run_step(Engine& engine, const ProbeBatch& batch, const ProbeSettings& settings,
                    const StepInputs& inputs, bool apply) {
  const int64_t ranks = engine.groups().dp().size(), rank = engine.groups().dp().rank();
  const int64_t rows = micro_batch_rows(engine, batch, settings);
  engine.begin_step(inputs);
  double scored = 0;
  const auto batch_at = [&](int64_t i) {
    HostBatch micro_batch = batch.micro_batch((i * ranks + rank) * rows, rows);
    scored += micro_batch.scored_weight();
    return micro_batch;
  };
  engine.run_micro_batches(batch.rows / (rows * ranks), batch_at, apply);
  const StepResult result = engine.finish_step(scored, apply);
  VIADUCT_CHECK(ShapeError, !result.nothing_scored,
                "probe: no token of the batch is scored (all labels are masked)");
  return result;
}

/// run_step with a loss scale that does not overflow, from `scale` down; leaves it there. An
/// overflowing attempt changes neither weights nor moments.
StepResult run_scaled_step(Engine& engine, const ProbeBatch& batch, const ProbeSettings& settings,
                           StepInputs inputs, bool apply, double& scale) {
  const bool scaling = settings.run.layers.precision.loss_scaling;
  const LossScalerSettings& scaler = settings.loss_scaler;
  for (;;) {
    inputs.loss_scale = scaling ? scale : 1;
    const StepResult result = run_step(engine, batch, settings, inputs, apply);
    if (!result.skipped || !scaling) return result;
    VIADUCT_CHECK(Error, scaler.constant_scale == 0,
                  "probe: a gradient is not finite at the constant loss scale {}", scale);
    VIADUCT_CHECK(Error, scale > scaler.minimum_scale,
                  "probe: a gradient is not finite at the smallest loss scale {}", scale);
    scale = std::max(scale / 2, scaler.minimum_scale);
  }
}

double initial_scale(const ProbeSettings& settings) {
  return LossScaler(settings.loss_scaler).initial_state().scale;
}

/// The values of adapters of single experts become those of all, as the adapter's files have them.
void fuse_experts(const AdapterSettings& adapters, const ModelConfig& model,
                  const std::string& prefix, Dump& dump) {
  const auto read = [&](const std::string& name) {
    const auto found = dump.find(prefix + name);
    return found == dump.end() ? Tensor() : found->second;
  };
  const FusedExperts fused = fuse_expert_adapters(adapters, model, read);
  std::erase_if(dump, [&](const auto& entry) {
    return entry.first.starts_with(prefix + kAdapterPrefix) && is_expert_module(entry.first);
  });
  for (const auto& [name, tensor] : fused.tensors) dump[prefix + name] = tensor;
}

/// Those of routers take the names of the adapter's files, which have them as parameters.
void take_router_names(const ModelConfig& model, const std::string& prefix, Dump& dump) {
  for (const auto& [router, parameter] : peft_router_parameters(model)) {
    for (const char* end : {kAdapterA, kAdapterB}) {
      auto entry = dump.extract(prefix + kAdapterPrefix + router + end);
      if (entry.empty()) continue;
      entry.key() = prefix + kAdapterPrefix + module_of_parameter(parameter) + end;
      dump.insert(std::move(entry));
    }
  }
}

/// What the model's folder calls a logical tensor, or PEFT's files one of theirs.
std::string folder_name(const ModelConfig& model, const std::string& name) {
  if (name.starts_with(kAdapterPrefix)) return peft_file_name(model, name);
  return model.vision.any() ? stored_image_name(name, model.vision.tower_prefix) : name;
}

/// Gives the values of `prefix` these names.
void take_folder_names(const ModelConfig& model, const std::string& prefix, Dump& dump) {
  Dump named;
  for (auto entry = dump.lower_bound(prefix);
       entry != dump.end() && entry->first.starts_with(prefix); entry = dump.erase(entry))
    named[prefix + folder_name(model, entry->first.substr(prefix.size()))] = entry->second;
  dump.merge(named);
}

/// The values that all ranks' runs hold times `factor`, under logical names, on rank 0.
void dump_runs(Engine& engine, const ProbeSettings& settings, const std::string& prefix,
               double factor, FunctionRef<StateValues(const ShardRun&, size_t)> values,
               Dump& dump) {
  const Communicator& copies = engine.store().copies_of_runs();
  std::vector<StoredRun> runs = stored_runs(engine.store(), values);
  std::erase_if(runs, [](const StoredRun& run) { return !run.state.values; });
  gather_logical(engine.groups().world(), engine.device(),
                 share_of_copies(std::move(runs), copies.rank(), copies.size()), factor,
                 [&](const std::string& name, const Tensor& tensor) {
                   // PEFT's module has a weight, which its files leave out of the name.
                   const bool magnitudes =
                       name.starts_with(kAdapterPrefix) && name.ends_with(kAdapterMagnitude);
                   dump[prefix + name + (magnitudes ? ".weight" : "")] = tensor;
                 });
  const AdapterSettings& adapters = engine.run().layers.adapters;
  const ModelConfig& model = engine.model().config();
  if (adapters.fused_experts) fuse_experts(adapters, model, prefix, dump);
  if (settings.router_parameters) take_router_names(model, prefix, dump);
  if (model.vision.any()) take_folder_names(model, prefix, dump);
}

constexpr auto master_of = [](const ShardRun& run, size_t) { return run.master_state(); };
/// A load bias has no such value.
constexpr auto gradient_of = [](const ShardRun& run, size_t) -> StateValues {
  return run.parameter->load_bias_rate ? Tensor() : run.gradient;
};

/// Logits and residual streams of the batch. The same micro-batches as in the step: a scale of a
/// whole tensor, and what experts have room for, depend on which rows are computed together.
Dump probe_forward(Engine& engine, const ProbeBatch& batch, const ProbeSettings& settings) {
  const int64_t ranks = engine.groups().dp().size(), rank = engine.groups().dp().rank();
  const int64_t rows = micro_batch_rows(engine, batch, settings);
  Dump dump;
  for (int64_t first = 0; first < batch.rows; first += rows * ranks) {
    for (const auto& [name, values] :
         probe_activations(engine, settings.run.parallelism,
                           batch.micro_batch(first + rank * rows, rows), settings.hidden)) {
      Tensor& all = dump[dumped_name(name, engine.model().config())];
      const bool of_encoder = name.starts_with("hidden.encoder.");
      const int64_t length = of_encoder ? batch.encoder->length : batch.length;
      if (!all) all = host_tensor(DType::f32, {batch.rows, length, values.dim(1)});
      std::memcpy(all.data<float>() + first * length * values.dim(1), values.raw(),
                  static_cast<size_t>(values.bytes()));
    }
  }
  return dump;
}

/// The batch (of `step`, or the only one) with the positions that the model's family counts.
ProbeBatch read_batch_of(const ModelConfig& model, const TensorSource& file,
                         const std::string& prefix, int64_t step) {
  if (model.encoder.any()) return read_probe_pairs(file, prefix, step, model.encoder);
  ProbeBatch batch = read_probe_batch(file, prefix, step);
  read_probe_images(file, prefix, step, model.vision, batch);
  if (model_family(model.family).positions_from_mask) batch.count_positions_from_mask();
  return batch;
}

Dump probe_once(Engine& engine, const TensorSource& file, const ProbeSettings& settings) {
  const ProbeBatch batch = read_batch_of(engine.model().config(), file, "", -1);
  Dump dump = probe_forward(engine, batch, settings);

  double scale = initial_scale(settings);
  const MoeConfig& moe = engine.model().config().moe;
  if (moe.any()) engine.router_log()->keep_logits();
  const StepResult result = run_scaled_step(engine, batch, settings, {}, false, scale);
  dump["loss"] = scalars_tensor({result.loss}, {});
  dump["grad_norm"] = scalars_tensor({result.grad_norm}, {});
  if (!result.depth_losses.empty()) {
    dump["mtp_losses"] =
        scalars_tensor(result.depth_losses, {static_cast<int64_t>(result.depth_losses.size())});
  }
  if (moe.any()) {
    const double aux_loss = collect_aux_loss(engine);
    dump["aux_loss"] = scalars_tensor({aux_loss}, {});
    dump["loss_with_aux"] =
        scalars_tensor({result.loss + aux_loss_coefficient(moe) * aux_loss}, {});
  }
  dump_runs(engine, settings, "grad.", engine.gradient_factor(), gradient_of, dump);
  if (settings.weights) dump_runs(engine, settings, "weight.", 1, master_of, dump);
  return dump;
}

Dump probe_train(Engine& engine, const TensorSource& file, const ProbeSettings& settings) {
  const TensorInfo* info = file.find("batch.input_ids");
  VIADUCT_CHECK(IoError, info != nullptr && info->shape.rank() == 3,
                "{}: batch.input_ids [N, B, S] is missing", file.where());
  const int64_t steps = info->shape[0];
  std::vector<double> losses, norms;
  double scale = initial_scale(settings);
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t samples = step * info->shape[1];
    StepInputs inputs;
    inputs.learning_rate = settings.learning_rate;
    if (settings.schedules) inputs = scheduled_inputs(*settings.schedules, samples);
    inputs.update = step + 1;
    const StepResult result =
        run_scaled_step(engine, read_batch_of(engine.model().config(), file, "batch.", step),
                        settings, inputs, true, scale);
    VIADUCT_CHECK(Error, !result.skipped, "probe: step {}: a gradient is not finite", step + 1);
    losses.push_back(result.loss);
    norms.push_back(result.grad_norm);
  }
  Dump dump;
  dump["loss"] = scalars_tensor(losses, {steps});
  dump["grad_norm"] = scalars_tensor(norms, {steps});
  dump_runs(engine, settings, "final.", 1, master_of, dump);
  return dump;
}

}  // namespace

std::map<std::string, Tensor> run_probe(Device& device, const OpTable& ops,
                                        const ModelConfig& config, const TensorSource& weights,
                                        const TensorSource& batch, ProbeSettings settings,
                                        std::shared_ptr<Communicator> world) {
  const TensorInfo* ids = batch.find(settings.train ? "batch.input_ids" : "input_ids");
  VIADUCT_CHECK(IoError, ids != nullptr && ids->shape.rank() >= 2, "{}: {} is missing",
                batch.where(), settings.train ? "batch.input_ids [N, B, S]" : "input_ids [B, S]");
  ResolvedRun& run = settings.run;
  // The weights shown are those of the file, which a recipe's masters keep in full.
  run.purpose =
      settings.train || settings.weights ? EnginePurpose::train : EnginePurpose::gradients;
  run.positions = ids->shape.dim(-1);
  if (const TensorInfo* labels = batch.find(settings.train ? "batch.labels" : "labels");
      config.encoder.any() && labels != nullptr && labels->shape.rank() > 0)
    run.positions = labels->shape.dim(-1);  // the decoder's
  if (batch.contains(settings.train ? "batch.position_ids" : "position_ids")) {
    for (int64_t step = 0; step < (settings.train ? ids->shape[0] : 1); ++step) {
      const ProbeBatch one = settings.train ? read_probe_batch(batch, "batch.", step)
                                            : read_probe_batch(batch, "", -1);
      run.positions = std::max(run.positions, one.position_limit());
    }
  }
  if (!world) world = make_self_communicator("world");
  world->record_on(&device);
  Engine engine(device, ops, config, run, make_groups(run, world));
  OpContext context{device, ops};
  load_parameters(context, engine.store(), weights, config);
  if (settings.adapter) {
    load_adapter(context, engine.store(), *settings.adapter);
  } else if (run.layers.adapters.any()) {
    initialize_parameters(context, engine.store(), run.layers.seed, is_adapter);
    RankContext rank = engine.context(false, false);
    initialize_magnitudes(rank, engine.store());
  }
  return settings.train ? probe_train(engine, batch, settings)
                        : probe_once(engine, batch, settings);
}

}  // namespace viaduct
