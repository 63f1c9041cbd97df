// SPDX-License-Identifier: MIT
#pragma once
// How far the parts of a run have come: what is put down in cuts, and where a resumed run takes it up again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <feedline/core/detail/cut.hpp>
#include <feedline/core/detail/packet.hpp>
#include <feedline/core/rank.hpp>

namespace feedline::detail {

/// A place in a stream: behind so many ends of epochs, so many samples, and so many failures since.
struct stream_place {
  std::uint64_t epochs = 0;
  std::uint64_t items = 0;
  std::uint64_t events = 0;

  bool is_beginning() const noexcept { return epochs == 0 && items == 0 && events == 0; }
};

/// How far a reader of packets has come since the last cut that came with them.
class stream_position {
 public:
  std::size_t items = 0;  ///< of the packet in hand: how many samples were taken
  std::size_t events = 0; ///< … and how many events

  /// The stream begins anew at `before`, and what was taken since then shall be passed over.
  void resume(cut before, const stream_place& taken) {
    before_ = std::move(before);
    taken_before_ = to_pass_over_ = taken;
  }

  /// True as long as whole epochs are to be passed over.
  bool passes_over_epoch() const noexcept { return to_pass_over_.epochs > 0; }

  /// The next packet: items and events then say what of it is to be taken.
  void begin(packet& p) {
    packet_ = &p;
    items = events = first_item_ = first_event_ = 0;
    passed_whole_ = to_pass_over_.epochs > 0;
    if (to_pass_over_.is_beginning()) return;
    pass_over(p);
    if (!to_pass_over_.is_beginning()) return;
    since_ = taken_before_;
    first_item_ = items;
    first_event_ = events;
  }

  /// The packet was gone through.
  void end() {
    if (to_pass_over_.is_beginning() && !passed_whole_) {
      const auto [base, since] = counted(packet_->ends_epoch());
      since_ = since;
      if (base != &before_) std::swap(before_, packet_->cut);
    }
    packet_ = nullptr;
  }

  /// The last cut, and the place since then. `ends_epoch`: the packet in hand, with an end of an epoch, is
  /// gone through.
  std::pair<const cut*, stream_place> now(bool ends_epoch = false) const noexcept {
    if (!to_pass_over_.is_beginning()) return {&before_, taken_before_};
    return counted(ends_epoch);
  }

 private:
  std::pair<const cut*, stream_place> counted(bool ends_epoch) const noexcept {
    if (!packet_) return {&before_, since_};
    const cut* base = &before_;
    stream_place since = since_;
    std::size_t item = first_item_, event = first_event_;
    const bool covered = ends_epoch ? packet_->cut_events == packet_->events().size()
                                    : items >= packet_->cut_items && events >= packet_->cut_events;
    if (packet_->has_cut && covered) {
      base = &packet_->cut;
      since = {};
      item = packet_->cut_items;
      event = packet_->cut_events;
    }
    if (ends_epoch) {
      if (event < packet_->events().size()) since = {since.epochs + 1, 0, 0};
      return {base, since};
    }
    if (items > item) {
      since.items += items - item;
      since.events = 0;
    }
    for (; event < events; ++event) since.events += packet_->events()[event].position == items;
    return {base, since};
  }

  void pass_over(packet& p) noexcept {
    if (to_pass_over_.epochs > 0) {
      items = p.size();
      events = p.events().size();
      to_pass_over_.epochs -= p.ends_epoch();
      return;
    }
    for (;;) {
      const bool is_event = events < p.events().size() && p.events()[events].position == items;
      if (is_event && to_pass_over_.items + to_pass_over_.events > 0) {
        if (p.events()[events].kind == event_kind::epoch_end) { // somebody wanted no more of the epoch
          to_pass_over_ = {};
          return;
        }
        if (to_pass_over_.items == 0) --to_pass_over_.events;
        ++events;
      } else if (items < p.size() && to_pass_over_.items > 0) {
        --to_pass_over_.items;
        ++items;
      } else {
        return;
      }
    }
  }

  packet* packet_ = nullptr;
  std::size_t first_item_ = 0;  // of the packet: those before were passed over,
  std::size_t first_event_ = 0; // …
  bool passed_whole_ = false;   // … or all of them, with those of a whole epoch
  cut before_;
  stream_place since_;        // before_, up to the packet in hand
  stream_place taken_before_; // in the run that is resumed
  stream_place to_pass_over_; // what of it is still to come again
};

/// How far the source's thread has come.
struct source_place {
  std::uint64_t epoch = 0;
  std::uint64_t given = 0;  // samples of this epoch
  std::uint64_t failed = 0; // … and samples that it could not give
  // Of a source that shares out places: the epoch's first one that is this rank's. Of others that know nothing of
  // ranks: how many samples of other ranks come before this one's next.
  std::uint64_t first = 0;
  std::uint64_t next_first = 0; // in the next epoch

  /// Of next(); of a source that shares out places: how many were taken.
  std::uint64_t calls() const noexcept { return given + failed; }
};

/// One thread's share in cuts. A stage's state belongs to a cut as it is when an item has just been handed on.
class segment_progress {
 public:
  explicit segment_progress(std::size_t segment, const rank& r = {}) : segment_(segment) {
    source.first = r.number;
  }

  segment_progress(segment_progress&&) = delete;

  stream_position input;   ///< in what stands before; not in the source's segment
  source_place source;     ///< in the source's segment
  std::size_t ending = 0;  ///< at the end of an epoch: the stage that gives what it holds; else 0
  std::size_t refills = 0; ///< the stage for which the samples in hand are meant, which held them; else 0
  /// The samples in hand are for whoever looks at them behind the last stage.
  static constexpr std::size_t for_replay = ~std::size_t{0};
  std::size_t awaited = 0; ///< stages that have not got again what they held
  bool failed = false;     ///< what comes now comes because of a failure, and would not after a resumption

  /// Tells of the source or a stage whose state belongs to this segment's. The source comes last.
  template <class Part>
  void add(const Part& object, std::size_t place, bool can_be_refilled) {
    parts_.push_back({&object, place, can_be_refilled, &is_at_rest<Part>, &write<Part>, &held_by<Part>});
  }

  /// Some stage's state can't be put down: this segment is taken up from the beginning of the run.
  void cannot_save() noexcept { can_save_ = false; }

  /// Writes how far everything up to here has come. False, and nothing written: that can't be said now.
  bool save(cut& target, bool ends_epoch) const {
    if (!can_save_ || failed || awaited > 0) return false;
    for (const part& p : parts_)
      if (!p.is_at_rest(p.object) || (!p.can_be_refilled && p.held_by(p.object).log)) return false;
    stream_place since;
    if (segment_ == 0) {
      target.words.assign(1, 0);
      target.held.clear();
    } else {
      const auto [base, place] = input.now(ends_epoch);
      since = place;
      target = *base;
      if (target.words.empty()) target.words.push_back(segment_);
    }
    write_section(target, [&](state_writer& writer) {
      if (segment_ > 0) writer(since.epochs, since.items, since.events, ending_at(ends_epoch));
      else if (ends_epoch) writer(source.epoch + 1, 0, 0, source.next_first, 0);
      else writer(source.epoch, source.calls(), source.failed, source.first, ending);
      for (const part& p : parts_) {
        const bool is_source = p.place == 0;
        if (is_source && ends_epoch) continue; // the next epoch begins with a fresh one
        p.write(p.object, writer);
        held h = p.held_by(p.object);
        h.place = p.place;
        if (h.log) target.held.push_back(std::move(h));
      }
    });
    return true;
  }

  /// Takes up the numbers that save() puts in front of those of the parts.
  void load(state_reader& reader, cut before) {
    if (segment_ > 0) {
      stream_place taken;
      reader(taken.epochs, taken.items, taken.events, ending);
      if (ending != 0) taken.items = taken.events = 0; // the rest of the epoch is left out, whatever it is
      input.resume(std::move(before), taken);
    } else {
      if (reader.is_empty()) return;
      reader(source.epoch, source.given, source.failed, source.first, ending);
      source.given -= source.failed;
    }
  }

 private:
  struct part {
    const void* object;
    std::size_t place;
    bool can_be_refilled;
    bool (*is_at_rest)(const void*);
    void (*write)(const void*, state_writer&);
    held (*held_by)(const void*);
  };

  template <class Part>
  static bool is_at_rest(const void* object) {
    if constexpr (requires(const Part& p) { p.at_rest(); })
      return static_cast<const Part*>(object)->at_rest();
    else return true;
  }

  // state() serves both directions, and so isn't const.
  template <class Part>
  static void write(const void* object, state_writer& writer) {
    if constexpr (has_state<Part>) const_cast<Part*>(static_cast<const Part*>(object))->state(writer);
  }

  template <class Part>
  static held held_by(const void* object) {
    if constexpr (holds_samples<Part>) return static_cast<const Part*>(object)->held_now();
    else return {};
  }

  std::size_t ending_at(bool ends_epoch) const noexcept { return ends_epoch ? 0 : ending; }

  std::size_t segment_;
  bool can_save_ = true;
  std::vector<part> parts_;
};

/// A cut, read: what each segment of a run finds there, and the caller, who counts as one more segment.
class resumption {
 public:
  /// Of a run that begins at its beginning.
  resumption() = default;

  /// Throws std::invalid_argument if the cut doesn't hold together.
  resumption(cut from, std::size_t segments) : cut_(std::move(from)) {
    const std::vector<std::uint64_t>& words = cut_.words;
    bool fits = !words.empty() && words[0] <= segments;
    for (std::size_t at = 1, segment = fits ? words[0] : 0; fits && segment <= segments; ++segment) {
      sections_.resize(segment);
      fits = at < words.size() && words[at] < words.size() - at;
      if (!fits) break;
      sections_.push_back({at, words[at]});
      at += words[at] + 1;
      if (segment == segments) fits = at == words.size();
    }
    for (std::size_t i = 0; fits && i < cut_.held.size(); ++i)
      fits = cut_.held[i].place > (i == 0 ? 0 : cut_.held[i - 1].place);
    if (!fits) throw std::invalid_argument("feedline: the checkpoint is not whole");
  }

  /// Whether the segment put down anything; else it begins at its beginning.
  bool has(std::size_t segment) const noexcept {
    return segment < sections_.size() && sections_[segment].begin > 0;
  }

  /// What the segment put down.
  std::span<const std::uint64_t> words(std::size_t segment) const {
    if (!has(segment)) return {};
    const section& s = sections_[segment];
    return std::span(cut_.words).subspan(s.begin + 1, s.size);
  }

  /// How far all had come that stands before the segment whose first stage is in that place.
  cut before(std::size_t segment, std::size_t first_place) const {
    cut part;
    if (!has(segment) || sections_[segment].begin == 1) return part;
    part.words.assign(cut_.words.begin(),
                      cut_.words.begin() + static_cast<std::ptrdiff_t>(sections_[segment].begin));
    for (const detail::held& h : cut_.held)
      if (h.place < first_place) part.held.push_back(h);
    return part;
  }

  const std::vector<detail::held>& held() const noexcept { return cut_.held; }

  /// Whether the source begins at its beginning, although what comes next comes later.
  bool begins_anew() const noexcept { return cut_.words.empty() || cut_.words[0] != 0; }

  std::uint64_t epoch() const noexcept { return epoch_of(cut_); }

 private:
  struct section {
    std::size_t begin = 0; // of its length in the cut's words; 0: there is none
    std::size_t size = 0;
  };

  cut cut_;
  std::vector<section> sections_;
};

} // namespace feedline::detail
