// Settings that change only when and how bytes move change no bit: ten steps with a setting on and
// off.

#include <gtest/gtest.h>

#include <cstring>

#include "ops/cpu/cpu_ops.h"
#include "ops/gemm.h"
#include "support/instruction_set.h"
#include "support/layout_run.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using test::layout;
using test::LayoutCase;
using test::probe_layout;
using test::test_data;

struct Knob {
  std::string name;
  LayoutCase layout;
  std::vector<std::string> one, other;
};

void PrintTo(const Knob& knob, std::ostream* os) {
  *os << knob.name;
}

std::map<std::string, Tensor> train(const Knob& knob, const std::vector<std::string>& settings) {
  std::vector<std::string> overrides = test::reference_optimizer();
  for (const auto& list : {knob.layout.overrides, settings})
    overrides.insert(overrides.end(), list.begin(), list.end());
  return probe_layout(test_data("golden/llama/model"), test_data("golden/llama/train.safetensors"),
                      true, overrides);
}

class Bitwise : public testing::TestWithParam<Knob> {};

TEST_P(Bitwise, OnIsOff) {
  const auto one = train(GetParam(), GetParam().one), other = train(GetParam(), GetParam().other);
  ASSERT_EQ(one.size(), other.size());
  for (const auto& [name, tensor] : one) {
    EXPECT_EQ(std::memcmp(tensor.raw(), other.at(name).raw(), static_cast<size_t>(tensor.bytes())),
              0)
        << name;
  }
}

std::vector<Knob> knobs() {
  const LayoutCase data = layout(1, 1, 1, 2, {"train.micro_batch_size=1"}),
                   stages = layout(1, 1, 2, 1, {"train.micro_batch_size=1"}),
                   tensor = layout(2, 1, 1, 1);
  LayoutCase chunks = stages;
  chunks.overrides.push_back("model.virtual_pipeline_model_parallel_size=2");
  LayoutCase data_chunks = layout(1, 1, 2, 2, {"train.micro_batch_size=1"});
  data_chunks.overrides.push_back("model.virtual_pipeline_model_parallel_size=2");
  const LayoutCase narrow = layout(
      1, 1, 1, 2,
      {"train.micro_batch_size=1", "mixed_precision=bf16_mixed", "ddp.grad_reduce_in_fp32=false"});
  const std::vector<std::string> deferred{"comm_overlap.defer_embedding_wgrad_compute=true",
                                          "comm_overlap.wgrad_deferral_limit=0"};
  const std::vector<std::string> packed{"mixed_precision=bf16_mixed", "model.packed_weights=true"},
      unpacked{"mixed_precision=bf16_mixed", "model.packed_weights=false"};
  const std::vector<std::string> units{"model.recompute_granularity=selective",
                                       "model.recompute_modules=[core_attn, layernorm, mlp]"},
      layers{"model.recompute_granularity=full", "model.recompute_method=uniform",
             "model.recompute_num_layers=1"};
  std::vector<std::string> delayed_units = units, delayed_layers = layers;
  for (auto* list : {&delayed_units, &delayed_layers})
    list->push_back("model.pipeline_schedule=zero_bubble");
  const std::string exchange = "ddp.reduce_scatter_with_fp32_accumulation=true";
  const std::string gradients = "ddp.data_parallel_sharding_strategy=optim_grads",
                    weights = "ddp.data_parallel_sharding_strategy=optim_grads_params";
  std::vector<Knob> list{
      {"reduce_scatter_with_fp32_accumulation", narrow, {}, {exchange}},
      {"overlap_grad_reduce_in_bf16", narrow, {exchange}, {"ddp.overlap_grad_reduce=false"}},
      {"overlap_grad_reduce", data, {}, {"ddp.overlap_grad_reduce=false"}},
      {"overlap_param_gather", data, {}, {"ddp.overlap_param_gather=false"}},
      {"bucket_size", data, {}, {"ddp.bucket_size=5000"}},
      {"num_buckets", data, {}, {"ddp.num_buckets=4"}},
      {"pad_buckets_for_high_nccl_busbw", data, {}, {"ddp.pad_buckets_for_high_nccl_busbw=true"}},
      {"align_param_gather", data_chunks, {}, {"ddp.align_param_gather=false"}},
      {"overlap_param_gather_with_optimizer_step",
       data_chunks,
       {},
       {"optimizer.overlap_param_gather_with_optimizer_step=true"}},
      {"use_distributed_optimizer", data, {}, {"ddp.use_distributed_optimizer=false"}},
      {"sharded_weights", data, {gradients}, {weights}},
      {"sharded_weights_of_chunks",
       data_chunks,
       {gradients},
       {weights, "ddp.fsdp_double_buffer=true"}},
      {"sharded_weights_not_ahead",
       layout(2, 1, 1, 2, {"train.micro_batch_size=1"}),
       {weights},
       {weights, "ddp.overlap_grad_reduce=false", "ddp.suggested_communication_unit_size=0"}},
      {"deallocate_pipeline_outputs", stages, {}, {"model.deallocate_pipeline_outputs=false"}},
      {"zero_bubble", stages, {}, {"model.pipeline_schedule=zero_bubble"}},
      {"defer_embedding_wgrad_compute", stages, {}, deferred},
      {"defer_embedding_wgrad_compute_of_chunks", chunks, {}, deferred},
      {"tp_comm_overlap", tensor, {}, {"comm_overlap.tp_comm_overlap=false"}},
      {"tp_comm_overlap_rs_dgrad", tensor, {}, {"model.tp_comm_overlap_rs_dgrad=true"}},
      {"tp_comm_overlap_method", tensor, {}, {"comm_overlap.method=ring_exchange"}},
      {"overlap_p2p_comm", chunks, {}, {"comm_overlap.overlap_p2p_comm=false"}},
      {"variable_seq_lengths", chunks, {}, {"model.variable_seq_lengths=true"}},
      {"pipeline_dtype", stages, {}, {"model.pipeline_dtype=fp32"}},
      {"recompute_units_of_data_ranks", data, {}, units},
      {"recompute_layers_of_data_ranks", data, {}, layers},
      {"recompute_units_of_tensor_ranks", tensor, {}, units},
      {"recompute_layers_of_tensor_ranks", tensor, {}, layers},
      {"recompute_units_of_stages", stages, {}, delayed_units},
      {"recompute_layers_of_stages", stages, {}, delayed_layers},
      {"recompute_units_of_chunks", data_chunks, {}, units},
      {"recompute_layers_of_chunks", data_chunks, {}, layers},
      {"recompute_units_of_context_ranks", layout(1, 2, 1, 1), {}, units},
      {"recompute_layers_of_context_ranks", layout(1, 2, 1, 1), {}, layers},
  };
  if (reads_packed_weights(cpu_ops(test::instruction_set()), DType::bf16)) {
    list.push_back({"packed_weights_of_data_ranks", data, packed, unpacked});
    list.push_back({"packed_weights_of_tensor_ranks", tensor, packed, unpacked});
    list.push_back({"packed_weights_of_chunks", data_chunks, packed, unpacked});
  }
  return list;
}

INSTANTIATE_TEST_SUITE_P(Knobs, Bitwise, testing::ValuesIn(knobs()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
