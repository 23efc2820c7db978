#pragma once
// The reference cases under tests/data/golden (Hugging Face's numbers) and the distance that the
// parity suites bound.

#include <map>
#include <memory>
#include <string>

#include "checkpoint/safetensors_reader.h"
#include "device/device.h"
#include "ops/cpu/cpu_ops.h"
#include "probe/probe.h"
#include "support/instruction_set.h"

namespace viaduct::test {

/// Runs `probe` on a model folder and a batch file.
std::map<std::string, Tensor> probe_case(const std::filesystem::path& model,
                                         const std::filesystem::path& batch,
                                         const ProbeSettings& settings,
                                         CpuIsa isa = instruction_set(), int threads = 2);

/// ‖a − b‖ / max(‖b‖, 1e-5 · √elements): the relative L2 error against a reference; the bound
/// handles zero references.
double relative_error(const Tensor& a, const Tensor& b);

/// The error of the gradient `name` ("grad.…") against the file's. A constant in all keys changes
/// no weight of attention but through rotary positions: without them the gradient of a key's bias
/// is 0, and what is found, here and there, is rounding, which the gradient of its weight measures.
double gradient_error(const Tensor& got, const SafetensorsFile& file, const std::string& name);

/// ‖g‖ over the tensors `grad.*` of a reference, in FP64: its gradient norm.
double gradient_norm(const SafetensorsFile& file);
/// Checks that logits, loss, gradient norm and every gradient of a probe equal those of the file up
/// to this relative error. Returns the number of gradients.
int expect_gradients_of(const std::map<std::string, Tensor>& got, const SafetensorsFile& file,
                        double limit);

/// Checks that a weight after ten steps equals the reference's within `limit`. GPT-2's key biases,
/// the middle third of c_attn.bias, have a gradient of zero, and Adam scales rounding up there:
/// these move by at most 5e-4.
void expect_trained(const std::string& name, const Tensor& ours, const Tensor& theirs,
                    double limit = 1e-4);

/// Settings of the reference's ten AdamW steps (constant learning rate 1e-3, decay 0.1, clip 1).
ProbeSettings reference_training();

}  // namespace viaduct::test
