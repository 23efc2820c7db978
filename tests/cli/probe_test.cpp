// `viaduct probe` compared with the reference's numbers, as scripts use it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/file.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "support/command.h"
#include "support/golden.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using test::relative_error;
using test::test_data;

class ProbeCommand : public testing::Test {
 protected:
  using Result = test::CommandResult;
  Result run(const std::string& model, const std::filesystem::path& batch,
             const std::string& arguments = "") {
    return test::run_viaduct("probe --model " + (test_data("golden") / model).string() +
                             " --batch " + batch.string() + " --out " +
                             (folder_ / "out.safetensors").string() + " dist.threads_per_rank=2 " +
                             arguments);
  }
  SafetensorsFile output() const { return SafetensorsFile(folder_ / "out.safetensors"); }
  static std::filesystem::path golden(const std::string& name) {
    return test_data("golden") / name;
  }

  /// A batch of the reference's ids with additional tensors.
  std::filesystem::path batch_with(const std::string& name, const std::string& field,
                                   const Tensor& tensor) {
    const SafetensorsFile file(golden(name) / "golden.safetensors");
    const std::filesystem::path path = folder_ / "batch.safetensors";
    write_safetensors(path, std::map<std::string, Tensor>{{"input_ids", file.tensor("input_ids")},
                                                          {field, tensor}});
    return path;
  }
  double loss() const { return *output().tensor("loss").data<float>(); }

  test::TemporaryFolder folder_;
};

TEST_F(ProbeCommand, GivesTheReferencesNumbers) {
  const Result done = run("gpt2/model", golden("gpt2/golden.safetensors"), "--hidden --weights");
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(done.out.find("loss 6.5737"), 0u) << done.out;
  const SafetensorsFile got = output(), reference(golden("gpt2/golden.safetensors"));
  const SafetensorsFile weights(golden("gpt2/model/model.safetensors"));
  for (const TensorInfo& info : reference.tensors()) {
    if (info.dtype == DType::f32 && info.name != "loss_masked") {
      EXPECT_LE(relative_error(got.tensor(info.name), reference.tensor(info.name)), 2e-5)
          << info.name;
    }
  }
  for (const TensorInfo& info : weights.tensors())
    EXPECT_EQ(relative_error(got.tensor("weight." + info.name), weights.tensor(info.name)), 0);
}

/// The mean of −log softmax(logits of t)[id of t + 1].
double loss_of(const Tensor& logits, const Tensor& ids) {
  const int64_t rows = logits.dim(0), length = logits.dim(1), vocabulary = logits.dim(2);
  double sum = 0;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t t = 0; t + 1 < length; ++t) {
      const float* x = logits.data<float>() + (r * length + t) * vocabulary;
      const double most = *std::max_element(x, x + vocabulary);
      double exponentials = 0;
      for (int64_t v = 0; v < vocabulary; ++v) exponentials += std::exp(x[v] - most);
      sum += most + std::log(exponentials) - x[ids.data<int64_t>()[r * length + t + 1]];
    }
  }
  return sum / static_cast<double>(rows * (length - 1));
}

// Rows that differ have other scales together than alone, so the loss of their logits tells which
// forward they are of. Logits are rounded to BF16, the loss is not.
TEST_F(ProbeCommand, LogitsAreThoseOfTheStepWhereATensorHasOneScale) {
  const auto batch = golden("gpt2/golden.safetensors");
  const SafetensorsFile reference(batch);
  struct Outcome {
    double loss, of_logits;
    std::string logits;
  };
  std::vector<Outcome> outcomes;
  for (const char* layout : {"", "train.micro_batch_size=1", "dist.ranks=2"}) {
    const Result done =
        run("gpt2/model", batch,
            std::string("--hidden mixed_precision=bf16_with_fp8_current_scaling_mixed ") + layout);
    ASSERT_EQ(done.status, 0) << done.err;
    const Tensor all = output().tensor("logits");
    EXPECT_EQ(output().tensor("hidden.embed").dim(0), all.dim(0));
    outcomes.push_back({loss(),
                        loss_of(all, reference.tensor("input_ids")),
                        {static_cast<const char*>(all.raw()), static_cast<size_t>(all.bytes())}});
  }
  const Outcome &together = outcomes[0], &apart = outcomes[1];
  EXPECT_LT(2 * std::abs(together.of_logits - together.loss),
            std::abs(apart.of_logits - together.loss));
  EXPECT_LT(2 * std::abs(apart.of_logits - apart.loss), std::abs(together.of_logits - apart.loss));
  EXPECT_EQ(outcomes[2].logits, apart.logits);
}

TEST_F(ProbeCommand, TrainsWithTheGivenSettings) {
  const std::string settings =
      "--train optimizer.optimizer=adam optimizer.lr=1e-3 optimizer.min_lr=1e-3 "
      "optimizer.weight_decay=0.1 optimizer.adam_beta1=0.9 optimizer.adam_beta2=0.95 "
      "optimizer.adam_eps=1e-8 optimizer.clip_grad=1.0 scheduler.lr_decay_style=constant "
      "scheduler.lr_warmup_iters=0 train.micro_batch_size=2 ddp.overlap_grad_reduce=true";
  const Result done = run("llama/model", golden("llama/train.safetensors"), settings);
  ASSERT_EQ(done.status, 0) << done.err;
  const SafetensorsFile got = output(), reference(golden("llama/train.safetensors"));
  EXPECT_LE(relative_error(got.tensor("loss"), reference.tensor("loss")), 2e-4);
  EXPECT_LE(relative_error(got.tensor("grad_norm"), reference.tensor("grad_norm")), 2e-4);
  EXPECT_LE(
      relative_error(got.tensor("final.lm_head.weight"), reference.tensor("final.lm_head.weight")),
      1e-4);
}

TEST_F(ProbeCommand, SchedulesMoveTheLearningRate) {
  // A warm-up from zero over all ten steps: the first step changes nothing, and little is learned.
  const Result done = run("gpt2/model", golden("gpt2/train.safetensors"),
                          "--train optimizer.lr=1e-5 scheduler.lr_warmup_iters=10 "
                          "optimizer.weight_decay=0");
  ASSERT_EQ(done.status, 0) << done.err;
  const Tensor losses = output().tensor("loss");
  const SafetensorsFile reference(golden("gpt2/train.safetensors"));
  EXPECT_NEAR(losses.data<float>()[0], reference.tensor("loss").data<float>()[0], 1e-4);
  EXPECT_GT(losses.data<float>()[9], reference.tensor("loss").data<float>()[9] + 1);
}

TEST_F(ProbeCommand, PackedRowsInEitherForm) {
  const SafetensorsFile reference(golden("packed_llama/golden.safetensors"));
  for (const char* field : {"document_ids", "cu_seqlens"}) {
    const auto batch = batch_with("packed_llama", field, reference.tensor(field));
    ASSERT_EQ(run("llama/model", batch).status, 0);
    EXPECT_LE(relative_error(output().tensor("logits"), reference.tensor("logits")), 2e-5) << field;
    EXPECT_NEAR(loss(), 6.489200, 1e-5) << field;
  }
  // Given positions are used.
  const auto batch = batch_with("packed_llama", "position_ids", reference.tensor("position_ids"));
  ASSERT_EQ(run("llama/model", batch).status, 0);
  EXPECT_GT(relative_error(output().tensor("logits"), reference.tensor("logits")), 1e-3);
}

TEST_F(ProbeCommand, MaskedLabelsAndPadding) {
  const SafetensorsFile reference(golden("gpt2/golden.safetensors"));
  const auto masked = batch_with("gpt2", "labels", reference.tensor("labels_masked"));
  ASSERT_EQ(run("gpt2/model", masked).status, 0);
  EXPECT_NEAR(loss(), *reference.tensor("loss_masked").data<float>(), 1e-5);

  // The last 16 tokens of each row are padding: earlier tokens do not see them.
  const Tensor labels = host_tensor(DType::i64, {2, 64}), mask = host_tensor(DType::i64, {2, 64});
  const Tensor ids = reference.tensor("input_ids");
  for (int64_t i = 0; i < 128; ++i) {
    mask.data<int64_t>()[i] = i % 64 < 48;
    labels.data<int64_t>()[i] = i % 64 < 48 ? ids.data<int64_t>()[i] : -100;
  }
  const auto path = folder_ / "batch.safetensors";
  write_safetensors(path, std::map<std::string, Tensor>{
                              {"input_ids", ids}, {"labels", labels}, {"attention_mask", mask}});
  ASSERT_EQ(run("gpt2/model", path).status, 0);
  EXPECT_LE(relative_error(output().tensor("logits").slice(1, 0, 48).select(0),
                           reference.tensor("logits").slice(1, 0, 48).select(0)),
            2e-5);
}

TEST_F(ProbeCommand, EveryPrecisionIsNearTheReference) {
  const SafetensorsFile reference(golden("llama_tied/golden.safetensors"));
  const auto batch = golden("llama_tied/golden.safetensors");
  for (const auto& [recipe, bound] :
       std::map<std::string, double>{{"bf16_mixed", 6e-2}, {"fp16_mixed", 1e-2}, {"fp64", 2e-5}}) {
    const Result done = run("llama_tied/model_sharded_bf16", batch, "mixed_precision=" + recipe);
    ASSERT_EQ(done.status, 0) << recipe << done.err;
    for (const TensorInfo& info : reference.tensors()) {
      if (info.name.starts_with("grad.")) {
        EXPECT_LE(relative_error(output().tensor(info.name), reference.tensor(info.name)), bound)
            << recipe << " " << info.name;
      }
    }
  }
}

TEST_F(ProbeCommand, Fp16TrainsAtEveryStepWhateverTheScale) {
  const SafetensorsFile reference(golden("gpt2/train.safetensors"));
  ASSERT_EQ(run("gpt2/model", golden("gpt2/train.safetensors"),
                "--train optimizer.lr=1e-3 mixed_precision=fp16_mixed")
                .status,
            0);
  EXPECT_LE(relative_error(output().tensor("loss"), reference.tensor("loss")), 5e-3);
  const Result overflow = run("gpt2/model", golden("gpt2/golden.safetensors"),
                              "mixed_precision=fp16_mixed mixed_precision.loss_scale=1e30");
  EXPECT_EQ(overflow.status, 1);
  EXPECT_NE(overflow.err.find("constant loss scale"), std::string::npos) << overflow.err;
}

TEST_F(ProbeCommand, SaysWhatIsWrong) {
  const auto good = golden("gpt2/golden.safetensors");
  const auto expect = [&](const Result& result, int status, const char* text) {
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_NE(result.err.find(text), std::string::npos) << result.err;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out.safetensors")) << text;
  };
  expect(run("gpt2/model", good, "train.micro_batch_size=3"), 2, "3");
  expect(run("gpt2/model", good, "train.global_batch_size=4"), 2, "2 rows");
  expect(run("gpt2/model", good, "optimizer.lrr=1"), 2, "lr");
  expect(run("gpt2/model", good, "optimizer.lr=1 optimizer.min_lr=2"), 2, "min_lr");
  expect(run("gpt2/model", good, "model.num_layers=3"), 1, "belongs to no parameter");
  expect(run("gpt2/model", good, "model.seq_length=32"), 2, "64 tokens");
  expect(run("gpt2/model", good, "--train"), 1, "batch.input_ids is missing");
  expect(run("gpt2/model", golden("gpt2/train.safetensors")), 1, "use --train");
  expect(run("gpt2/model", golden("gpt2/missing.safetensors")), 2, "missing.safetensors");
  expect(run("gpt2", good), 1, "not a model");
  expect(run("gpt2/model", good, "--unknown"), 2, "--unknown");
  const Tensor ids = host_tensor(DType::i64, {2, 64});
  ids.data<int64_t>()[5] = 512;
  const auto path = folder_ / "batch.safetensors";
  write_safetensors(path, std::map<std::string, Tensor>{{"input_ids", ids}});
  expect(run("gpt2/model", path), 1, "512");
  const Tensor wide = host_tensor(DType::i64, {1, 129});
  write_safetensors(path, std::map<std::string, Tensor>{{"input_ids", wide}});
  expect(run("gpt2/model", path), 2, "128 learned positions");
}

TEST_F(ProbeCommand, AFolderThatIsMissingIsSaidBeforeTheWork) {
  const Result result = test::run_viaduct("probe --model x --batch y --out " +
                                          (folder_ / "no/out.safetensors").string());
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("there is no folder"), std::string::npos);
}

}  // namespace
}  // namespace viaduct
