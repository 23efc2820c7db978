#pragma once
// The first hop of an exchange by domain (ExpertPlace::by_domain): a token goes once to each of the
// M domains that has one of its experts, to the rank at this one's place there, however many of its
// experts are there. The results of its experts there come back as one sum. Letters as in
// nn/moe/moe_edges.h.

#include <vector>

#include "comm/communicator.h"
#include "nn/moe/moe_edges.h"

namespace viaduct {

/// Numbers of tokens to and from each domain, as dispatch and combine pass them on.
struct DomainOrder {
  Tensor rows;      // moe_edge::domain_exchange
  Tensor tokens;    // moe_edge::domain_tokens
  Tensor position;  // moe_edge::domain_position

  /// V.
  int64_t arriving() const;
};

/// From the choice i32 [T, k]. The host reads the numbers of tokens, once for each forward.
DomainOrder agree_on_domains(RankContext& context, const MoeConfig& moe, const ExpertPlace& place,
                             const Tensor& choice, MemoryTag tag);

/// U for random, equally likely choices, which a dry run assumes. A token's k
/// different experts of E, E / M of them in a domain, are in M · (1 − C(E − E/M, k) / C(E, k))
/// domains on average; with groups of experts inside of domains in `group_topk` at most. `kept`:
/// the share of choices that are not dropped, of each equally likely.
int64_t expected_domain_tokens(const MoeConfig& moe, int64_t domains, int64_t tokens,
                               double kept = 1);

/// Tokens under way to domains.
class TokensUnderWay {
 public:
  /// [V, …], in the order of the domains that they come from, and there of tokens.
  Operand finish();

 private:
  friend TokensUnderWay begin_to_domains(RankContext&, const ExpertPlace&, const DomainOrder&,
                                         const Operand&, MemoryTag);
  std::vector<CommHandle> handles_;
  Operand sent_, received_;
  Tensor from_;
};

/// [T, …] of this rank → [V, …], with `tag`. `own`: of any dtype, or as it is sent
/// (nn/moe/wire_format.h).
TokensUnderWay begin_to_domains(RankContext& context, const ExpertPlace& place,
                                const DomainOrder& order, const Operand& own, MemoryTag tag);

/// The domains' results for this rank's tokens, on their way back.
class SumsUnderWay {
 public:
  /// [T, W]: each token's sum over the domains that it was sent to, in the order in which its
  /// choices name them first. Summed in FP32 and rounded once.
  Tensor finish(RankContext& context);

 private:
  friend SumsUnderWay begin_sums_home(RankContext&, const ExpertPlace&, const DomainOrder&,
                                      const Tensor&);
  CommHandle handle_;
  Tensor sent_, received_, position_;
};

/// `parts` [V, W] of the tokens that arrived; they are sent in their format.
SumsUnderWay begin_sums_home(RankContext& context, const ExpertPlace& place,
                             const DomainOrder& order, const Tensor& parts);

}  // namespace viaduct
