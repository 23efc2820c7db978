// Quantized products of experts on the cpu have the bits of each expert's operands and product
// alone: scales do not depend on other experts' rows.

#include "../grouped_quantized_cases.h"

namespace viaduct {
namespace {

using namespace grouped_gemm_test;
using test::expect_same_bits;

class GroupedQuantized : public GroupedQuantizedBase {};

INSTANTIATE_TEST_SUITE_P(Isa, GroupedQuantized, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

TEST_P(GroupedQuantized, HasTheBitsOfEachExpertAlone) {
  for (const Scheme& scheme : kSchemes) {
    for (const Case& c : even_cases()) {
      for (const WriteMode mode : {WriteMode::assign, WriteMode::accumulate}) {
        SCOPED_TRACE(scheme.name);
        const GroupedGemmArgs args = quantized(c, scheme.quantization, mode);
        const GroupedGemmArgs single = quantized(c, scheme.quantization, mode);
        const GemmForms forms = expert_forms(args);
        grouped_gemm(context_, args);
        for (int64_t e = 0; e < kExperts; ++e) {
          const auto at = static_cast<size_t>(e);
          GemmArgs own = product_of_expert(single, e, c.offsets[at], c.offsets[at + 1]);
          if (c.offsets[at] < c.offsets[at + 1]) {
            own.quantization = scheme.quantization;
            own.a = alone(own.a.tensor(), forms.a, rounding_of_expert(single, e));
            own.b = alone(own.b.tensor(), forms.b, {});
          } else if (c.form != GemmForm::weight_gradient) {
            continue;
          }
          gemm(context_, own);
        }
        expect_same_bits(args.c, single.c);
      }
    }
  }
}

}  // namespace
}  // namespace viaduct
