#pragma once
// One forward and backward, or a few optimizer steps, on a given batch, with all results dumped
// under Hugging Face's names. Used to check every layout, precision and device against an
// independent implementation.

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "checkpoint/tensor_source.h"
#include "device/device.h"
#include "model/model_config.h"
#include "ops/table.h"
#include "optim/schedules.h"
#include "run/resolved_run.h"

namespace viaduct {

struct ProbeSettings {
  /// By default of one rank; the probe sets its positions and purpose.
  ResolvedRun run;
  double learning_rate = 1e-3;
  /// With `train`, instead of a constant learning rate and decay.
  std::optional<Schedules> schedules;
  /// Of recipes with loss scaling. A step whose gradients overflow is repeated with a smaller scale
  /// until they do not (and later steps stay there), so that every step updates; a constant scale
  /// that overflows is an error.
  LossScalerSettings loss_scaler;
  /// The tensors of the run's adapters; null: they begin as in a new run.
  std::shared_ptr<const TensorSource> adapter;
  /// Its files have routers as parameters, whose names the dump takes (model/router_adapters.h).
  bool router_parameters = false;
  int64_t micro_batch_size = 0;  // rows; 0: one micro-batch per data-parallel rank
  bool train = false;            // `batch.*` tensors of N steps instead of one batch
  bool hidden = false;           // dump hidden.*
  bool weights = false;          // dump weight.*
};

/// Every rank of `world` (null: this one alone) calls it with the same arguments; rank 0 returns
/// the tensors, other ranks return an unspecified part. The tensors of `probe`: logits [B,S,V],
/// loss [], grad_norm [], mtp_losses [D] of multi-token prediction, aux_loss [] and loss_with_aux
/// [] of routed models (probe/aux_loss.h), grad.NAME, … or loss [N], grad_norm [N], final.NAME with
/// `train`; all f32 on the host. `batch` holds input_ids [B,S] i64 and its companions. Errors name
/// the tensor, expected and found.
std::map<std::string, Tensor> run_probe(Device& device, const OpTable& ops,
                                        const ModelConfig& config, const TensorSource& weights,
                                        const TensorSource& batch, ProbeSettings settings,
                                        std::shared_ptr<Communicator> world = nullptr);

}  // namespace viaduct
