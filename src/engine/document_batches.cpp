#include "engine/document_batches.h"

#include <cstring>
#include <map>

#include "base/error.h"
#include "comm/host_group.h"
#include "model/flops.h"

namespace viaduct {
namespace {

std::vector<int32_t> document_lengths(const HostBatch& row) {
  std::vector<int32_t> lengths;
  for (size_t d = 1; d < row.document_offsets.size(); ++d)
    lengths.push_back(row.document_offsets[d] - row.document_offsets[d - 1]);
  return lengths;
}

/// The rows of a data rank among `rows`, in order.
std::vector<int64_t> rows_of(int64_t data_rank, int64_t rows, const MicroBatchPlace& place) {
  std::vector<int64_t> numbers;
  const int64_t stretch = place.micro_batch_size * place.dp_size;
  for (int64_t first = data_rank * place.micro_batch_size; first < rows; first += stretch) {
    for (int64_t i = 0; i < place.micro_batch_size; ++i) numbers.push_back(first + i);
  }
  return numbers;
}

void append(const HostBatch& row, int32_t begin, int32_t end, HostBatch& batch) {
  if (row.sizes_only) {
    batch.sizes_only = true;
    return batch.add_document_of(end - begin);
  }
  const auto part = [&](const auto& from, auto& to) {
    to.insert(to.end(), from.begin() + begin, from.begin() + end);
  };
  part(row.ids, batch.ids);
  part(row.positions, batch.positions);
  part(row.targets, batch.targets);
  part(row.loss_weight, batch.loss_weight);
  part(row.token_index, batch.token_index);
  batch.end_document();
}

/// What a rank without documents computes, so that it takes part in what all ranks do.
HostBatch padding() {
  HostBatch batch{.ids = {0},
                  .positions = {0},
                  .targets = {-1},
                  .loss_weight = {0},
                  .token_index = {-1},
                  .context_ranks = 1};
  batch.end_document();
  return batch;
}

}  // namespace

DocumentBatches::DocumentBatches(const RunSetup& setup, const ParallelGroups& groups)
    : groups_(groups) {
  settings_.ranks = groups.dp_cp().size();
  settings_.tokens_per_rank = setup.config.context_parallel.max_seqlen_per_dp_cp_rank.value();
  settings_.cost = [sizes = flop_sizes(setup.model)](int64_t tokens) {
    return training_flops(sizes, 1, tokens).model();
  };
}

void DocumentBatches::share(int64_t rows, const MicroBatchPlace& place, ReadRow read,
                            FunctionRef<void(const HostBatch& row)> own) {
  std::string mine;  // by row: how many documents, and their lengths
  const auto put = [&](int32_t number) {
    mine.append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  for (const int64_t number : rows_of(place.dp_rank, rows, place)) {
    const HostBatch row = read(number);
    own(row);
    const std::vector<int32_t> lengths = document_lengths(row);
    put(static_cast<int32_t>(lengths.size()));
    for (const int32_t length : lengths) put(length);
  }
  std::vector<std::vector<int32_t>> lengths(static_cast<size_t>(rows));
  const std::vector<std::string> texts = groups_.dp().host().texts_on_all(mine);
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    const char* at = texts[rank].data();
    const auto next = [&] {
      int32_t number = 0;
      std::memcpy(&number, at, sizeof number);
      at += sizeof number;
      return number;
    };
    for (const int64_t row : rows_of(static_cast<int64_t>(rank), rows, place)) {
      std::vector<int32_t>& of_row = lengths[static_cast<size_t>(row)];
      of_row.resize(static_cast<size_t>(next()));
      for (int32_t& length : of_row) length = next();
    }
  }
  share(lengths);
}

void DocumentBatches::share(const std::vector<std::vector<int32_t>>& lengths_by_row) {
  documents_.clear();
  mine_.clear();
  std::vector<int64_t> lengths;
  for (size_t row = 0; row < lengths_by_row.size(); ++row) {
    int32_t begin = 0;
    for (const int32_t length : lengths_by_row[row]) {
      documents_.push_back({static_cast<int64_t>(row), begin, begin + length});
      lengths.push_back(length);
      begin += length;
    }
  }
  const int me = groups_.dp_cp().rank();
  for (SharedDocuments& shared : share_documents(lengths, settings_)) {
    if (me >= shared.first_rank && me < shared.first_rank + shared.ranks)
      mine_.push_back(std::move(shared));
  }
}

HostBatch DocumentBatches::batch(int64_t i, ReadRow read) const {
  const SharedDocuments& shared = mine_.at(static_cast<size_t>(i));
  if (shared.documents.empty()) return padding();
  std::map<int64_t, HostBatch> rows;
  HostBatch batch{.context_ranks = shared.ranks};
  for (const int64_t number : shared.documents) {
    const Document& document = documents_[static_cast<size_t>(number)];
    auto [row, unread] = rows.try_emplace(document.row);
    if (unread) row->second = read(document.row);
    append(row->second, document.begin, document.end, batch);
  }
  return batch;
}

}  // namespace viaduct
