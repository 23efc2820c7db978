#pragma once
// All layouts of a model on a number of GPUs that the search looks at.
//
// Rules in addition to divisibility: tensor parallel groups stay inside a domain of fast links;
// context
// parallel ranks keep 1,024 tokens of a row or more; micro-batches have at most 16 rows; experts
// are whole or cut like the dense weights (etp 1 or tp). Layers that do not divide among the stages
// make uneven ones if these are a power of two, or embedding and loss make up a whole number.
// Stages of an encoder's own have an equal number of its layers each, and as many tensor ranks as
// the decoder's or, of a vision tower, a divisor or a multiple of them that divides it. A value
// fixed by the user replaces its rule.

#include <optional>
#include <vector>

#include "hardware/cluster.h"
#include "plan/layout.h"

namespace viaduct {

/// The sizes that a layout must divide, and the values fixed by the user.
struct SpaceLimits {
  int64_t ranks = 1, global_batch = 1, length = 1;  // tokens of a row
  int64_t layers = 1;
  int64_t prediction_layers = 0;  // of multi-token prediction
  /// Counted as one layer each when layers are cut into stages.
  bool account_for_embedding = false, account_for_loss = false;
  int64_t heads = 1, feed_forward = 1;
  int domain = 1;
  int64_t experts = 0;              // of a layer; 0: none
  int64_t expert_feed_forward = 1;  // width of one
  bool whole_experts = false;       // the trainer does not cut them (etp 1)

  /// Of an encoder, or blocks of a vision tower that are read (at least 1); 0: there is none.
  int64_t encoder_layers = 0;
  /// A number that the tensor ranks of its own stages divide; 0: they are as many as the decoder's.
  int64_t encoder_width = 0;

  std::optional<int> tp, cp, pp, vpp, ep, etp, encoder_stages, encoder_tp;
  std::optional<int64_t> micro_batch;
  bool given_recompute = false, given_sharding = false, given_sequence_parallel = false;
  /// Stages are as the configuration describes them: any pp, one vpp as given or 1.
  bool given_stages = false;
  /// Chunks of a layout that is written out; 0: none. Each of pp ranks has its share of them.
  int given_chunks = 0;
};

/// Those that the layouts have.
std::vector<Recompute> recomputes_of(const SpaceLimits& limits);

std::vector<Layout> enumerate_layouts(const SpaceLimits& limits);

inline constexpr int64_t kLeastContextTokens = 1024, kMostMicroBatch = 16;

}  // namespace viaduct
