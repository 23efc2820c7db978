// What passes between an encoder and a decoder with other tensor ranks, by a formula of the test:
// each element of the encoder's output and of its gradient once, one gather on the side with more
// ranks, and the gradient of the token table once.

#include <gtest/gtest.h>

#include "engine/dry_run.h"
#include "support/training.h"

namespace viaduct {
namespace {

using test::Overrides;
using test::operator+;

struct Halves {
  int etp = 1, tp = 1, dp = 1;
  bool cut = false;  // the stream, over tensor ranks
};

constexpr int64_t kHidden = 32, kVocabulary = 64, kMultiple = 16, kMicroBatches = 2,
                  kRows = 2 * 48;  // tokens of the encoder in a micro-batch

DryRun dry_run_of(const Halves& h, int rank) {
  return dry_run(
      test::setup_of(
          test::tiny_run("t5") +
          Overrides{"model.encoder_seq_length=48", "model.encoder_pipeline_model_parallel_size=1",
                    "model.make_vocab_size_divisible_by=" + std::to_string(kMultiple),
                    "model.encoder_tensor_model_parallel_size=" + std::to_string(h.etp),
                    "model.tensor_model_parallel_size=" + std::to_string(h.tp),
                    std::string("model.sequence_parallel=") + (h.cut ? "true" : "false"),
                    "train.global_batch_size=" + std::to_string(2 * kMicroBatches * h.dp),
                    "dist.ranks=" + std::to_string(h.dp * (h.etp + h.tp))}),
      {rank});
}

int64_t bytes_of(const DryRun& run, const std::string& group, const std::string& operation) {
  int64_t bytes = 0;
  for (const GroupTraffic& one : run.traffic)
    if (one.group == group && choice_name(one.operation) == operation) bytes += one.bytes;
  return bytes;
}

int ranks_of(const DryRun& run, const std::string& group) {
  for (const GroupTraffic& one : run.traffic)
    if (one.group == group) return one.ranks;
  return 1;
}

TEST(EncoderTensorBytes, AreThoseOfTheFormula) {
  for (const Halves& h :
       {Halves{.tp = 2}, Halves{.etp = 2}, Halves{.tp = 4, .dp = 2}, Halves{.etp = 4, .tp = 2},
        Halves{.etp = 2, .tp = 4, .cut = true}, Halves{.etp = 4, .tp = 2, .dp = 2, .cut = true}}) {
    const int most = std::max(h.etp, h.tp), fewest = std::min(h.etp, h.tp);
    const int64_t all = kMicroBatches * kRows * kHidden * int64_t{sizeof(float)},
                  unit = kMultiple * most,
                  table = (kVocabulary + unit - 1) / unit * unit / fewest * kHidden *
                          int64_t{sizeof(float)};
    for (const bool of_encoder : {true, false}) {
      SCOPED_TRACE(testing::Message() << h.etp << " beside " << h.tp << (h.cut ? ", cut" : "")
                                      << (of_encoder ? ", encoder" : ", decoder"));
      const int own = of_encoder ? h.etp : h.tp;
      const DryRun run = dry_run_of(h, of_encoder ? 0 : h.dp * h.etp);
      const int64_t part = h.cut ? all / own : all / (own / fewest);
      EXPECT_EQ(bytes_of(run, "pp", "send"), part);
      EXPECT_EQ(bytes_of(run, "pp", "receive"), part);
      EXPECT_EQ(bytes_of(run, "tp.split", "all_gather"), own == most && !h.cut ? all : 0);
      EXPECT_EQ(bytes_of(run, "embedding", "all_reduce"), table);
      EXPECT_EQ(ranks_of(run, "embedding"), h.dp * (h.etp + h.tp) / fewest);
    }
  }
}

}  // namespace
}  // namespace viaduct
