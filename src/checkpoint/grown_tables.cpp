#include "checkpoint/grown_tables.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <unordered_map>

#include "base/error.h"
#include "checkpoint/parameter_io.h"
#include "checkpoint/round_tensor.h"
#include "model/family.h"
#include "model/parameter_maker.h"

namespace viaduct {
namespace {

/// The tensors of `source` that have a row for each token.
std::vector<std::string> tables_of(const TensorSource& source, const ModelConfig& model) {
  const TensorNames& names = model_family(model.family).names;
  std::vector<std::string> wanted{names.token_embedding + ".weight", names.head + ".weight",
                                  names.head + ".bias"};
  const auto copies_of = [&](int64_t layer) {
    std::vector<std::string> copies;
    for (const std::string& copy : {names.mtp_token_embedding, names.mtp_head})
      if (!copy.empty()) copies.push_back(ParameterMaker::at(copy, layer) + ".weight");
    return copies;
  };
  for (int64_t layer = model.layers;; ++layer) {
    const std::vector<std::string> copies = copies_of(layer);
    const bool any = std::ranges::any_of(copies, [&](const std::string& name) {
      return source.contains(stored_name(source, name, names));
    });
    if (!any) break;
    wanted.insert(wanted.end(), copies.begin(), copies.end());
  }
  std::vector<std::string> tables;
  for (const std::string& name : wanted)
    if (const std::string found = stored_name(source, name, names); source.contains(found))
      tables.push_back(found);
  return tables;
}

/// A table [V, H], or a bias [V], as rows of `width` elements.
struct Rows {
  Tensor table;
  int64_t width = 1;

  explicit Rows(const Tensor& whole)
      : table(whole), width(whole.shape().elements() / std::max<int64_t>(1, whole.dim(0))) {}

  void add(int64_t row, int64_t count, std::vector<double>& sums) const {
    size_t column = 0;
    for_each_value(table.slice(0, row, count), [&](int64_t, double value) {
      sums[column] += value;
      if (++column == sums.size()) column = 0;
    });
  }
  std::vector<double> mean(const std::vector<int32_t>& of) const {
    std::vector<double> sums(static_cast<size_t>(width), 0);
    for (const int32_t row : of) add(row, 1, sums);
    if (of.empty()) add(0, table.dim(0), sums);
    const auto count = static_cast<double>(of.empty() ? table.dim(0) : std::ssize(of));
    for (double& sum : sums) sum /= count;
    return sums;
  }
};

/// The last rows of a grown table, from `begin` on.
struct Tail {
  int64_t begin = 0;
  Tensor values;
};

class GrownTables final : public DerivedSource {
 public:
  GrownTables(std::unique_ptr<TensorSource> stored, const ModelConfig& model, int64_t rows,
              const std::vector<NewRow>& fresh)
      : DerivedSource(std::move(stored)) {
    infos_ = stored_->tensors();
    for (size_t i = 0; i < infos_.size(); ++i) places_[infos_[i].name] = i;
    for (const std::string& name : tables_of(*stored_, model)) {
      TensorInfo& info = infos_[places_.at(name)];
      VIADUCT_CHECK(
          IoError,
          info.shape.rank() >= 1 && info.shape[0] == model.vocabulary && is_floating(info.dtype),
          "{}: {} is {} {}, expected a floating tensor with {} rows, one for each token",
          stored_->where(), name, dtype_name(info.dtype), to_string(info.shape), model.vocabulary);
      Shape shape = info.shape;
      shape[0] = rows;
      tails_[name] = make_tail(name, shape, fresh);
      info.shape = shape;
    }
    stored_->check_read();
  }

  const TensorInfo* find(const std::string& name) const override {
    const auto found = places_.find(name);
    return found == places_.end() ? nullptr : &infos_[found->second];
  }

  Tensor tensor(const std::string& name) const override {
    if (!tails_.contains(name)) return stored_->tensor(name);
    const TensorInfo& info = *find(name);
    const Tensor whole = host_tensor(info.dtype, info.shape);
    read_into(name, whole_piece(whole_box(info.shape)), static_cast<std::byte*>(whole.raw()));
    return whole;
  }

  void read_into(const std::string& name, const Piece& piece,
                 std::byte* destination) const override {
    const auto found = tails_.find(name);
    if (found == tails_.end()) return stored_->read_into(name, piece, destination);
    const TensorInfo& info = *find(name);
    check_inside(name, info.shape, piece);
    // Rows come one after the other: those of the file, then those of the tail.
    const Tail& tail = found->second;
    const int64_t width = piece.box.size.elements() / std::max<int64_t>(1, piece.box.size[0]);
    const int64_t stored_rows =
        std::clamp<int64_t>(tail.begin - piece.box.begin[0], 0, piece.box.size[0]);
    const int64_t border = std::clamp(stored_rows * width, piece.begin, piece.end);
    if (border > piece.begin) {
      Piece first{piece.box, piece.begin, border};
      first.box.size[0] = stored_rows;
      stored_->read_into(name, first, destination);
    }
    if (border == piece.end) return;
    Piece rest{piece.box, border - stored_rows * width, piece.end - stored_rows * width};
    rest.box.begin[0] = piece.box.begin[0] + stored_rows - tail.begin;
    rest.box.size[0] = piece.box.size[0] - stored_rows;
    const int64_t bytes = dtype_bytes(info.dtype);
    copy_shared(whole_piece(whole_box(tail.values.shape())),
                static_cast<const std::byte*>(tail.values.raw()), rest,
                destination + (border - piece.begin) * bytes, bytes);
  }

  // A grown table is expanded: the means that its new rows are need not be values of blocks.
  std::optional<GgufTensorType> block_type(const std::string& name) const override {
    return tails_.contains(name) ? std::nullopt : stored_->block_type(name);
  }
  void read_blocks(const std::string& name, int64_t row, int64_t column, int64_t columns,
                   std::byte* destination) const override {
    if (tails_.contains(name))
      return TensorSource::read_blocks(name, row, column, columns, destination);
    stored_->read_blocks(name, row, column, columns, destination);
  }

 private:
  Tail make_tail(const std::string& name, Shape shape, const std::vector<NewRow>& fresh) const {
    const Tensor table = stored_->tensor(name);
    const Rows rows(table);
    Tail tail{fresh.empty() ? table.dim(0) : std::min(table.dim(0), fresh.front().row), {}};
    shape[0] -= tail.begin;
    tail.values = host_tensor(table.dtype(), shape);
    const int64_t row_bytes = rows.width * dtype_bytes(table.dtype());
    std::memcpy(tail.values.raw(),
                static_cast<const std::byte*>(table.raw()) + tail.begin * row_bytes,
                static_cast<size_t>((table.dim(0) - tail.begin) * row_bytes));
    Tensor values = host_tensor(DType::f64, {rows.width});
    std::vector<double> of_all;
    Rounding ignored;
    for (const NewRow& row : fresh) {
      if (row.of.empty() && of_all.empty()) of_all = rows.mean({});
      const std::vector<double> mean = row.of.empty() ? of_all : rows.mean(row.of);
      std::copy(mean.begin(), mean.end(), values.data<double>());
      const Tensor rounded = rounded_tensor(values, table.dtype(), name, ignored);
      std::memcpy(static_cast<std::byte*>(tail.values.raw()) + (row.row - tail.begin) * row_bytes,
                  rounded.raw(), static_cast<size_t>(row_bytes));
    }
    return tail;
  }

  std::unordered_map<std::string, size_t> places_;
  std::unordered_map<std::string, Tail> tails_;
};

}  // namespace

std::unique_ptr<TensorSource> grow_tables(std::unique_ptr<TensorSource> stored,
                                          const ModelConfig& model, int64_t rows,
                                          const std::vector<NewRow>& fresh) {
  return std::make_unique<GrownTables>(std::move(stored), model, rows, fresh);
}

std::vector<NewRow> rows_like_all(int64_t begin, int64_t end) {
  std::vector<NewRow> rows;
  for (int64_t row = begin; row < end; ++row) rows.push_back({row, {}});
  return rows;
}

}  // namespace viaduct
