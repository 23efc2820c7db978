#pragma once
// The fields of the table of GEMMs that overlap with exchanges of tensor ranks
// (nn/gemm_overlap_table.cpp). They change when bytes move, and on GPUs with how many
// multiprocessors; a product that has fewer may have other last bits there.

#include <string_view>

namespace viaduct {

inline constexpr std::string_view kOverlapFields[] = {"model.tp_comm_bulk_dgrad",
                                                      "model.tp_comm_bulk_wgrad",
                                                      "model.tp_comm_overlap_ag",
                                                      "model.tp_comm_overlap_rs",
                                                      "model.tp_comm_overlap_rs_dgrad",
                                                      "model.tp_comm_overlap_disable_qkv",
                                                      "model.tp_comm_overlap_disable_fc1",
                                                      "comm_overlap.tp_comm_overlap_cfg",
                                                      "comm_overlap.method",
                                                      "comm_overlap.num_splits",
                                                      "comm_overlap.aggregate",
                                                      "comm_overlap.fp8_buf",
                                                      "comm_overlap.num_sm",
                                                      "comm_overlap.cga_size",
                                                      "comm_overlap.set_sm_margin",
                                                      "comm_overlap.atomic_gemm",
                                                      "comm_overlap.use_ce"};

}  // namespace viaduct
