#include "pipeline/stage_peers.h"

#include "comm/row_part.h"

namespace viaduct {

/// Calls f(rank of pp, part of the tensor).
template <class F>
void StagePeers::for_each_part(const Tensor& tensor, int stage, F f) const {
  if (tensor.elements() == 0) return;
  if (groups_ == nullptr) return f(stage, tensor);
  const std::vector<int>& ranks = groups_->in_stage(stage);
  const auto parts = static_cast<int>(ranks.size());
  if (parts == 1) return f(ranks.front(), tensor);
  for (int i = 0; i < parts; ++i) {
    const RowPart part = RowPart::of(tensor.dim(0), parts, i);
    if (part.rows > 0) f(ranks[static_cast<size_t>(i)], tensor.slice(0, part.begin, part.rows));
  }
}

void StagePeers::send(const Tensor& tensor, int stage, Flow flow,
                      std::vector<CommHandle>& handles) const {
  for_each_part(tensor, stage, [&](int rank, const Tensor& part) {
    handles.push_back(pp_->send(part, rank, flow));
  });
}

void StagePeers::receive(const Tensor& tensor, int stage, Flow flow,
                         std::vector<CommHandle>& handles) const {
  for_each_part(tensor, stage, [&](int rank, const Tensor& part) {
    handles.push_back(pp_->receive(part, rank, flow));
  });
}

}  // namespace viaduct
