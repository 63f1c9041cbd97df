// SPDX-License-Identifier: MIT
// tar_samples from an object store, compared with the same shards as files.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <feedline/cache.hpp>
#include <feedline/feedline.hpp>
#include <feedline/remote/object_store.hpp>
#include <feedline/source/detail/tar_index.hpp>
#include <feedline/testing.hpp>

#include "support/catch.hpp"
#include "support/leave_and_resume.hpp"
#include "support/memory_store.hpp"
#include "support/outcome.hpp"
#include "support/tar_contents.hpp"
#include "support/tar_writer.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;
using strings = std::vector<std::string>;

namespace {

/// Passes everything on to a memory_store, and counts the bytes of the reads and parts that exist. Some reads are ready
/// before get() is called. Names may have a secret after a '?'.
class counting_store final : public fl::object_store {
 public:
  counting_store(std::size_t part_bytes, std::size_t bytes_ahead) : objects(part_bytes, bytes_ahead) {}

  bool serves(std::string_view name) const override { return objects.serves(name); }

  std::string shown(std::string_view name) const override {
    return std::string(name.substr(0, name.find('?')));
  }

  std::unique_ptr<fl::object_read> read(const std::string& name, std::uint64_t offset, std::size_t count,
                                        const std::optional<fl::object_info>& expected) override {
    note(static_cast<std::ptrdiff_t>(count));
    return std::make_unique<counted_read>(*this, objects.read(name, offset, count, expected), count);
  }

  std::size_t part_bytes() const override { return objects.part_bytes(); }

  std::size_t bytes_ahead() const override { return objects.bytes_ahead(); }

  void metrics(const std::function<void(const char* name, double value)>& out,
               const std::function<void(const char* name, double value)>& total) const override {
    out("bytes now", static_cast<double>(bytes()));
    total("requests", static_cast<double>(objects.requests().size()));
  }

  std::size_t bytes() const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(bytes_);
  }

  std::size_t most_bytes() const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(most_);
  }

  memory_store objects;
  bool is_mapped = false;
  std::atomic<bool> is_ready{true};

 private:
  class counted_read final : public fl::object_read {
   public:
    counted_read(counting_store& store, std::unique_ptr<fl::object_read> read, std::size_t count)
        : store_(store), read_(std::move(read)), count_(count) {}

    ~counted_read() override { store_.note(-static_cast<std::ptrdiff_t>(count_)); }

    bool ready() const override { return store_.is_ready && read_->ready(); }

    fl::object_part get(const std::stop_token& stop) override {
      fl::object_part part = read_->get(stop);
      const auto size = static_cast<std::ptrdiff_t>(part.bytes.size());
      store_.note(size - static_cast<std::ptrdiff_t>(std::exchange(count_, 0)));
      auto copy = std::make_unique<std::vector<std::byte>>(part.bytes.begin(), part.bytes.end());
      part.bytes = *copy;
      counting_store& store = store_;
      part.memory = std::shared_ptr<const void>(copy.release(), [&store, size](const void* p) {
        delete static_cast<const std::vector<std::byte>*>(p);
        store.note(-size);
      });
      part.is_mapped = store_.is_mapped;
      return part;
    }

   private:
    counting_store& store_;
    std::unique_ptr<fl::object_read> read_;
    std::size_t count_;
  };

  void note(std::ptrdiff_t count) {
    const std::lock_guard lock(mutex_);
    bytes_ += count;
    most_ = std::max(most_, bytes_);
  }

  mutable std::mutex mutex_;
  std::ptrdiff_t bytes_ = 0;
  std::ptrdiff_t most_ = 0;
};

/// Shards that are both files and objects.
struct shards {
  explicit shards(std::size_t part_bytes = 2048, std::size_t bytes_ahead = 8192)
      : store(std::make_shared<counting_store>(part_bytes, bytes_ahead)) {}

  shards& add(const std::string& name, const std::string& bytes) {
    files.push_back(folder.write(name, bytes));
    names.push_back("mem://" + name);
    store->objects.put(names.back(), bytes);
    return *this;
  }

  fl::tar_samples objects() const { return fl::tar_samples(names, {.remote = store}); }

  /// Texts without the names of the folder and the store.
  strings plain(strings texts) const {
    for (std::string& text : texts)
      for (const std::string& part : {folder.path() + "/", std::string("mem://")})
        for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part))
          text.erase(at, part.size());
    return texts;
  }

  temporary_folder folder;
  std::shared_ptr<counting_store> store;
  strings files, names;
};

std::string key_of(const fl::tar_sample& sample) { return std::string(sample.key()); }

const auto field_count = [](const fl::tar_sample& sample) { return sample.size(); };

std::string many(int count, int first = 0, std::size_t size = 700) {
  tar_writer tar;
  for (int i = first; i < first + count; ++i)
    tar.add(std::to_string(i) + ".txt", std::string(size, static_cast<char>('a' + i % 26)))
        .add(std::to_string(i) + ".cls", std::to_string(i));
  return tar.closed();
}

/// Archives of each kind, good and damaged.
std::map<std::string, std::string> shapes() {
  std::map<std::string, std::string> all;
  all["many"] = many(20);
  all["open"] = pairs(5).open();
  all["one"] = pairs(1).closed();
  all["zeros"] = std::string(1024, '\0');
  all["blocked"] = pairs(3).closed() + std::string(9000, '\0');
  all["garbage after it"] = pairs(3).closed() + std::string(30'000, 'x');
  all["gnu"] = tar_writer(tar_dialect::gnu)
                   .long_name(std::string(300, 'd') + "/1.jpg")
                   .add("cut", "p")
                   .long_name(std::string(300, 'd') + "/1.cls")
                   .add("cut", "q")
                   .add("2.jpg", std::string(5000, 'r'))
                   .closed();
  tar_writer pax;
  pax.pax({{"path", std::string(200, 'x') + ".jpg"}}).add("cut", "p").add("b.jpg", "q").add("b/", "", '5');
  all["pax"] = pax.add("c.jpg", "r").closed();
  tar_writer global;
  global.add("a.jpg", "1").pax({{"comment", "of git"}}, 'g').add("b.jpg", "2").add("b.cls", "3");
  global.pax({{"path", "same.x"}}, 'g').add("c.jpg", std::string(3000, '4')).add("d.jpg", "5");
  all["global"] = global.closed();
  tar_writer links;
  links.add("a.jpg", "1").add(links.header("b.jpg", {}, '2').put(157, "a.jpg")).add("b.cls", "2");
  all["links"] = links.add(links.header("b.png", {}, '2').put(157, "x")).add("c.jpg", "3").closed();
  tar_writer split;
  split.add(split.header("1.jpg", "p").prefix("some/dir"), "p")
      .add(split.header("1.cls", "q").prefix("some/dir"), "q");
  all["ustar"] = split.add("some/dir/2.jpg", std::string(9000, 'r')).closed();
  all["big"] = tar_writer()
                   .add("1.jpg", std::string(20'000, 'p'))
                   .add("._1.jpg", std::string(15'000, 's'))
                   .add("2.jpg", "")
                   .closed();
  all["duplicate"] = tar_writer().add("1.jpg", "p").add("1.jpg", "q").add("2.jpg", "r").closed();
  tar_writer sparse;
  all["sparse"] =
      sparse.add("1.jpg", "p").add(sparse.header("2.jpg", "q", 'S'), "q").add("3.jpg", "r").closed();
  all["empty"] = "";
  all["no archive"] = "no archive";
  all["compressed"] = "\x1f\x8b" + std::string(600, 'x');
  const std::string whole = pairs(4).closed();
  for (const std::size_t size : {300ul, 512ul, 515ul, 1024ul, 2048ul, 2500ul, 2560ul, 3000ul, 4608ul})
    all["cut at " + std::to_string(size)] = whole.substr(0, size);
  for (const std::size_t at : {0ul, 1024ul, 3072ul, 5120ul}) {
    std::string damaged = whole;
    damaged[at + 3] = '!';
    all["damaged at " + std::to_string(at)] = damaged;
  }
  return all;
}

/// The samples as they are.
template <class Pipeline>
auto run_of(const Pipeline& pipeline) {
  return pipeline | fl::prefetch(2);
}

template <class Pipeline>
strings texts_of(const Pipeline& pipeline, fl::finite_options options = {}) {
  strings found;
  auto loader = run_of(pipeline).finite(options);
  while (auto sample = loader.next()) found.push_back(as_text(*sample) + " of " + sample->file());
  return found;
}

} // namespace

TEST_CASE("Objects have the same samples and errors as files, whatever the size of the parts") {
  for (const bool is_mapped : {false, true})
    for (const std::size_t part : {512ul, 700ul, 2048ul, 10'000ul, 1'000'000ul})
      for (const std::size_t ahead : {1ul, 3ul, 9ul}) {
        shards all(part, part * ahead);
        all.store->is_mapped = is_mapped;
        for (const auto& [name, bytes] : shapes()) all.add(name + ".tar", bytes);
        fl::tar_samples expected(all.files);
        std::vector<std::uint64_t> expected_indices, indices;
        const strings texts = all.plain(read_all(expected, &expected_indices));
        {
          fl::tar_samples source = all.objects();
          CHECK(all.plain(read_all(source, &indices)) == texts);
          CHECK(indices == expected_indices);
          CHECK(all.store->objects.reads_open() == 0);
          CHECK((is_mapped || all.store->most_bytes() <= part * ahead));
        }
        CHECK(all.store->bytes() == 0);
      }
}

TEST_CASE("A sample from an object outlives its source, with memory of its own or a mapped part") {
  for (const bool is_mapped : {false, true}) {
    shards all(4096, 8192);
    all.store->is_mapped = is_mapped;
    all.add("a.tar",
            tar_writer().add("1.jpg", "p").add("1.cls", "q").add("2.jpg", std::string(9000, 'r')).closed());
    std::optional<fl::tar_sample> first, second;
    std::optional<fl::tar_bytes> shared;
    {
      fl::tar_samples source = all.objects();
      first = source.next();
      second = source.next();
      CHECK_FALSE(source.next());
    }
    CHECK(all.store->bytes() == (is_mapped ? 4096 : 0)); // the part with the headers
    CHECK(as_text(*first) == "1:jpg=p,cls=q");
    CHECK(first->file() == "mem://a.tar");
    CHECK(first->origin() == "mem://a.tar: 1.jpg, .cls");
    shared = second->share("jpg");
    second.reset();
    CHECK(std::string(reinterpret_cast<const char*>(shared->data()), shared->size()) ==
          std::string(9000, 'r'));
    first.reset();
    shared.reset();
    CHECK(all.store->bytes() == 0);
  }
}

TEST_CASE("An archive after the end of another in an object is noticed, or read with an option") {
  const std::string second = pairs(3, 2).closed();
  for (const std::size_t part : {512ul, 700ul, 1'000'000ul}) {
    shards all(part, 3 * part);
    all.add("a.tar", pairs(2).closed() + second).add("b.tar", pairs(2).closed() + std::string(512, '\0'));
    strings said;
    fl::tar_options options{.remote = all.store,
                            .on_notice = [&](const std::string& sentence) { said.push_back(sentence); }};
    fl::tar_samples source(all.names, options);
    CHECK(read_all(source).size() == 4);
    const std::string sentence =
        "mem://a.tar: the archive ends at offset 4096, and 7168 bytes follow that begin like another one, "
        "which "
        "isn't read: set `concatenated` in the source's options to read it too; further shards aren't "
        "reported";
    CHECK(said == strings{sentence});
    CHECK(fl::tar_samples(all.names, options).indexed().size() == 4);
    CHECK(said == strings{sentence, sentence});
    options.concatenated = true;
    fl::tar_samples more(all.names, options);
    const strings texts = read_all(more);
    CHECK(texts.size() == 7);
    const auto shuffled = more.indexed();
    REQUIRE(shuffled.size() == 7);
    for (std::uint64_t i = 0; i < 7; ++i) CHECK(as_text(shuffled.at(i)) == texts[i]);
    CHECK(said.size() == 2);
  }
}

TEST_CASE("The identity of a sample changes with its object's version") {
  shards all;
  all.add("a.tar", pairs(2).closed());
  const auto identities = [&] {
    fl::tar_samples source = all.objects();
    const auto first = source.next().value().identity();
    return std::pair(first, source.next().value().identity());
  };
  const auto before = identities();
  CHECK(before.first != before.second);
  CHECK(before == identities());
  fl::tar_samples(all.names, {.remote = all.store}).next();
  all.store->objects.put(all.names[0], pairs(2).closed());
  CHECK(before != identities());
  const auto shuffled = all.objects().indexed();
  CHECK(std::pair(shuffled.at(0).identity(), shuffled.at(1).identity()) == identities());
}

TEST_CASE("Objects whose names differ in what isn't shown are different objects") {
  shards all;
  const strings names{"mem://a.tar?1", "mem://a.tar?2"};
  for (int i = 0; i < 2; ++i)
    all.store->objects.put(names[static_cast<std::size_t>(i)],
                           tar_writer().add("1.txt", i == 0 ? "a" : "b").add("2.txt", "c").closed(),
                           "as many servers have it");
  const auto source = [&](int i) {
    return fl::tar_samples(names[static_cast<std::size_t>(i)], {.remote = all.store});
  };
  CHECK(source(0).shards() == source(1).shards());
  CHECK(source(0).fingerprint(1) == source(0).fingerprint(1));
  CHECK(source(0).fingerprint(1) != source(1).fingerprint(1));
  const auto identities = [](auto samples) {
    std::vector<std::uint64_t> found;
    while (const auto sample = samples.next()) found.push_back(sample->identity());
    return found;
  };
  CHECK(identities(source(0)) == identities(source(0)));
  CHECK(identities(source(0)) != identities(source(1)));
  const auto in_order = source(0).indexed(), other = source(1).indexed();
  REQUIRE(in_order.size() == 2);
  CHECK(in_order.at(1).identity() == identities(source(0)).at(1));
  CHECK(in_order.at(1).identity() != other.at(1).identity());

  const std::string folder = all.folder / "kept";
  const auto cached = [&](int i) {
    const auto to_text =
        fl::map([](const fl::tar_sample& sample) { return std::string(sample.text("txt")); });
    auto loader =
        (source(i) | to_text | fl::cache({.directory = folder, .directory_bytes = 10'000'000})).finite();
    strings texts;
    while (auto text = loader.next()) texts.push_back(*text);
    return texts;
  };
  const strings first = cached(0), second = cached(1);
  CHECK(first == strings{"a", "c"});
  CHECK(second == strings{"b", "c"});
  CHECK(cached(0) == first);

  auto loader = run_of(source(0)).infinite({.seed = 1});
  loader.next();
  const fl::checkpoint saved = loader.checkpoint();
  CHECK(run_of(source(0)).infinite({.resume = saved}).next());
  CHECK(throws_saying<std::exception>("since the checkpoint",
                                      [&] { run_of(source(1)).infinite({.resume = saved}).next(); }));
}

TEST_CASE("Names of objects have braces, but no wildcards") {
  shards all;
  all.add("a*?[1].tar", pairs(1).closed());
  CHECK(fl::tar_samples("mem://t-{08..10}{a,b}.tar", {.remote = all.store}).shards().size() == 6);
  CHECK(fl::tar_samples("mem://t-{08..10}.tar", {.remote = all.store}).shards()[1] == "mem://t-09.tar");
  fl::tar_samples source(all.names, {.remote = all.store});
  CHECK(read_all(source) == strings{"0:jpg=photo,cls=0"});
  const auto refuses = [](const strings& names, std::shared_ptr<fl::object_store> store,
                          std::string_view part) {
    return throws_saying<std::invalid_argument>(part, [&] { fl::tar_samples(names, {.remote = store}); });
  };
  CHECK(refuses({"mem://a.tar", "mem://a.tar"}, all.store, "`mem://a.tar` is listed twice"));
  CHECK(refuses({"mem://{a,b,a}.tar?secret"}, all.store, "`mem://a.tar` is listed twice"));
  CHECK_FALSE(refuses({"mem://x/a.tar", "mem://x//a.tar"}, all.store, ""));
  CHECK(refuses({"https://me:secret@host/a.tar"}, nullptr,
                "names that begin with `https://` need an object store: set .remote = feedline::remote()"));
  CHECK(refuses({"a.tar", "s3://host/a.tar"}, all.store, "doesn't serve names that begin with `s3://`"));
  CHECK(refuses({}, all.store, "the list of files is empty"));
  CHECK(refuses({"mem://a.tar", ""}, all.store, "has an empty name"));
  CHECK_THROWS_AS(fl::tar_samples("mem://{0..99999999}", {.remote = all.store}), std::length_error);
  CHECK_FALSE(throws_saying<std::length_error>(
      "secret", [&] { fl::tar_samples("mem://{0..9999}{0..9999}?secret", {.remote = all.store}); }));
  CHECK_THROWS_AS(fl::tar_samples("mem://a", {.remote = all.store, .max_sample_bytes = ~std::size_t{0}}),
                  std::invalid_argument);
}

TEST_CASE("Secrets in names appear nowhere") {
  shards all;
  const std::string name = "mem://a.tar?secret";
  all.store->objects.put(name, pairs(2).closed().substr(0, 1500));
  const fl::tar_samples described({name, "mem://b.tar?secret"}, {.remote = all.store});
  fl::tar_samples source = described;
  strings texts = read_all(source);
  for (const std::string& shard : described.shards()) texts.push_back(shard);
  texts.push_back(described.origin(0));
  texts.push_back(described.origin(1ul << 40));
  const auto shuffled = described.indexed();
  for (std::uint64_t i = 0; i < shuffled.size(); ++i) {
    try {
      texts.push_back(shuffled.at(i).origin());
    } catch (const fl::tar_error& error) {
      texts.push_back(error.what());
    }
  }
  CHECK(texts.size() >= 8);
  for (const std::string& text : texts) {
    INFO(text);
    CHECK((text.find("secret") == std::string::npos ||
           text.find("mem://b.tar?secret: no such object") != std::string::npos));
  }
  CHECK(described.shards() == strings{"mem://a.tar", "mem://b.tar"});
}

TEST_CASE("A part that can't be read is an error at its place, and the next shard follows") {
  for (const std::uint64_t failing : {0ul, 2048ul, 4096ul, 8192ul}) {
    INFO(failing);
    shards all(2048, 8192);
    all.add("a.tar", many(6)).add("b.tar", pairs(2).closed()).add("c.tar", pairs(1, 7).closed());
    const strings whole = [&] {
      fl::tar_samples source = all.objects();
      return read_all(source);
    }();
    bool heals = false;
    int failures = 0;
    all.store->objects.before([&](const memory_store::request& r, const std::stop_token&) {
      if (r.name == "mem://a.tar" && r.offset == failing && (!heals || failures++ == 0))
        throw fl::object_error("mem://a.tar: status 503 at offset " + std::to_string(r.offset));
    });
    for (const bool once : {false, true}) {
      heals = once;
      failures = 0;
      fl::tar_samples source = all.objects();
      const strings found = read_all(source);
      const auto error = std::find_if(found.begin(), found.end(), [](const auto& s) { return s[0] == '!'; });
      REQUIRE(error != found.end());
      CHECK(std::equal(found.begin(), error, whole.begin()));
      CHECK(error->starts_with("! mem://a.tar: "));
      CHECK(error->find("status 503 at offset " + std::to_string(failing)) != std::string::npos);
      CHECK(error->find("mem://a.tar", 5) == std::string::npos);
      CHECK((static_cast<std::uint64_t>(error - found.begin()) + 1) * 2560 >= failing);
      CHECK(strings(error + 1, found.end()) == strings(whole.end() - 3, whole.end()));
    }
    // A run that skips failures reads the rest.
    failures = 0;
    auto loader = run_of(all.objects()).finite({.epochs = 2, .on_error = fl::on_error::skip});
    std::size_t count = 0;
    while (loader.next()) ++count;
    CHECK(count >= 2 * 3);
    CHECK(loader.failures().size() >= 1);
  }
}

TEST_CASE("A missing object is an error, and so is one that changes while it is read") {
  shards all(1024, 1024);
  all.add("a.tar", many(4)).add("b.tar", pairs(2).closed());
  all.store->objects.remove("mem://b.tar");
  {
    fl::tar_samples source = all.objects();
    CHECK(read_all(source).back() == "! mem://b.tar: no such object");
    CHECK(source.index() == 1ul << 40);
  }
  fl::tar_samples source = all.objects();
  CHECK(source.next());
  all.store->objects.put("mem://a.tar", many(4));
  const strings found = read_all(source);
  REQUIRE(found.size() >= 2);
  CHECK(found[found.size() - 2].find("has changed") != std::string::npos);
  CHECK(found[found.size() - 2].starts_with("! mem://a.tar: "));
}

TEST_CASE("An object keeps its version in all epochs") {
  shards all;
  all.add("a.tar", pairs(2).closed());
  const fl::tar_samples described = all.objects();
  fl::tar_samples first = described;
  CHECK(read_all(first).size() == 2);
  all.store->objects.put("mem://a.tar", pairs(2).closed());
  fl::tar_samples second = described;
  CHECK(read_all(second) == strings{"! mem://a.tar: has changed"});
  fl::tar_samples other = all.objects();
  CHECK(read_all(other).size() == 2);
}

TEST_CASE("A store that answers with too few bytes is an error, not an endless loop") {
  class short_store final : public fl::object_store {
   public:
    class answer final : public fl::object_read {
     public:
      bool ready() const override { return true; }

      fl::object_part get(const std::stop_token&) override { return {{1000, "v"}, {}, {}}; }
    };

    bool serves(std::string_view name) const override { return name.starts_with("short://"); }

    std::unique_ptr<fl::object_read> read(const std::string&, std::uint64_t, std::size_t,
                                          const std::optional<fl::object_info>&) override {
      return std::make_unique<answer>();
    }
  };

  fl::tar_samples source("short://a", {.remote = std::make_shared<short_store>()});
  CHECK(read_all(source) == strings{"! short://a: its store returned 0 bytes instead of 1000 at offset 0"});
  const auto shuffled = source.indexed();
  REQUIRE(shuffled.size() == 1);
  CHECK(throws_saying<fl::tar_error>("instead of 1000", [&] { shuffled.at(0); }));
}

TEST_CASE("A sample that is too large is an error, and the next sample follows") {
  shards all;
  all.add("a.tar", tar_writer()
                       .add("1.jpg", "p")
                       .add("2.jpg", std::string(5000, 'q'))
                       .add("2.cls", "r")
                       .add("3.jpg", std::string(3000, 's'))
                       .add("3.png", std::string(3000, 's'))
                       .add("4.jpg", "t")
                       .closed());
  fl::tar_samples source(all.names, {.remote = all.store, .max_sample_bytes = 4096});
  const strings found = read_all(source);
  CHECK(found.size() == 4);
  CHECK(found[0] == "1:jpg=p");
  CHECK(found[1].find("more than its sample has room for") != std::string::npos);
  CHECK(found[2].find("is larger than the limit, max_sample_bytes") != std::string::npos);
  CHECK(found[3] == "4:jpg=t");
  const auto shuffled = source.indexed();
  REQUIRE(shuffled.size() == 4);
  for (std::uint64_t i = 0; i < 4; ++i) {
    std::string text;
    try {
      text = as_text(shuffled.at(i));
    } catch (const fl::tar_error& error) {
      text = std::string("! ") + error.what();
    }
    CHECK(text == found[i]);
  }
}

TEST_CASE("Several parts of several objects are requested at once, within the limit") {
  shards all(1024, 8 * 1024);
  for (int i = 0; i < 6; ++i) all.add("s" + std::to_string(i) + ".tar", many(3, 10 * i));
  std::size_t most = 0;
  std::set<std::string> at_first;
  all.store->objects.before([&](const memory_store::request&, const std::stop_token&) {
    if (most == 0)
      for (const auto& r : all.store->objects.requests()) at_first.insert(r.name);
    most = std::max(most, all.store->bytes());
  });
  fl::tar_samples source = all.objects();
  CHECK(read_all(source).size() == 18);
  CHECK(at_first.size() == 4); // their sizes aren't known yet
  CHECK(most > 4 * 1024);
  CHECK(all.store->most_bytes() <= 8 * 1024);
  // No byte was requested twice.
  std::map<std::string, std::uint64_t> end;
  for (const auto& r : all.store->objects.requests()) {
    CHECK(r.offset == end[r.name]);
    end[r.name] = r.offset + r.count;
  }
}

TEST_CASE("What was requested ahead is cancelled when a run ends early") {
  shards all(1024, 8 * 1024);
  for (int i = 0; i < 4; ++i) all.add("s" + std::to_string(i) + ".tar", many(5, 10 * i));
  {
    fl::tar_samples source = all.objects();
    CHECK(source.next());
    CHECK(all.store->objects.reads_open() > 0);
    const fl::tar_samples copy = source; // has its own reads
    source.seek(2ul << 40);
    CHECK(source.next().value().file() == "mem://s2.tar");
    source.start_epoch({});
    CHECK(all.store->objects.reads_open() == 0);
    fl::tar_samples second = copy;
    CHECK(read_all(second).size() == 19);
  }
  CHECK(all.store->bytes() == 0);
  for (const auto& sample : run_of(all.objects()).finite()) {
    CHECK(sample.size() == 2);
    break;
  }
  CHECK(texts_of(all.objects() | fl::take(7)).size() == 7);
  CHECK(texts_of(all.objects() | fl::global_shuffle() | fl::take(7)).size() == 7);
  CHECK(all.store->objects.reads_open() == 0);
  CHECK(all.store->bytes() == 0);
}

TEST_CASE("Epochs are shuffled, divided among ranks and repeated as those of files are") {
  shards all;
  for (int i = 0; i < 7; ++i) all.add("s" + std::to_string(i) + ".tar", many(3, 10 * i));
  for (std::uint32_t number = 0; number < 3; ++number)
    for (const bool shuffled : {false, true})
      for (const std::uint32_t ranks : {1u, 2u, 3u}) {
        const fl::epoch e{
            .seed = 5, .number = number, .stop = {}, .shuffled = shuffled, .rank = {ranks - 1, ranks, {}}};
        fl::tar_samples expected(all.files), source = all.objects();
        expected.start_epoch(e);
        source.start_epoch(e);
        CHECK(read_all(source) == read_all(expected));
      }
  auto expected = run_of(fl::tar_samples(all.files)).infinite({.seed = 3});
  auto loader = run_of(all.objects()).infinite({.seed = 3});
  for (int i = 0; i < 60; ++i) REQUIRE(as_text(*loader.next()) == as_text(*expected.next()));
}

TEST_CASE("A list may have files and objects") {
  shards all;
  for (int i = 0; i < 5; ++i) all.add("s" + std::to_string(i) + ".tar", many(3, 10 * i));
  const strings mixed{all.files[0], all.names[1], all.names[2], all.files[3], all.names[4]};
  const fl::tar_samples described(mixed, {.remote = all.store});
  fl::tar_samples expected(all.files), source = described;
  CHECK(read_all(source) == read_all(expected));
  const auto plain = [&](const auto& pipeline) { return all.plain(texts_of(pipeline)); };
  CHECK(plain(described | fl::global_shuffle()) == plain(fl::tar_samples(all.files) | fl::global_shuffle()));
  CHECK(plain(described | fl::interleave(3)) == plain(fl::tar_samples(all.files) | fl::interleave(3)));
  CHECK(described.origin(0) == all.files[0] + ": 0.txt, .cls");
  CHECK(described.origin(1ul << 40) == all.names[1] + ": sample #0");
  CHECK(described.fingerprint(1) == fl::tar_samples(all.files).fingerprint(1));
}

TEST_CASE("A resumed source continues at the byte where it stopped") {
  for (const auto& [name, bytes] : shapes()) {
    INFO(name);
    shards all(512, 1024);
    all.add("a.tar", bytes).add("b.tar", pairs(2).closed());
    const strings whole = [&] {
      fl::tar_samples source = all.objects();
      return read_all(source);
    }();
    for (const bool is_object : {true, false})
      for (std::size_t left = 1; left <= whole.size(); ++left) {
        INFO("after " << left << " of " << whole.size());
        const fl::tar_samples described = is_object ? all.objects() : fl::tar_samples(all.files);
        const auto save = [](fl::tar_samples& from) {
          std::vector<std::uint64_t> words;
          fl::state_writer writer(words);
          from.state(writer);
          return words;
        };
        const auto resume = [&](const std::vector<std::uint64_t>& words) {
          auto source = std::make_unique<fl::tar_samples>(described);
          source->start_epoch({});
          fl::state_reader reader(words);
          fl::detail::read_state(*source, reader);
          CHECK(reader.is_empty());
          return source;
        };
        std::vector<std::uint64_t> words;
        std::uint64_t offset = 0;
        {
          fl::tar_samples source = described;
          source.start_epoch({});
          for (std::size_t i = 0; i < left; ++i) {
            try {
              source.next();
            } catch (const fl::tar_error&) {
            }
          }
          words = save(source);
          offset = words.size() > 2 ? words[2] : 0; // after the number of files and the position
        }
        const std::size_t before = all.store->objects.requests().size();
        auto source = resume(words);
        const auto requests = all.store->objects.requests();
        for (std::size_t i = before; i < requests.size(); ++i)
          if (name != "global" && requests[i].name == "mem://a.tar") CHECK(requests[i].offset >= offset);
        source = resume(save(*source)); // a second time
        CHECK(all.plain(read_all(*source)) ==
              all.plain(strings(whole.begin() + static_cast<std::ptrdiff_t>(left), whole.end())));
      }
  }
}

TEST_CASE("Runs over objects are resumed") {
  shards all(1024, 4096);
  for (int i = 0; i < 5; ++i)
    all.add("s" + std::to_string(i) + ".tar", i == 2 ? "" : many(3 + 2 * i, 100 * i));
  std::string damaged = many(6, 900);
  damaged.resize(damaged.size() - 4000);
  all.add("s5.tar", damaged);
  const auto to_number =
      fl::map([](const fl::tar_sample& s) { return std::stoi(std::string(s.text("cls"))); }, fl::workers{2});
  leave_and_resume("objects", 10, [&](draw& d, const circumstances&) {
    return all.objects() | to_number | fl::shuffle({.capacity = d(1, 12)}) | fl::batch(d(1, 4));
  });
  leave_and_resume("objects in a global order", 10, [&](draw& d, const circumstances&) {
    return all.objects() | fl::global_shuffle() | to_number | fl::shuffle({.capacity = d(1, 12)}) |
           fl::batch(d(1, 4));
  });
  CHECK(all.store->objects.reads_open() == 0);
}

TEST_CASE("A checkpoint asks for the versions of objects once, all at the same time") {
  shards all(2048, 8192);
  for (int i = 0; i < 5; ++i) all.add("s" + std::to_string(i) + ".tar", many(2, 10 * i));
  const auto count_asked = [&] {
    const auto requests = all.store->objects.requests();
    return std::count_if(requests.begin(), requests.end(), [](const auto& r) { return r.count == 0; });
  };
  std::optional<fl::checkpoint> saved;
  const auto pipeline = run_of(all.objects());
  {
    auto loader = pipeline.finite({.seed = 1});
    CHECK(loader.next());
    CHECK(count_asked() == 0);
    std::size_t most = 0;
    all.store->objects.before([&](const memory_store::request& r, const std::stop_token&) {
      if (r.count == 0) most = std::max(most, all.store->objects.reads_open());
    });
    saved = loader.checkpoint();
    CHECK(most >= 2);
    all.store->objects.before({});
    const auto asked = count_asked();
    CHECK(asked <= 5);
    CHECK(loader.next());
    loader.checkpoint();
    CHECK(count_asked() == asked);
  }
  const auto resumed = [&] { return texts_of(all.objects(), {.seed = 1, .resume = saved}); };
  CHECK(resumed().size() == 9);
  all.store->objects.put("mem://s3.tar", many(2, 30));
  CHECK(throws_saying<std::exception>("has changed since the checkpoint", resumed));
  // The run that made the checkpoint doesn't mix versions either.
  auto loader = pipeline.finite({.seed = 1, .on_error = fl::on_error::skip});
  std::size_t count = 0;
  while (loader.next()) ++count;
  CHECK(count == 8);
  REQUIRE(loader.failures().size() == 1);
  CHECK(to_string(loader.failures()[0]).find("mem://s3.tar: has changed") != std::string::npos);
}

TEST_CASE("A missing object is part of the fingerprint, a store that fails is an error") {
  shards all;
  all.add("a.tar", pairs(1).closed()).add("b.tar", pairs(1).closed());
  const std::uint64_t whole = all.objects().fingerprint(2);
  CHECK(whole == all.objects().fingerprint(2));
  CHECK(whole != all.objects().fingerprint(1));
  all.store->objects.remove("mem://b.tar");
  const std::uint64_t missing = all.objects().fingerprint(2);
  CHECK(missing != whole);
  CHECK(missing == all.objects().fingerprint(2));
  all.store->objects.before([](const memory_store::request& r, const std::stop_token&) {
    throw fl::object_error(r.name + ": status 503");
  });
  CHECK(throws_saying<fl::object_error>("status 503", [&] { all.objects().fingerprint(2); }));
}

TEST_CASE("A stop ends a blocked read") {
  const watchdog guard("a stop ends a blocked read");
  shards all(1024, 4096);
  for (int i = 0; i < 4; ++i) all.add("s" + std::to_string(i) + ".tar", many(4, 10 * i));
  const auto stops = [&](const auto& pipeline, std::uint64_t blocked) {
    std::latch waiting(1);
    std::atomic<bool> is_waiting{false};
    all.store->objects.before([&](const memory_store::request& r, const std::stop_token& stop) {
      if (r.name != "mem://s2.tar" || r.offset < blocked) return;
      if (!is_waiting.exchange(true)) waiting.count_down();
      std::mutex mutex;
      std::unique_lock lock(mutex);
      std::condition_variable_any().wait(lock, stop, [] { return false; });
    });
    auto loader = pipeline.finite({.on_error = fl::on_error::skip});
    std::thread stopper([&] {
      waiting.wait();
      loader.stop();
    });
    while (loader.next()) continue;
    stopper.join();
    all.store->objects.before({});
  };
  stops(run_of(all.objects()), 0);
  stops(all.objects() | fl::map(field_count, fl::workers{2}), 2048);
  stops(run_of(all.objects() | fl::global_shuffle()), 0); // finding the samples
  stops(run_of(all.objects() | fl::interleave(2)), 2048);
  CHECK(all.store->objects.reads_open() == 0);
}

TEST_CASE("A stop ends blocked workers that read samples by position") {
  const watchdog guard("a stop ends blocked workers");
  shards all(1024, 4096);
  for (int i = 0; i < 4; ++i) all.add("s" + std::to_string(i) + ".tar", many(4, 10 * i));
  const auto source = all.objects() | fl::global_shuffle();
  for (const bool has_workers : {true, false}) {
    std::latch waiting(1);
    std::atomic<int> calls{0};
    CHECK(texts_of(source).size() == 16); // its index is known
    all.store->objects.before([&](const memory_store::request&, const std::stop_token& stop) {
      if (calls++ < 5) return;
      if (calls == 6) waiting.count_down();
      std::mutex mutex;
      std::unique_lock lock(mutex);
      std::condition_variable_any().wait(lock, stop, [] { return false; });
    });
    const auto run = [&](auto loader) {
      std::thread stopper([&] {
        waiting.wait();
        loader.stop();
      });
      while (loader.next()) continue;
      stopper.join();
    };
    if (has_workers) run((source | fl::map(field_count, fl::workers{3})).finite());
    else run((source | fl::map(field_count)).finite());
    all.store->objects.before({});
  }
  CHECK(all.store->objects.reads_open() == 0);
}

TEST_CASE("Samples are handed over before the source waits for the next part") {
  const watchdog guard("samples are handed over");
  shards all(10'240, 40'960);
  all.add("a.tar", many(4)).add("b.tar", many(4, 10));
  std::latch may_go_on(1);
  all.store->is_ready = false;
  all.store->objects.before([&](const memory_store::request& r, const std::stop_token&) {
    if (r.name == "mem://b.tar") may_go_on.wait();
  });
  auto loader = run_of(all.objects()).finite();
  for (int i = 0; i < 4; ++i) CHECK(loader.next());
  may_go_on.count_down();
  CHECK(loader.next());
}

TEST_CASE("Samples by position are those of files, with ranges of single samples") {
  for (const bool is_mapped : {false, true}) {
    shards all(2048, 8192);
    all.store->is_mapped = is_mapped;
    for (const auto& [name, bytes] : shapes()) all.add(name + ".tar", bytes);
    const auto expected = fl::tar_samples(all.files).indexed();
    const auto found = all.objects().indexed();
    REQUIRE(found.size() == expected.size());
    const auto text = [&](const auto& samples, std::uint64_t i) {
      try {
        const fl::tar_sample sample = samples.at(i);
        return all.plain({as_text(sample) + " of " + sample.origin()})[0];
      } catch (const fl::tar_error& error) {
        return all.plain({std::string("! ") + error.what()})[0];
      }
    };
    for (int round = 0; round < 2; ++round)
      for (std::uint64_t i = 0; i < found.size(); ++i) {
        CHECK(found.index_at(i) == expected.index_at(i));
        if (round == 1) found.will_need(i);
        CHECK(text(found, i) == text(expected, i));
      }
  }
  shards all(2048, 8192);
  all.add("a.tar", many(9));
  const auto found = all.objects().indexed();
  const std::size_t before = all.store->objects.requests().size();
  found.will_need(3);
  found.will_need(3);
  CHECK(all.store->objects.requests().size() == before + 1);
  CHECK(key_of(found.at(3)) == "3");
  CHECK(all.store->objects.requests().size() == before + 1);
  CHECK(all.store->objects.requests().back().offset == 3 * 2560);
  CHECK(all.store->objects.requests().back().count == 2560);
  for (std::uint64_t i = 0; i < 9; ++i) found.will_need(i);
  CHECK(all.store->bytes() == 3 * 2560); // no more fit into the bytes ahead
  const auto copy = found;
  CHECK(key_of(copy.at(0)) == "0");
  CHECK(key_of(found.at(8)) == "8");
}

TEST_CASE("A global shuffle of objects yields the same as one of files, with any number of workers") {
  shards all(4096, 16'384);
  for (int i = 0; i < 5; ++i) all.add("s" + std::to_string(i) + ".tar", many(7, 10 * i));
  const auto texts = [&](const fl::tar_samples& source, std::size_t workers) {
    strings found;
    auto loader = (source | fl::global_shuffle() |
                   fl::map([](const fl::tar_sample& s) { return as_text(s); }, fl::workers{workers}))
                      .finite({.seed = 4, .epochs = 2});
    while (auto text = loader.next()) found.push_back(*text);
    return found;
  };
  const strings expected = texts(fl::tar_samples(all.files), 1);
  CHECK(expected.size() == 70);
  for (const std::size_t workers : {1ul, 2ul, 4ul}) CHECK(texts(all.objects(), workers) == expected);
  CHECK(all.store->objects.reads_open() == 0);
  CHECK(all.store->bytes() == 0);
  const auto both = fl::concat(all.objects(), fl::tar_samples(all.files)) | fl::global_shuffle();
  CHECK(texts_of(both).size() == 70);
}

TEST_CASE("Samples are found by an object beside the shard, if it belongs to it") {
  shards all(4096, 16'384);
  all.add("a.tar", many(200, 0, 300)).add("b.tar", pairs(3).closed());
  const auto count = [&](const std::string& index) {
    if (!index.empty()) all.store->objects.put("mem://a.tar.index", index);
    const std::size_t before = all.store->objects.requests().size();
    const auto found = all.objects().indexed();
    CHECK(found.size() == 203);
    for (const std::uint64_t i : {0ul, 17ul, 199ul, 202ul}) CHECK(as_text(found.at(i)).size() > 10);
    return all.store->objects.requests().size() - before;
  };
  const std::size_t without = count("");
  fl::tar_samples(all.files[0], {.keep_index = true}).indexed();
  const auto bytes_of = [](const fl::detail::tar_index& index) {
    auto words = fl::detail::to_words(index);
    words.push_back(fl::detail::checksum_of(words));
    return std::string(reinterpret_cast<const char*>(words.data()), 8 * words.size());
  };
  const fl::detail::tar_index right = fl::detail::read_tar_index(all.files[0] + ".index").value();
  CHECK(count(bytes_of(right)) < without);
  const auto with = [&](auto change) {
    fl::detail::tar_index wrong = right;
    change(wrong);
    return count(bytes_of(wrong));
  };
  const std::size_t ignored = with([](auto& index) { ++index.bytes; });
  CHECK(ignored >= without);
  CHECK(with([](auto& index) { ++index.fingerprint; }) > without);
  CHECK(with([](auto& index) { index.begins.back() += 1ul << 40; }) >= ignored);
  CHECK(with([](auto& index) { std::swap(index.begins[3], index.begins[4]); }) >= ignored);
  CHECK(count("no index") >= ignored);
  CHECK(count(bytes_of(right).substr(8)) >= ignored);
  CHECK(count(std::string(1 << 20, 'x')) >= without);
}

TEST_CASE("Of a large object that only has the name of an index, no more than its beginning is read") {
  /// Has shards of 2^40 bytes and an index of 2^32 bytes for each, all of them zeros.
  struct zeros final : fl::object_store {
    struct answer final : fl::object_read {
      answer(zeros& s, std::uint64_t bytes, std::size_t count)
          : store(s), size(bytes), memory(std::make_shared<std::vector<std::byte>>(count)) {}

      bool ready() const override { return true; }

      fl::object_part get(const std::stop_token&) override {
        store.read_bytes += memory->size();
        if (store.read_bytes > std::size_t{64} << 20) throw fl::object_error("mem://a.tar: too much is read");
        return {{size, "1"}, *memory, memory};
      }

      zeros& store;
      std::uint64_t size;
      std::shared_ptr<std::vector<std::byte>> memory;
    };

    bool serves(std::string_view name) const override { return name.starts_with("mem://"); }

    std::unique_ptr<fl::object_read> read(const std::string& name, std::uint64_t, std::size_t count,
                                          const std::optional<fl::object_info>&) override {
      return std::make_unique<answer>(*this, name.ends_with(".index") ? 1ul << 32 : 1ul << 40, count);
    }

    std::size_t read_bytes = 0;
  };

  const auto store = std::make_shared<zeros>();
  CHECK(fl::tar_samples("mem://a.tar", {.remote = store}).indexed().size() == 0);
  CHECK(store->read_bytes < std::size_t{4} << 20);
}

TEST_CASE("A store that begins no read is an error of the shard, also for its index") {
  struct idle final : fl::object_store {
    bool serves(std::string_view name) const override { return name.starts_with("mem://"); }

    std::unique_ptr<fl::object_read> read(const std::string&, std::uint64_t, std::size_t,
                                          const std::optional<fl::object_info>&) override {
      return nullptr;
    }
  };

  const auto source = fl::tar_samples("mem://a.tar", {.remote = std::make_shared<idle>()});
  const char* const message = "mem://a.tar: its store began no read at offset 0";
  CHECK(throws_saying<fl::pipeline_error>(message, [&] { (source | fl::prefetch(1)).finite().next(); }));
  CHECK(throws_saying<fl::tar_error>(message, [&] { source.indexed().at(0); }));
}

TEST_CASE("A shard whose headers can't be read is one sample that fails") {
  shards all(4096, 16'384);
  all.add("a.tar", many(3)).add("b.tar", many(200, 10)).add("c.tar", many(3, 500));
  all.store->objects.remove("mem://a.tar");
  all.store->objects.before([](const memory_store::request& r, const std::stop_token&) {
    if (r.name == "mem://b.tar" && r.offset > 200'000) throw fl::object_error(r.name + ": status 500");
  });
  const auto found = all.objects().indexed();
  REQUIRE(found.size() == 5);
  CHECK(throws_saying<fl::tar_error>("mem://a.tar: no such object", [&] { found.at(0); }));
  CHECK(throws_saying<fl::tar_error>("mem://b.tar: status 500", [&] { found.at(1); }));
  CHECK(key_of(found.at(2)) == "500");
}

TEST_CASE("The memory plan has the bytes ahead and the largest sample") {
  shards all(2048, 8192);
  all.add("a.tar", many(3));
  const auto part = [](const fl::memory_plan& plan, std::string_view name) -> std::optional<std::size_t> {
    for (const auto& p : plan.parts)
      if (p.name == name) return p.bytes;
    return {};
  };
  const fl::tar_samples objects(all.names, {.remote = all.store, .max_sample_bytes = 100'000});
  CHECK(objects.max_item_bytes() == sizeof(fl::tar_sample) + 100'000);
  CHECK(part(run_of(objects).memory(), "kept by tar_samples") == 8192);
  CHECK(part(run_of(objects | fl::global_shuffle()).memory(), "kept by tar_samples") == 8192);
  CHECK(part(run_of(objects | fl::interleave(3)).memory(), "kept by tar_samples") == 3 * 8192);
  CHECK(part(run_of(fl::concat(objects, objects)).memory(), "kept by concat") == 2 * 8192);
  CHECK_FALSE(part(run_of(fl::tar_samples(all.files)).memory(), "kept by tar_samples"));
  CHECK(fl::tar_samples(all.files).max_item_bytes() == sizeof(fl::tar_sample));
}

TEST_CASE("The numbers of the store are those of the source") {
  shards all;
  all.add("a.tar", many(3));
  std::map<std::string, double> now, sums;

  struct {
    std::map<std::string, double>& now;
    std::map<std::string, double>& sums;

    void operator()(const char* name, double value) { now[name] = value; }

    void total(const char* name, double value) { sums[name] = value; }
  } out{now, sums};

  fl::tar_samples source = all.objects();
  CHECK(read_all(source).size() == 3);
  source.metrics(out);
  CHECK(now.at("bytes now") >= 0);
  CHECK(sums.at("requests") > 0);
}

TEST_CASE("Metrics say that a run waits for an object") {
  const watchdog guard("metrics of a slow object");
  shards all(1024, 4096);
  for (int i = 0; i < 3; ++i) all.add("s" + std::to_string(i) + ".tar", many(10, 10 * i));
  // On a busy machine all else may take long too, so requests become slower until the run says that it waits.
  const auto metrics_of = [&](const auto& pipeline, const std::string& words) {
    CHECK(run_to_end(pipeline.finite()).items.size() == 30); // its index is known
    fl::interval_metrics m;
    for (const int ms : {10, 100, 1000}) {
      all.store->objects.before([ms](const memory_store::request& r, const std::stop_token&) {
        if (r.name == "mem://s1.tar") std::this_thread::sleep_for(std::chrono::milliseconds(ms));
      });
      auto loader = pipeline.finite();
      while (loader.next()) continue;
      m = loader.metrics().total;
      if (m.bottleneck.find(words) != std::string::npos) break;
    }
    all.store->objects.before({});
    CHECK(m.bottleneck.find(words) != std::string::npos);
    return m;
  };
  const auto waited = [](const fl::interval_metrics& m) {
    for (const fl::user_metric& u : m.stages.front().user_metrics)
      if (u.name == "seconds waited for parts") return u.value;
    return -1.0;
  };
  const std::string data = "waits for its data";
  const auto in_order = metrics_of(all.objects() | fl::map(field_count, fl::workers{2}), data);
  CHECK(waited(in_order) > 0.05);
  CHECK(in_order.bottleneck.starts_with("tar_samples "));
  const auto shuffled = metrics_of(all.objects() | fl::global_shuffle() | fl::map(field_count), data);
  CHECK(waited(shuffled) > 0.05);
  const auto by_workers = metrics_of(
      all.objects() | fl::global_shuffle() | fl::map(field_count, fl::workers{1}), "waits in its function");
  CHECK(waited(by_workers) > 0.05);
}

TEST_CASE("Objects keep the promises of a source") {
  shards all(1024, 4096);
  for (int i = 0; i < 3; ++i) all.add("s" + std::to_string(i) + ".tar", many(4 + i, 10 * i));
  std::string damaged = many(4, 70);
  damaged.resize(damaged.size() - 2500);
  all.add("s3.tar", damaged);
  const auto text = [](const fl::tar_sample& s) { return as_text(s); };
  fl::testing::check_source([&] { return all.objects(); }, {.places = 8}, text);
  fl::testing::check_source([&] { return all.objects() | fl::global_shuffle(); }, {.places = 8}, text);
  CHECK(all.store->objects.reads_open() == 0);
}
