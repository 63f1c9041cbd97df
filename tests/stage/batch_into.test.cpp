// SPDX-License-Identifier: MIT
#include <feedline/stage/batch_into.hpp>

#include "support/catch.hpp"
#include "support/counting_resource.hpp"
#include "support/leave_and_resume.hpp"
#include "support/outcome.hpp"
#include "support/throws_saying.hpp"

#include <feedline/feedline.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace fl = feedline;
using namespace feedline::test;

namespace {

struct example {
  fl::tensor<float, 2, 3> pixels;
  std::array<std::uint8_t, 2> marks;
  int label;
};

example made_of(int n, fl::context& c) {
  if (n % 11 == 7) throw std::runtime_error("unreadable " + std::to_string(n));
  example e{{}, {static_cast<std::uint8_t>(n), static_cast<std::uint8_t>(c.epoch)}, n};
  for (std::size_t i = 0; i < e.pixels.size(); ++i)
    e.pixels[i] = static_cast<float>(n) + static_cast<float>(i) / 8 + static_cast<float>(c.random.below(2));
  return e;
}

void fill(int n, fl::batch_slot<example>& slot, fl::context& c) {
  slot.get<&example::label>() = -1; // a row that is begun and then fails must not appear anywhere
  const example e = made_of(n, c);
  std::copy(e.pixels.begin(), e.pixels.end(), slot.get<&example::pixels>().begin());
  std::copy(e.marks.begin(), e.marks.end(), slot.get<&example::marks>().begin());
  slot.get<&example::label>() = e.label;
}

std::vector<int> numbers(int count) {
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// Everything that a run yields, as text, including failures.
template <class Loader>
std::string as_text_of(Loader loader, std::size_t most = 1000) {
  std::string text;
  std::size_t failures = 0;
  for (; most > 0; --most) {
    auto batch = loader.next();
    for (; failures < loader.failures().size(); ++failures)
      text += to_string(loader.failures()[failures]) + "; ";
    if (!batch) return text + "end";
    text += "[" + to_string(batch->template get<&example::pixels>().shape());
    for (std::size_t i = 0; i < batch->size(); ++i) {
      text += " " + std::to_string(batch->ids()[i].epoch) + ":" + std::to_string(batch->ids()[i].index) +
              "=" + std::to_string(batch->template get<&example::label>()[i]) + "," +
              std::to_string(batch->template get<&example::marks>().at(i)[1]);
      for (const float p : batch->template get<&example::pixels>().at(i)) text += "," + std::to_string(p);
    }
    text += "]\n";
  }
  return text;
}

auto skipping(std::uint32_t epochs) {
  return fl::finite_options{
      .seed = 5, .epochs = epochs, .on_error = fl::on_error::skip, .failure_limit = 10'000};
}

} // namespace

TEST_CASE("batches equal those of map and batch, whichever samples fail, with any number of workers") {
  for (const std::size_t size : {1u, 2u, 7u, 64u})
    for (const bool drop_last : {false, true}) {
      const auto source = fl::from(numbers(200));
      const auto expected =
          source | fl::map(made_of, fl::name{"x"}) | fl::batch(size, {.drop_last = drop_last});
      // The names of the stages differ, but not the keys of their random numbers, which depend on their
      // positions.
      auto text = as_text_of(expected.finite(skipping(3)));
      for (std::size_t at; (at = text.find("map `x`")) != text.npos;) text.replace(at, 7, "batch_into `x`");
      for (const std::size_t workers : {1u, 2u, 8u, 64u}) {
        CAPTURE(size, drop_last, workers);
        const auto p = source | fl::batch_into<example>(size, fill, fl::workers{workers}, fl::name{"x"},
                                                        fl::batch_options{drop_last});
        REQUIRE(as_text_of(p.finite(skipping(3))) == text);
      }
      const auto alone =
          source | fl::batch_into<example>(size, fill, fl::name{"x"}, fl::batch_options{drop_last});
      REQUIRE(as_text_of(alone.finite(skipping(3))) == text);
    }
}

TEST_CASE("in infinite mode batches continue across epochs, also after a global shuffle") {
  const auto source = fl::from(numbers(50)) | fl::global_shuffle();
  const fl::infinite_options options{.seed = 3, .on_error = fl::on_error::skip, .failure_limit = 10'000};
  auto text = as_text_of((source | fl::map(made_of) | fl::batch(16)).infinite(options), 100);
  for (std::size_t at; (at = text.find("map failed")) != text.npos;) text.replace(at, 3, "batch_into");
  for (const std::size_t workers : {1u, 3u, 16u})
    CHECK(as_text_of((source | fl::batch_into<example>(16, fill, fl::workers{workers})).infinite(options),
                     100) == text);
}

TEST_CASE("runs of one pipeline have separate rows at the same time") {
  const auto p = fl::from(numbers(200)) | fl::batch_into<example>(7, fill, fl::workers{3});
  const std::string alone = as_text_of(p.finite(skipping(2)));
  auto left = p.finite(skipping(2)), right = p.finite(skipping(2));
  while (const auto a = left.next()) {
    const auto b = right.next();
    REQUIRE(b);
    CHECK(std::ranges::equal(a->get<&example::label>(), b->get<&example::label>()));
    CHECK(std::ranges::equal(a->get<&example::pixels>(), b->get<&example::pixels>()));
  }
  auto begun = p.finite(skipping(2));
  begun.next();
  CHECK(as_text_of(p.finite(skipping(2))) == alone);
}

TEST_CASE("an error arrives in its position, after the batches that are complete before it") {
  const auto p = fl::from(numbers(100)) | fl::batch_into<example>(5, fill, fl::workers{4}, fl::name{"load"});
  auto loader = p.finite();
  CHECK(loader.next().value().size() == 5);
  CHECK(throws_saying<fl::pipeline_error>("batch_into `load` failed on sample 7: unreadable 7",
                                          [&] { loader.next(); }));
}

TEST_CASE("rows are written straight into their batch") {
  std::mutex mutex;
  std::map<int, const float*> written;
  const auto remember = [&](int n, fl::batch_slot<fl::tensor<float, 4>>& slot) {
    const auto row = slot.value();
    std::fill(row.begin(), row.end(), static_cast<float>(n));
    const std::lock_guard lock(mutex);
    written[n] = row.data();
  };
  const auto p = fl::from(numbers(2000)) | fl::batch_into<fl::tensor<float, 4>>(32, remember, fl::workers{8});
  int in_place = 0, n = 0;
  for (const auto& batch : p.finite())
    for (std::size_t i = 0; i < batch.size(); ++i, ++n) {
      REQUIRE(batch.values().at(i)[3] == static_cast<float>(n));
      const std::lock_guard lock(mutex);
      in_place += batch.values().at(i).data() == written[n];
    }
  CHECK(n == 2000);
  CHECK(in_place == 2000);
}

TEST_CASE("rows of items that workers made from one sample are written straight into their batch") {
  std::mutex mutex;
  std::map<int, const float*> written;
  const auto remember = [&](int n, fl::batch_slot<fl::tensor<float, 4>>& slot) {
    const std::lock_guard lock(mutex);
    slot.value()[0] = 1; // a debug build refuses rows that weren't written
    written[n] = slot.value().data();
  };
  const auto hundred_from = [](int n) {
    std::vector<int> hundred(100);
    std::iota(hundred.begin(), hundred.end(), 100 * n);
    return hundred;
  };
  const auto p = fl::from(numbers(50)) | fl::flat_map(hundred_from, fl::workers{3}) |
                 fl::batch_into<fl::tensor<float, 4>>(64, remember, fl::workers{2});
  int in_place = 0, n = 0;
  for (const auto& batch : p.finite())
    for (std::size_t i = 0; i < batch.size(); ++i, ++n) {
      const std::lock_guard lock(mutex);
      in_place += batch.values().at(i).data() == written[n];
    }
  CHECK(n == 5000);
  CHECK(in_place == 5000);
}

TEST_CASE("after long runs of skipped samples rows are again written straight into their batch") {
  std::mutex mutex;
  std::map<int, const float*> written;
  const auto remember = [&](int n, fl::batch_slot<fl::tensor<float, 4>>& slot) {
    const std::lock_guard lock(mutex);
    slot.value()[0] = 1; // a debug build refuses rows that weren't written
    written[n] = slot.value().data();
  };
  // Positions jump by about eight batches, several times.
  const auto is_wanted = [](int n) { return n % 1000 < 50 || n > 10'000; };
  const auto p = fl::from(numbers(20'000)) | fl::filter(is_wanted, fl::workers{2}) |
                 fl::batch_into<fl::tensor<float, 4>>(120, remember, fl::workers{3});
  int in_place = 0, late = 0;
  for (const auto& batch : p.finite({.queue_capacity = 16}))
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const auto n = static_cast<int>(batch.ids()[i].index);
      if (n < 12'000) continue;
      ++late;
      const std::lock_guard lock(mutex);
      in_place += batch.values().at(i).data() == written[n];
    }
  CHECK(late == 8000);
  CHECK(in_place > 7900);
}

TEST_CASE("replaying a sample takes memory for that sample only") {
  counting_resource resource;
  const auto fill_one = [](int, fl::batch_slot<fl::tensor<float, 100>>& slot) { slot.value()[0] = 1; };
  const auto p = fl::from(numbers(100)) |
                 fl::batch_into<fl::tensor<float, 100>>(50, fill_one, fl::batch_options{.memory = &resource});
  CHECK(p.replay(1, {3}));
  CHECK(resource.most_bytes() > 0);
  CHECK(resource.most_bytes() <= fl::detail::block_cache::smallest); // fifty rows would be 20,000
}

TEST_CASE("a run that is stopped at any moment releases everything") {
  const watchdog guard("abandoned");
  const auto p = fl::from(numbers(300)) | fl::batch_into<example>(7, fill, fl::workers{6});
  for (std::size_t taken = 0; taken < 60; ++taken) {
    auto loader = p.infinite({.on_error = fl::on_error::skip, .failure_limit = 10'000});
    for (std::size_t i = 0; i < taken % 20; ++i) loader.next();
  }
  auto kept = [&] { return *p.finite(skipping(1)).next(); }(); // a batch outlives its loader
  CHECK(kept.get<&example::label>()[6] == 6);
  const auto limited =
      fl::from(numbers(300)) | fl::batch_into<example>(7, fill, fl::workers{6}) | fl::take(2);
  std::size_t batches = 0;
  for (const auto& batch : limited.finite(skipping(20))) {
    CHECK(batch.get<&example::label>()[0] == (batches % 2 == 0 ? 0 : 8)); // 7 failed
    ++batches;
  }
  CHECK(batches == 40);
}

TEST_CASE("a run can be resumed at any point") {
  leave_and_resume("batch_into", 60, [](draw& d, const circumstances& c) {
    const auto keep = d(2, 5);
    const std::size_t size = d(1, 12);
    return fl::from(numbers(static_cast<int>(d(20, 200)))) |
           fl::filter([keep](int n) { return static_cast<std::size_t>(n) % keep != 0; }) |
           fl::shuffle({.capacity = d(1, 20)}) |
           fl::batch_into<int>(
               size,
               [](int n, fl::batch_slot<int>& slot, fl::context& context) {
                 if (n % 13 == 5) throw std::runtime_error("bad");
                 slot.value() = n * 1000 + static_cast<int>(context.random.below(1000));
               },
               fl::workers{c.workers}) |
           fl::prefetch(c.queue);
  });
}

TEST_CASE("one row is replayed exactly as in the run") {
  const auto p = fl::from(numbers(30)) | fl::batch_into<example>(4, fill, fl::workers{2});
  auto loader = p.finite({.seed = 9});
  const auto batch = loader.next();
  const auto row = p.replay(9, {2});
  REQUIRE(row);
  CHECK(std::equal(row->get<&example::pixels>().begin(), row->get<&example::pixels>().end(),
                   batch->get<&example::pixels>().at(2).begin()));
}

#ifndef NDEBUG
TEST_CASE("a debug build finds a field that wasn't written, and names it") {
  struct forgetful {
    std::array<float, 4> pixels;
    std::int16_t too_small;
    std::int32_t label;
  };

  const auto fill = [](int n, fl::batch_slot<forgetful>& slot) {
    if (n != 3) slot.get<&forgetful::pixels>()[2] = 1;
    if (n != 5) slot.get<&forgetful::label>() = 0;
  };
  const auto p = fl::from(count_to(8)) | fl::batch_into<forgetful>(2, fill, fl::workers{2});
  const auto result = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK(result.skipped_indices() == std::vector<std::uint64_t>{3, 5});
  CHECK(result.skipped.at(0).message.find("didn't write the field `pixels` of its row") != std::string::npos);
  CHECK(result.skipped.at(1).message.find("didn't write the field `label` of its row") != std::string::npos);
}
#endif

TEST_CASE("optional numbers are written to values and a mask, as in batch") {
  struct graded {
    std::optional<std::int64_t> label;
    std::optional<bool> is_good;
    int number;
  };

  const auto grade = [](int n) {
    if (n % 11 == 7) throw std::runtime_error("unreadable");
    graded g{std::nullopt, std::nullopt, n};
    if (n % 3 != 0) g.label = n;
    if (n % 5 != 0) g.is_good = n % 2 == 0;
    return g;
  };
  // Where there is no label, nothing is written. Values written before a failure don't appear anywhere.
  const auto fill_graded = [grade](int n, fl::batch_slot<graded>& slot) {
    if (n % 2 == 0) slot.get<&graded::label>() = -1;
    slot.get<&graded::is_good>() = true;
    const graded g = grade(n);
    slot.get<&graded::is_good>() = g.is_good;
    slot.get<&graded::number>() = g.number;
    if (g.label || n % 2 == 0) slot.get<&graded::label>() = g.label;
  };
  const auto told = [](auto loader) {
    std::string text;
    for (const auto& batch : loader) {
      const auto& label = batch.template get<&graded::label>();
      const auto& good = batch.template get<&graded::is_good>();
      text += to_string(label.values.shape()) + to_string(label.valid.shape());
      for (std::size_t i = 0; i < batch.size(); ++i)
        text += " " + std::to_string(batch.template get<&graded::number>()[i]) + "=" +
                std::to_string(label.values[i]) + (label.valid[i] ? "y" : "n") +
                std::to_string(good.values[i]) + (good.valid[i] ? "y" : "n");
      text += "\n";
    }
    return text;
  };
  const auto source = fl::from(numbers(200));
  for (const std::size_t size : {1u, 7u, 64u}) {
    const std::string expected = told((source | fl::map(grade) | fl::batch(size)).finite(skipping(2)));
    for (const std::size_t workers : {1u, 2u, 64u}) {
      CAPTURE(size, workers);
      const auto p = source | fl::batch_into<graded>(size, fill_graded, fl::workers{workers});
      CHECK(told(p.finite(skipping(2))) == expected);
    }
  }
  const auto p = source | fl::batch_into<graded>(4, fill_graded);
  CHECK(std::optional<std::int64_t>(p.replay(1, {5})->get<&graded::label>()) == 5);
  CHECK(!std::optional<std::int64_t>(p.replay(1, {6})->get<&graded::label>()));
  using one = std::optional<float>;
  const auto ones = source | fl::batch_into<one>(3, [](int n, fl::batch_slot<one>& slot) {
                      if (n != 1) slot.value() = 0.5f;
                    });
  const auto batch = ones.finite().next();
  CHECK((batch->values().valid[0] && !batch->values().valid[1] && batch->values().values[2] == 0.5f));
}

TEST_CASE("optional numbers of batches are in the memory plan, values and mask") {
  using one = std::optional<double>;
  const auto fill_one = [](int n, fl::batch_slot<one>& slot) { slot.value() = n; };
  const auto fill_plain = [](int n, fl::batch_slot<double>& slot) { slot.value() = n; };
  constexpr std::size_t size = 100'000;
  const auto bytes_of = [](const auto& p) { return *p.memory().bytes(); };
  const auto source = fl::from(numbers(10));
  CHECK(bytes_of(source | fl::batch_into<one>(size, fill_one)) >=
        bytes_of(source | fl::batch_into<double>(size, fill_plain)) + size);
}

TEST_CASE("tensors whose types have no shape get it from an option") {
  using pair = std::pair<fl::tensor<int>, fl::tensor<float>>;
  const auto both = [](int n, fl::batch_slot<pair>& slot) {
    for (int& v : slot.get<0>()) v = n;
    for (float& v : slot.get<1>()) v = static_cast<float>(-n);
  };
  const auto p = fl::from(numbers(6)) | fl::batch_into<pair>(4, both, fl::shapes{{{2, 2}, {3}}});
  auto loader = p.finite();
  const auto batch = loader.next();
  CHECK(batch->get<0>().shape() == fl::shape{4, 2, 2});
  CHECK(batch->get<1>().shape() == fl::shape{4, 3});
  CHECK((batch->get<0>()[15] == 3 && batch->get<1>()[11] == -3));
  CHECK(loader.next().value().get<1>().shape() == fl::shape{2, 3});
  CHECK_THROWS_AS(fl::batch_into<pair>(4, both, fl::shapes{{{2, 2}}}), std::invalid_argument);
  CHECK_THROWS_AS(fl::batch_into<pair>(4, both, fl::shapes{{{2, 2}, {3}, {4}}}), std::invalid_argument);
  CHECK_THROWS_AS(fl::batch_into<pair>(0, both, fl::shapes{{{2, 2}, {3}}}), std::invalid_argument);
}

TEST_CASE("each worker may have a separate function") {
  const auto factory = fl::per_worker([] {
    return [calls = 0](int n, fl::batch_slot<int>& slot) mutable { slot.value() = ++calls > 0 ? n : -1; };
  });
  int sum = 0;
  for (const auto& batch :
       (fl::from(numbers(100)) | fl::batch_into<int>(8, factory, fl::workers{3})).finite())
    for (const int v : batch.values()) sum += v;
  CHECK(sum == 4950);
}

namespace {

const auto copy_number = [](int n, fl::batch_slot<std::pair<int, fl::tensor<float, 100>>>& slot) {
  slot.get<0>() = n;
  std::fill(slot.get<1>().begin(), slot.get<1>().end(), static_cast<float>(n));
};

const auto as_pair = [](int n) {
  std::pair<int, fl::tensor<float, 100>> made;
  made.first = n;
  std::fill(made.second.begin(), made.second.end(), static_cast<float>(n));
  return made;
};

/// Checks that the batches of a pipeline are stored in this resource, and that it gets all memory back in the
/// end.
void check_memory_of(const auto& make_pipeline) {
  counting_resource resource;
  {
    auto pipeline = std::make_unique<decltype(make_pipeline(resource))>(make_pipeline(resource));
    auto loader = std::make_unique<fl::loader_of<decltype(make_pipeline(resource))>>(
        pipeline->finite({.queue_capacity = 4}));
    pipeline.reset();
    auto kept = loader->next();
    for (int i = 0; i < 300; ++i) {
      const auto batch = loader->next();
      REQUIRE(batch);
      REQUIRE((resource.owns(&batch->template get<0>()[0]) && resource.owns(&batch->template get<1>()[0])));
      REQUIRE(reinterpret_cast<std::uintptr_t>(batch->template get<1>().data()) % fl::tensor_alignment == 0);
      for (std::size_t row = 0; row < batch->size(); ++row)
        REQUIRE(batch->template get<1>().at(row)[99] == static_cast<float>(batch->template get<0>()[row]));
    }
    loader.reset();
    REQUIRE(kept); // a batch outlives its loader
    CHECK(kept->template get<1>().at(3)[7] == 3);
    CHECK(!resource.is_unused());
  }
  CHECK(resource.is_unused());
  if (!fl::detail::is_address_sanitized) CHECK(resource.allocations() < 100); // 600 tensors
}

} // namespace

TEST_CASE("batches are stored in the given memory resource, and their memory is reused") {
  for (const std::size_t workers : {1u, 4u}) {
    check_memory_of([&](counting_resource& r) {
      return fl::from(numbers(4000)) |
             fl::batch_into<std::pair<int, fl::tensor<float, 100>>>(10, copy_number, fl::workers{workers},
                                                                    fl::batch_options{.memory = &r});
    });
    check_memory_of([&](counting_resource& r) {
      return fl::from(numbers(4000)) | fl::map(as_pair, fl::workers{workers}) | fl::batch(10, {.memory = &r});
    });
  }
  check_memory_of([&](counting_resource& r) {
    return fl::from(numbers(4000)) | fl::map(as_pair) |
           fl::bucket_batch({.batch_size = 10, .memory = &r}, [](const auto&) { return std::size_t{1}; });
  });
}

TEST_CASE("running out of memory is a failure of its sample, and no memory is lost") {
  counting_resource resource;
  {
    const auto p = fl::from(numbers(4000)) |
                   fl::batch_into<std::pair<int, fl::tensor<float, 100>>>(
                       10, copy_number, fl::workers{2}, fl::batch_options{.memory = &resource});
    auto loader = p.finite({.queue_capacity = 2});
    std::vector<decltype(loader.next())> kept;
    CHECK(throws_saying<fl::pipeline_error>("bad_alloc", [&] {
      for (;;) {
        kept.push_back(loader.next());
        if (!kept.back()) break;
        if (kept.size() == 5) resource.run_out();
      }
    }));
    CHECK((kept.size() >= 5 && kept.size() < 20));
  }
  CHECK(resource.is_unused());
}
