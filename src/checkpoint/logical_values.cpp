#include "checkpoint/logical_values.h"

#include <algorithm>
#include <type_traits>

#include "base/error.h"
#include "tensor/state_rounding.h"

namespace viaduct {
namespace {

/// Elements that are staged in host memory at a time.
constexpr int64_t kStagedElements = int64_t{1} << 22;
static_assert(kStagedElements % kStateGroup == 0);

template <class T>
double widen(T value) {
  if constexpr (std::is_same_v<T, double>) return value;
  return static_cast<float>(value);
}

template <class T>
T narrow(double value) {
  if constexpr (std::is_same_v<T, double>) return value;
  return static_cast<T>(static_cast<float>(value));
}

template <class From, class To>
void convert_dense(ThreadPool& pool, const Tensor& from, const Tensor& to, double factor) {
  constexpr int64_t kBlock = 1 << 14;
  const From* source = from.data<From>();
  To* target = to.data<To>();
  const int64_t elements = from.elements();
  pool.run((elements + kBlock - 1) / kBlock, [&](int64_t block, int) {
    const int64_t end = std::min(elements, (block + 1) * kBlock);
    for (int64_t i = block * kBlock; i < end; ++i)
      target[i] = narrow<To>(factor * widen(source[i]));
  });
}

/// to[c, r] = factor · from[r, c], both dense.
template <class From, class To>
void convert_transposed(ThreadPool& pool, const Tensor& from, const Tensor& to, double factor) {
  constexpr int64_t kBlock = 64;  // blocks, so that neither side is read with long strides
  const From* source = from.data<From>();
  To* target = to.data<To>();
  const int64_t rows = from.dim(0), columns = from.dim(1);
  pool.run((rows + kBlock - 1) / kBlock, [&](int64_t block, int) {
    for (int64_t c0 = 0; c0 < columns; c0 += kBlock) {
      for (int64_t r = block * kBlock; r < std::min(rows, (block + 1) * kBlock); ++r) {
        for (int64_t c = c0; c < std::min(columns, c0 + kBlock); ++c)
          target[c * rows + r] = narrow<To>(factor * widen(source[r * columns + c]));
      }
    }
  });
}

/// Converts dense host elements; as the transposed of a matrix where `from` is seen as [rows, …] of
/// `rows` > 0.
void convert(ThreadPool& pool, const Tensor& from, const Tensor& to, int64_t rows, double factor) {
  dispatch_floating(from.dtype(), [&](auto source) {
    dispatch_floating(to.dtype(), [&](auto target) {
      using From = decltype(source);
      using To = decltype(target);
      if (rows > 0) {
        convert_transposed<From, To>(pool, from.view({rows, from.elements() / rows}), to, factor);
      } else {
        convert_dense<From, To>(pool, from, to, factor);
      }
    });
  });
}

StateValues flat(const StoredRun& stored) {
  StateValues state = stored.here();
  const Tensor& values = state.values;
  VIADUCT_CHECK(
      ShapeError,
      values.defined() && values.is_contiguous() && values.elements() == stored.run.elements(),
      "{}: {} for {} elements", stored.run.parameter->path, describe(values),
      stored.run.elements());
  state.values = values.view({values.elements()});
  return state;
}

/// Applies f(device tensor, host tensor) to each tensor of a state and of its copy on the host.
template <class F>
void for_pairs(const StateValues& state, const StateValues& host, F&& f) {
  f(state.values, host.values);
  if (state.scales) f(state.scales, host.scales);
  if (state.weights) f(state.weights, host.weights);
}

StateValues host_like(const StateValues& state) {
  const auto like = [](const Tensor& t) {
    return t ? host_tensor(t.dtype(), t.shape()) : Tensor();
  };
  return {like(state.values), like(state.scales), like(state.weights)};
}

/// Elements [begin, begin + length) in host memory: FP32 where they are coded, unconverted
/// otherwise.
Tensor to_host(Device& device, const StateValues& state, int64_t begin, int64_t length) {
  const int64_t before = state.coded() ? begin % kStateGroup : 0;
  const StateValues part = state.slice(begin - before, before + length);
  const StateValues host = host_like(part);
  for_pairs(part, host,
            [&](const Tensor& from, const Tensor& to) { device.copy_to_host(from, to); });
  return host.coded() ? decoded_state(host).slice(0, before, length) : host.values;
}

/// The inverse; `begin` starts a group.
void from_host(Device& device, const Tensor& values, const StateValues& state, int64_t begin,
               bool lifts_zeros) {
  const StateValues part = state.slice(begin, values.elements());
  if (!part.coded()) return device.copy_from_host(values, part.values);
  const StateValues host = host_like(part);
  encode_state(values, host);
  if (lifts_zeros) lift_zeros(values, host);
  for_pairs(part, host,
            [&](const Tensor& to, const Tensor& from) { device.copy_from_host(from, to); });
}

/// True if the source has every tensor that the run holds something of.
bool has_all(const ParameterRun& run, const TensorSource& source,
             FunctionRef<std::string(const std::string&)> name_of) {
  const auto pieces = logical_pieces(run);
  return std::all_of(pieces.begin(), pieces.end(), [&](const LogicalPiece& piece) {
    return source.contains(name_of(piece.part->name));
  });
}

/// Fills `host`, the values of a run, dense and zero, or, where something may be lacking, as they
/// are.
void fill_host(ThreadPool& pool, const ParameterRun& run, const Tensor& host,
               const TensorSource& source, FunctionRef<std::string(const std::string&)> name_of,
               Lacking lacking) {
  for (const LogicalPiece& piece : logical_pieces(run)) {
    const std::string name = name_of(piece.part->name);
    const TensorInfo* info = source.find(name);
    if (info == nullptr && lacking == Lacking::kept) continue;
    VIADUCT_CHECK(IoError, info != nullptr, "{}: {} is missing", source.where(), name);
    VIADUCT_CHECK(IoError, is_floating(info->dtype) && info->shape == piece.part->logical_shape,
                  "{}: {} is {} {}, expected a floating tensor {}", source.where(), name,
                  dtype_name(info->dtype), to_string(info->shape),
                  to_string(piece.part->logical_shape));
    const Tensor target = host.slice(0, piece.place, piece.piece.elements());
    const bool as_stored = info->dtype == target.dtype() && !piece.by_columns;
    const Tensor staged = as_stored ? target : host_tensor(info->dtype, {piece.piece.elements()});
    source.read_into(name, piece.piece, static_cast<std::byte*>(staged.raw()));
    if (!as_stored)
      convert(pool, staged, target, piece.by_columns ? piece.piece.box.size[0] : 0, 1);
  }
}

}  // namespace

std::vector<StoredRun> whole_runs(const std::vector<const Parameter*>& parameters,
                                  FunctionRef<Tensor(const Parameter&)> of) {
  std::vector<StoredRun> runs;
  for (const Parameter* parameter : parameters)
    runs.push_back({whole_run(*parameter), of(*parameter)});
  return runs;
}

std::vector<int> owners_of_copies(const std::vector<StoredRun>& runs, int ranks) {
  std::vector<int64_t> elements(static_cast<size_t>(ranks), 0);
  std::vector<int> owners;
  for (const StoredRun& stored : runs) {
    const auto least = std::min_element(elements.begin(), elements.end());
    *least += stored.run.elements();
    owners.push_back(static_cast<int>(least - elements.begin()));
  }
  return owners;
}

std::vector<StoredRun> share_of_copies(const std::vector<StoredRun>& runs, int rank, int ranks) {
  const std::vector<int> owners = owners_of_copies(runs, ranks);
  std::vector<StoredRun> share;
  for (size_t i = 0; i < runs.size(); ++i)
    if (owners[i] == rank) share.push_back(runs[i]);
  return share;
}

DType exact_format(const StoredRun& stored) {
  const bool wide = !stored.state.coded() && stored.state.values.dtype() == DType::f64;
  return wide ? DType::f64 : DType::f32;
}

Tensor read_logical(Device& device, const StoredRun& stored, const LogicalPiece& piece,
                    double factor, DType format) {
  const int64_t elements = piece.piece.elements();
  const Tensor host = to_host(device, flat(stored), piece.place, elements);
  if (!piece.by_columns && host.dtype() == format && factor == 1) return host;
  const Tensor logical = host_tensor(format, {elements});
  convert(device.pool(), host, logical, piece.by_columns ? piece.piece.box.size[1] : 0, factor);
  return logical;
}

void fill_runs(Device& device, const std::vector<StoredRun>& runs, const TensorSource& source,
               FunctionRef<std::string(const std::string& name)> name_of, Lacking lacking) {
  for (const StoredRun& stored : runs) {
    const StateValues state = flat(stored);
    const DType format = state.coded() ? DType::f32 : state.values.dtype();
    const Shape& shape = stored.run.parameter->shape;
    const int64_t columns = shape.rank() > 1 ? std::max<int64_t>(1, shape[1]) : 1;
    const int64_t step = std::max<int64_t>(1, kStagedElements / columns) * columns;
    for (int64_t begin = stored.run.begin, end = 0; begin < stored.run.end; begin = end) {
      // Whole storage rows, or whole groups of a scale.
      end = std::min(stored.run.end,
                     state.coded() ? begin + kStagedElements : (begin / columns) * columns + step);
      Tensor host = host_tensor(format, {end - begin});
      const ParameterRun part{stored.run.parameter, begin, end};
      if (lacking == Lacking::kept && !has_all(part, source, name_of))
        host = to_host(device, state, begin - stored.run.begin, end - begin);
      fill_host(device.pool(), part, host, source, name_of, lacking);
      from_host(device, host, state, begin - stored.run.begin, stored.lifts_zeros);
    }
  }
}

}  // namespace viaduct
