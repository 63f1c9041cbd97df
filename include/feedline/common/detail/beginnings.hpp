// SPDX-License-Identifier: MIT
#pragma once
// What many pipelines begin with is compiled once: shards or lines, also with a shuffle buffer.
#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/source/lines.hpp>
#include <feedline/source/tar.hpp>
#include <feedline/stage/shuffle.hpp>

#ifdef FEEDLINE_COMPILED
// Programs only learn that the library has them.
#ifdef FEEDLINE_DEFINES_COMMON
#define FEEDLINE_ONCE
#else
#define FEEDLINE_ONCE extern
#endif

namespace feedline::inline FEEDLINE_ABI::detail {

template <class Source>
using chain_to_shuffle =
    typename chain_of<source_item_t<Source>, packer<source_item_t<Source>>, false, shuffle_stage>::type;

FEEDLINE_ONCE template struct source_table<tar_samples>;
FEEDLINE_ONCE template std::shared_ptr<item_finder<tar_sample>>
find_samples<tar_samples, tar_sample>(const void*, const epoch&, std::vector<wanted_sample>,
                                      const std::atomic<bool>&);
FEEDLINE_ONCE template std::shared_ptr<read_again>
    read_items_held<tar_sample, types<>>(held_request, start_search<tar_sample>);
FEEDLINE_ONCE template stage_facts facts_of_stage<tar_sample, shuffle_stage>(const void*, known_bytes,
                                                                             std::uint64_t);
FEEDLINE_ONCE template void run_source<tar_samples, packer<tar_sample>>(pipeline_run&, std::size_t,
                                                                        thread_counters&);
FEEDLINE_ONCE template void run_source<tar_samples, chain_to_shuffle<tar_samples>>(pipeline_run&, std::size_t,
                                                                                   thread_counters&);

FEEDLINE_ONCE template struct source_table<lines_source>;
FEEDLINE_ONCE template std::shared_ptr<item_finder<std::string>>
find_samples<lines_source, std::string>(const void*, const epoch&, std::vector<wanted_sample>,
                                        const std::atomic<bool>&);
FEEDLINE_ONCE template std::shared_ptr<read_again>
    read_items_held<std::string, types<>>(held_request, start_search<std::string>);
FEEDLINE_ONCE template stage_facts facts_of_stage<std::string, shuffle_stage>(const void*, known_bytes,
                                                                              std::uint64_t);
FEEDLINE_ONCE template void run_source<lines_source, packer<std::string>>(pipeline_run&, std::size_t,
                                                                          thread_counters&);
FEEDLINE_ONCE template void
run_source<lines_source, chain_to_shuffle<lines_source>>(pipeline_run&, std::size_t, thread_counters&);

} // namespace feedline::inline FEEDLINE_ABI::detail

#undef FEEDLINE_ONCE
#endif
