// SPDX-License-Identifier: MIT
// Compares ranks that are interrupted and continued, by as many ranks or by others, with a model of the shares of ranks that
// knows nothing of the library: world sizes, remainders, several epochs, ranks that end an epoch unequally, skipped failures.
//
// FEEDLINE_ELASTIC_FIRST=n and FEEDLINE_ELASTIC_COUNT=n run other rounds than the first ones.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>

#include "support/catch.hpp"
#include "support/leave_and_resume.hpp"
#include "support/refusing.hpp"
#include "support/rounds.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

/// A sample of the run: an epoch, and a position in its order that may lie beyond its end, where it begins again.
using place = std::pair<std::uint64_t, std::uint64_t>;

struct plan {
  explicit plan(draw& d)
      : size(d.coin() ? d(0, 12) : d(0, 60)),
        is_finite(d(0, 4) > 0),
        epochs(d(0, 2) > 0 ? 1 : d(2, 4)),
        first_epoch(is_finite && d(0, 3) == 0 ? d(1, 3) : 0),
        rest(d.coin() ? fl::remainder::keep : static_cast<fl::remainder>(d(0, 1))),
        seed(d(0, 1000)),
        global_batch(d.coin() ? 12 : 24),
        shape(d(0, 3)),
        drop_last(shape < 3 && d(0, 4) == 0) {
    if (!is_finite)
      size = std::max<std::size_t>(size, 13); // so that each rank soon receives some sample that doesn't fail
    for (std::size_t count = d(0, 2) == 0 ? d(1, 4) : 0; count > 0 && size > 1; --count)
      bad.push_back(static_cast<int>(d(1, size - 1)));
  }

  std::uint64_t end() const { return is_finite ? first_epoch + epochs : ~std::uint64_t{0}; }

  std::size_t size;
  bool is_finite;
  std::uint64_t epochs, first_epoch;
  fl::remainder rest;
  std::uint64_t seed;
  std::size_t global_batch, shape;
  bool drop_last;
  std::vector<int> bad; // samples that fail
};

using batches = fl::any_pipeline<fl::batch_of<int>>;

batches pipeline_of(const plan& p, std::size_t world_size, std::size_t workers) {
  std::vector<int> values(p.size);
  std::iota(values.begin(), values.end(), 0);
  const auto source = fl::from(std::move(values)) | fl::global_shuffle();
  const std::function<int(int)> check = refusing{p.bad};
  const std::size_t size = p.global_batch / world_size;
  if (p.shape == 0) return source | fl::map(check) | fl::batch(size, {.drop_last = p.drop_last});
  if (p.shape == 1)
    return source | fl::map(check, fl::workers{workers}) | fl::batch(size, {.drop_last = p.drop_last});
  if (p.shape == 2)
    return source | fl::prefetch(workers) | fl::map(check) | fl::batch(size, {.drop_last = p.drop_last}) |
           fl::prefetch(2);
  const std::function<void(int, fl::batch_slot<int>&)> fill = [check](int n, fl::batch_slot<int>& slot) {
    slot.value() = check(n);
  };
  return source | fl::batch_into<int>(size, fill, fl::workers{workers});
}

fl::loader<fl::batch_of<int>> start(const plan& p, const fl::rank& r, std::size_t workers,
                                    const std::optional<fl::checkpoint>& from) {
  const batches all = pipeline_of(p, r.world_size, workers);
  if (!p.is_finite)
    return all.infinite({.seed = p.seed, .on_error = fl::on_error::skip, .rank = r, .resume = from});
  fl::finite_options o{.seed = p.seed,
                       .epochs = static_cast<std::uint32_t>(p.epochs),
                       .on_error = fl::on_error::skip,
                       .rank = r,
                       .resume = from};
  if (p.first_epoch > 0) o.first_epoch = static_cast<std::uint32_t>(p.first_epoch);
  return all.finite(o);
}

/// The order of each epoch, from a run that is alone and isn't interrupted.
class orders {
 public:
  explicit orders(const plan& p) : plan_(p) {
    plan_.bad.clear();
    plan_.shape = 0;
    plan_.drop_last = false;
    plan_.global_batch = std::max<std::size_t>(p.size, 1);
  }

  int value(const place& at) {
    for (std::uint64_t next = plan_.first_epoch + known_.size(); next <= at.first; ++next) {
      if (!loader_) loader_ = start(plan_, {}, 1, {});
      const auto batch = loader_->next();
      REQUIRE(batch);
      known_.emplace_back(batch->values().begin(), batch->values().end());
    }
    return known_[at.first - plan_.first_epoch][at.second % plan_.size];
  }

 private:
  plan plan_;
  std::optional<fl::loader<fl::batch_of<int>>> loader_;
  std::vector<std::vector<int>> known_;
};

/// What one rank yields.
struct model_rank {
  const plan* p;
  orders* order;
  std::uint64_t number, of;
  place next; // its own
  bool has_ended = false;
  bool has_failures = false;
  std::vector<place> taken{};                        // since all began at one place, also those that failed
  std::map<std::uint64_t, std::size_t> batches_in{}; // an epoch

  bool is_bad(const place& at) const {
    const int value = order->value(at);
    return std::find(p->bad.begin(), p->bad.end(), value) != p->bad.end();
  }

  // Whether the place, which is this rank's by its number, is in its share of the epoch.
  bool is_in_epoch() const {
    const std::uint64_t group = next.second - number; // the places of all ranks from here on
    const std::uint64_t left = group < p->size ? p->size - group : 0;
    if (p->rest == fl::remainder::drop) return left >= of;
    if (p->rest == fl::remainder::wrap) return left > 0;
    return next.second < p->size;
  }

  void step() {
    next.second += of;
    while (!p->is_finite && next.second >= p->size) next = {next.first + 1, next.second - p->size};
  }

  /// The places of the next batch; none if the run has ended.
  std::vector<place> next_batch() {
    const std::size_t size = p->global_batch / of;
    std::vector<place> batch;
    while (next.first < p->end()) {
      while (batch.size() < size && (!p->is_finite || is_in_epoch())) {
        taken.push_back(next);
        if (is_bad(next)) has_failures = true;
        else batch.push_back(next);
        step();
      }
      if (batch.size() == size || (!batch.empty() && !p->drop_last)) {
        ++batches_in[next.first];
        return batch;
      }
      batch.clear();
      next = {next.first + 1, number};
    }
    has_ended = true;
    return {};
  }

  /// Those that it will yet deliver.
  std::vector<place> rest() const {
    model_rank copy = *this;
    std::vector<place> all;
    for (int count = 0; count < 3; ++count) {
      const auto more = copy.next_batch();
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }
};

/// Where all ranks stand, if all that came is before all that comes.
std::optional<place> common_place(const std::vector<model_rank>& ranks, const place& began) {
  std::optional<place> last;
  bool have_ended = true;
  for (const model_rank& r : ranks) {
    for (const place& at : r.taken)
      if (!last || *last < at) last = at;
    have_ended &= r.has_ended;
  }
  for (const model_rank& r : ranks)
    for (const place& at : r.rest())
      if (last && at < *last) return {};
  if (have_ended) return place(ranks[0].p->end(), 0);
  return last ? place(last->first, last->second + 1) : began;
}

/// Whether a rank has finished an epoch in which another one had more batches.
bool had_unequal_epochs(std::vector<model_rank> ranks) {
  for (model_rank& one : ranks)
    for (model_rank& other : ranks)
      for (const auto& [epoch, count] : other.batches_in)
        if ((one.has_ended || one.next.first > epoch) && one.batches_in[epoch] < count) return true;
  return false;
}

const char* name_of(fl::remainder r) {
  return r == fl::remainder::drop ? "drop" : r == fl::remainder::wrap ? "wrap" : "keep";
}

struct counts {
  int legs = 0, other_world_size = 0, refused_unequal = 0, refused_failures = 0, unequal_ends = 0;
};

/// One run, in legs of as many or other ranks.
class round_of_legs {
 public:
  round_of_legs(int number, counts& all)
      : d_(fl::detail::key(fl::stable_hash("elastic"), number)), plan_(d_), order_(plan_), counts_(all) {
    description_ = "round " + std::to_string(number) + ": " + std::to_string(plan_.size) + " samples, " +
                   (plan_.is_finite ? std::to_string(plan_.epochs) + " epochs from " +
                                          std::to_string(plan_.first_epoch) + ", " + name_of(plan_.rest)
                                    : std::string("infinite")) +
                   ", shape " + std::to_string(plan_.shape) + (plan_.drop_last ? ", drop_last" : "") + ", " +
                   std::to_string(plan_.bad.size()) + " bad ones, together " +
                   std::to_string(plan_.global_batch);
  }

  void run() {
    began_ = {plan_.first_epoch, 0};
    choose_ranks();
    const std::size_t legs = d_(1, 4);
    for (std::size_t leg = 0; leg < legs && !is_over(); ++leg) {
      run_leg(leg + 1 == legs && plan_.is_finite ? 1000 : d_(0, 6));
      if (leg + 1 < legs && !is_over() && !go_on()) return;
    }
    if (plan_.is_finite && is_over()) check_sums();
  }

 private:
  bool is_over() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [](const model_rank& r) { return r.has_ended; });
  }

  void choose_ranks() {
    const std::vector<std::uint32_t> sizes{1, 2, 3, 4, 6, 12};
    world_size_ = sizes[d_(0, sizes.size() - 1)];
    largest_world_ = std::max(largest_world_, world_size_);
    ranks_.clear();
    for (std::uint32_t r = 0; r < world_size_; ++r) {
      ranks_.push_back({&plan_, &order_, r, world_size_, {began_.first, began_.second + r}});
      model_rank& rank = ranks_.back();
      while (!plan_.is_finite && rank.next.second >= plan_.size)
        rank.next = {rank.next.first + 1, rank.next.second - plan_.size};
    }
    from_.assign(world_size_, common_);
  }

  fl::rank rank_of(std::uint32_t number) const {
    return {.number = number, .world_size = world_size_, .remainder = plan_.rest};
  }

  // All ranks take equally many steps.
  void run_leg(std::size_t steps) {
    description_ += "; " + std::to_string(world_size_) + " ranks, " + std::to_string(steps) + " steps";
    INFO(description_);
    ++counts_.legs;
    kept_.clear();
    std::size_t fewest = ~std::size_t{0}, most = 0;
    for (model_rank& r : ranks_) {
      const auto number = static_cast<std::uint32_t>(r.number);
      auto loader = start(plan_, rank_of(number), d_(1, 3), from_[number]);
      std::size_t delivered = 0;
      for (std::size_t step = 0; step < steps && !r.has_ended; ++step) {
        std::vector<int> expected, got;
        for (const place& at : r.next_batch()) {
          expected.push_back(order_.value(at));
          ++often_[at.first][at.second % std::max<std::size_t>(plan_.size, 1)];
        }
        if (const auto batch = loader.next()) got.assign(batch->values().begin(), batch->values().end());
        INFO("rank " << number << ", step " << step);
        REQUIRE(got == expected);
        delivered += !got.empty();
      }
      fewest = std::min(fewest, delivered);
      most = std::max(most, delivered);
      kept_.push_back(fl::checkpoint::from_bytes(loader.checkpoint().to_bytes()));
    }
    counts_.unequal_ends += fewest < most;
  }

  // Chooses who continues. False if that is refused, as it should be.
  bool go_on() {
    INFO(description_);
    const std::uint32_t keeper = static_cast<std::uint32_t>(d_(0, world_size_ - 1));
    const bool by_same = d_(0, 3) == 0;
    const bool failed_elsewhere =
        !ranks_[keeper].has_failures &&
        std::any_of(ranks_.begin(), ranks_.end(), [](const model_rank& r) { return r.has_failures; });
    if (by_same || failed_elsewhere) { // the keeper doesn't know of failures elsewhere
      description_ += ", each continues";
      for (std::uint32_t r = 0; r < world_size_; ++r) from_[r] = kept_[r];
      return true;
    }
    const bool keeper_has_failures = ranks_[keeper].has_failures;
    const auto where = common_place(ranks_, began_);
    const std::uint32_t before = world_size_;
    description_ += ", kept by " + std::to_string(keeper);
    const auto old_ranks = ranks_;
    if (where) began_ = *where;
    common_ = kept_[keeper];
    choose_ranks();
    counts_.other_world_size += world_size_ != before;
    // A rank that has the same place in the same world continues for itself.
    const auto tried = static_cast<std::uint32_t>(d_(0, world_size_ - 1));
    const bool is_itself = world_size_ == before && tried == keeper;
    INFO("then rank " << tried << " of " << world_size_);
    try {
      start(plan_, rank_of(tried), 1, common_);
    } catch (const std::invalid_argument& error) {
      const std::string why = error.what();
      CAPTURE(why);
      REQUIRE_FALSE(is_itself);
      if (keeper_has_failures) {
        REQUIRE(why.find("because of skipped failures the ranks are not equally far") != std::string::npos);
        ++counts_.refused_failures;
      } else {
        // Then it isn't worth finding out where ranks are equally far again. (Ranks that never receive anything count too.)
        REQUIRE((!where || had_unequal_epochs(old_ranks) || plan_.size < before));
        REQUIRE(why.find("unequal numbers of items in an epoch, so they are not equally far") !=
                std::string::npos);
        ++counts_.refused_unequal;
      }
      return false;
    }
    if (is_itself) return false; // says nothing of the others
    REQUIRE_FALSE(keeper_has_failures);
    REQUIRE(where);
    return true;
  }

  // Whatever happened in between, over all ranks.
  void check_sums() {
    INFO(description_);
    for (std::uint64_t epoch = plan_.first_epoch; epoch < plan_.end(); ++epoch) {
      std::size_t missing = 0;
      for (std::size_t at = 0; at < plan_.size; ++at) {
        const int value = order_.value({epoch, at});
        const bool is_bad = std::find(plan_.bad.begin(), plan_.bad.end(), value) != plan_.bad.end();
        const auto found = often_[epoch].find(at);
        const int often = found == often_[epoch].end() ? 0 : found->second;
        missing += often == 0 && !is_bad;
        if (is_bad) REQUIRE(often == 0);
        else if (plan_.rest != fl::remainder::wrap || plan_.size >= largest_world_)
          REQUIRE(often <= (plan_.rest == fl::remainder::wrap ? 2 : 1));
      }
      if (!plan_.drop_last) REQUIRE(missing <= (plan_.rest == fl::remainder::drop ? largest_world_ - 1 : 0));
    }
  }

  draw d_;
  plan plan_;
  orders order_;
  counts& counts_;
  std::string description_;
  std::uint32_t world_size_ = 1, largest_world_ = 1;
  place began_; // where the ranks of this leg began
  std::optional<fl::checkpoint> common_;
  std::vector<model_rank> ranks_;
  std::vector<std::optional<fl::checkpoint>> from_;
  std::vector<std::optional<fl::checkpoint>> kept_;
  std::map<std::uint64_t, std::map<std::uint64_t, int>> often_;
};

int number_in(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  return text ? std::atoi(text) : otherwise;
}

} // namespace

TEST_CASE("Interrupted ranks, continued by as many or by others, yield together what the model says") {
  const watchdog guard("elastic ranks");
  const int first = number_in("FEEDLINE_ELASTIC_FIRST", 0);
  const int count = number_in("FEEDLINE_ELASTIC_COUNT", rounds(1500));
  counts all;
  for (int number = first; number < first + count; ++number) round_of_legs(number, all).run();
  if (std::getenv("FEEDLINE_ELASTIC_COUNT"))
    std::printf(
        "%d legs, %d with other world sizes, %d that ended unequally, %d refused for that, %d for failures\n",
        all.legs, all.other_world_size, all.unequal_ends, all.refused_unequal, all.refused_failures);
  CHECK((count < 1000 || (all.refused_unequal > 0 && all.refused_failures > 0)));
}
