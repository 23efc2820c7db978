#include "nn/context_parallel/layout.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "device/upload_values.h"
#include "nn/context_parallel/zigzag.h"

namespace viaduct {
namespace {

/// Copies what a layout consists of to the device.
class Upload {
 public:
  Upload(Device& device, const ContextLayout* over) : device_(device), over_(over) {}

  /// `fill` writes the values; where nothing executes it is not called.
  template <class T, class Fill>
  Tensor made_by(const Shape& shape, Fill&& fill) {
    const size_t next = made_.size();
    const Tensor old = over_ != nullptr && next < over_->made.size() ? over_->made[next] : Tensor();
    return made_.emplace_back(
        upload_values<T>(device_, shape, MemoryTag::batch, old, std::forward<Fill>(fill)));
  }
  Tensor operator()(const std::vector<int32_t>& values) {
    return made_by<int32_t>({static_cast<int64_t>(values.size())},
                            [&](int32_t* to) { std::ranges::copy(values, to); });
  }
  /// All that it has copied, in that order.
  std::vector<Tensor> take() { return std::move(made_); }

 private:
  Device& device_;
  const ContextLayout* over_;
  std::vector<Tensor> made_;
};

/// The tokens [begin, end) of one document among this rank's tokens.
struct Document {
  int64_t begin, end;
  int64_t half() const { return (end - begin) / 2; }
};

std::vector<Document> documents_of(const std::vector<int32_t>& offsets) {
  std::vector<Document> documents;
  for (size_t d = 1; d < offsets.size(); ++d) {
    documents.push_back({offsets[d - 1], offsets[d]});
    VIADUCT_CHECK(ShapeError, (offsets[d] - offsets[d - 1]) % 2 == 0,
                  "context parallel: document {} has {} tokens here, expected two equal halves",
                  d - 1, offsets[d] - offsets[d - 1]);
  }
  return documents;
}

/// Offsets that cut each document into two pieces; the first ends at `middle(document)`.
template <class F>
Tensor pieces(Upload& to_device, const std::vector<Document>& documents, int64_t factor,
              F&& middle) {
  std::vector<int32_t> borders{0};
  for (const Document& d : documents) {
    borders.push_back(static_cast<int32_t>(factor * middle(d)));
    borders.push_back(static_cast<int32_t>(factor * d.end));
  }
  return to_device(borders);
}

/// In document order, the row of each token among the rows of `inner` ranks one after the other,
/// each with `tokens`: the first halves are in the order of the ranks, the second ones in reverse
/// order.
void join_halves(const std::vector<Document>& documents, int inner, int64_t tokens, int32_t* to) {
  for (const Document& d : documents) {
    for (int i = 0; i < inner; ++i) {
      for (int64_t t = d.begin; t < d.begin + d.half(); ++t)
        *to++ = static_cast<int32_t>(i * tokens + t);
    }
    for (int i = inner - 1; i >= 0; --i) {
      for (int64_t t = d.begin + d.half(); t < d.end; ++t)
        *to++ = static_cast<int32_t>(i * tokens + t);
    }
  }
}

/// Places in their documents of the tokens of each of `outer` ranks that have `inner` parts.
void place_keys(const std::vector<Document>& documents, int inner, int outer, int32_t* to) {
  for (int rank = 0; rank < outer; ++rank) {
    for (const Document& d : documents) {
      for (int half_number = 0; half_number < 2; ++half_number) {
        const int64_t length = inner * d.half();
        const int64_t first = zigzag_chunk(outer, rank, half_number) * length;
        for (int64_t i = 0; i < length; ++i) *to++ = static_cast<int32_t>(first + i);
      }
    }
  }
}

AttentionLayout make_layout(Upload& to_device, const std::vector<Document>& documents,
                            const std::vector<int64_t>& whole_token_index, int inner, int outer,
                            int outer_rank) {
  const int64_t tokens = documents.empty() ? 0 : documents.back().end;
  const int64_t cp = int64_t{inner} * outer;
  AttentionLayout layout;
  layout.tokens = inner * tokens;
  std::vector<int32_t> offsets{0};
  for (const Document& d : documents) {
    offsets.push_back(static_cast<int32_t>(inner * d.end));
    layout.max_document = std::max(layout.max_document, inner * (d.end - d.begin));
    const auto half = static_cast<double>(inner * d.half());
    layout.half_pairs += 2 * half * half;
  }
  layout.offsets = to_device(offsets);
  layout.query_index = to_device.made_by<int64_t>({layout.tokens}, [&](int64_t* to) {
    for (const Document& d : documents) {
      for (int half_number = 0; half_number < 2; ++half_number) {
        const int64_t length = inner * d.half();
        const int64_t first = cp * d.begin + zigzag_chunk(outer, outer_rank, half_number) * length;
        to = std::copy_n(whole_token_index.begin() + first, length, to);
      }
    }
  });
  if (inner > 1) {
    layout.joined_order = to_device.made_by<int32_t>(
        {layout.tokens}, [&](int32_t* to) { join_halves(documents, inner, tokens, to); });
    layout.parted_order = to_device.made_by<int32_t>({layout.tokens}, [&](int32_t* to) {
      std::vector<int32_t> joined(static_cast<size_t>(layout.tokens));
      join_halves(documents, inner, tokens, joined.data());
      for (size_t row = 0; row < joined.size(); ++row) to[joined[row]] = static_cast<int32_t>(row);
    });
  }
  layout.halves =
      pieces(to_device, documents, inner, [](const Document& d) { return d.begin + d.half(); });
  layout.all_none = pieces(to_device, documents, inner, [](const Document& d) { return d.end; });
  layout.none_all = pieces(to_device, documents, inner, [](const Document& d) { return d.begin; });
  if (outer > 1) {
    layout.key_position = to_device.made_by<int32_t>(
        {outer, layout.tokens}, [&](int32_t* to) { place_keys(documents, inner, outer, to); });
  }
  return layout;
}

}  // namespace

std::shared_ptr<const ContextLayout> make_context_layout(
    Device& device, const std::vector<int32_t>& offsets,
    const std::vector<int64_t>& whole_token_index, int cp, int cp_rank, int inner,
    const ContextLayout* over) {
  const std::vector<Document> documents = documents_of(offsets);
  VIADUCT_CHECK(
      ShapeError,
      !device.executes() ||
          whole_token_index.size() == static_cast<size_t>(cp) * static_cast<size_t>(offsets.back()),
      "context parallel: {} tokens here and {} in the whole micro-batch, expected {} "
      "times as many: the batch was not cut for {} ranks",
      offsets.back(), whole_token_index.size(), cp, cp);
  Upload to_device(device, over);
  const auto make = [&](int inner_ranks) {
    return make_layout(to_device, documents, whole_token_index, inner_ranks, cp / inner_ranks,
                       cp_rank / inner_ranks);
  };
  auto layout = std::make_shared<ContextLayout>();
  layout->ring = make(1);
  layout->heads = make(cp);
  layout->levels = inner == 1 ? layout->ring : inner == cp ? layout->heads : make(inner);
  std::vector<int32_t> first, second;
  for (const Document& d : documents) {
    const int64_t half = d.half();
    const int64_t first_gap = zigzag_chunk(cp, cp_rank, 0) * half,
                  second_gap = zigzag_chunk(cp, cp_rank, 1) * half;
    first.insert(first.end(), {static_cast<int32_t>(first_gap), 0});
    second.insert(second.end(), {0, static_cast<int32_t>(second_gap)});
    const auto own = static_cast<double>(half * (half + 1) / 2);
    layout->first_pairs += static_cast<double>(half * first_gap) + own;
    layout->second_pairs += static_cast<double>(half * second_gap) + own;
  }
  layout->first_diagonal = to_device(first);
  layout->second_diagonal = to_device(second);
  layout->made = to_device.take();
  return layout;
}

}  // namespace viaduct
