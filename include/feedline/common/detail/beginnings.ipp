// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/common/detail/beginnings.hpp>

#ifdef FEEDLINE_COMPILED
namespace feedline::inline FEEDLINE_ABI::detail {

template struct source_table<tar_samples>;
template std::shared_ptr<item_finder<tar_sample>>
find_samples<tar_samples, tar_sample>(const void*, const epoch&, std::vector<wanted_sample>,
                                      const std::atomic<bool>&);
template std::shared_ptr<read_again> read_items_held<tar_sample, types<>>(held_request,
                                                                          start_search<tar_sample>);
template stage_facts facts_of_stage<tar_sample, shuffle_stage>(const void*, known_bytes, std::uint64_t);
template void run_source<tar_samples, packer<tar_sample>>(pipeline_run&, std::size_t, thread_counters&);
template void run_source<tar_samples, chain_to_shuffle<tar_samples>>(pipeline_run&, std::size_t,
                                                                     thread_counters&);

template struct source_table<lines_source>;
template std::shared_ptr<item_finder<std::string>>
find_samples<lines_source, std::string>(const void*, const epoch&, std::vector<wanted_sample>,
                                        const std::atomic<bool>&);
template std::shared_ptr<read_again> read_items_held<std::string, types<>>(held_request,
                                                                           start_search<std::string>);
template stage_facts facts_of_stage<std::string, shuffle_stage>(const void*, known_bytes, std::uint64_t);
template void run_source<lines_source, packer<std::string>>(pipeline_run&, std::size_t, thread_counters&);
template void run_source<lines_source, chain_to_shuffle<lines_source>>(pipeline_run&, std::size_t,
                                                                       thread_counters&);

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
