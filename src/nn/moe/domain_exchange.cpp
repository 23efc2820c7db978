#include "nn/moe/domain_exchange.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "nn/moe/taken_rows.h"
#include "nn/moe/wire_format.h"
#include "ops/elementwise.h"
#include "ops/expert_rows.h"

namespace viaduct {
namespace {

/// Counts [2, M] of the rank in domain `own`, where `tokens` leave each rank, equally many for each
/// domain as far as whole numbers allow.
void fill_evenly(const Tensor& counts, int64_t tokens, int64_t own) {
  const int64_t domains = counts.dim(1);
  const auto to = [&](int64_t domain) {
    return (domain + 1) * tokens / domains - domain * tokens / domains;
  };
  auto* values = counts.data<int64_t>();
  for (int64_t domain = 0; domain < domains; ++domain)
    values[domain] = to(domain), values[domains + domain] = to(own);
}

/// Of the choices of a rank's tokens, those that a dry run keeps.
double kept_share(const MoeConfig& moe, const ExpertPlace& place, int64_t tokens) {
  if (tokens == 0) return 1;
  return static_cast<double>(kept_rows(moe, place, tokens)) /
         static_cast<double>(chosen_rows(moe, place, tokens));
}

std::vector<int64_t> row_numbers(const DomainOrder& order, int64_t direction) {
  const int64_t domains = order.rows.dim(1);
  const int64_t* begin = order.rows.data<int64_t>() + direction * domains;
  return {begin, begin + domains};
}

int64_t total(const std::vector<int64_t>& rows) {
  return std::accumulate(rows.begin(), rows.end(), int64_t{0});
}

}  // namespace

int64_t DomainOrder::arriving() const {
  return total(row_numbers(*this, 1));
}

int64_t expected_domain_tokens(const MoeConfig& moe, int64_t domains, int64_t tokens, double kept) {
  const int64_t experts = moe.experts, inside = experts / domains, outside = experts - inside;
  const RoutingRule& routing = moe.routing;
  // in[j]: the probability that a domain has j of a token's experts, of those drawn so far.
  std::vector<double> in(static_cast<size_t>(routing.topk) + 1, 0.0);
  in[0] = 1;
  for (int64_t drawn = 0; drawn < routing.topk; ++drawn) {
    const auto share = [&](int64_t left) {
      return static_cast<double>(std::max<int64_t>(0, left)) / static_cast<double>(experts - drawn);
    };
    for (int64_t j = drawn + 1; j >= 0; --j) {
      const auto at = static_cast<size_t>(j);
      in[at] *= share(outside - (drawn - j));
      if (j > 0) in[at] += in[at - 1] * share(inside - (j - 1));
    }
  }
  double missed = 0;  // the probability that a domain has none that is kept
  for (int64_t j = 0; j <= routing.topk; ++j)
    missed += in[static_cast<size_t>(j)] * std::pow(1 - kept, j);
  double hit = static_cast<double>(domains) * (1 - missed);
  if (routing.groups > 0 && routing.groups % domains == 0)
    hit = std::min(hit, static_cast<double>(routing.group_topk));
  return std::llround(static_cast<double>(tokens) * hit);
}

DomainOrder agree_on_domains(RankContext& context, const MoeConfig& moe, const ExpertPlace& place,
                             const Tensor& choice, MemoryTag tag) {
  Communicator& across = place.across_domains(context);
  Device& device = context.ops.device;
  const int64_t domains = place.domains;
  const auto integers = [&](const Shape& shape, MemoryTag of, DType dtype = DType::i32) {
    return context.ops.allocate(dtype, shape, of);
  };
  const Tensor counts = integers({2, domains}, MemoryTag::workspace, DType::i64);
  SortByExpertArgs order;
  order.choice = choice;
  order.experts_per_rank = 1;
  order.experts_together = moe.experts / domains;
  order.token = integers({choice.elements()}, tag);
  order.position = integers(choice.shape(), tag);
  order.counts = counts.select(0);
  order.offsets = integers({domains + 1}, MemoryTag::workspace);
  sort_by_expert(context.ops, order);
  const std::vector<int64_t> one_each(static_cast<size_t>(domains), 1);
  across.all_to_all(counts.select(0), counts.select(1), one_each, one_each).wait();
  if (device.record() != nullptr)
    device.record()->host_read("tokens of domains", device.record_event(kComputeStream).position);
  DomainOrder agreed{host_tensor(DType::i64, counts.shape()), order.token, order.position};
  if (device.executes())
    device.copy_to_host(counts, agreed.rows);
  else
    fill_evenly(
        agreed.rows,
        expected_domain_tokens(moe, domains, choice.dim(0), kept_share(moe, place, choice.dim(0))),
        across.rank());
  agreed.tokens = agreed.tokens.slice(0, 0, total(row_numbers(agreed, 0)));
  return agreed;
}

TokensUnderWay begin_to_domains(RankContext& context, const ExpertPlace& place,
                                const DomainOrder& order, const Operand& own, MemoryTag tag) {
  Communicator& across = place.across_domains(context);
  TokensUnderWay sending;
  if (across.takes_row_order())
    sending.sent_ = own, sending.from_ = order.tokens;
  else
    sending.sent_ = take_rows(context, own, order.tokens, MemoryTag::activations);
  sending.received_ = wire_room(context, own, order.arriving(), tag);
  const auto begin = [&](const Tensor& from, const Tensor& to) {
    if (!from) return;
    sending.handles_.push_back(across.all_to_all(from, to, row_numbers(order, 0),
                                                 row_numbers(order, 1), {sending.from_, {}}));
  };
  begin(sending.sent_.values(), sending.received_.values());
  begin(sending.sent_.scales(), sending.received_.scales());
  return sending;
}

Operand TokensUnderWay::finish() {
  for (CommHandle& handle : handles_) handle.wait();
  return received_;
}

SumsUnderWay begin_sums_home(RankContext& context, const ExpertPlace& place,
                             const DomainOrder& order, const Tensor& parts) {
  SumsUnderWay sums;
  sums.sent_ = parts;
  sums.position_ = order.position;
  sums.received_ = context.ops.allocate(parts.dtype(), {order.tokens.dim(0), parts.dim(1)},
                                        MemoryTag::activations);  // [U, W]
  sums.handle_ = place.across_domains(context).all_to_all(
      parts, sums.received_, row_numbers(order, 1), row_numbers(order, 0));
  return sums;
}

Tensor SumsUnderWay::finish(RankContext& context) {
  handle_.wait();
  sent_ = Tensor();
  CombineRowsArgs sum;
  sum.rows = std::exchange(received_, Tensor());
  sum.position = position_;
  sum.out = context.ops.allocate(sum.rows.dtype(), {position_.dim(0), sum.rows.dim(1)},
                                 MemoryTag::activations);
  combine_rows(context.ops, sum);
  return sum.out;
}

}  // namespace viaduct
