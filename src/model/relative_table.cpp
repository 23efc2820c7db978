#include "model/parameter_maker.h"

namespace viaduct {

ParameterPointer ParameterMaker::relative_table(std::string path, const std::string& name,
                                                int64_t buckets) const {
  const int64_t here = config_.heads / place_.tp;
  Parameter table = matrix(std::move(path), buckets, here);
  table.weight_gradient = false;
  Part part = whole_part(name + ".weight", {buckets, config_.heads});
  part.box.begin[1] = here * place_.tp_rank;
  part.box.size[1] = here;
  table.parts = {std::move(part)};
  return share(std::move(table));
}

}  // namespace viaduct
