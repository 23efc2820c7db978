#pragma once
// What the segments of a mixture of experts pass to each other. T tokens of this rank, k experts of
// a token, n ranks that exchange tokens, E' experts of a rank, `copies` ranks that hold an expert;
// R rows leave this rank (T · k · copies; with padding those of the capacities, or up to the next
// multiple for each expert), A rows arrive.
// ops/expert_rows.h has the orders. Rows of dropped choices and of padding, where they exist, are
// computed like others, and their results are not used. The gradient of the probabilities comes
// from that of the rows' factors (nn/moe/row_factors.h), in the backward of dispatch.
//
// Where tokens are gathered (ExpertDispatch::all_gather over n > 1 ranks), the router passes on the
// choice instead of the order of rows, and from dispatch on probabilities and positions are those
// of the tokens of all n ranks, [n · T, k], with positions of −1 for experts of other ranks.
//
// Where tokens are sent by domain (n ranks in M > 1 domains of L each) they go to a rank of each
// domain first, once for all of its experts, and that rank sends rows to the L of its domain. U
// tokens leave this rank for all domains, V arrive. The router also passes on the choice; from
// dispatch on probabilities and positions are those of the V tokens, with positions of −1 for
// experts of other domains, and `exchange` and `arrival` belong to the second hop.

#include <string_view>

#include "nn/moe/moe_config.h"
#include "nn/segment.h"

namespace viaduct {

namespace moe_edge {
inline constexpr std::string_view tokens = "tokens";  // [T, H], normed
/// f32 [T, k]: weights of a token's experts, 0 for dropped choices.
inline constexpr std::string_view probabilities = "probabilities";
inline constexpr std::string_view choice = "choice";           // i32 [T, k]: experts; −1: dropped
inline constexpr std::string_view sources = "row_tokens";      // i32 [R]: the token of each row
inline constexpr std::string_view position = "row_positions";  // i32 [T, k · copies]
inline constexpr std::string_view counts = "row_counts";       // i64 [n · E']
inline constexpr std::string_view sent_offsets = "sent_offsets";  // i32 [n · E' + 1]
inline constexpr std::string_view rows = "expert_rows";           // [A, H], by expert
/// i64 [A, 1], with MoeConfig::row_indices: Batch::token_index of the token of each row.
inline constexpr std::string_view row_index = "row_index";
inline constexpr std::string_view offsets = "expert_offsets";  // i32 [E' + 1]
inline constexpr std::string_view results = "expert_results";  // [A, H]
/// f32 [0, 1], and as a gradient [A, 1]: the factor 1 of each row's result.
inline constexpr std::string_view row_factors = "row_factors";
/// i64 [2, n], in host memory: rows to and from each rank.
inline constexpr std::string_view exchange = "exchanged_rows";
/// i32 [2, A]: of each row by expert its place as received, and the inverse; [2, 0] if n = 1.
inline constexpr std::string_view arrival = "arrival_order";
/// i64 [1], in host memory: the results that combine reads on this rank.
inline constexpr std::string_view row_count = "row_count";
inline constexpr std::string_view shared = "shared_result";  // [T, H] of the shared expert
/// i64 [2, M], in host memory: tokens to and from each domain.
inline constexpr std::string_view domain_exchange = "exchanged_tokens";
inline constexpr std::string_view domain_tokens = "domain_tokens";  // i32 [U]: in their order
/// i32 [T, k]: where a choice is the first of its token in a domain, the place there among the U;
/// −1 for others.
inline constexpr std::string_view domain_position = "domain_positions";
}  // namespace moe_edge

/// Where a layer's experts are: the same for all its segments.
struct ExpertPlace {
  int64_t ranks = 1;   // n, that exchange tokens
  int64_t copies = 1;  // each expert is cut over this many of them
  /// The run has an expert grid of its own; else its groups are those of the attention grid.
  bool own_grid = false;
  /// M: fast domains that these ranks lie in, equally many in each, one run of ranks after the
  /// other; 1: they send rows to each other without regard to domains.
  int64_t domains = 1;
  /// The ranks are those of one domain (`inside_domain`).
  bool inside = false;
  /// The exchange reads and writes rows by number (ExpertDispatch::fused).
  bool fused = false;

  int64_t experts_here(const MoeConfig& moe) const {
    return moe.experts * copies / (inside ? ranks * domains : ranks);
  }
  /// Tokens are gathered; else rows are exchanged, or stay on their rank.
  bool gathers(const MoeConfig& moe) const {
    return moe.dispatch == ExpertDispatch::all_gather && ranks > 1;
  }
  bool by_domain() const { return domains > 1 && !inside; }
  /// The router leaves the order of rows to dispatch.
  bool orders_later(const MoeConfig& moe) const { return gathers(moe) || by_domain(); }
  /// The L ranks of this one's domain, for their part of an exchange by domain.
  ExpertPlace inside_domain() const;
  /// The ranks at this one's place in all domains.
  Communicator& across_domains(const RankContext& context) const;
  /// The ranks that exchange tokens.
  Communicator& group(const RankContext& context) const;
};

/// R: room for the rows that `tokens` tokens of a rank leave with, those of dropped choices and of
/// padding included.
int64_t sent_rows(const MoeConfig& moe, const ExpertPlace& place, int64_t tokens);
/// Those of their choices.
int64_t chosen_rows(const MoeConfig& moe, const ExpertPlace& place, int64_t tokens);
/// Those of the choices that limits leave where all experts are chosen equally often.
int64_t kept_rows(const MoeConfig& moe, const ExpertPlace& place, int64_t tokens);

/// The indices i64 [T, 1] of this rank's tokens, as they go with rows.
Tensor own_indices(const Batch& batch);

/// moe_edge::row_count.
Tensor row_count_of(int64_t rows);

/// Declarations of these tensors for a batch.
class MoeEdges {
 public:
  MoeEdges(const RankContext& context, const Batch& batch, const MoeConfig& moe,
           const ExpertPlace& place, int64_t hidden)
      : context_(context), batch_(batch), moe_(moe), place_(place), hidden_(hidden) {}

  EdgeTensor tokens() const;
  /// Of this rank's tokens, and as combine reads them: without a gradient.
  EdgeTensor probabilities() const;
  EdgeTensor combined_probabilities() const;
  EdgeTensor row_factors() const;
  EdgeTensor choice() const;
  EdgeTensor sources() const;
  EdgeTensor position() const;
  EdgeTensor counts() const;
  EdgeTensor sent_offsets() const;
  EdgeTensor rows() const;
  EdgeTensor row_index() const;
  EdgeTensor offsets() const;
  EdgeTensor results() const;
  EdgeTensor exchange() const;
  EdgeTensor arrival() const;
  EdgeTensor row_count() const;
  EdgeTensor shared() const;
  EdgeTensor domain_exchange() const;
  EdgeTensor domain_tokens() const;
  EdgeTensor domain_position() const;

 private:
  EdgeTensor integers(std::string_view name, DType dtype, const Shape& shape) const;
  EdgeTensor activations(std::string_view name, int64_t rows) const;
  static EdgeTensor on_host(EdgeTensor tensor);
  int64_t sent_rows() const { return viaduct::sent_rows(moe_, place_, batch_.stream_tokens); }

  const RankContext& context_;
  const Batch& batch_;
  const MoeConfig& moe_;
  const ExpertPlace& place_;
  int64_t hidden_;
};

}  // namespace viaduct
