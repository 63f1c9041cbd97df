// SPDX-License-Identifier: MIT
#include <feedline/core/memory_plan.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <feedline/cache.hpp>
#include <feedline/feedline.hpp>

#include "support/asleep.hpp"
#include "support/catch.hpp"
#include "support/counting_resource.hpp"
#include "support/numbers.hpp"
#include "support/outcome.hpp"
#include "support/rounds.hpp"
#include "support/sanitizers.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

using picture = fl::tensor<std::uint8_t, 100, 1000>;

struct example {
  picture pixels;
  std::array<float, 4> box;
  int label;
};

/// Looks like a tensor, but owns more memory than it shows.
struct strange {
  int shape() const { return 3; }

  const void* data() const { return nullptr; }

  std::shared_ptr<int> more;
};

struct tree {
  int value;
  std::vector<tree> children;
};

const auto make_example = [](int n) { return example{{}, {}, n}; };

using filling = std::function<void(int, fl::batch_slot<example>&)>;

const filling fill_example = [](int n, fl::batch_slot<example>& slot) {
  slot.get<&example::label>() = n;
  slot.get<&example::pixels>()[0] = 1; // a debug build refuses rows with fields that weren't written
  slot.get<&example::box>()[0] = 1;
};

/// Keeps texts and emits them later. A derived class declares its memory, if at all.
struct keeps_texts {
  static constexpr fl::stage_traits traits{.kind = "keeps_texts"};
  using output = std::string;

  void operator()(std::string text, auto& emit) {
    kept.push_back(std::move(text));
    if (kept.size() < 100) return;
    emit(std::move(kept.front()));
    kept.erase(kept.begin());
  }

  std::vector<std::string> kept;
};

struct says_items : keeps_texts {
  std::size_t items_held() const { return 100; }
};

struct says_bytes : keeps_texts {
  std::size_t bytes_held() const { return 40'000; }
};

struct says_nothing_to_say { // it holds only numbers
  using output = std::string;

  void operator()(std::string text, auto& emit) {
    if (++count % 2 == 0) emit(std::move(text));
  }

  int count = 0;
};

struct lengthens {
  using output = std::string;

  void operator()(int n, auto& emit) { emit(std::string(static_cast<std::size_t>(n % 50), 'x')); }

  std::size_t max_item_bytes() const { return 100; }

  int count = 0;
};

std::size_t items_of(const fl::memory_plan& plan, const std::string& name) {
  for (const auto& p : plan.parts)
    if (p.name == name) return p.items;
  FAIL("no part `" << name << "` in\n" << to_string(plan));
  return 0;
}

} // namespace

TEST_CASE("the type of an item determines its memory") {
  using fl::detail::bytes_of_type;
  CHECK(bytes_of_type<int>() == sizeof(int));
  CHECK(bytes_of_type<std::array<double, 10>>() == 80);
  CHECK(bytes_of_type<picture>() >= sizeof(picture) + 100'000);
  CHECK(bytes_of_type<picture>() <= sizeof(picture) + 113'000);
  CHECK(bytes_of_type<example>() == sizeof(example) - sizeof(picture) + *bytes_of_type<picture>());
  CHECK(bytes_of_type<std::pair<int, picture>>() > 100'000);
  CHECK(bytes_of_type<std::array<picture, 3>>() == 3 * *bytes_of_type<picture>());
  CHECK(bytes_of_type<fl::tar_sample>() == sizeof(fl::tar_sample));
  CHECK(!bytes_of_type<std::string>());
  CHECK(!bytes_of_type<std::vector<int>>());
  CHECK(!bytes_of_type<fl::tensor<float>>());
  CHECK(!bytes_of_type<std::pair<int, std::string>>());
  CHECK(!bytes_of_type<std::unique_ptr<int>>());
}

TEST_CASE("a plan lists queues, buffers and batches, and can be printed") {
  const auto p = fl::from(numbers(1000)) | fl::map(make_example, fl::workers{3}) |
                 fl::shuffle({.capacity = 50}) | fl::batch(16) | fl::prefetch(5);
  const fl::memory_plan plan = p.memory();
  REQUIRE(plan.bytes());
  CHECK(items_of(plan, "held by shuffle") == 50);
  CHECK(items_of(plan, "batch -> caller") == 5 + 2);
  const std::size_t of_batches = (5 + 2) * 16 * 100'000, of_buffer = 50 * 100'000;
  CHECK(*plan.bytes() > of_batches + of_buffer);
  CHECK(*plan.bytes() < 3 * (of_batches + of_buffer));
  for (const char* word : {"batch -> caller", "held by shuffle", "total", "MB"})
    CHECK(to_string(plan).find(word) != std::string::npos);
  CHECK(p.finite().memory().bytes() == plan.bytes());
}

TEST_CASE("unknown sizes are reported until the user declares them") {
  const auto make_text = [](int n) { return std::string(static_cast<std::size_t>(n), 'x'); };
  const auto of = [&](auto... told) {
    return fl::from(numbers(1000)) | fl::map(make_text, fl::name{"write"}, told...) |
           fl::batch(10, fl::as_list);
  };
  CHECK(!of().memory().bytes());
  CHECK(to_string(of().memory()).find('?') != std::string::npos);
  CHECK(throws_saying<std::invalid_argument>("it isn't known how much memory an item takes in \"at work in "
                                             "batch\": set max_item_bytes of the function",
                                             [&] { of().finite({.memory_budget = 1 << 20}); }));
  CHECK(of(fl::max_item_bytes{2000}).memory().bytes());
  auto loader = of(fl::max_item_bytes{600}).finite({.memory_budget = 1 << 20});
  CHECK(throws_saying<fl::pipeline_error>("max_item_bytes{600}", [&] {
    while (loader.next()) {
    }
  }));
  auto skipping =
      of(fl::max_item_bytes{600}).finite({.on_error = fl::on_error::skip, .memory_budget = 1 << 20});
  std::size_t texts = 0;
  for (const auto& batch : skipping) texts += batch.size();
  CHECK((texts > 500 && texts < 600));
  CHECK(texts + skipping.failures().size() == 1000);
  // Plain values are all of one size, so no number can be made.
  for (const auto how : {fl::on_error::fail, fl::on_error::skip}) {
    auto none = (fl::from(numbers(10)) | fl::map([](int n) { return n; }, fl::max_item_bytes{2}))
                    .finite({.on_error = how});
    CHECK(throws_saying<fl::pipeline_error>("the item takes 4 bytes, more than the max_item_bytes{2}",
                                            [&] { none.next(); }));
  }
}

TEST_CASE("a user's stage must declare its memory for a budget") {
  const auto source = fl::from(std::vector<std::string>(1000, std::string(300, 'x')));
  const auto with = [&](auto stage) { return source | stage | fl::prefetch(2); };
  CHECK(!with(keeps_texts()).memory().bytes());
  CHECK(throws_saying<std::invalid_argument>(
      "it isn't known how much memory the stage keeps_texts uses: add",
      [&] { with(keeps_texts()).finite({.memory_budget = 60'000'000}); }));
  CHECK(throws_saying<std::invalid_argument>(
      "items_held() const", [&] { with(keeps_texts()).finite({.memory_budget = 60'000'000}); }));

  const fl::memory_plan items = with(says_items()).memory();
  REQUIRE(items.bytes());
  CHECK(items_of(items, "held by keeps_texts") == 100);
  CHECK(*items.bytes() > 100 * 300);
  CHECK(throws_saying<std::invalid_argument>("is too small",
                                             [&] { with(says_items()).finite({.memory_budget = 25'000}); }));

  const fl::memory_plan bytes = with(says_bytes()).memory();
  REQUIRE(bytes.bytes());
  CHECK(*bytes.bytes() > 40'000);
  CHECK(*bytes.bytes() < 40'000 + *with(says_nothing_to_say()).memory().bytes());

  std::size_t texts = 0;
  for (auto loader = with(says_items()).finite({.memory_budget = 1'000'000}); loader.next();) ++texts;
  CHECK(texts == 901);
  CHECK((fl::from(numbers(10)) | lengthens() | fl::prefetch(2)).memory().bytes());
}

TEST_CASE("declared sizes of items with tensors are rounded up like their memory") {
  const std::size_t elements = 1'000'000 + 1;

  struct pictures {
    using value = fl::tensor<float>;

    std::optional<value> next() { return value({elements}); }

    std::size_t max_item_bytes() const { return sizeof(value) + elements * sizeof(float); }
  };

  const std::size_t taken = fl::detail::bytes_taken(*pictures().next());
  CHECK(taken >= pictures().max_item_bytes());
  if (!is_sanitized) CHECK(taken > pictures().max_item_bytes()); // a sanitizer's memory isn't rounded
  const fl::memory_plan plan = (fl::from(pictures()) | fl::prefetch(2)).memory();
  CHECK(plan.parts.at(0).bytes >= taken);
  CHECK(*plan.parts.at(0).bytes <= 2 * taken);
}

TEST_CASE("the memory that a cache gathers is known for one item per sample, or reported as unknown") {
  const auto parts = [](int n) { return std::vector<int>(static_cast<std::size_t>(n), n); };
  const auto of = [&](std::size_t items) {
    return fl::from(numbers(10)) | fl::flat_map(parts, fl::workers{2}) |
           fl::cache({.memory_bytes = 1000, .items_per_sample = items}) | fl::prefetch(2);
  };
  CHECK(throws_saying<std::invalid_argument>("set items_per_sample",
                                             [&] { of(0).finite({.memory_budget = 1 << 20}); }));
  CHECK(items_of(of(9).memory(), "gathered by flat_map | cache") == 2);
  CHECK(run_to_end(of(9).finite({.memory_budget = 1 << 20})).items.size() == 45);
  const auto cut = run_to_end(of(5).finite({.on_error = fl::on_error::skip}));
  CHECK(cut.skipped.size() == 4); // of 6, 7, 8 and 9
  CHECK(cut.skipped[0].message.find("items_per_sample") != std::string::npos);
  const auto of_map = fl::from(numbers(10)) | fl::map([](int n) { return n + 1; }) |
                      fl::cache({.memory_bytes = 1000}) | fl::prefetch(2);
  CHECK(of_map.memory().bytes());
}

TEST_CASE("sizes are shown in units, and former negative numbers as negative") {
  using fl::detail::bytes_text;
  CHECK(bytes_text(999) == "999 bytes");
  CHECK(bytes_text(600'000) == "600.0 KB");
  CHECK(bytes_text(38'540'000) == "38.5 MB");
  CHECK(bytes_text(1'500'000'000'000'000'000) == "1500.0 PB");
  CHECK(bytes_text(9'000'000'000'000'000'000) == "9000.0 PB");
  CHECK(bytes_text(static_cast<std::size_t>(-1)) == "-1 bytes");
  const auto many = fl::memory_plan{{{"held by shuffle", static_cast<std::size_t>(-1), 20}}};
  CHECK(to_string(many).find("-1") != std::string::npos);
  CHECK(to_string(many).find("18446744073709551615") == std::string::npos);
  CHECK(throws_saying<std::invalid_argument>(
      "more bytes than can be counted, most of it held by shuffle: -1 of 20 bytes",
      [&] { fl::detail::fitting_capacity(1000, 0, [&](std::size_t) { return many; }); }));
}

TEST_CASE("sources know the bytes of their samples, and so do sources made from them") {
  const temporary_folder folder;
  folder.write("a.txt", "one\ntwo\n");
  folder.write("a longer name than the other.txt", "three\n");
  const std::vector<std::string> texts{"short", std::string(1000, 'x')};
  const auto bytes_of = [](const auto& p) { return fl::detail::max_item_bytes_of(p.source()); };

  const auto names = fl::files(folder.path());
  REQUIRE(bytes_of(names));
  CHECK(*bytes_of(names) >= sizeof(std::string) + (folder / "a longer name than the other.txt").size());
  CHECK(*bytes_of(names) < sizeof(std::string) + (folder / "a longer name than the other.txt").size() + 32);

  const auto words = fl::from(texts);
  REQUIRE(bytes_of(words));
  CHECK((*bytes_of(words) > 1000 && *bytes_of(words) < 1100));
  CHECK(*bytes_of(fl::from(std::vector<std::pair<int, std::string>>{{1, texts[1]}})) > 1000);
  CHECK(!bytes_of(fl::from(std::vector<std::shared_ptr<int>>(3))));
  CHECK(!bytes_of(fl::from(std::vector<strange>(3))));
  CHECK(*bytes_of(fl::from(std::vector<tree>{{1, std::vector<tree>(100)}})) >= 101 * sizeof(tree));
  CHECK(*bytes_of(fl::from(std::vector{std::vector<bool>(8000)})) < 1100);
  CHECK(*bytes_of(fl::from(std::vector<std::pair<char, std::string>>(1))) >=
        sizeof(std::pair<char, std::string>));

  const auto rows = fl::lines({folder / "a.txt"});
  CHECK(!bytes_of(rows));
  const auto short_rows = fl::lines({folder / "a.txt"}, {.max_line_bytes = 100});
  CHECK(*bytes_of(short_rows) == sizeof(std::string) + 101);
  CHECK(*bytes_of(fl::records({folder / "a.txt"}, 50)) == sizeof(std::vector<std::byte>) + 50);
  const auto make = [] { return std::optional<std::string>(); };
  CHECK(!bytes_of(fl::generate(make)));
  CHECK(bytes_of(fl::generate(make, fl::max_item_bytes{70})) == 70u);

  CHECK(bytes_of(names | fl::global_shuffle()) == bytes_of(names));
  CHECK(bytes_of(words | fl::with_replacement()) == bytes_of(words));
  CHECK(bytes_of(fl::concat(short_rows, words)) == bytes_of(words));
  CHECK(!bytes_of(fl::concat(words, rows)));
  CHECK(!bytes_of(fl::concat(rows, words)));
  CHECK(bytes_of(fl::mix(fl::weighted(words, 1), fl::weighted(names, 1))) == bytes_of(words));
  CHECK(*bytes_of(fl::zip(words, names)) >= *bytes_of(words) + *bytes_of(names));
  CHECK(!bytes_of(fl::zip(words, rows)));
  CHECK(bytes_of(short_rows | fl::interleave(2)) == bytes_of(short_rows));

  const auto filter = fl::filter([](const auto&) { return true; }, fl::workers{2});
  CHECK((names | fl::enumerate() | filter | fl::prefetch(2)).memory().bytes());
  std::size_t found = 0;
  const auto to_size = [](const std::string& name) { return name.size(); };
  for (const auto& batch :
       (names | fl::map(to_size, fl::workers{2}) | fl::batch(2)).finite({.memory_budget = 1 << 20}))
    found += batch.size();
  CHECK(found == 2);
}

TEST_CASE("a function object may know the size of what it makes") {
  struct doubled {
    std::vector<std::string> operator()(const std::string& text) const { return {text, text}; }

    std::optional<std::size_t> bytes_given(std::optional<std::size_t> one) const {
      return one ? std::optional(sizeof(std::vector<std::string>) + 2 * *one) : std::nullopt;
    }
  };

  struct grown {
    bool operator()(const std::string& text) const {
      return !text.empty();
    } // it may fill a cache of the item

    std::optional<std::size_t> bytes_given(std::optional<std::size_t> one) const {
      return one ? std::optional(3 * *one) : std::nullopt;
    }
  };

  const auto of_queue = [&](auto source, auto stage) {
    const auto plan = (std::move(source) | std::move(stage)).memory();
    return plan.parts[plan.parts.size() - 2].bytes; // "... -> caller"
  };
  const auto known = fl::from(std::vector{std::string(1000, 'x')});
  const auto unknown = fl::generate([] { return std::optional<std::string>(); });
  for (const std::size_t workers : {1u, 3u}) {
    const fl::workers of{workers};
    CHECK(*of_queue(known, fl::map(doubled(), of)) > 2000);
    CHECK(*of_queue(known, fl::map(doubled(), of)) < 2500);
    CHECK(*of_queue(known, fl::map(doubled(), of, fl::max_item_bytes{9000})) > 9000);
    CHECK(!of_queue(unknown, fl::map(doubled(), of)));
    CHECK(*of_queue(known, fl::flat_map(doubled(), of)) > 2000);
    CHECK(*of_queue(known, fl::filter(grown(), of)) > 3000);
  }
}

TEST_CASE("a source or a flat_map that returns more than it declared fails") {
  const auto make = [n = 0]() mutable {
    return n < 3 ? std::optional(std::string(n++ == 1 ? 500 : 5, 'x')) : std::nullopt;
  };
  const auto made = run_to_end((fl::generate(make, fl::max_item_bytes{100}) | fl::prefetch(1))
                                   .finite({.on_error = fl::on_error::skip}));
  CHECK(made.items.size() == 2);
  REQUIRE(made.skipped.size() == 1);
  CHECK(made.skipped[0].message.find("max_item_bytes{100}") != std::string::npos);

  const auto parts = [](int n) {
    return std::vector{std::string(5, 'x'), std::string(n == 1 ? 500 : 5, 'x')};
  };
  for (const std::size_t workers : {1u, 3u}) {
    const auto p = fl::from(numbers(3)) | fl::flat_map(parts, fl::workers{workers}, fl::max_item_bytes{100}) |
                   fl::prefetch(1);
    CHECK(p.memory().bytes());
    const auto cut = run_to_end(p.finite({.on_error = fl::on_error::skip}));
    CHECK(cut.items.size() == 5);
    REQUIRE(cut.skipped.size() == 1);
    CHECK(cut.skipped[0].index == 1);
  }
}

TEST_CASE("queues are shortened to a budget, and results stay the same") {
  const watchdog guard("budgets");
  const auto p = fl::from(numbers(300)) | fl::map(make_example, fl::workers{4}) | fl::batch(8);
  auto free = p.finite();
  while (free.next()) {
  }
  const std::size_t most = *p.memory().bytes();
  std::size_t before = most + 1;
  for (std::size_t budget = most; budget > most / 16; budget = budget * 2 / 3) {
    try {
      auto loader = p.finite({.memory_budget = budget});
      REQUIRE(*loader.memory().bytes() <= budget);
      CHECK(*loader.memory().bytes() <= before);
      before = *loader.memory().bytes();
      while (loader.next()) {
      }
      CHECK(loader.digest() == free.digest());
    } catch (const std::invalid_argument& refused) {
      CHECK(std::string(refused.what()).find("is too small") != std::string::npos);
    }
  }
  CHECK(before < most / 2);
  CHECK(throws_saying<std::invalid_argument>("a memory_budget of 500.0 KB is too small",
                                             [&] { p.finite({.memory_budget = 500'000}); }));
  CHECK(
      throws_saying<std::invalid_argument>("batch -> caller", [&] { p.memory({.memory_budget = 500'000}); }));
}

TEST_CASE("the batches of a run stay within its plan") {
  const watchdog guard("batches in a plan");
  for (const std::size_t workers : {1u, 4u, 16u})
    for (const std::size_t shortest : {0u, 1u}) {
      counting_resource resource;
      const auto p =
          fl::from(numbers(2000)) | fl::batch_into<example>(4, fill_example, fl::workers{workers},
                                                            fl::batch_options{.memory = &resource});
      std::size_t budget = *p.memory().bytes();
      if (shortest)
        for (;; budget = budget * 9 / 10) {
          try {
            p.memory({.memory_budget = budget * 9 / 10});
          } catch (const std::invalid_argument&) {
            break;
          }
        }
      auto loader = p.infinite({.memory_budget = budget});
      for (int i = 0; i < rounds(400); ++i) loader.next();
      CHECK(resource.most_bytes() <= *loader.memory().bytes());
      CHECK(*loader.memory().bytes() <= budget);
    }
}

TEST_CASE("the rows of batch stay within the plan for its batches") {
  const watchdog guard("rows of batch in a plan");
  const auto measure = [](std::size_t size, const auto& make_samples, auto... mode) {
    for (const std::size_t prefetch : {1u, 6u}) {
      CAPTURE(size, prefetch);
      counting_resource resource;
      const auto p = fl::from(numbers(4000)) | make_samples |
                     fl::batch(size, mode..., fl::batch_options{.memory = &resource}) |
                     fl::prefetch(prefetch);
      auto loader = p.infinite();
      std::size_t planned = 0;
      for (const auto& part : loader.memory().parts)
        if (part.name == "batch -> caller" || part.name == "begun by batch")
          planned += part.items * *part.bytes;
      auto in_hand = loader.next();
      for (int i = 0; i < 10; ++i) {
        await_all_others_asleep(); // the queues are full
        in_hand.reset();           // the caller holds one batch, not two
        in_hand = loader.next();
      }
      for (int i = 0; i < rounds(100); ++i) {
        in_hand.reset();
        in_hand = loader.next();
      }
      CHECK(resource.most_bytes() <= planned);
      CHECK(resource.most_bytes() > planned / 3);
    }
  };
  const auto of_arrays = fl::map([](int n) { return std::array<int, 2000>{n}; }, fl::workers{3});
  const auto of_pairs = fl::map([](int n) { return std::pair(n, std::array<int, 3000>{n}); }, fl::workers{3});
  const auto of_lists = fl::map([](int n) { return std::vector<int>(static_cast<std::size_t>(n % 60), n); },
                                fl::workers{3}, fl::max_item_bytes{300});
  measure(20, of_arrays);
  measure(7, of_pairs);
  measure(1000, of_lists, fl::padded{});
  const auto of_bytes =
      fl::map([](int n) { return std::vector<std::int8_t>(270, static_cast<std::int8_t>(n)); },
              fl::workers{3}, fl::max_item_bytes{300});
  measure(1000, of_bytes);
  measure(1000, of_bytes, fl::padded{.mask = true});
}

TEST_CASE("the plan includes rows that are moved because of failed samples and epoch ends") {
  const watchdog guard("moved rows in a plan");
  const filling fill_some = [](int n, fl::batch_slot<example>& slot) {
    if (n % 3 == 1) throw std::runtime_error("unreadable");
    fill_example(n, slot);
  };
  constexpr int all = rounds(2000, 1000); // far more than are in flight
  for (const std::size_t workers : {2u, 64u})
    for (const int samples : {5, all})
      for (const std::size_t size : {4u, 16u}) {
        CAPTURE(workers, samples, size);
        counting_resource resource;
        const auto p =
            fl::from(numbers(samples)) | fl::batch_into<example>(size, fill_some, fl::workers{workers},
                                                                 fl::batch_options{.memory = &resource});
        auto loader = p.finite({.epochs = static_cast<std::uint32_t>(all / samples),
                                .on_error = fl::on_error::skip,
                                .failure_limit = 10'000});
        std::size_t rows = 0;
        while (auto batch = loader.next()) rows += batch->size();
        CHECK(rows > all / 2);
        CHECK(resource.most_bytes() <= *loader.memory().bytes());
      }
}

TEST_CASE("the plan counts small rows with the smallest block size") {
  const watchdog guard("small rows in a plan");
  for (const std::size_t size : {1u, 4u, 300u}) {
    CAPTURE(size);
    counting_resource resource;
    const auto p = fl::from(numbers(rounds(200'000))) |
                   fl::batch_into<int>(
                       size, [](int n, fl::batch_slot<int>& slot) { slot.value() = n; }, fl::workers{8},
                       fl::batch_options{.memory = &resource});
    auto loader = p.finite();
    for (int i = 0; i < 8; ++i) {
      loader.next();
      await_all_others_asleep(); // the queues are full
    }
    while (loader.next()) continue;
    CHECK(resource.most_bytes() <= *loader.memory().bytes());
  }
}
