// SPDX-License-Identifier: MIT
#pragma once
// any_source: a source whose type is only known when the program runs.
#include <concepts>

#include <feedline/core/contract.hpp>
#include <feedline/source/detail/sub_source.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

/// What a source is asked while a run reads it, and before.
template <class Item>
class source_model {
 public:
  virtual ~source_model() = default;

  virtual std::unique_ptr<source_model> clone() const = 0;
  virtual std::string name() const = 0;
  virtual void start_epoch(const epoch& e) = 0;
  virtual std::optional<Item> next() = 0;
  virtual bool ready() const = 0;
  virtual std::uint64_t index() const = 0;
  virtual std::string origin(std::uint64_t index) const = 0;
  virtual void save(state_writer& to) = 0;
  virtual void load(state_reader& from) = 0;
  virtual void resumed() = 0;
  virtual void seek(std::uint64_t index) = 0;
  virtual bool seeks() const = 0;
  virtual std::uint64_t extent() const = 0;
  virtual std::uint64_t fingerprint(std::uint64_t extent, const std::stop_token& stop) const = 0;
  virtual std::string parameters() const = 0;
  virtual std::optional<std::size_t> max_item_bytes() const = 0;
  virtual std::size_t bytes_held() const = 0;
  virtual std::string outage() const = 0;
  virtual std::shared_ptr<const void> in_run(const std::stop_token& stop) const = 0;
  virtual std::uint64_t left_out() const = 0;
  virtual std::string filters() const = 0;
  virtual void metrics(reported_numbers& out) const = 0;
};

template <class Item, class Source, class Convert>
class source_model_of final : public source_model<Item> {
 public:
  source_model_of(Source source, Convert convert)
      : source_(std::move(source)), convert_(std::move(convert)) {}

  // As described.
  std::unique_ptr<source_model<Item>> clone() const override {
    return std::make_unique<source_model_of>(source_.described(), convert_);
  }

  std::string name() const override { return stage_name(source_.described()); }

  void start_epoch(const epoch& e) override {
    epoch_ = e;
    last_.reset();
    source_.rewind();
    source_.start(e);
  }

  std::optional<Item> next() override {
    auto value = source_.next();
    if (!value) return std::nullopt;
    last_ = source_.index();
    return std::optional<Item>(convert_(std::move(*value)));
  }

  bool ready() const override { return source_.ready(); }

  std::uint64_t index() const override { return last_.value_or(0); }

  std::string origin(std::uint64_t index) const override { return origin_of(source_.described(), index); }

  void save(state_writer& to) override { source_.state(to, epoch_); }

  void load(state_reader& from) override { source_.state(from, epoch_); }

  void resumed() override { source_.resumed(); }

  // A source without seek() is read once more from its beginning, or on if its samples are counted and the sample follows. Runs don't
  // ask for that, as seeks() says.
  void seek(std::uint64_t index) override {
    if constexpr (can_seek<Source>) source_.seek(index, 0, epoch_);
    else if (last_ && (has_index<Source> || *last_ >= index)) start_epoch(epoch(epoch_));
  }

  bool seeks() const override {
    if constexpr (can_seek<Source>) return detail::seeks(source_.described());
    else return false;
  }

  std::uint64_t extent() const override { return extent_of(source_.described()); }

  std::uint64_t fingerprint(std::uint64_t extent, const std::stop_token& stop) const override {
    return fingerprint_of(source_.described(), extent, stop);
  }

  std::string parameters() const override { return parameters_of(source_.described()); }

  std::optional<std::size_t> max_item_bytes() const override {
    const known_bytes of_source = max_item_bytes_of(source_.described());
    if constexpr (requires { convert_.bytes_given(of_source); }) return convert_.bytes_given(of_source);
    else if constexpr (std::same_as<Item, source_item_t<Source>>) return of_source;
    else return bytes_of_type<Item>();
  }

  std::size_t bytes_held() const override {
    known_bytes all = bytes_held_by(source_.described());
    if constexpr (requires(const Source& source) { source.items_held(); }) {
      const known_bytes item = max_item_bytes_of(source_.described());
      all = item ? sum_of(all, product_of(source_.described().items_held(), *item)) : std::nullopt;
    }
    return all.value_or(~std::size_t{0});
  }

  std::string outage() const override { return outage_of(source_.described()); }

  std::shared_ptr<const void> in_run(const std::stop_token& stop) const override {
    return detail::in_run(source_.described(), stop);
  }

  std::uint64_t left_out() const override { return source_.left_out(); }

  std::string filters() const override { return filters_in(source_.described()); }

  void metrics([[maybe_unused]] reported_numbers& out) const override {
    if constexpr (requires(const Source& s) { s.metrics(out); })
      if (const Source* const running = source_.running()) running->metrics(out);
  }

 private:
  sub_source<Source> source_;
  Convert convert_;
  epoch epoch_;
  std::optional<std::uint64_t> last_; // index of the last sample since the start
};

/// A source that any_source can stand for.
template <class Source, bool SplitsFilesByRank>
concept can_be_any_source = !live_source<Source> && !has_repetition<Source> && !yields_file_names<Source> &&
                            (!SplitsFilesByRank || splits_files_by_rank<Source>);

template <class T>
concept is_any_source = requires { typename T::feedline_any_source; };

} // namespace detail

/// A source of items of one type, whose own type is only known when the program runs: sources of different types become one type,
/// in a list for concat(), mix() and zip(), say, and what follows is compiled once for all of them.
///
///     std::vector<fl::any_source<example>> parts;
///     for (const auto& folder : folders) parts.emplace_back(fl::tar_samples(folder + "/*.tar"), to_example);
///     for (const auto& file : tables) parts.emplace_back(fl::arrow_rows<row>({file}, {"image", "label"}), to_example);
///     auto examples = fl::concat(parts) | fl::shuffle({.capacity = 10'000});
///
/// A run over it yields the same samples, with the same indices and origins, fails with the same messages, and resumes as a run over
/// the source does. Ranks divide the files of a source that splits them only `SplitsFilesByRank`, and else its samples. It isn't
/// indexed, and without `SplitsFilesByRank` replay() needs the run's options instead of its seed.
template <class Item, bool SplitsFilesByRank = false>
class any_source {
 public:
  using feedline_any_source = void;

  /// Names are those of the source.
  static constexpr source_traits traits{.kind = "any_source",
                                        .splits_files_by_rank = SplitsFilesByRank,
                                        .depends_on_file_order = !SplitsFilesByRank}; // it may

  /// Of a source, or a pipeline that can be a part of concat(), without workers. `convert` makes an Item of each of its samples, on
  /// the source's thread. For a memory_budget it may have `bytes_given(std::optional<std::size_t> of_sample) const`: the most bytes
  /// of an Item, or nothing if unknown.
  template <detail::listed_part Source, class Convert>
  any_source(Source source, Convert convert) {
    using own = detail::source_of_t<Source>;
    static_assert(detail::can_be_any_source<own, SplitsFilesByRank>,
                  "feedline::any_source: `Source` can't be one: it is live, may yield a sample several times "
                  "in an epoch, yields the "
                  "names of files, or doesn't split its files by rank as the type says");
    model_ = std::make_unique<detail::source_model_of<Item, own, Convert>>(
        detail::source_of(std::move(source)), std::move(convert));
  }

  /// Of a source of such items.
  template <class Source>
    requires(!detail::is_any_source<Source>) && detail::listed_part<Source> &&
            std::same_as<source_item_t<detail::source_of_t<Source>>, Item>
  explicit any_source(Source source) : any_source(std::move(source), same()) {}

  /// The same source, whose samples ranks divide.
  explicit any_source(const any_source<Item, true>& other)
    requires(!SplitsFilesByRank)
      : model_(other.model_->clone()) {}

  ///@{
  /// As described: a copy doesn't continue an epoch.
  any_source(const any_source& other) : model_(other.model_->clone()) {}

  any_source(any_source&&) noexcept = default;

  any_source& operator=(any_source other) noexcept {
    model_.swap(other.model_);
    return *this;
  }

  ///@}

  ///@{
  /// As `source` describes it, and what the library's own sources have.
  std::string whole_name() const { return model_->name(); }

  void start_epoch(epoch e) {
    if constexpr (!SplitsFilesByRank) e.rank = {};
    model_->start_epoch(e);
  }

  std::optional<Item> next() { return model_->next(); }

  bool ready() const { return model_->ready(); }

  std::uint64_t index() const { return model_->index(); }

  std::string origin(std::uint64_t index) const { return model_->origin(index); }

  void state(auto& archive) {
    if constexpr (std::is_same_v<decltype(archive), state_writer&>) model_->save(archive);
    else model_->load(archive);
  }

  void resumed() { model_->resumed(); }

  void seek(std::uint64_t index) { model_->seek(index); }

  bool seeks() const { return model_->seeks(); }

  std::uint64_t extent() const { return model_->extent(); }

  std::uint64_t fingerprint(std::uint64_t extent, const std::stop_token& stop = {}) const {
    return model_->fingerprint(extent, stop);
  }

  std::string parameters() const { return model_->parameters(); }

  std::optional<std::size_t> max_item_bytes() const { return model_->max_item_bytes(); }

  std::size_t bytes_held() const { return model_->bytes_held(); }

  std::string outage() const { return model_->outage(); }

  std::shared_ptr<const void> in_run(const std::stop_token& stop) const { return model_->in_run(stop); }

  std::uint64_t left_out() const { return model_->left_out(); }

  std::string filters() const { return model_->filters(); }

  void metrics(detail::reported_numbers& out) const { model_->metrics(out); }

  ///@}

 private:
  template <class, bool>
  friend class any_source;

  struct same {
    Item operator()(Item&& item) const { return std::move(item); }
  };

  std::unique_ptr<detail::source_model<Item>> model_;
};

} // namespace feedline::inline FEEDLINE_ABI
