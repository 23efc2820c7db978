#include "train/run_checkpoint.h"

#include "base/error.h"
#include "checkpoint/parameter_io.h"
#include "model/family.h"

namespace viaduct {
namespace {

/// The weights of a checkpoint, without optimizer state, as a source of its own.
class WeightsOnly final : public TensorSource {
 public:
  explicit WeightsOnly(const CheckpointReader& checkpoint) : checkpoint_(checkpoint) {
    for (const TensorInfo& info : checkpoint.tensors()) {
      if (is_weight_name(info.name)) infos_.push_back(info);
    }
  }
  const std::vector<TensorInfo>& tensors() const override { return infos_; }
  Tensor tensor(const std::string& name) const override { return checkpoint_.tensor(name); }
  std::string where() const override { return checkpoint_.where(); }
  const TensorInfo* find(const std::string& name) const override {
    return is_weight_name(name) ? checkpoint_.find(name) : nullptr;
  }

 private:
  const CheckpointReader& checkpoint_;
  std::vector<TensorInfo> infos_;
};

}  // namespace

StagedCheckpoint stage_run(Engine& engine, const TrainState& state,
                           std::map<std::string, std::string> files,
                           const std::filesystem::path& save, int64_t keep_last,
                           bool with_optimizer) {
  StagedCheckpoint staged;
  staged.save = save;
  staged.step = state.step;
  staged.state = to_json(state);
  staged.files = std::move(files);
  staged.keep_last = keep_last;
  const auto stage = [&](const std::string& prefix, FunctionRef<Tensor(const Parameter&)> of) {
    for_each_logical_tensor(
        engine.device(), engine.store().parameters(), of, 1,
        [&](const std::string& name, const Tensor& tensor) {
          staged.entries.push_back(
              {whole_entry({prefix + name, tensor.dtype(), tensor.shape()}), tensor});
        });
  };
  stage("", [&](const Parameter& p) { return engine.store().master(p); });
  if (with_optimizer) {
    stage(kFirstMoment, [&](const Parameter& p) { return engine.optimizer()->first_moment(p); });
    stage(kSecondMoment, [&](const Parameter& p) { return engine.optimizer()->second_moment(p); });
  }
  return staged;
}

TrainState restore_run(Engine& engine, const CheckpointReader& checkpoint, bool load_optimizer) {
  const TrainState state = train_state_from_json(checkpoint.state(), checkpoint.where());
  OpContext context = engine.context(false, false).ops;
  const ModelConfig& model = engine.model().config();
  load_parameters(context, engine.store(), WeightsOnly(checkpoint),
                  model_family(model.family).names, model.tied_embeddings);
  if (!load_optimizer) return state;
  const auto& parameters = engine.store().parameters();
  fill_from_logical(
      engine.device(), parameters,
      [&](const Parameter& p) { return engine.optimizer()->first_moment(p); },
      [&](const std::string& name) { return checkpoint.tensor(kFirstMoment + name); });
  fill_from_logical(
      engine.device(), parameters,
      [&](const Parameter& p) { return engine.optimizer()->second_moment(p); },
      [&](const std::string& name) { return checkpoint.tensor(kSecondMoment + name); });
  return state;
}

}  // namespace viaduct
