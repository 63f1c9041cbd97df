// SPDX-License-Identifier: MIT
// How near do photographs come to what the machine allows? A random part of each is decoded, resized to 224 x 224
// float planes, sometimes mirrored, and normalised, in batches of 64: by feedline, and by TBB's parallel_pipeline with
// the same function. The baseline is bare threads that share a counter and write to memory of their own. Further rows
// decode more than feedline does: bare threads that decode the part at full size, or the whole photograph; and a pool
// of threads as one would write it by hand with OpenCV's decoder and resize. (photos_libtorch has libtorch's
// DataLoader.) And what do restart markers give, as examples/reshard adds them? The same photographs with them.
#include <cstddef>
#include <memory>
#include <utility>

#include "photo_crops.hpp"

#ifdef FEEDLINE_WITH_OPENCV
#include <array>
#include <condition_variable>
#include <mutex>

#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#endif

#ifdef FEEDLINE_WITH_TBB
#include <cstring>

#include <tbb/global_control.h>
#include <tbb/parallel_pipeline.h>
#endif

namespace fl = feedline;

namespace {

// The same, but each sample is copied.
void feedline_map_and_batch(benchmark::State& state) {
  if (photos(state).empty()) return;
  const auto decode = [](const fl::tar_sample& sample, fl::context& context) {
    example e{{}, 0};
    load<decoding::part_smaller>(sample, context.index, chw_view(e.pixels));
    return e;
  };
  consume_pipeline(state, fl::tar_samples(photo_shards()) |
                              fl::map(decode, fl::workers{threads(state)}, fl::name{"decode"}) |
                              fl::batch(batch_size));
}

// The same photographs with restart markers.
void feedline_marked(benchmark::State& state) { consume_crops<photo_set::marked>(state); }

void bare_threads_marked(benchmark::State& state) {
  bare_threads<decoding::part_smaller, photo_set::marked>(state);
}

// The time from the start of a run to its first batch.
void feedline_first_batch(benchmark::State& state) {
  const auto& all = photos(state);
  if (all.empty()) return;
  const auto pipeline = crop_pipeline(threads(state));
  for (auto _ : state) {
    auto loader = pipeline.finite();
    benchmark::DoNotOptimize(loader.next());
    state.PauseTiming();
    { const auto ended = std::move(loader); }
    state.ResumeTiming();
  }
}

// The same batch on bare threads.
void bare_first_batch(benchmark::State& state) {
  const auto& all = photos(state);
  if (all.empty()) return;
  std::vector<float> batch(batch_size * numbers);
  for (auto _ : state) {
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
      for (std::size_t i; (i = next.fetch_add(1)) < std::min(batch_size, all.size());)
        load<decoding::part_smaller>(
            all[i], i, fl::chw_view(std::span(batch).subspan(i * numbers, numbers), 3, side, side));
    };
    std::vector<std::jthread> pool;
    for (std::size_t i = 0; i < threads(state); ++i) pool.emplace_back(work);
  }
}

#ifdef FEEDLINE_WITH_OPENCV
/// A hand-written loader: threads share a counter and write to a ring of batches, which are returned in
/// order.
template <class Load>
class thread_pool {
 public:
  thread_pool(std::size_t threads, const Load& load) : load_(load), memory_(ring * batch_size * numbers) {
    for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  }

  ~thread_pool() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    not_full_.notify_all();
  }

  /// Returns the next batch and releases the one before.
  const float* next() {
    std::unique_lock lock(mutex_);
    if (any_taken_) {
      ++begin_;
      not_full_.notify_all();
    }
    any_taken_ = true;
    not_empty_.wait(lock, [&] { return done_[begin_ % ring] == batch_size; });
    done_[begin_ % ring] = 0;
    return memory_.data() + begin_ % ring * batch_size * numbers;
  }

 private:
  static constexpr std::size_t ring = 4;

  void work() {
    for (std::size_t i; (i = next_.fetch_add(1), wait_for_room(i / batch_size));) {
      load_(i, memory_.data() + i % (ring * batch_size) * numbers);
      const std::lock_guard lock(mutex_);
      if (++done_[i / batch_size % ring] == batch_size) not_empty_.notify_one();
    }
  }

  bool wait_for_room(std::size_t batch) {
    std::unique_lock lock(mutex_);
    not_full_.wait(lock, [&] { return stopped_ || batch < begin_ + ring; });
    return !stopped_;
  }

  Load load_;
  std::vector<float> memory_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  std::condition_variable not_full_, not_empty_;
  std::array<std::size_t, ring> done_{}; // finished samples of each batch of the ring
  std::size_t begin_ = 0;                // the batch that the caller has or waits for
  bool any_taken_ = false, stopped_ = false;
  std::vector<std::jthread> threads_; // the last member, so that the threads end first
};

/// With OpenCV, which decodes the whole photograph: at full size, or at the size at which feedline would
/// decode the part. feedline reads the header, as OpenCV can't read the size without decoding. Where the part
/// shrinks, INTER_AREA averages, as feedline does; INTER_LINEAR, the default, aliases.
template <decoding How, int Shrink>
void load_with_opencv(const fl::tar_sample& sample, std::size_t index, float* out) {
  auto random = random_of(index);
  const bool mirrored = random.chance(0.5);
  const auto file = sample["jpg"];
  thread_local fl::jpeg_decoder headers;
  const auto header = headers.read_header(file);
  const fl::crop_box part = choose_part(random)(header.height, header.width);
  int smaller = 1;
  if constexpr (How == decoding::part_smaller)
    while (smaller < 8 && std::min(part.height, part.width) >= 2.0 * side * smaller) smaller *= 2;
  const int flags = smaller == 1   ? cv::IMREAD_COLOR
                    : smaller == 2 ? cv::IMREAD_REDUCED_COLOR_2
                    : smaller == 4 ? cv::IMREAD_REDUCED_COLOR_4
                                   : cv::IMREAD_REDUCED_COLOR_8;
  // OpenCV accepts no const memory, but doesn't write to it.
  auto* const bytes = const_cast<std::byte*>(file.data());
  const cv::Mat all = cv::imdecode(cv::Mat(1, static_cast<int>(file.size()), CV_8U, bytes),
                                   flags | cv::IMREAD_IGNORE_ORIENTATION);
  const auto scaled = [&](double length) { return static_cast<int>(length / smaller); };
  const cv::Rect box(scaled(part.left), scaled(part.top), scaled(part.width), scaled(part.height));
  cv::Mat pixels, planes[3];
  cv::resize(all(box), pixels, cv::Size(side, side), 0, 0,
             box.area() > static_cast<int>(side * side) ? Shrink : cv::INTER_LINEAR);
  if (mirrored) cv::flip(pixels, pixels, 1);
  cv::split(pixels, planes); // blue first
  for (std::size_t c = 0; c < 3; ++c) {
    const double deviation = fl::imagenet_normalization.std[c];
    planes[2 - c].convertTo(cv::Mat(side, side, CV_32F, out + c * side * side), CV_32F, 1 / (255 * deviation),
                            -fl::imagenet_normalization.mean[c] / deviation);
  }
}

template <decoding How, int Shrink>
void opencv_pool(benchmark::State& state) {
  const auto& all = photos(state);
  if (all.empty()) return;
  cv::setNumThreads(0);
  thread_pool pool(threads(state), [&](std::size_t i, float* out) {
    load_with_opencv<How, Shrink>(all[i % all.size()], i % all.size(), out);
  });
  consume(state, batch_size, [&] { return pool.next(); });
}
#endif

#ifdef FEEDLINE_WITH_TBB
void tbb_parallel_pipeline(benchmark::State& state) {
  const auto& all = photos(state);
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads(state));
  std::vector<float> batch(batch_size * numbers);
  for (auto _ : state) {
    std::size_t next = 0, in_batch = 0;
    using example_ptr = std::shared_ptr<example>;
    tbb::parallel_pipeline(
        4 * threads(state),
        tbb::make_filter<void, std::size_t>(tbb::filter_mode::serial_in_order,
                                            [&](tbb::flow_control& flow) {
                                              if (next == all.size()) flow.stop();
                                              return next == all.size() ? next : next++;
                                            }) &
            tbb::make_filter<std::size_t, example_ptr>(tbb::filter_mode::parallel,
                                                       [&](std::size_t i) {
                                                         auto e = std::make_shared<example>();
                                                         load<decoding::part_smaller>(all[i], i,
                                                                                      chw_view(e->pixels));
                                                         return e;
                                                       }) &
            tbb::make_filter<example_ptr, void>(tbb::filter_mode::serial_in_order, [&](const example_ptr& e) {
              std::memcpy(batch.data() + in_batch * numbers, e->pixels.data(), numbers * sizeof(float));
              if (++in_batch < batch_size) return;
              benchmark::DoNotOptimize(batch.data());
              in_batch = 0;
            }));
  }
  report_photos(state, all.size());
}

BENCHMARK(tbb_parallel_pipeline)->Apply(of_some);
#endif

BENCHMARK(bare_threads<decoding::part_smaller>)->Apply(of_some);
BENCHMARK(bare_threads<decoding::part>)->Apply(of_two);
BENCHMARK(bare_threads<decoding::whole>)->Apply(of_two);
BENCHMARK(feedline_pipeline)->Apply(of_some);
BENCHMARK(feedline_marked)->Apply(of_some);
BENCHMARK(bare_threads_marked)->Apply(of_two);
BENCHMARK(feedline_map_and_batch)->Apply(of_two);
BENCHMARK(feedline_first_batch)->Apply(of_two);
BENCHMARK(bare_first_batch)->Apply(of_two);
#ifdef FEEDLINE_WITH_OPENCV
BENCHMARK_TEMPLATE(opencv_pool, decoding::whole, cv::INTER_AREA)->Apply(of_some);
BENCHMARK_TEMPLATE(opencv_pool, decoding::whole, cv::INTER_LINEAR)->Apply(of_two);
BENCHMARK_TEMPLATE(opencv_pool, decoding::part_smaller, cv::INTER_AREA)->Apply(of_two);
BENCHMARK_TEMPLATE(opencv_pool, decoding::part_smaller, cv::INTER_LINEAR)->Apply(of_two);
#endif

} // namespace
