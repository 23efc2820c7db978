#pragma once
// Rows of tokens to the ranks that hold their experts, and back: an all-to-all with as many rows to
// each rank as its experts were chosen. The host must read only the numbers of rows, once for each
// forward; backwards reuse them. Where rows are padded to a capacity it knows them. Where the
// exchange is fused with the order of rows (ExpertPlace::fused, on a communicator that takes one),
// it reads each row where it is and writes it where it belongs, without copies in the order of
// destinations or of senders.

#include <vector>

#include "comm/communicator.h"
#include "nn/moe/moe_edges.h"

namespace viaduct {

/// The numbers of rows of an exchange, as dispatch and combine pass them on.
struct ExchangeOrder {
  Tensor rows;     // moe_edge::exchange
  Tensor arrival;  // moe_edge::arrival
};

/// The rows that leave this rank, those for itself included.
int64_t rows_leaving(const ExchangeOrder& order);

/// From `counts` i64 [n · E'] of this rank's rows for each expert of each rank: what it gets. Fills
/// `offsets` i32 [E' + 1]. `rows`: those of choices, which a dry run spreads evenly; with
/// pad_to_capacity all rows that leave, equally many for each expert.
ExchangeOrder agree_on_rows(RankContext& context, const MoeConfig& moe, const ExpertPlace& place,
                            const Tensor& counts, int64_t rows, const Tensor& offsets,
                            MemoryTag tag);

/// Rows being exchanged. `finish` waits for them, and sorts them by expert or leaves them in the
/// order of destinations.
class RowsUnderWay {
 public:
  Tensor finish(RankContext& context);

 private:
  friend RowsUnderWay begin_to_experts(RankContext&, const ExpertPlace&, const ExchangeOrder&,
                                       const Operand&, MemoryTag, const Tensor&);
  friend RowsUnderWay begin_home(RankContext&, const ExpertPlace&, const ExchangeOrder&,
                                 const Tensor&);
  std::vector<CommHandle> handles_;
  Operand sent_;  // belongs to the exchange until it is complete, as the orders do
  Tensor from_, to_;
  Operand received_;
  Tensor order_;  // of the received rows; undefined: as they came
  MemoryTag tag_ = MemoryTag::activations;
};

/// Rows in the order of destinations → [A, H] in the order of experts, with `tag`. `rows`: these
/// [R, H], or with `from` i32 [R] the tokens [T, H] of which row r is number from[r]; as they are
/// sent (nn/moe/wire_format.h).
RowsUnderWay begin_to_experts(RankContext& context, const ExpertPlace& place,
                              const ExchangeOrder& order, const Operand& rows, MemoryTag tag,
                              const Tensor& from = {});
/// The way back: [A, W] in the order of experts → [R, W] in the order of destinations.
RowsUnderWay begin_home(RankContext& context, const ExpertPlace& place, const ExchangeOrder& order,
                        const Tensor& rows);

}  // namespace viaduct
